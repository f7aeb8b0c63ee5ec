// One run: its figures, curves and samples, and the loss of other runs for comparison.
import { useMemo, useState } from "preact/hooks";
import { number, words } from "../strings";
import { Slider, ErrorMessage } from "../ui/controls";
import { Chart } from "./chart";
import { type Curves, curvesOf, lossSeries } from "./curves";
import { durationText, secondsLeft } from "./eta";
import { emptyRun, type Run, smoothed } from "./run";
import { useRuns } from "./use_runs";

// The last value that is known.
function last(values: (number | null)[]): number | null {
  for (let i = values.length - 1; i >= 0; --i) if (values[i] !== null) return values[i]!;
  return null;
}

function Figures({ run }: { run: Run }) {
  const t = words.train.figures;
  const loss = last(run.loss);
  const valid = run.validations[run.validations.length - 1]?.figures.loss;
  const rate = last(run.rate);
  const speed = last(smoothed(run.speed, 0.9));
  const left = secondsLeft(run);
  const three = { min: 3, max: 3 };
  const step = number(run.step[run.step.length - 1] ?? 0);
  const rows: [string, string][] = [[t.step, run.total ? words.train.ofTotal(step, number(run.total)) : step]];
  if (left !== null) rows.push([t.left, durationText(left)]);
  if (loss !== null) rows.push([t.loss, number(loss, three)]);
  if (valid !== undefined) rows.push([t.valid, number(valid, three)]);
  if (rate !== null) rows.push([t.rate, rate.toExponential(1)]);
  if (speed !== null) rows.push([t.speed, number(speed, { max: 0 })]);
  return (
    <dl class="figures">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Samples({ samples }: { samples: Run["samples"] }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const at = Math.min(chosen ?? samples.length - 1, samples.length - 1);
  const sample = samples[at];
  if (!sample) return null;
  return (
    <section class="card" aria-live="off">
      <header>
        <h2>{words.train.samples}</h2>
        <span class="hint">{words.train.sampleAt(number(sample.step))}</span>
      </header>
      {samples.length > 1 && (
        <input
          type="range"
          aria-label={words.train.samples}
          min={0}
          max={samples.length - 1}
          value={at}
          onInput={(e) => setChosen(Number(e.currentTarget.value))}
        />
      )}
      <p class="sample" dir="auto">
        {sample.text.trim()}
      </p>
    </section>
  );
}

function Curve({ label, curves, values }: { label: string; curves: Curves; values: (number | null)[] }) {
  const series = useMemo(() => [{ label: words.train.value, colour: "--series-3" as const, values }], [values]);
  return (
    <section class="card">
      <h2>{label}</h2>
      <Chart label={label} steps={curves.steps} series={series} height={180} />
    </section>
  );
}

export function RunView({ name, compared }: { name: string; compared: string[] }) {
  const { runs, error } = useRuns([name, ...compared]);
  const [smoothing, setSmoothing] = useState(0.9);
  const [log, setLog] = useState(false);
  const empty = useMemo(emptyRun, []);
  const run = runs.get(name) ?? empty;
  const others = compared.map((other) => runs.get(other) ?? empty);
  const curves = useMemo(() => curvesOf(run, smoothing), [run, smoothing]);
  const loss = useMemo(
    () => lossSeries(name, curves, others.map((other, i) => [compared[i]!, curvesOf(other, smoothing)]), run.validations.length > 0),
    [curves, ...others],
  );
  return (
    <div class="run">
      <ErrorMessage error={error} />
      <Figures run={run} />
      <section class="card">
        <header>
          <h2>{words.train.loss}</h2>
          <label class="check">
            <input type="checkbox" checked={log} onChange={(e) => setLog(e.currentTarget.checked)} />
            {words.train.logarithmic}
          </label>
        </header>
        <Chart label={words.train.loss} steps={loss.steps} series={loss.series} log={log} height={300} />
        <Slider id="smoothing" label={words.train.smoothing} value={smoothing} min={0} max={0.99} step={0.01} onInput={setSmoothing} />
      </section>
      <Samples samples={run.samples} />
      <div class="pair">
        <Curve label={words.train.learningRate} curves={curves} values={curves.rate} />
        <Curve label={words.train.gradientNorm} curves={curves} values={curves.norm} />
      </div>
      <Curve label={words.train.speed} curves={curves} values={curves.speed} />
    </div>
  );
}
