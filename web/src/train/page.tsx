// Train: the runs of a folder, their curves and samples, while they go on.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api";
import { place } from "../place";
import { useInterval, useWatched } from "../state";
import { words } from "../strings";
import { Slider, Trouble } from "../ui/controls";
import { Chart } from "./chart";
import { emptyRun, grown, type Run, smoothed, thinned } from "./run";

interface ListedRun {
  name: string;
  bytes: number;
  changed: number;
}

const pollMilliseconds = 2000;
const liveSeconds = 30;

export function TrainPage() {
  const [, asked] = useWatched(place);
  const [folder, setFolder] = useState("");
  const [runs, setRuns] = useState<ListedRun[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  useInterval(() => {
    get<{ folder: string; runs: ListedRun[] }>("/makar/runs").then((list) => {
      setFolder(list.folder);
      setRuns(list.runs);
      setError(null);
    }, setError);
  }, pollMilliseconds * 2);
  const name = asked || runs?.[0]?.name;
  const now = Date.now() / 1000;
  return (
    <div class="sheet train">
      <h1>{words.train.title}</h1>
      <p class="lead">{words.train.lead(folder)}</p>
      <Trouble error={error} />
      {runs?.length === 0 && (
        <section class="card empty">
          <h2>{words.train.none}</h2>
          <p class="hint">{words.train.noneHint}</p>
          <pre>{words.train.command(folder)}</pre>
        </section>
      )}
      {runs && runs.length > 0 && (
        <div class="train-body">
          <nav class="runs" aria-label={words.train.runs}>
            <ul>
              {runs.map((r) => (
                <li key={r.name}>
                  <a href={`#/train/${encodeURIComponent(r.name)}`} aria-current={r.name === name ? "true" : undefined}>
                    {r.name}
                    {now - r.changed < liveSeconds && <span class="live">{words.train.live}</span>}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          {name && <RunView key={name} name={name} />}
        </div>
      )}
    </div>
  );
}

// The last value that is there.
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
  const rows: [string, string][] = [[t.step, String(run.step[run.step.length - 1] ?? 0)]];
  if (loss !== null) rows.push([t.loss, loss.toFixed(3)]);
  if (valid !== undefined) rows.push([t.valid, valid.toFixed(3)]);
  if (rate !== null) rows.push([t.rate, rate.toExponential(1)]);
  if (speed !== null) rows.push([t.speed, speed >= 1000 ? `${(speed / 1000).toFixed(1)}k` : speed.toFixed(0)]);
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

function RunView({ name }: { name: string }) {
  const [run, setRun] = useState<Run>(emptyRun);
  const [error, setError] = useState<unknown>(null);
  const [smoothing, setSmoothing] = useState(0.9);
  const [log, setLog] = useState(false);
  const [sample, setSample] = useState<number | null>(null);
  const held = useRef(run);
  const busy = useRef(false);
  const late = useMemo(() => new AbortController(), []);
  useEffect(() => () => late.abort(), []);
  useInterval(() => {
    if (busy.current) return;
    busy.current = true;
    grown(name, held.current, late.signal)
      .then((next) => {
        held.current = next;
        setRun(next);
        setError(null);
      })
      .catch((e: unknown) => late.signal.aborted || setError(e))
      .finally(() => (busy.current = false));
  }, pollMilliseconds);
  const curves = useMemo(() => {
    const [steps, [loss, smooth, norm, rate, speed]] = thinned(run.step, [
      run.loss,
      smoothed(run.loss, smoothing),
      run.norm,
      run.rate,
      smoothed(run.speed, 0.8),
    ]);
    // Validations stand at the nearest step drawn.
    const valid: (number | null)[] = steps.map(() => null);
    let i = 0;
    for (const v of run.validations) {
      while (i + 1 < steps.length && steps[i]! < v.step) ++i;
      if (v.figures.loss !== undefined && steps.length) valid[i] = v.figures.loss;
    }
    return { steps, loss: loss!, smooth: smooth!, norm: norm!, rate: rate!, speed: speed!, valid };
  }, [run, smoothing]);
  const loss = useMemo(
    () => [
      { label: words.train.training, colour: "--series-1" as const, values: curves.loss, faint: true },
      { label: words.train.smooth, colour: "--series-1" as const, values: curves.smooth },
      ...(run.validations.length
        ? [{ label: words.train.validation, colour: "--series-2" as const, values: curves.valid, points: true }]
        : []),
    ],
    [curves],
  );
  const one = (label: string, values: (number | null)[]) => (
    <section class="card">
      <h2>{label}</h2>
      <Chart label={label} steps={curves.steps} series={[{ label: words.train.value, colour: "--series-3", values }]} height={180} />
    </section>
  );
  const at = Math.min(sample ?? run.samples.length - 1, run.samples.length - 1);
  const shown = run.samples[at];
  return (
    <div class="run">
      <Trouble error={error} />
      <Figures run={run} />
      <section class="card">
        <header>
          <h2>{words.train.loss}</h2>
          <label class="check">
            <input type="checkbox" checked={log} onChange={(e) => setLog(e.currentTarget.checked)} />
            {words.train.log}
          </label>
        </header>
        <Chart label={words.train.loss} steps={curves.steps} series={loss} log={log} height={300} />
        <Slider id="smoothing" label={words.train.smoothing} value={smoothing} min={0} max={0.99} step={0.01} onInput={setSmoothing} />
      </section>
      {shown && (
        <section class="card" aria-live="off">
          <header>
            <h2>{words.train.samples}</h2>
            <span class="hint">{words.train.sampleAt(shown.step)}</span>
          </header>
          {run.samples.length > 1 && (
            <input
              type="range"
              aria-label={words.train.samples}
              min={0}
              max={run.samples.length - 1}
              value={at}
              onInput={(e) => setSample(Number(e.currentTarget.value))}
            />
          )}
          <p class="sample">{shown.text.trim()}</p>
        </section>
      )}
      <div class="pair">
        {one(words.train.rate, curves.rate)}
        {one(words.train.norm, curves.norm)}
      </div>
      {one(words.train.speed, curves.speed)}
    </div>
  );
}
