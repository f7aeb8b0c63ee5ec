// The list of conversations and the open one, with all actions on them except generating answers (generation.ts).
import { Watched, saveSetting, loadSetting } from "../state";
import type { Conversation, ConversationSummary, Message, Sampling } from "../types";
import { conversationStore } from "./store";
import { children, lastBelow, without } from "./tree";

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

export interface Failure {
  conversation: number; // 0: the new one
  error: unknown;
  retry: () => void;
}

interface Session {
  list: ConversationSummary[];
  persistent: boolean; // the server stores conversations
  open: Conversation | null;
  choosing: number[] | null; // messages to choose from
  sampling: Sampling; // of new conversations
  system: string; // of new conversations
  failure: Failure | null;
}

export const session = new Watched<Session>({
  list: [],
  persistent: true,
  open: null,
  choosing: null,
  sampling: { ...defaults, ...loadSetting<Partial<Sampling>>("sampling", {}) },
  system: loadSetting("system", ""),
  failure: null,
});

// Runs an action. If it fails, shows the error in its conversation, with a button to retry.
export async function guarded(
  action: () => Promise<void>,
  conversation = session.value.open?.id ?? 0,
  retry: () => void = () => void guarded(action, conversation),
): Promise<boolean> {
  if (session.value.failure?.conversation === conversation) session.change({ failure: null });
  try {
    await action();
    return true;
  } catch (error) {
    session.change({ failure: { conversation, error, retry } });
    return false;
  }
}

export async function refresh(): Promise<void> {
  try {
    const conversations = await conversationStore();
    session.change({ list: await conversations.list(), persistent: conversations.persistent });
  } catch (error) {
    session.change({ failure: { conversation: session.value.open?.id ?? 0, error, retry: () => void refresh() } });
  }
}

let currentId: number | null = null; // the conversation to show
let opening = 0; // counts attempts, so that only the last one is shown

// Reads a conversation and shows it, unless another one was opened in the meantime.
export async function load(id: number): Promise<void> {
  const attempt = ++opening;
  const open = await (await conversationStore()).open(id);
  if (attempt === opening && currentId === id) session.change({ open, choosing: null });
}

export const isCurrent = (id: number): boolean => currentId === id;

// Opens a conversation; null: a new one. Answers in flight in other conversations continue.
export function openConversation(id: number | null): void {
  currentId = id;
  if ((session.value.open?.id ?? null) === id) return;
  if (id === null) session.change({ open: null, choosing: null });
  else void guarded(() => load(id), id);
}

// Shows a conversation that is already loaded.
export function show(open: Conversation): void {
  currentId = open.id;
  ++opening;
  session.change({ open, choosing: null });
}

export function put(open: Conversation, part: Partial<Conversation>): Conversation {
  const next = { ...open, ...part };
  session.change({ open: next });
  return next;
}

// Shows the sibling before or after a message, with what follows it.
export function turn(message: Message, by: number): Promise<boolean> {
  return guarded(async () => {
    const open = session.value.open!;
    const all = children(open.messages, message.parent);
    const to = all[all.findIndex((m) => m.id === message.id) + by];
    if (!to) return;
    const leaf = lastBelow(open.messages, to.id);
    put(open, { leaf });
    session.change({ choosing: null });
    await (await conversationStore()).change(open.id, { leaf });
  });
}

export function replaceMessage(id: number, part: Partial<Message>): void {
  const { open } = session.value;
  if (open) put(open, { messages: open.messages.map((m) => (m.id === id ? { ...m, ...part } : m)) });
}

export function rate(message: Message, rating: number): Promise<boolean> {
  return guarded(async () => {
    await (await conversationStore()).rate(message.id, rating);
    replaceMessage(message.id, { rating });
  });
}

export function editAnswer(message: Message, content: string): Promise<boolean> {
  return guarded(async () => {
    // The token probabilities belong to the old text.
    const meta = { ...message.meta, edited: true, tokens: undefined };
    await (await conversationStore()).edit(message.id, content, meta);
    replaceMessage(message.id, { content, meta });
  });
}

export function removeMessage(message: Message): Promise<boolean> {
  return guarded(async () => {
    await (await conversationStore()).removeMessage(message.id);
    const open = session.value.open;
    if (open) put(open, without(open.messages, open.leaf, message));
    session.change({ choosing: null });
    await refresh();
  });
}

export function removeConversation(id: number): Promise<boolean> {
  return guarded(async () => {
    await (await conversationStore()).remove(id);
    if (session.value.open?.id === id) {
      session.change({ open: null });
      location.hash = "#/chat";
    }
    await refresh();
  });
}

export function rename(id: number, title: string): Promise<boolean> {
  return guarded(async () => {
    await (await conversationStore()).change(id, { title });
    const { open } = session.value;
    if (open?.id === id) put(open, { title });
    await refresh();
  });
}

// The system prompt and the sampling settings of the open conversation, or of new ones.
export function systemPrompt(): string {
  return session.value.open ? session.value.open.system : session.value.system;
}

export function sampling(of = session.value.open): Sampling {
  return { ...session.value.sampling, ...of?.settings };
}

export function setSystem(system: string): Promise<boolean> {
  return guarded(async () => {
    const { open } = session.value;
    if (!open) {
      saveSetting("system", system);
      return session.change({ system });
    }
    put(open, { system });
    await (await conversationStore()).change(open.id, { system });
  });
}

let saving: ReturnType<typeof setTimeout> | undefined;
export function setSampling(part: Partial<Sampling>): void {
  const { open } = session.value;
  if (!open) {
    const next = { ...session.value.sampling, ...part };
    saveSetting("sampling", next);
    return session.change({ sampling: next });
  }
  const settings = { ...sampling(), ...part };
  put(open, { settings });
  // A slider moves in many small steps.
  clearTimeout(saving);
  saving = setTimeout(() => void guarded(async () => (await conversationStore()).change(open.id, { settings }), open.id), 300);
}
