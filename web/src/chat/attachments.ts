// Files of a message: reading them in the browser, and their place in the message's content.
import { words } from "../strings";
import type { AttachedFile, FilePart, Message, Meta } from "../types";
import type { PdfReply, PdfRequest } from "../pdf/worker";

const maxTextBytes = 256 * 1024;
const maxPdfBytes = 20 << 20;
const maxImageBytes = 20 << 20;
const maxUnscaledImageBytes = 200 * 1024; // larger images are scaled down: models read a few hundred pixels
const maxImageSide = 768; // pixels, of a scaled image

// The files' text in fences, then the message's own text.
export function compose(files: AttachedFile[], text: string): { content: string; meta: Meta } {
  let content = "";
  const parts: FilePart[] = [];
  const images = files.flatMap(({ name, image }) => (image ? [{ name, url: image }] : []));
  for (const { name, text: body, image } of files) {
    if (image) continue;
    const fence = body.includes("```") ? "~~~~" : "```";
    content += `${name}:\n${fence}\n`;
    parts.push({ name, start: content.length, end: content.length + body.length });
    content += `${body}\n${fence}\n\n`;
  }
  return { content: content + text, meta: { ...(parts.length ? { files: parts } : {}), ...(images.length ? { images } : {}) } };
}

export function split(message: Message): { files: AttachedFile[]; text: string } {
  const parts = message.meta.files ?? [];
  const files: AttachedFile[] = parts.map((p) => ({ name: p.name, text: message.content.slice(p.start, p.end) }));
  for (const { name, url } of message.meta.images ?? []) files.push({ name, text: "", image: url });
  const last = parts[parts.length - 1];
  const after = last ? message.content.indexOf("\n\n", last.end) + 2 : 0;
  return { files, text: message.content.slice(after) };
}

function readPdf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const worker = new Worker("/pdf.js", { type: "module" });
    const { port1: port, port2: reply } = new MessageChannel();
    const end = (settle: () => void) => (worker.terminate(), port.close(), settle());
    port.onmessage = ({ data }: MessageEvent<PdfReply>) =>
      end(() => ("text" in data ? resolve(data.text) : reject(new Error(`${file.name}: ${data.error}`))));
    worker.onerror = (e) => end(() => reject(new Error(`${file.name}: ${e.message || words.failed}`)));
    file.arrayBuffer().then((bytes) => worker.postMessage({ bytes, reply } satisfies PdfRequest, [bytes, reply]), reject);
  });
}

function dataUrl(blob: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(reader.error ?? new Error(words.failed));
    reader.readAsDataURL(blob);
  });
}

async function readImage(file: File): Promise<AttachedFile> {
  const { name } = file;
  if (file.size > maxImageBytes) throw new Error(words.chat.attachImageTooLarge(name));
  const image = await createImageBitmap(file, { imageOrientation: "from-image" }).catch(() => {
    throw new Error(words.chat.attachNotImage(name));
  });
  if (file.size <= maxUnscaledImageBytes) return { name, text: "", image: await dataUrl(file) };
  const scale = Math.min(1, maxImageSide / Math.max(image.width, image.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(image.width * scale));
  canvas.height = Math.max(1, Math.round(image.height * scale));
  const context = canvas.getContext("2d")!;
  context.fillStyle = "#fff"; // JPEG has no transparency
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return { name, text: "", image: canvas.toDataURL("image/jpeg", 0.85) };
}

export async function readFile(file: File): Promise<AttachedFile> {
  const { name } = file;
  if (/^image\/(jpeg|png|webp)$/.test(file.type)) return readImage(file);
  const pdf = file.type === "application/pdf" || /\.pdf$/i.test(name);
  if (file.size > (pdf ? maxPdfBytes : maxTextBytes)) throw new Error(words.chat.attachTooLarge(name));
  const text = (pdf ? await readPdf(file) : await file.text()).replace(/\r\n?/g, "\n").trimEnd();
  if (pdf && !text.trim()) throw new Error(words.chat.attachNoText(name));
  if (text.length > maxTextBytes) throw new Error(words.chat.attachTooLarge(name));
  if (text.includes("\0") || (!pdf && text.includes("\uFFFD"))) throw new Error(words.chat.attachNotText(name));
  return { name, text };
}

export function sizeText(length: number): string {
  return length < 1000 ? `${length} B` : `${Math.round(length / 1000)} kB`;
}
