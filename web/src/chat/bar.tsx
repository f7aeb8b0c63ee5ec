// The line above a conversation: its title, import and export, settings.
import { useRef } from "preact/hooks";
import { useWatched } from "../state";
import { words } from "../strings";
import { IconButton } from "../ui/controls";
import { Icon } from "../ui/icons";
import { session } from "./session";
import { exportAs, importFile } from "./transfer";

interface Props {
  onList: () => void;
  onSettings: () => void;
  settingsOpen: boolean;
}
export function ChatBar({ onList, onSettings, settingsOpen }: Props) {
  const { open, persistent } = useWatched(session);
  const picker = useRef<HTMLInputElement>(null);
  const item = (text: string, action: () => void) => (
    <li>
      <button
        type="button"
        onClick={(e) => {
          e.currentTarget.closest("details")!.open = false;
          action();
        }}
      >
        {text}
      </button>
    </li>
  );
  return (
    <header class="chat-bar">
      <IconButton icon="menu" label={words.chat.openList} class="only-narrow" onClick={onList} />
      <h1 dir="auto">{open?.title ?? ""}</h1>
      <a class="icon-button only-narrow" href="#/chat" aria-label={words.chat.newChat} title={words.chat.newChat}>
        <Icon name="plus" />
      </a>
      <input
        ref={picker}
        class="import"
        type="file"
        accept=".json,application/json"
        hidden
        aria-label={words.chat.importFile}
        onChange={(e) => {
          const file = e.currentTarget.files?.[0];
          if (file) void importFile(file);
          e.currentTarget.value = "";
        }}
      />
      <details
        class="menu"
        onKeyDown={(e) => e.key === "Escape" && e.currentTarget.open && (e.preventDefault(), (e.currentTarget.open = false))}
        onFocusOut={(e) => !e.currentTarget.contains(e.relatedTarget as Node) && (e.currentTarget.open = false)}
      >
        <summary class="icon-button" aria-label={words.chat.importExport} title={words.chat.importExport}>
          <Icon name="save" />
        </summary>
        <ul>
          {item(words.chat.importFile, () => picker.current?.click())}
          {open && item(words.chat.exportMarkdown, () => void exportAs("markdown"))}
          {open && item(words.chat.exportJson, () => void exportAs("json"))}
          {persistent && item(words.chat.exportPreferences, () => void exportAs("preferences"))}
        </ul>
      </details>
      <IconButton icon="knobs" label={words.chat.settings} pressed={settingsOpen} onClick={onSettings} />
    </header>
  );
}
