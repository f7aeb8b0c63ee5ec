// The conversation on the screen: what it holds, and everything one can do with it.
import { replacePlace } from "../place";
import { Watched, keep, kept } from "../state";
import { words } from "../strings";
import type { Conversation, Listed, Message, Meta, Model, Sampling } from "../types";
import { keeper } from "./keeper";
import { branch, children, lastBelow } from "./tree";
import { type Answer, write } from "./writing";

export const defaults: Sampling = {
  temperature: 0.8,
  top_p: 0.95,
  top_k: 0,
  min_p: 0,
  repetition_penalty: 1,
  max_tokens: 1024,
  seed: -1,
  n: 1,
};

interface Session {
  list: Listed[];
  lasting: boolean;
  open: Conversation | null;
  answers: Answer[] | null; // being written
  choosing: number[] | null; // messages to choose from
  plain: boolean;
  sampling: Sampling;
  system: string; // of the next conversation
  error: unknown;
}

export const session = new Watched<Session>({
  list: [],
  lasting: true,
  open: null,
  answers: null,
  choosing: null,
  plain: false,
  sampling: { ...defaults, ...kept<Partial<Sampling>>("sampling", {}) },
  system: kept("system", ""),
  error: null,
});
let stopper: AbortController | null = null;

async function guarded(what: () => Promise<void>): Promise<void> {
  try {
    session.change({ error: null });
    await what();
  } catch (error) {
    session.change({ error, answers: null });
  }
}

export function refresh(): Promise<void> {
  return guarded(async () => {
    const k = await keeper();
    session.change({ list: await k.list(), lasting: k.lasting });
  });
}

export function openConversation(id: number | null): Promise<void> {
  if (session.value.open?.id === id) return Promise.resolve();
  stop();
  return guarded(async () => {
    if (id === null) return session.change({ open: null, choosing: null, answers: null });
    session.change({ open: await (await keeper()).open(id), choosing: null });
  });
}

export function stop(): void {
  stopper?.abort();
}

function put(open: Conversation, part: Partial<Conversation>): Conversation {
  const next = { ...open, ...part };
  session.change({ open: next });
  return next;
}

async function add(open: Conversation, parent: number, role: Message["role"], content: string, meta: Meta) {
  const id = await (await keeper()).add(open.id, parent, role, content, meta);
  const message: Message = { id, parent, role, content, meta, rating: 0, created: Date.now() / 1000 };
  return { id, open: { ...open, messages: [...open.messages, message], leaf: id } };
}

export function titleOf(text: string): string {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 58).trimEnd()}…` : line;
}

// A message under `parent`, and its answer.
export function send(model: Model, parent: number, content: string, meta: Meta = {}): Promise<void> {
  return guarded(async () => {
    const k = await keeper();
    let open = session.value.open;
    const fresh = !open;
    open ??= await k.create(titleOf(meta.file ?? content) || words.chat.untitled, session.value.system);
    const added = await add(open, parent, "user", content, meta);
    session.change({ open: added.open, choosing: null });
    if (fresh) replacePlace("chat", String(open.id));
    void refresh();
    await answer(model, added.id);
  });
}

// One more answer to a message.
export function again(model: Model, user: number): Promise<void> {
  return guarded(() => answer(model, user));
}

async function answer(model: Model, user: number): Promise<void> {
  const open = session.value.open!;
  put(open, { leaf: user });
  const { sampling } = session.value;
  stopper = new AbortController();
  const { signal } = stopper;
  session.change({ answers: [], choosing: null, plain: false });
  let frame = 0;
  const told = (answers: Answer[]) => {
    // As often as the screen is drawn, not as often as tokens come.
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (!signal.aborted && session.value.answers) session.change({ answers: answers.map((a) => ({ ...a })) });
    });
  };
  const path = branch(open.messages, user);
  let answers: Answer[];
  try {
    answers = await write(model, open.system, path, sampling, signal, told, () => session.change({ plain: true }));
  } finally {
    cancelAnimationFrame(frame);
    frame = -1;
  }
  let now = open;
  const ids: number[] = [];
  for (const a of answers) {
    const meta: Meta = { model: model.id, finish: a.finish, tokens: a.tokens, seconds: a.seconds, count: a.tokens.length };
    const added = await add(now, user, "assistant", a.content, meta);
    now = added.open;
    ids.push(added.id);
  }
  // Somebody may have opened another conversation meanwhile.
  if (session.value.open?.id !== open.id) return session.change({ answers: null });
  const several = ids.length > 1 && answers.every((a) => a.finish !== "stopped");
  session.change({ open: { ...now, leaf: ids[0]! }, answers: null, choosing: several ? ids : null });
  void refresh();
}

export function choose(chosen: number): Promise<void> {
  return guarded(async () => {
    const { choosing, open } = session.value;
    if (!choosing || !open) return;
    put(open, { leaf: chosen });
    session.change({ choosing: null });
    const k = await keeper();
    await k.prefer(chosen, choosing.filter((id) => id !== chosen));
    await k.change(open.id, { leaf: chosen });
  });
}

// The sibling before or after a message, with what follows it.
export function turn(message: Message, by: number): Promise<void> {
  return guarded(async () => {
    const open = session.value.open!;
    const all = children(open.messages, message.parent);
    const to = all[all.findIndex((m) => m.id === message.id) + by];
    if (!to) return;
    const leaf = lastBelow(open.messages, to.id);
    put(open, { leaf });
    session.change({ choosing: null });
    await (await keeper()).change(open.id, { leaf });
  });
}

export function rate(message: Message, rating: number): Promise<void> {
  return guarded(async () => {
    const open = session.value.open!;
    put(open, { messages: open.messages.map((m) => (m.id === message.id ? { ...m, rating } : m)) });
    await (await keeper()).rate(message.id, rating);
  });
}

export function removeConversation(id: number): Promise<void> {
  return guarded(async () => {
    await (await keeper()).remove(id);
    if (session.value.open?.id === id) {
      session.change({ open: null });
      location.hash = "#/chat";
    }
    await refresh();
  });
}

export function rename(id: number, title: string): Promise<void> {
  return guarded(async () => {
    await (await keeper()).change(id, { title });
    const open = session.value.open;
    if (open?.id === id) put(open, { title });
    await refresh();
  });
}

export function setSystem(system: string): Promise<void> {
  keep("system", system);
  session.change({ system });
  return guarded(async () => {
    const open = session.value.open;
    if (open) {
      put(open, { system });
      await (await keeper()).change(open.id, { system });
    }
  });
}

export function setSampling(part: Partial<Sampling>): void {
  const sampling = { ...session.value.sampling, ...part };
  keep("sampling", sampling);
  session.change({ sampling });
}
