// The distribution of the next token, and how the sampling settings change it.
import { useState } from "preact/hooks";
import { number, words } from "../strings";
import type { Distribution } from "../types";
import { percent, Slider, visible, walk } from "../ui/controls";
import { sampleText, type SamplerSettings, applySettings } from "./numbers";

const maxBars = 16;

function Bars({ d, knobs, onWrite }: { d: Distribution; knobs: SamplerSettings; onWrite?: (token: string) => void }) {
  const { bars, candidates, bits } = applySettings(d, knobs);
  const listed = bars.slice(0, maxBars);
  const others = Math.max(0, 1 - listed.reduce((sum, b) => sum + b.now, 0));
  const max = Math.max(...listed.map((b) => Math.max(b.now, b.before)));
  const width = (p: number) => ({ width: `${Math.min(100, (100 * p) / max)}%` });
  return (
    <>
      <ol class="bars" onKeyDown={walk}>
        {listed.map((b, i) => (
          <li key={b.id}>
            <button
              type="button"
              tabIndex={i ? -1 : 0}
              class={b.now === 0 ? "out" : ""}
              disabled={!onWrite}
              aria-label={onWrite ? words.look.appendToken(visible(b.text), percent(b.now)) : undefined}
              onClick={() => onWrite?.(b.text)}
            >
              <code>{visible(b.text)}</code>
              <span class="track">
                <i class="was" style={width(b.before)} />
                <i class="now" style={width(b.now)} data-now={b.now} />
              </span>
              <span class="number">{b.now === 0 ? "–" : percent(b.now)}</span>
            </button>
          </li>
        ))}
      </ol>
      {/* This bar has its own scale, 0 to 100 %: all other tokens together are often far more probable than any single one. */}
      <div class="others">
        <span>{words.look.others}</span>
        <span class="track">
          <i class="now" style={{ width: `${100 * others}%` }} />
        </span>
        <span class="number">{others < 1e-9 ? "–" : percent(others)}</span>
      </div>
      <p class="hint" aria-live="polite">
        {words.look.candidates(number(candidates))} · {words.look.entropy(number(bits, { min: 2, max: 2 }))}
      </p>
      {onWrite && (
        <button type="button" onClick={() => onWrite(sampleText(bars))}>
          {words.look.sampleOne}
        </button>
      )}
    </>
  );
}

export function NextCard({ next, onWrite }: { next: Distribution[]; onWrite?: (token: string) => void }) {
  const [knobs, setKnobs] = useState<SamplerSettings>({ temperature: 1, top_k: 0, top_p: 1, min_p: 0 });
  const slider = (name: keyof SamplerSettings, min: number, max: number, step: number) => {
    const [label, hint] = words.settings.knobs[name]!;
    return (
      <Slider
        id={`look-${name}`}
        {...{ label, hint, min, max, step }}
        value={knobs[name]}
        onInput={(value) => setKnobs({ ...knobs, [name]: value })}
      />
    );
  };
  return (
    <section class="card" aria-labelledby="next-title">
      <header>
        <h2 id="next-title">{words.look.next}</h2>
      </header>
      <p class="hint">{words.look.nextLead}</p>
      <div class="next">
        <div class="knobs">
          {slider("temperature", 0, 2, 0.01)}
          {slider("top_k", 0, 100, 1)}
          {slider("top_p", 0.01, 1, 0.01)}
          {slider("min_p", 0, 0.5, 0.01)}
        </div>
        <div>
          {next.map((d) => (
            <div key={d.at}>
              {!onWrite && <h3>{words.look.mask(d.at)}</h3>}
              <Bars d={d} knobs={knobs} onWrite={onWrite} />
            </div>
          ))}
        </div>
      </div>
    </section>
  );
}
