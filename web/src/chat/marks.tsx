// A text coloured by how probable each of its tokens was, with what might have stood there instead.
import { useState } from "preact/hooks";
import { words } from "../strings";
import type { TokenMark } from "../types";
import { arrow, percent, visible } from "../ui/controls";

// 0 for a sure token, 1 for one of a thousand.
export function surprise(logprob: number): number {
  return Math.min(1, -logprob / Math.log(1000));
}

export function Marks({ tokens }: { tokens: TokenMark[] }) {
  const [at, setAt] = useState<number | null>(null);
  const shown = at === null ? null : tokens[at];
  return (
    <div class="marks">
      <p
        role="group"
        tabIndex={0}
        aria-label={words.chat.marksLabel}
        onKeyDown={(e) => arrow(e, (by) => setAt(Math.min(tokens.length - 1, Math.max(0, (at ?? -1) + by))))}
        onFocus={() => setAt(at ?? 0)}
      >
        {tokens.map(([text, logprob], i) => (
          <span
            key={i}
            class={i === at ? "on" : ""}
            style={{ "--surprise": surprise(logprob) }}
            onClick={() => setAt(i)}
            onMouseEnter={() => setAt(i)}
          >
            {text}
          </span>
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
