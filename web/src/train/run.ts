// The log of a run as it grows: each request continues where the last one ended.
import { get } from "../api";
import type { RunPiece } from "../types";

export interface Run {
  file: number;
  offset: number;
  changed: number;
  total: number; // steps; 0: unknown
  step: number[];
  loss: (number | null)[];
  norm: (number | null)[];
  rate: (number | null)[];
  speed: (number | null)[];
  seconds: (number | null)[]; // per step
  validations: RunPiece["validations"];
  samples: RunPiece["samples"];
}

export const emptyRun = (): Run => ({
  file: 0,
  offset: 0,
  changed: 0,
  total: 0,
  step: [],
  loss: [],
  norm: [],
  rate: [],
  speed: [],
  seconds: [],
  validations: [],
  samples: [],
});

const maxSamples = 200;

function append(run: Run, piece: RunPiece): void {
  for (const [step, loss, norm, rate, seconds, tokens] of piece.steps) {
    run.step.push(step);
    run.loss.push(loss);
    run.norm.push(norm);
    run.rate.push(rate);
    run.speed.push(seconds && tokens ? tokens / seconds : null);
    run.seconds.push(seconds);
  }
  run.validations.push(...piece.validations);
  run.samples.push(...piece.samples);
  run.samples.splice(0, run.samples.length - maxSamples);
  run.file = piece.file;
  run.offset = piece.offset;
  run.changed = piece.changed;
  run.total = piece.total ?? run.total;
}

// The run with the lines that were added to its log; the same object if there are none.
export async function fetchNewLines(name: string, run: Run, signal: AbortSignal): Promise<Run> {
  let now = run;
  for (;;) {
    const at = `offset=${now.offset}&file=${now.file}`;
    const piece = await get<RunPiece>(`/makar/runs/${encodeURIComponent(name)}?${at}`, signal);
    if (piece.offset === now.offset && !piece.restarted) return now;
    const next = piece.restarted ? emptyRun() : { ...now };
    for (const key of ["step", "loss", "norm", "rate", "speed", "seconds"] as const) next[key] = [...next[key]] as number[];
    next.validations = [...next.validations];
    next.samples = [...next.samples];
    append(next, piece);
    now = next;
    if (!piece.more) return now;
  }
}

// An exponential moving average, corrected for its start.
export function smoothed(values: (number | null)[], by: number): (number | null)[] {
  let sum = 0;
  let weight = 0;
  return values.map((v) => {
    if (v !== null) {
      sum = by * sum + (1 - by) * v;
      weight = by * weight + (1 - by);
    }
    return weight > 0 ? sum / weight : null;
  });
}

// At most `max` points, each the mean of several steps: a screen cannot show more.
export function downsampled(steps: number[], columns: (number | null)[][], max = 2000): [number[], (number | null)[][]] {
  const stride = Math.ceil(steps.length / max);
  if (stride <= 1) return [steps, columns];
  const pick = (values: (number | null)[]) => {
    const out: (number | null)[] = [];
    for (let i = 0; i < values.length; i += stride) {
      const numbers = values.slice(i, i + stride).filter((v): v is number => v !== null);
      out.push(numbers.length ? numbers.reduce((a, b) => a + b, 0) / numbers.length : null);
    }
    return out;
  };
  return [steps.filter((_, i) => i % stride === 0), columns.map(pick)];
}
