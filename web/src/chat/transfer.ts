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

type Given = Partial<Omit<Conversation, "messages">> & { messages: Partial<Message>[] };

// What export writes, or a list of {role, content}: then each message follows the one before it.
function read(text: string): Given {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error(words.chat.importFailed);
  }
  const given = (Array.isArray(json) ? { messages: json } : json) as Given | null;
  const valid = (m: Partial<Message>) => typeof m?.content === "string" && ["user", "assistant", "system"].includes(m.role ?? "");
  if (!Array.isArray(given?.messages) || !given.messages.length || !given.messages.every(valid)) throw new Error(words.chat.importFailed);
  return given;
}

export function importFile(file: File): Promise<boolean> {
  return guarded(async () => {
    const given = read(await file.text());
    const system = given.messages.find((m) => (m.role as string) === "system")?.content ?? given.system ?? "";
    const messages = given.messages.filter((m) => (m.role as string) !== "system");
    const title = given.title || titleOf(messages[0]?.content ?? "") || words.chat.untitled;
    const conversations = await conversationStore();
    const settings = (typeof given.settings === "object" && given.settings ? given.settings : {}) as Partial<Sampling>;
    const made = await conversations.create({ title: String(title).slice(0, 120), system: String(system), settings });
    try {
      const ids = new Map<number, number>();
      let before = 0;
      for (const m of messages) {
        const parent = m.parent !== undefined && m.id !== undefined ? (ids.get(m.parent) ?? 0) : before;
        before = await conversations.add(made.id, parent, m.role!, m.content!, m.meta ?? {});
        if (m.id !== undefined) ids.set(m.id, before);
        if (m.rating) await conversations.rate(before, m.rating);
      }
      const leaf = ids.get(given.leaf ?? -1);
      if (leaf) await conversations.change(made.id, { leaf });
    } catch (error) {
      await conversations.remove(made.id).catch(() => {});
      throw error;
    }
    await refresh();
    location.hash = `#/chat/${made.id}`;
  });
}
