// A block of code. It is highlighted in chunks of lines: while it grows only the last chunk is read again, and a long block is
// highlighted over several frames.
import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../strings";
import { CopyButton } from "../ui/copy";
import { highlight, type Pieces, syntaxOf } from "./highlight";

const chunkSize = 2_000; // characters
const chunksPerFrame = 4;

interface Chunk {
  text: string;
  before: string; // the closing mark of what is open at its start
  after: string;
  pieces: Pieces;
}

// Chunks end at line ends, where there are any.
function splitLines(text: string): string[] {
  const out: string[] = [];
  for (let at = 0; at < text.length; ) {
    const line = text.indexOf("\n", at + chunkSize);
    const to = line < 0 || line > at + 3 * chunkSize ? Math.min(text.length, at + 3 * chunkSize) : line + 1;
    out.push(text.slice(at, to));
    at = to;
  }
  return out;
}

const ChunkView = memo(({ pieces }: { pieces: Pieces }) => (
  <span class="code-chunk">{pieces.map(([kind, piece], i) => (kind ? <span key={i} class={`code-${kind}`}>{piece}</span> : piece))}</span>
));

export const CodeBlock = memo(({ text, language }: { text: string; language: string }) => {
  const cache = useRef<Chunk[]>([]);
  const [frames, setFrames] = useState(1);
  const syntax = syntaxOf(language, text);
  const parts = splitLines(text);
  const highlightable = frames * chunksPerFrame;
  let inside = "";
  let pending = 0;
  const chunks = parts.map((part, i) => {
    const old = cache.current[i];
    if (old && old.text === part && old.before === inside) {
      inside = old.after;
      return old;
    }
    if (i >= highlightable && ++pending) return { text: part, before: "", after: "", pieces: [["", part]] as Pieces };
    const result = highlight(part, syntax, inside);
    const chunk = { text: part, before: inside, after: result.inside, pieces: result.pieces };
    inside = result.inside;
    return chunk;
  });
  cache.current = chunks.slice(0, highlightable);
  useEffect(() => {
    if (!pending) return;
    const frame = requestAnimationFrame(() => setFrames(frames + 1));
    return () => cancelAnimationFrame(frame);
  }, [frames, pending > 0]);
  return (
    <figure class="code" dir="ltr">
      <figcaption>
        <span>{language || words.chat.code}</span>
        <CopyButton text={text} />
      </figcaption>
      <pre tabIndex={0}>
        <code>
          {chunks.map((chunk, i) => (
            <ChunkView key={i} pieces={chunk.pieces} />
          ))}
        </code>
      </pre>
    </figure>
  );
});
