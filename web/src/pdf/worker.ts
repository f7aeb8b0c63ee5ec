// The worker behind /pdf.js: it receives the bytes of a PDF and replies with its text. It is a separate file because most visits do not need it.
// The library uses the worker's own message channel, so replies use a separate port.
import { extractText, getDocumentProxy } from "unpdf";

export interface PdfRequest {
  bytes: ArrayBuffer;
  reply: MessagePort;
}
export type PdfReply = { text: string } | { error: string };

addEventListener("message", async ({ data }: MessageEvent<Partial<PdfRequest>>) => {
  const { bytes, reply } = data;
  if (!bytes || !reply) return;
  const answer = (message: PdfReply) => reply.postMessage(message);
  try {
    const document = await getDocumentProxy(new Uint8Array(bytes), { isEvalSupported: false });
    const { text } = await extractText(document, { mergePages: false });
    answer({ text: text.join("\n\n") });
  } catch (error) {
    answer({ error: error instanceof Error ? error.message : String(error) });
  }
});
