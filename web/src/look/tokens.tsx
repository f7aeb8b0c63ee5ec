// Tokens as chips, coloured to distinguish neighbours or by probability.
import { useState } from "preact/hooks";
import { surprise } from "../chat/marks";
import { number, words } from "../strings";
import type { Look, LookToken } from "../types";
import { Choice, percent, visible, walk } from "../ui/controls";

type Probability = NonNullable<Look["probabilities"]>[number];

function title(token: LookToken, p?: Probability): string {
  const id = words.look.tokenTitle(token.id);
  if (p === undefined) return id;
  return `${id}, ${p === null ? words.look.firstToken : words.look.probability(percent(Math.exp(p.logprob)), p.rank)}`;
}

function Chips({ tokens, look, by }: { tokens: LookToken[]; look: Look; by: "token" | "probability" }) {
  const [at, setAt] = useState<number | null>(null);
  const probabilities = look.probabilities?.length === tokens.length ? look.probabilities : undefined;
  const selected = at === null ? undefined : tokens[at];
  const detail = at === null ? undefined : probabilities?.[at];
  return (
    <>
      <ol class="chips" data-by={by} onKeyDown={walk}>
        {tokens.map((t, i) => {
          const p = probabilities?.[i];
          return (
            <li key={i}>
              <button
                type="button"
                class={`chip hue-${i % 6} ${t.special ? "special" : ""} ${i === at ? "on" : ""}`}
                style={by === "probability" && p ? { "--surprise": surprise(p.logprob) } : undefined}
                title={title(t, p)}
                tabIndex={i === (at ?? 0) ? 0 : -1}
                onClick={() => setAt(i === at ? null : i)}
                onFocus={() => setAt(i)}
                onMouseEnter={() => setAt(i)}
              >
                <span>{visible(t.text)}</span>
                <small>{t.id}</small>
              </button>
            </li>
          );
        })}
      </ol>
      <p class="chip-detail" aria-live="polite">
        {selected && (
          <>
            <b>{visible(selected.text)}</b> {title(selected, detail)}
            {detail && detail.rank > 0 && (
              <span> · {words.look.moreLikely(detail.top.map((t) => `${visible(t.text)} ${percent(Math.exp(t.logprob))}`).join(", "))}</span>
            )}
          </>
        )}
      </p>
    </>
  );
}

export function TokensCard({ look }: { look: Look }) {
  const [by, setBy] = useState<"token" | "probability">("token");
  return (
    <section class="card" aria-labelledby="tokens-title">
      <header>
        <h2 id="tokens-title">{words.look.tokens}</h2>
        {look.probabilities && (
          <Choice
            label={words.look.colour}
            value={by}
            onChange={setBy}
            options={[
              ["token", words.look.colourToken],
              ["probability", words.look.colourProbability],
            ]}
          />
        )}
      </header>
      <p class="hint">{words.look.tokensLead(number(look.tokens.length), number(look.model.vocab))}</p>
      <Chips tokens={look.tokens} look={look} by={by} />
      {look.target && <Chips tokens={look.target} look={look} by={by} />}
    </section>
  );
}
