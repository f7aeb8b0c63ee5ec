// Sending a message: it is stored first, then answered. Choosing among several answers.
import { currentPage, replaceAddress } from "../address";
import { words } from "../strings";
import type { AttachedFile, Conversation, Message, Model } from "../types";
import { compose } from "./attachments";
import { generate } from "./generation";
import { conversationStore } from "./store";
import { guarded, put, refresh, session, show } from "./session";

export function titleOf(text: string): string {
  const line = text.trim().split("\n")[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 58).trimEnd()}…` : line;
}

async function startConversation(title: string): Promise<Conversation> {
  const { system, sampling } = session.value;
  return (await conversationStore()).create({ title: title || words.chat.untitled, system, settings: sampling });
}

// Stores a message under `parent`, calls `onAccepted`, and generates its answer. False: it was not accepted.
export async function send(
  model: Model,
  parent: number,
  text: string,
  files: AttachedFile[] = [],
  onAccepted: () => void = () => {},
): Promise<boolean> {
  const { content, meta } = compose(files, text);
  const before = session.value.open;
  let to: Conversation | null = null;
  const store = async () => {
    const conversations = await conversationStore();
    const open = before ?? (await startConversation(titleOf(text || (files[0]?.name ?? ""))));
    let id: number;
    try {
      id = await conversations.add(open.id, parent, "user", content, meta);
    } catch (error) {
      if (!before) await conversations.remove(open.id).catch(() => {});
      throw error;
    }
    onAccepted();
    const message: Message = { id, parent, role: "user", content, meta, rating: 0, created: Date.now() / 1000 };
    const now = session.value.open;
    const current = now?.id === open.id ? now : open;
    to = { ...current, messages: [...current.messages, message], leaf: id };
    // If the user has opened another conversation, the answer is generated in the background.
    if ((now?.id ?? 0) === (before?.id ?? 0)) {
      show(to);
      if (!before && currentPage() === "chat") replaceAddress("chat", String(open.id));
    }
    void refresh();
  };
  const accepted = await guarded(store, before?.id ?? 0, () => void send(model, parent, text, files, onAccepted));
  if (accepted) await answer(to!, model);
  return accepted;
}

function answer(to: Conversation, model: Model): Promise<boolean> {
  return guarded(() => generate(to, model, to.leaf), to.id);
}

export function choose(chosen: number): Promise<boolean> {
  return guarded(async () => {
    const { choosing, open } = session.value;
    if (!choosing || !open) return;
    const conversations = await conversationStore();
    await conversations.prefer(chosen, choosing.filter((id) => id !== chosen));
    put(open, { leaf: chosen });
    session.change({ choosing: null });
    await conversations.change(open.id, { leaf: chosen });
  });
}
