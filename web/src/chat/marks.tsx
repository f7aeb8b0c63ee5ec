// A text coloured by how probable each of its tokens was, with what might have stood there instead.
import { useState } from "preact/hooks";
import { words } from "../strings";
import type { TokenMark } from "../types";
import { percent, visible } from "../ui/controls";

// 0 for a sure token, 1 for one of a thousand.
export function surprise(logprob: number): number {
  return Math.min(1, -logprob / Math.log(1000));
}

export function Marks({ tokens }: { tokens: TokenMark[] }) {
  const [at, setAt] = useState<number | null>(null);
  const shown = at === null ? null : tokens[at];
  return (
    <div class="marks">
      <p>
        {tokens.map(([text, logprob], i) => (
          <button
            type="button"
            key={i}
            class={i === at ? "on" : ""}
            style={{ "--surprise": surprise(logprob) }}
            onClick={() => setAt(i === at ? null : i)}
            onMouseEnter={() => setAt(i)}
            onFocus={() => setAt(i)}
          >
            {text}
          </button>
        ))}
      </p>
      <div class="marks-detail" aria-live="polite">
        {shown && (
          <>
            <b>{visible(shown[0])}</b> {words.chat.tokenMark(percent(Math.exp(shown[1])))}
            <ol aria-label={words.chat.insteadOf}>
              {shown[2].map(([text, logprob]) => (
                <li key={text}>
                  <span>{visible(text)}</span> <span>{percent(Math.exp(logprob))}</span>
                </li>
              ))}
            </ol>
          </>
        )}
      </div>
    </div>
  );
}
