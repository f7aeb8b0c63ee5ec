// The conversation on the screen: what it holds, and what one can do with it beside writing (sending.ts).
import { Watched, keep, kept } from "../state";
import type { Conversation, Listed, Message, Sampling } from "../types";
import { keeper } from "./keeper";
import { children, lastBelow } from "./tree";
import { type Answer, stop } from "./writing";

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
export async function guarded(what: () => Promise<void>): Promise<void> {
  try {
    session.change({ error: null });
    await what();
  } catch (error) {
    session.change({ error, answers: null });
  }
}

// Leaves what went wrong before on the screen.
export async function refresh(): Promise<void> {
  try {
    const k = await keeper();
    session.change({ list: await k.list(), lasting: k.lasting });
  } catch (error) {
    session.change({ error });
  }
}

export function openConversation(id: number | null): Promise<void> {
  if (session.value.open?.id === id) return Promise.resolve();
  stop();
  return guarded(async () => {
    if (id === null) return session.change({ open: null, choosing: null, answers: null });
    session.change({ open: await (await keeper()).open(id), choosing: null, answers: null });
  });
}

export function put(open: Conversation, part: Partial<Conversation>): Conversation {
  const next = { ...open, ...part };
  session.change({ open: next });
  return next;
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
