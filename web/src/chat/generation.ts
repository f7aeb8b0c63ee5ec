// Answers in flight, one generation per conversation. They continue when another page or conversation is opened.
import { ApiError, call } from "../api";
import { Watched } from "../state";
import type { Conversation, Finish, Message, Meta, Model } from "../types";
import { conversationStore } from "./store";
import { guarded, isCurrent, load, refresh, sampling, session } from "./session";
import { type Answer, streamAnswers } from "./stream";
import { branch } from "./tree";

export interface Generation {
  conversation: number;
  parent: number; // the message that is answered
  continues: Message | null; // the answer that is continued
  count: number; // answers
  key: string; // of the element that shows the answer
  model: Model;
  answers: Watched<Answer[]>;
  abort: AbortController;
  plain: boolean; // the model has no chat template and continues the text
}

export const generations = new Watched<ReadonlyMap<number, Generation>>(new Map());

function setGeneration(conversation: number, generation: Generation | null): void {
  const next = new Map(generations.value);
  if (generation) next.set(conversation, generation);
  else next.delete(conversation);
  generations.set(next);
}

export function stop(conversation: number): void {
  generations.value.get(conversation)?.abort.abort();
}

const maxBytesAtClose = 60_000; // browsers send at most 64 kB when a page is closed

function cutToBytes(text: string, max: number): string {
  const bytes = new TextEncoder().encode(JSON.stringify(text));
  return bytes.length <= max ? text : text.slice(0, Math.floor((text.length * max) / bytes.length) - 100);
}

// A tab that is closed during an answer stores what has arrived, as far as the browser sends it.
let leaving = false;
addEventListener("pagehide", () => {
  leaving = true;
  for (const g of generations.value.values())
    for (const { content } of g.answers.value) {
      if (!content || !session.value.persistent) continue;
      const meta: Meta = { model: g.model.id, finish: "stopped" };
      const path = g.continues ? `/makar/messages/${g.continues.id}` : `/makar/conversations/${g.conversation}/messages`;
      const text = cutToBytes((g.continues?.content ?? "") + content, maxBytesAtClose);
      if (g.continues && text.length < g.continues.content.length) continue; // the stored text is longer
      const body = g.continues ? { content: text, meta } : { parent: g.parent, role: "assistant", content: text, meta };
      void call(path, { method: "POST", keepalive: true, body: JSON.stringify(body) });
    }
});

function ending(error: unknown, signal: AbortSignal): { finish: Finish; error?: string } {
  if (signal.aborted) return { finish: "stopped" };
  const text = error instanceof Error ? error.message : String(error);
  return { finish: error instanceof ApiError && error.code === "dropped" ? "dropped" : "error", error: text };
}

let answerCount = 0; // for the keys of elements
// Answers the message `parent`, or continues the answer `continues`.
export async function generate(to: Conversation, model: Model, parent: number, continues: Message | null = null): Promise<void> {
  if (generations.value.has(to.id)) return;
  const g: Generation = {
    conversation: to.id,
    parent,
    continues,
    count: continues ? 1 : sampling(to).n,
    key: continues?.key ?? (continues ? String(continues.id) : `answer-${++answerCount}`),
    model,
    answers: new Watched<Answer[]>([]),
    abort: new AbortController(),
    plain: false,
  };
  setGeneration(to.id, g);
  const { open } = session.value;
  if (open?.id === to.id) session.change({ open: { ...open, leaf: continues?.id ?? parent }, choosing: null });
  // Once per frame of the screen, not once per token.
  let frame = 0;
  let latest: Answer[] = [];
  const onProgress = (answers: Answer[]) => {
    latest = answers;
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      g.answers.set(answers.map((a) => ({ ...a })));
    });
  };
  let end: { finish: Finish; error?: string } | null = null;
  try {
    await streamAnswers({
      model,
      system: to.system,
      branch: branch(to.messages, continues?.id ?? parent),
      sampling: sampling(to),
      signal: g.abort.signal,
      onProgress,
      onPlain: () => setGeneration(to.id, Object.assign(g, { plain: true })),
    });
  } catch (error) {
    if (leaving) return;
    end = ending(error, g.abort.signal);
    // Without a text there is nothing to store: the error is shown, and the message can be answered again.
    if (end.finish !== "stopped" && !latest.some((a) => a.content)) {
      setGeneration(to.id, null);
      throw error;
    }
  } finally {
    cancelAnimationFrame(frame);
  }
  g.answers.set(latest);
  await storeAnswers(g, end);
}

function metaOf(a: Answer, g: Generation, end: { finish: Finish; error?: string } | null): Meta {
  const before = g.continues?.meta;
  const tokens = before?.tokens || !before ? [...(before?.tokens ?? []), ...a.tokens] : undefined;
  return {
    model: g.model.id,
    finish: end && !a.finish ? end.finish : (a.finish as Finish),
    ...(end?.error ? { error: end.error } : {}),
    tokens,
    seconds: (before?.seconds ?? 0) + a.seconds,
    count: (before?.count ?? 0) + a.tokens.length,
    ...(a.context ? { context: a.context } : {}),
    ...(a.toolCalls.length ? { tool_calls: a.toolCalls } : {}),
    ...(a.sources ? { sources: a.sources } : {}),
    ...(a.grounding ? { grounding: a.grounding } : {}),
    ...(before?.edited ? { edited: true } : {}),
  };
}

// Stores the generated answers. An answer that the server cannot store stays on the screen, with the error.
async function storeAnswers(g: Generation, end: { finish: Finish; error?: string } | null): Promise<void> {
  const id = g.conversation;
  const added: Message[] = g.answers.value
    .filter((a) => a.content || a.toolCalls.length || !end)
    .map((a, i) => ({
      id: g.continues?.id ?? -Date.now() - i,
      parent: g.parent,
      role: "assistant",
      content: (g.continues?.content ?? "") + a.content,
      meta: metaOf(a, g, end),
      rating: g.continues?.rating ?? 0,
      created: Date.now() / 1000,
      key: i ? undefined : g.key,
    }));
  const store = async () => {
    const conversations = await conversationStore();
    for (const m of added) {
      if (g.continues) await conversations.edit(m.id, m.content, m.meta);
      else if (m.id < 0) m.id = await conversations.add(id, g.parent, "assistant", m.content, m.meta);
    }
    if (added.length > 1) await conversations.change(id, { leaf: added[0]!.id });
  };
  const retry = () => void guarded(async () => (await store(), await load(id)), id, retry);
  await guarded(store, id, retry);
  setGeneration(id, null);
  const { open } = session.value;
  if (open?.id === id && added.length) {
    const ids = added.map((m) => m.id);
    const messages = [...open.messages.filter((m) => !ids.includes(m.id)), ...added];
    session.change({ open: { ...open, messages, leaf: ids[0]! }, choosing: ids.length > 1 && !end ? ids : null });
  } else if (open?.id !== id && isCurrent(id)) {
    await load(id); // the conversation was being loaded while the answer was stored
  }
  void refresh();
}

// One more answer to a message of the open conversation.
export async function answerAgain(model: Model, user: number): Promise<void> {
  const { open } = session.value;
  if (open) await guarded(() => generate(session.value.open ?? open, model, user), open.id);
}

// Continues a truncated answer.
export async function continueAnswer(model: Model, message: Message): Promise<void> {
  const { open } = session.value;
  if (open) await guarded(() => generate(session.value.open ?? open, model, message.parent, message), open.id);
}
