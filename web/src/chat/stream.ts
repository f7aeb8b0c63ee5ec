// The request for an answer, and its stream.
import { ApiError, events } from "../api";
import type { Grounding, Message, Model, Sampling, Source, TokenMark, ToolCall } from "../types";

export interface Answer {
  content: string;
  tokens: TokenMark[];
  toolCalls: ToolCall[];
  finish: string;
  startMs: number; // time of the request
  seconds: number;
  context: number; // tokens of prompt and answer, once the server has counted them
  sources?: Source[];
  grounding?: Grounding;
}

interface TopLogprob {
  token: string;
  logprob: number;
}
interface Choice {
  index: number;
  text?: string;
  delta?: {
    content?: string | null;
    tool_calls?: { index: number; function: { name?: string; arguments?: string } }[];
  };
  finish_reason: string | null;
  grounding?: Grounding | null;
  logprobs?: {
    content?: (TopLogprob & { top_logprobs: TopLogprob[] })[];
    tokens?: string[];
    token_logprobs?: (number | null)[];
    top_logprobs?: Record<string, number>[];
  } | null;
}
interface Chunk {
  choices: Choice[];
  usage?: { total_tokens: number } | null;
  sources?: Source[];
}

// Four decimals are enough for a percentage and take a third of the space.
const rounded = (logprob: number) => Math.round(logprob * 1e4) / 1e4;

function marks(logprobs: NonNullable<Choice["logprobs"]>): TokenMark[] {
  if (logprobs.content)
    return logprobs.content.map((t) => [t.token, rounded(t.logprob), t.top_logprobs.map((o) => [o.token, rounded(o.logprob)])]);
  return (logprobs.tokens ?? []).map((token, i) => [
    token,
    rounded(logprobs.token_logprobs?.[i] ?? 0),
    Object.entries(logprobs.top_logprobs?.[i] ?? {}).map(([text, p]) => [text, rounded(p)]),
  ]);
}

function applyChoice(answer: Answer, choice: Choice): void {
  const { delta } = choice;
  answer.content += delta?.content ?? choice.text ?? "";
  for (const call of delta?.tool_calls ?? []) {
    const to = (answer.toolCalls[call.index] ??= { name: "", arguments: "" });
    to.name += call.function.name ?? "";
    to.arguments += call.function.arguments ?? "";
  }
  if (choice.logprobs) for (const mark of marks(choice.logprobs)) answer.tokens.push(mark);
  if (choice.finish_reason) answer.finish = choice.finish_reason;
  if (choice.grounding) answer.grounding = choice.grounding;
  answer.seconds = (performance.now() - answer.startMs) / 1000;
}

export interface AnswerRequest {
  model: Model;
  system: string;
  branch: Message[]; // ends with the user's message, or with the answer to continue
  sampling: Sampling;
  signal: AbortSignal;
  onProgress: (answers: Answer[]) => void;
  onPlain: () => void; // the model has no chat template and continues the text
}

function emptyAnswer(): Answer {
  return { content: "", tokens: [], toolCalls: [], finish: "", startMs: performance.now(), seconds: 0, context: 0 };
}

// The content of a message in the request: parts, if it has images.
function contentOf({ content, meta }: Message): string | object[] {
  if (!meta.images?.length) return content;
  const images = meta.images.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  return [...images, ...(content ? [{ type: "text", text: content }] : [])];
}

export async function streamAnswers(r: AnswerRequest): Promise<void> {
  const continues = r.branch[r.branch.length - 1]?.role === "assistant";
  const { seed, n, ...sampling } = r.sampling;
  const count = continues ? 1 : n;
  const answers = Array.from({ length: count }, emptyAnswer);
  const messages = [
    ...(r.system ? [{ role: "system", content: r.system }] : []),
    ...r.branch.map((m) => ({ role: m.role, content: contentOf(m) })),
  ];
  const base = {
    model: r.model.id,
    stream: true,
    stream_options: { include_usage: true },
    n: count,
    ...sampling,
    ...(seed >= 0 ? { seed } : {}),
  };
  const follow = async (path: string, body: object) => {
    for await (const chunk of events<Chunk>(path, body, r.signal)) {
      if (chunk.sources) for (const answer of answers) answer.sources = chunk.sources;
      for (const choice of chunk.choices) if (answers[choice.index]) applyChoice(answers[choice.index]!, choice);
      if (chunk.usage && count === 1) answers[0]!.context = chunk.usage.total_tokens;
      r.onProgress(answers);
    }
  };
  try {
    const chat = { ...base, messages, logprobs: true, top_logprobs: 5, ...(continues ? { continue_final_message: true } : {}) };
    await follow("/v1/chat/completions", chat);
  } catch (error) {
    if (!(error instanceof ApiError && error.code === "unsupported" && error.param === "messages")) throw error;
    if (messages.some((m) => typeof m.content !== "string")) throw error;
    r.onPlain();
    const prompt = messages.map((m) => m.content).join("");
    await follow("/v1/completions", { ...base, prompt, logprobs: 5 });
  }
}
