// The batch: one line per sequence in the cache.
import { number, words } from "../strings";
import type { EngineView } from "../types";

export function Sequences({ view }: { view: EngineView }) {
  const { sequences } = view.engine;
  const t = words.engine;
  const longest = Math.max(1, ...sequences.map(([tokens]) => tokens));
  return (
    <section class="card" aria-labelledby="batch-title">
      <h2 id="batch-title">{t.sequences}</h2>
      <p class="hint">{t.sequencesLead}</p>
      {sequences.length === 0 && <p class="idle">{t.idle}</p>}
      <ol class="batch">
        {sequences.map(([tokens, cached, pages], i) => (
          <li key={i}>
            <span class="track" aria-hidden="true">
              <i class="was" style={{ width: `${(100 * tokens) / longest}%` }} />
              <i class="now" style={{ width: `${(100 * cached) / longest}%` }} />
            </span>
            <span>{t.sequence(number(tokens), pages)}</span>
          </li>
        ))}
      </ol>
    </section>
  );
}
