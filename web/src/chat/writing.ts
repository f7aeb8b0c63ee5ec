// Asking for an answer and following it as it is written.
import { ApiError, events } from "../api";
import type { Message, Model, Sampling, TokenMark } from "../types";

export interface Answer {
  content: string;
  tokens: TokenMark[];
  finish: string;
  begun: number; // milliseconds
  seconds: number;
}

let stopper: AbortController | null = null;

// The signal that ends the answer that begins now.
export function begin(): AbortSignal {
  stopper = new AbortController();
  return stopper.signal;
}

export function stop(): void {
  stopper?.abort();
}

interface TopLogprob {
  token: string;
  logprob: number;
}
interface Chunk {
  choices: {
    index: number;
    text?: string;
    delta?: { content?: string };
    finish_reason: string | null;
    logprobs?: {
      content?: (TopLogprob & { top_logprobs: TopLogprob[] })[];
      tokens?: string[];
      token_logprobs?: (number | null)[];
      top_logprobs?: Record<string, number>[];
    } | null;
  }[];
}

function marks(logprobs: NonNullable<Chunk["choices"][0]["logprobs"]>): TokenMark[] {
  if (logprobs.content)
    return logprobs.content.map((t) => [t.token, t.logprob, t.top_logprobs.map((o) => [o.token, o.logprob])]);
  return (logprobs.tokens ?? []).map((token, i) => [
    token,
    logprobs.token_logprobs?.[i] ?? 0,
    Object.entries(logprobs.top_logprobs?.[i] ?? {}),
  ]);
}

function options(model: Model, s: Sampling) {
  const { seed, max_tokens, ...rest } = s;
  return { model: model.id, stream: true, max_tokens, ...rest, ...(seed >= 0 ? { seed } : {}) };
}

// Calls `told` whenever something is new; `plain` is called where the model only continues texts.
export async function write(
  model: Model,
  system: string,
  branch: Message[],
  sampling: Sampling,
  signal: AbortSignal,
  told: (answers: Answer[]) => void,
  plain: () => void,
): Promise<Answer[]> {
  const answers: Answer[] = Array.from({ length: sampling.n }, () => ({
    content: "",
    tokens: [],
    finish: "",
    begun: performance.now(),
    seconds: 0,
  }));
  const messages = [
    ...(system ? [{ role: "system", content: system }] : []),
    ...branch.map((m) => ({ role: m.role, content: m.content })),
  ];
  const base = options(model, sampling);
  const follow = async (path: string, body: object) => {
    for await (const chunk of events<Chunk>(path, body, signal)) {
      for (const choice of chunk.choices) {
        const answer = answers[choice.index];
        if (!answer) continue;
        answer.content += choice.delta?.content ?? choice.text ?? "";
        if (choice.logprobs) answer.tokens.push(...marks(choice.logprobs));
        if (choice.finish_reason) answer.finish = choice.finish_reason;
        answer.seconds = (performance.now() - answer.begun) / 1000;
      }
      told(answers);
    }
  };
  try {
    await follow("/v1/chat/completions", { ...base, messages, logprobs: true, top_logprobs: 5 });
  } catch (error) {
    if (signal.aborted) return answers.map((a) => ({ ...a, finish: a.finish || "stopped" }));
    if (!(error instanceof ApiError && error.code === "unsupported" && error.param === "messages")) throw error;
    plain();
    const prompt = messages.map((m) => m.content).join("");
    try {
      await follow("/v1/completions", { ...base, prompt, logprobs: 5 });
    } catch (again) {
      if (!signal.aborted) throw again;
      return answers.map((a) => ({ ...a, finish: a.finish || "stopped" }));
    }
  }
  return answers;
}
