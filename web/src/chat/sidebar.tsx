// The list of conversations and the search in it. On a narrow screen it slides over the page.
import { useEffect, useRef, useState } from "preact/hooks";
import { useWatched } from "../state";
import { words } from "../strings";
import type { ConversationSummary } from "../types";
import { Confirm, Dialog, IconButton } from "../ui/controls";
import { Icon } from "../ui/icons";
import { generations } from "./generation";
import { conversationStore } from "./store";
import { removeConversation, rename, session } from "./session";

function Rename({ item, onClose }: { item: ConversationSummary; onClose: () => void }) {
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
        <input id="title" maxLength={120} dir="auto" autofocus value={title} onInput={(e) => setTitle(e.currentTarget.value)} />
        <button class="primary">{words.chat.rename}</button>
      </form>
    </Dialog>
  );
}

// Conversations whose title or messages contain the text, with the excerpts that were found.
function useSearch(list: ConversationSummary[], text: string): { matching: ConversationSummary[]; excerpts: Map<number, string> } {
  const [excerpts, setExcerpts] = useState(new Map<number, string>());
  const query = text.trim();
  useEffect(() => {
    setExcerpts(new Map());
    if (!query) return;
    let stale = false;
    const timer = setTimeout(async () => {
      const found = await (await conversationStore()).search(query).catch(() => []);
      if (!stale) setExcerpts(new Map(found.map((f) => [f.id, f.excerpt])));
    }, 200);
    return () => ((stale = true), clearTimeout(timer));
  }, [query]);
  const matching = query ? list.filter((c) => excerpts.has(c.id) || c.title.toLowerCase().includes(query.toLowerCase())) : list;
  return { matching, excerpts };
}

interface Props {
  open: boolean;
  searching: number; // counts requests to focus the search field
  onClose: () => void;
}
export function Sidebar({ open, searching, onClose }: Props) {
  const s = useWatched(session);
  const writing = useWatched(generations);
  const [search, setSearch] = useState("");
  const [renaming, setRenaming] = useState<ConversationSummary | null>(null);
  const [removing, setRemoving] = useState<ConversationSummary | null>(null);
  const first = useRef<HTMLAnchorElement>(null);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (open) first.current?.focus();
  }, [open]);
  useEffect(() => {
    if (searching) field.current?.focus();
  }, [searching]);
  const { matching, excerpts } = useSearch(s.list, search);
  return (
    <>
      {open && <div class="shade" onClick={onClose} />}
      <aside
        class={`sidebar ${open ? "open" : ""}`}
        aria-label={words.chat.list}
        onKeyDown={(e) => e.key === "Escape" && open && (e.preventDefault(), setSearch(""), onClose())}
      >
        <div class="sidebar-head">
          <a class="fresh" ref={first} href="#/chat" onClick={onClose}>
            <Icon name="plus" size={18} />
            {words.chat.newChat}
          </a>
          <IconButton icon="close" label={words.close} class="only-narrow" onClick={onClose} />
        </div>
        <input
          ref={field}
          type="search"
          dir="auto"
          aria-label={words.chat.search}
          placeholder={words.chat.search}
          value={search}
          onInput={(e) => setSearch(e.currentTarget.value)}
        />
        <ul>
          {matching.map((c) => (
            <li key={c.id} class={c.id === s.open?.id ? "on" : ""}>
              <a href={`#/chat/${c.id}`} dir="auto" aria-current={c.id === s.open?.id ? "true" : undefined}>
                {c.title || words.chat.untitled}
                {excerpts.has(c.id) && <small>{excerpts.get(c.id)}</small>}
              </a>
              {writing.has(c.id) && <i class="in-flight" role="img" aria-label={words.chat.writing} title={words.chat.writing} />}
              <IconButton icon="edit" size={15} label={`${words.chat.rename}: ${c.title}`} onClick={() => setRenaming(c)} />
              <IconButton icon="trash" size={15} label={`${words.chat.remove}: ${c.title}`} onClick={() => setRemoving(c)} />
            </li>
          ))}
        </ul>
        {matching.length === 0 && <p class="hint">{search.trim() ? words.chat.notFound : words.chat.noConversations}</p>}
        {!s.persistent && <p class="hint">{words.chat.notStored}</p>}
      </aside>
      {renaming && <Rename item={renaming} onClose={() => setRenaming(null)} />}
      {removing && (
        <Confirm
          title={words.chat.remove}
          text={words.chat.confirmRemove(removing.title)}
          onYes={() => void removeConversation(removing.id)}
          onClose={() => setRemoving(null)}
        />
      )}
    </>
  );
}
