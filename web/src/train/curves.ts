// Curves of one or more runs over one axis of steps.
import type { Series } from "./chart";
import { words } from "../strings";
import { type Run, smoothed, downsampled } from "./run";

export interface Curves {
  steps: number[];
  loss: (number | null)[];
  smooth: (number | null)[];
  norm: (number | null)[];
  rate: (number | null)[];
  speed: (number | null)[];
  valid: (number | null)[];
}

export function curvesOf(run: Run, smoothing: number): Curves {
  const [steps, [loss, smooth, norm, rate, speed]] = downsampled(run.step, [
    run.loss,
    smoothed(run.loss, smoothing),
    run.norm,
    run.rate,
    smoothed(run.speed, 0.8),
  ]);
  // A validation is drawn at the first step that is not before it, or at the last step.
  const valid: (number | null)[] = steps.map(() => null);
  let i = 0;
  for (const v of run.validations) {
    while (i + 1 < steps.length && steps[i]! < v.step) ++i;
    if (v.figures.loss !== undefined && steps.length) valid[i] = v.figures.loss;
  }
  return { steps, loss: loss!, smooth: smooth!, norm: norm!, rate: rate!, speed: speed!, valid };
}

const comparedColours = ["--series-3", "--series-4", "--series-5"] as const;
export const maxCompared = comparedColours.length;

// The loss of a run, and the smoothed loss of others for comparison.
export function lossSeries(name: string, own: Curves, others: [string, Curves][], hasValidation: boolean): { steps: number[]; series: Series[] } {
  const steps = others.length
    ? [...new Set([own, ...others.map(([, c]) => c)].flatMap((c) => c.steps))].sort((a, b) => a - b)
    : own.steps;
  const onSteps = (c: Curves, values: (number | null)[]) => {
    if (c.steps === steps) return values;
    const at = new Map(c.steps.map((step, i) => [step, values[i]!]));
    return steps.map((step) => at.get(step) ?? null);
  };
  const series: Series[] = [
    { label: words.train.training, colour: "--series-1", values: onSteps(own, own.loss), faint: true },
    { label: others.length ? name : words.train.smooth, colour: "--series-1", values: onSteps(own, own.smooth) },
  ];
  if (hasValidation) series.push({ label: words.train.validation, colour: "--series-2", values: onSteps(own, own.valid), points: true });
  others.forEach(([label, c], i) => series.push({ label, colour: comparedColours[i]!, values: onSteps(c, c.smooth) }));
  return { steps, series };
}
