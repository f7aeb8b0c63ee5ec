// The list of conversations. On a narrow screen it slides over the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { useWatched } from "../state";
import { words } from "../strings";
import type { Listed } from "../types";
import { Dialog, IconButton } from "../ui/controls";
import { Icon } from "../ui/icons";
import { removeConversation, rename, session } from "./session";

function Rename({ item, onClose }: { item: Listed; onClose: () => void }) {
  const [title, setTitle] = useState(item.title);
  return (
    <Dialog title={words.chat.rename} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (title.trim()) void rename(item.id, title.trim().slice(0, 120));
          onClose();
        }}
      >
        <label for="title">{words.chat.renameLabel}</label>
        <input id="title" maxLength={120} value={title} onInput={(e) => setTitle(e.currentTarget.value)} />
        <button class="primary">{words.chat.rename}</button>
      </form>
    </Dialog>
  );
}

function Remove({ item, onClose }: { item: Listed; onClose: () => void }) {
  return (
    <Dialog title={words.chat.remove} onClose={onClose}>
      <p>{words.chat.removeAsk(item.title)}</p>
      <div class="dialog-end">
        <button type="button" onClick={onClose}>
          {words.cancel}
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            void removeConversation(item.id);
            onClose();
          }}
        >
          {words.chat.remove}
        </button>
      </div>
    </Dialog>
  );
}

export function Sidebar({ open, onClose }: { open: boolean; onClose: () => void }) {
  const s = useWatched(session);
  const [search, setSearch] = useState("");
  const [renaming, setRenaming] = useState<Listed | null>(null);
  const [removing, setRemoving] = useState<Listed | null>(null);
  const first = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (open) first.current?.focus();
  }, [open]);
  const shown = s.list.filter((c) => c.title.toLowerCase().includes(search.toLowerCase()));
  return (
    <>
      {open && <div class="shade" onClick={onClose} />}
      <aside
        class={`sidebar ${open ? "open" : ""}`}
        aria-label={words.chat.list}
        onKeyDown={(e) => e.key === "Escape" && onClose()}
      >
        <div class="sidebar-head">
          <a class="fresh" ref={first} href="#/chat" onClick={onClose}>
            <Icon name="plus" size={18} />
            {words.chat.fresh}
          </a>
          <IconButton icon="close" label={words.close} class="only-narrow" onClick={onClose} />
        </div>
        {s.list.length > 8 && (
          <input
            type="search"
            aria-label={words.chat.find}
            placeholder={words.chat.find}
            value={search}
            onInput={(e) => setSearch(e.currentTarget.value)}
          />
        )}
        <ul>
          {shown.map((c) => (
            <li key={c.id} class={c.id === s.open?.id ? "on" : ""}>
              <a href={`#/chat/${c.id}`} aria-current={c.id === s.open?.id ? "true" : undefined}>
                {c.title || words.chat.untitled}
              </a>
              <IconButton icon="edit" size={15} label={`${words.chat.rename}: ${c.title}`} onClick={() => setRenaming(c)} />
              <IconButton icon="trash" size={15} label={`${words.chat.remove}: ${c.title}`} onClick={() => setRemoving(c)} />
            </li>
          ))}
        </ul>
        {shown.length === 0 && <p class="hint">{words.chat.none}</p>}
        {!s.lasting && <p class="hint">{words.chat.notKept}</p>}
      </aside>
      {renaming && <Rename item={renaming} onClose={() => setRenaming(null)} />}
      {removing && <Remove item={removing} onClose={() => setRemoving(null)} />}
    </>
  );
}
