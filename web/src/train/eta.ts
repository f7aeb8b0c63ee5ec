// The remaining time of a run: the mean time of its last steps times the number of steps left.
import { words } from "../strings";
import type { Run } from "./run";

const measuredSteps = 50;

export function secondsLeft(run: Run): number | null {
  const step = run.step[run.step.length - 1];
  if (!run.total || step === undefined) return null;
  const stepSeconds = run.seconds.slice(-measuredSteps).filter((s): s is number => s !== null);
  if (!stepSeconds.length) return null;
  return (Math.max(0, run.total - step) * stepSeconds.reduce((a, b) => a + b, 0)) / stepSeconds.length;
}

export function durationText(seconds: number): string {
  if (seconds === 0) return words.train.finished;
  if (seconds < 90) return words.train.seconds(Math.ceil(seconds));
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? words.train.minutes(minutes) : words.train.hours(Math.floor(minutes / 60), minutes % 60);
}
