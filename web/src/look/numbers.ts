// The distribution of the next token for any sampling settings, from the logits that the server sent.
import type { Distribution } from "../types";

export interface SamplerSettings {
  temperature: number;
  top_k: number;
  top_p: number;
  min_p: number;
}

export interface Bar {
  id: number;
  text: string;
  before: number; // probability at temperature 1
  now: number; // with the settings applied; 0: it cannot be sampled
}

// Sum of exp((logit - max) / t) over the first `candidateCount` tokens; with the tail, over the whole vocabulary.
function partition(d: Distribution, t: number, candidateCount: number, tail: boolean): number {
  const max = d.logits[0]!;
  let sum = 0;
  for (let i = 0; i < candidateCount; ++i) sum += Math.exp((d.logits[i]! - max) / t);
  if (tail) for (const [logit, count] of d.rest) sum += count * Math.exp((logit - max) / t);
  return sum;
}

// In the engine's order: top-k, temperature, top-p, min-p; each works on the tokens that the previous one kept.
// `bits` is the entropy of the result.
export function applySettings(d: Distribution, k: SamplerSettings): { bars: Bar[]; candidates: number; bits: number } {
  const max = d.logits[0]!;
  const greedy = k.temperature < 0.01;
  const t = greedy ? 1 : k.temperature;
  const fullSum = partition(d, 1, d.logits.length, true);
  let candidateCount = d.logits.length;
  let tail = true; // the tokens beyond those sent are candidates
  if (greedy) (candidateCount = 1), (tail = false);
  else if (k.top_k > 0 && k.top_k < d.vocab) {
    candidateCount = Math.min(candidateCount, k.top_k);
    while (candidateCount < d.logits.length && d.logits[candidateCount] === d.logits[k.top_k - 1]) ++candidateCount;
    tail = k.top_k > d.logits.length;
  }
  const weight = (i: number) => Math.exp((d.logits[i]! - max) / t);
  if (k.top_p < 1) {
    const target = k.top_p * partition(d, t, candidateCount, tail);
    let sum = 0;
    let i = 0;
    while (i < candidateCount && sum < target) sum += weight(i++);
    if (sum >= target) (candidateCount = Math.max(1, i)), (tail = false);
  }
  if (k.min_p > 0) {
    let i = 1;
    while (i < candidateCount && weight(i) >= k.min_p) ++i;
    if (i < candidateCount) (candidateCount = i), (tail = false);
  }
  const sum = partition(d, t, candidateCount, tail);
  const bars = d.logits.map((logit, i) => ({
    id: d.ids[i]!,
    text: d.texts[i] ?? "",
    before: Math.exp(logit - max) / fullSum,
    now: i < candidateCount ? weight(i) / sum : 0,
  }));
  let bits = 0;
  for (const { now } of bars) if (now > 0) bits -= now * Math.log2(now);
  if (tail)
    for (const [logit, count] of d.rest) {
      const p = Math.exp((logit - max) / t) / sum;
      if (p > 0) bits -= count * p * Math.log2(p);
    }
  return { bars, candidates: tail ? d.vocab : candidateCount, bits };
}

// The text of a sampled bar, among those that have a text.
export function sampleText(bars: Bar[], random = Math.random()): string {
  const candidates = bars.filter((b) => b.text !== "" && b.now > 0);
  let left = random * candidates.reduce((sum, b) => sum + b.now, 0);
  for (const bar of candidates) {
    left -= bar.now;
    if (left < 0) return bar.text;
  }
  return candidates[0]?.text ?? "";
}
