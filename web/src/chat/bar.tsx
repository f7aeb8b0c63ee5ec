// The line above a conversation: its title, exports, settings.
import { call, download } from "../api";
import { useWatched } from "../state";
import { words } from "../strings";
import { IconButton } from "../ui/controls";
import { Icon } from "../ui/icons";
import { session } from "./session";
import { branch } from "./tree";

function fileName(title: string): string {
  return title.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 50) || "conversation";
}

async function save(kind: "markdown" | "json" | "preferences"): Promise<void> {
  const { open, lasting } = session.value;
  try {
    if (kind === "preferences")
      return download("preferences.jsonl", await (await call("/makar/preferences.jsonl")).text(), "application/jsonl");
    if (!open) return;
    const name = fileName(open.title);
    if (kind === "json") return download(`${name}.json`, JSON.stringify(open, null, 1), "application/json");
    const text = lasting
      ? await (await call(`/makar/conversations/${open.id}/markdown`)).text()
      : branch(open.messages, open.leaf)
          .map((m) => `**${m.role === "user" ? words.chat.you : words.chat.assistant}**\n\n${m.content}\n`)
          .join("\n");
    download(`${name}.md`, text, "text/markdown");
  } catch (error) {
    session.change({ error });
  }
}

interface Props {
  onList: () => void;
  onSettings: () => void;
  settingsOpen: boolean;
}
export function ChatBar({ onList, onSettings, settingsOpen }: Props) {
  const { open, lasting } = useWatched(session);
  const item = (kind: Parameters<typeof save>[0], text: string) => (
    <li>
      <button
        type="button"
        onClick={(e) => {
          e.currentTarget.closest("details")!.open = false;
          void save(kind);
        }}
      >
        {text}
      </button>
    </li>
  );
  return (
    <header class="chat-bar">
      <IconButton icon="menu" label={words.chat.openList} class="only-narrow" onClick={onList} />
      <h1>{open?.title ?? ""}</h1>
      <a class="icon-button only-narrow" href="#/chat" aria-label={words.chat.fresh} title={words.chat.fresh}>
        <Icon name="plus" />
      </a>
      <details
        class="menu"
        onKeyDown={(e) => e.key === "Escape" && (e.currentTarget.open = false)}
        onFocusOut={(e) => !e.currentTarget.contains(e.relatedTarget as Node) && (e.currentTarget.open = false)}
      >
        <summary class="icon-button" aria-label={words.chat.exportAs} title={words.chat.exportAs}>
          <Icon name="save" />
        </summary>
        <ul>
          {open && item("markdown", words.chat.exportMarkdown)}
          {open && item("json", words.chat.exportJson)}
          {lasting && item("preferences", words.chat.exportPreferences)}
        </ul>
      </details>
      <IconButton icon="knobs" label={words.chat.settings} pressed={settingsOpen} onClick={onSettings} />
    </header>
  );
}
