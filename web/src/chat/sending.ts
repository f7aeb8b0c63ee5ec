// Sending a message, following its answers, keeping them, choosing among them.
import { call } from "../api";
import { replacePlace } from "../place";
import { words } from "../strings";
import type { Conversation, Message, Meta, Model } from "../types";
import { keeper } from "./keeper";
import { guarded, put, refresh, session } from "./session";
import { branch } from "./tree";
import { type Answer, begin, write } from "./writing";

// A tab that is closed in the middle of an answer leaves what is there of it.
let unsaved: { open: number; user: number; answers: Answer[] } | null = null;
addEventListener("pagehide", () => {
  for (const a of unsaved?.answers ?? [])
    if (a.content && session.value.lasting)
      void call(`/makar/conversations/${unsaved!.open}/messages`, {
        method: "POST",
        keepalive: true,
        body: JSON.stringify({ parent: unsaved!.user, role: "assistant", content: a.content, meta: { finish: "stopped" } }),
      });
  unsaved = null;
});

async function add(open: Conversation, parent: number, role: Message["role"], content: string, meta: Meta) {
  let id = -Date.now(); // of an answer that cannot be kept: it stays on the screen
  try {
    id = await (await keeper()).add(open.id, parent, role, content, meta);
  } catch (error) {
    if (role === "user") throw error;
    session.change({ error });
  }
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
  const signal = begin();
  session.change({ answers: [], choosing: null, plain: false });
  let frame = 0;
  const told = (answers: Answer[]) => {
    unsaved = { open: open.id, user, answers };
    // As often as the screen is drawn, not as often as tokens come.
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      if (!signal.aborted && session.value.answers) session.change({ answers: answers.map((a) => ({ ...a })) });
    });
  };
  const path = branch(open.messages, user);
  let answers: Answer[];
  let failure: unknown = null;
  try {
    answers = await write(model, open.system, path, sampling, signal, told, () => session.change({ plain: true }));
  } catch (error) {
    // What came before it is kept.
    failure = error;
    answers = (unsaved?.answers ?? []).filter((a) => a.content).map((a) => ({ ...a, finish: "stopped" }));
    if (!answers.length) throw error;
  } finally {
    cancelAnimationFrame(frame);
    frame = -1;
    unsaved = null;
  }
  // It may have been renamed or rated meanwhile, or another one opened.
  const here = () => session.value.open?.id === open.id;
  let now = here() ? session.value.open! : open;
  const ids: number[] = [];
  for (const a of answers) {
    const meta: Meta = { model: model.id, finish: a.finish, tokens: a.tokens, seconds: a.seconds, count: a.tokens.length };
    const added = await add(now, user, "assistant", a.content, meta);
    now = added.open;
    ids.push(added.id);
  }
  if (!here()) return;
  const several = ids.length > 1 && answers.every((a) => a.finish !== "stopped");
  session.change({ open: { ...now, leaf: ids[0]! }, answers: null, choosing: several ? ids : null });
  if (failure) session.change({ error: failure });
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
