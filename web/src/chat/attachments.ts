// Files of a message: reading them in the browser, and their place in the message's content.
import { words } from "../strings";
import type { AttachedFile, FilePart, Message, Meta } from "../types";
import type { PdfReply, PdfRequest } from "../pdf/worker";

const largestText = 256 * 1024;
const largestPdf = 20 << 20;

// The files' text in fences, then the message's own text.
export function compose(files: AttachedFile[], text: string): { content: string; meta: Meta } {
  let content = "";
  const parts: FilePart[] = [];
  for (const { name, text: body } of files) {
    const fence = body.includes("```") ? "~~~~" : "```";
    content += `${name}:\n${fence}\n`;
    parts.push({ name, start: content.length, end: content.length + body.length });
    content += `${body}\n${fence}\n\n`;
  }
  return { content: content + text, meta: parts.length ? { files: parts } : {} };
}

export function split(message: Message): { files: AttachedFile[]; text: string } {
  const parts = message.meta.files ?? [];
  const files = parts.map((p) => ({ name: p.name, text: message.content.slice(p.start, p.end) }));
  const last = parts[parts.length - 1];
  const after = last ? message.content.indexOf("\n\n", last.end) + 2 : 0;
  return { files, text: message.content.slice(after) };
}

function readPdf(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const worker = new Worker("/pdf.js", { type: "module" });
    const { port1: port, port2: reply } = new MessageChannel();
    const end = (what: () => void) => (worker.terminate(), port.close(), what());
    port.onmessage = ({ data }: MessageEvent<PdfReply>) =>
      end(() => ("text" in data ? resolve(data.text) : reject(new Error(`${file.name}: ${data.error}`))));
    worker.onerror = (e) => end(() => reject(new Error(`${file.name}: ${e.message || words.failed}`)));
    file.arrayBuffer().then((bytes) => worker.postMessage({ bytes, reply } satisfies PdfRequest, [bytes, reply]), reject);
  });
}

export async function readFile(file: File): Promise<AttachedFile> {
  const { name } = file;
  const pdf = file.type === "application/pdf" || /\.pdf$/i.test(name);
  if (file.size > (pdf ? largestPdf : largestText)) throw new Error(words.chat.attachTooLarge(name));
  const text = (pdf ? await readPdf(file) : await file.text()).replace(/\r\n?/g, "\n").trimEnd();
  if (pdf && !text.trim()) throw new Error(words.chat.attachNoText(name));
  if (text.length > largestText) throw new Error(words.chat.attachTooLarge(name));
  if (text.includes("\0") || (!pdf && text.includes("\uFFFD"))) throw new Error(words.chat.attachNotText(name));
  return { name, text };
}

export function sizeText(length: number): string {
  return length < 1000 ? `${length} B` : `${Math.round(length / 1000)} kB`;
}
