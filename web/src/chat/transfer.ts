// Conversations to files and back.
import { call, download } from "../api";
import { words } from "../strings";
import type { Conversation, Message, Sampling } from "../types";
import { conversationStore } from "./store";
import { guarded, refresh, session } from "./session";
import { titleOf } from "./sending";
import { branch } from "./tree";

export type ExportKind = "markdown" | "json" | "preferences";

function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "conversation";
}

export function exportAs(kind: ExportKind): Promise<boolean> {
  return guarded(async () => {
    const { open, persistent } = session.value;
    if (kind === "preferences")
      return download("preferences.jsonl", await (await call("/makar/preferences.jsonl")).text(), "application/jsonl");
    if (!open) return;
    const name = fileName(open.title);
    if (kind === "json") return download(`${name}.json`, JSON.stringify(open, null, 1), "application/json");
    const text = persistent
      ? await (await call(`/makar/conversations/${open.id}/markdown`)).text()
      : branch(open.messages, open.leaf)
          .map((m) => `**${m.role === "user" ? words.chat.you : words.chat.assistant}**\n\n${m.content}\n`)
          .join("\n");
    download(`${name}.md`, text, "text/markdown");
  });
}

type ImportedConversation = Partial<Omit<Conversation, "messages">> & { messages: Partial<Message>[] };

// Parses an exported conversation, or a list of {role, content} in which each message follows the one before it.
function read(text: string): ImportedConversation {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error(words.chat.importFailed);
  }
  const imported = (Array.isArray(json) ? { messages: json } : json) as ImportedConversation | null;
  const valid = (m: Partial<Message>) => typeof m?.content === "string" && ["user", "assistant", "system"].includes(m.role ?? "");
  if (!Array.isArray(imported?.messages) || !imported.messages.length || !imported.messages.every(valid)) throw new Error(words.chat.importFailed);
  return imported;
}

export function importFile(file: File): Promise<boolean> {
  return guarded(async () => {
    const imported = read(await file.text());
    const system = imported.messages.find((m) => (m.role as string) === "system")?.content ?? imported.system ?? "";
    const messages = imported.messages.filter((m) => (m.role as string) !== "system");
    const title = imported.title || titleOf(messages[0]?.content ?? "") || words.chat.untitled;
    const conversations = await conversationStore();
    const settings = (typeof imported.settings === "object" && imported.settings ? imported.settings : {}) as Partial<Sampling>;
    const created = await conversations.create({ title: String(title).slice(0, 120), system: String(system), settings });
    try {
      const ids = new Map<number, number>();
      let previous = 0;
      for (const m of messages) {
        const parent = m.parent !== undefined && m.id !== undefined ? (ids.get(m.parent) ?? 0) : previous;
        previous = await conversations.add(created.id, parent, m.role!, m.content!, m.meta ?? {});
        if (m.id !== undefined) ids.set(m.id, previous);
        if (m.rating) await conversations.rate(previous, m.rating);
      }
      const leaf = ids.get(imported.leaf ?? -1);
      if (leaf) await conversations.change(created.id, { leaf });
    } catch (error) {
      await conversations.remove(created.id).catch(() => {});
      throw error;
    }
    await refresh();
    location.hash = `#/chat/${created.id}`;
  });
}
