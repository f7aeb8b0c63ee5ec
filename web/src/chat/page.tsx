// The chat page: the list of conversations, the branch that is shown, the composer, the settings.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { place } from "../place";
import { useWatched } from "../state";
import { words } from "../strings";
import type { Model } from "../types";
import { Icon } from "../ui/icons";
import { Trouble } from "../ui/controls";
import { Composer } from "./composer";
import { Choices, MessageView, Writing } from "./message";
import { send } from "./sending";
import { openConversation, refresh, session } from "./session";
import { SettingsPanel } from "./settings";
import { Sidebar } from "./sidebar";
import { branch } from "./tree";
import { ChatBar } from "./bar";

// Stays at the end while one is there; a person who scrolls up is left alone.
function useFollowing(watched: unknown[]) {
  const box = useRef<HTMLDivElement>(null);
  const [away, setAway] = useState(false);
  const following = useRef(true);
  const toEnd = () => {
    following.current = true;
    const el = box.current;
    if (el) el.scrollTop = el.scrollHeight;
  };
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    const onScroll = () => {
      following.current = el.scrollHeight - el.scrollTop - el.clientHeight < 60;
      setAway(!following.current);
    };
    el.addEventListener("scroll", onScroll, { passive: true });
    return () => el.removeEventListener("scroll", onScroll);
  }, []);
  useLayoutEffect(() => {
    if (following.current) toEnd();
  }, watched);
  return { box, away, toEnd };
}

function Welcome({ model }: { model?: Model }) {
  return (
    <div class="welcome">
      <h1>{words.chat.welcome}</h1>
      <p>{words.chat.welcomeHint}</p>
      <ul>
        {words.chat.starters.map((text) => (
          <li key={text}>
            <button type="button" disabled={!model} onClick={() => model && void send(model, 0, text)}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    </div>
  );
}

export function ChatPage({ model }: { model?: Model }) {
  const s = useWatched(session);
  const [, id] = useWatched(place);
  const [listOpen, setListOpen] = useState(false);
  const [settingsOpen, setSettingsOpen] = useState(false);
  useEffect(() => void refresh(), []);
  useEffect(() => {
    setListOpen(false);
    void openConversation(id && /^\d+$/.test(id) ? Number(id) : null);
  }, [id]);
  const { open, answers, choosing } = s;
  const shown = open ? branch(open.messages, open.leaf) : [];
  const { box, away, toEnd } = useFollowing([open?.id, open?.leaf, answers, shown.length]);
  useEffect(toEnd, [open?.id, answers !== null]);
  const chosenFrom = choosing && open ? open.messages.filter((m) => choosing.includes(m.id)) : null;
  const path = chosenFrom ? shown.slice(0, -1) : shown;
  return (
    <>
      <Sidebar open={listOpen} onClose={() => setListOpen(false)} />
      <section class="chat">
        <ChatBar
          onList={() => setListOpen(true)}
          settingsOpen={settingsOpen}
          onSettings={() => setSettingsOpen(!settingsOpen)}
        />
        <div class="scroll" ref={box}>
          <div class="column" role="log" aria-live="off" aria-label={open?.title ?? words.nav.chat}>
            {path.map((m) => (
              <MessageView key={m.id} message={m} open={open!} model={model} busy={answers !== null} />
            ))}
            {chosenFrom && <Choices messages={chosenFrom} />}
            {answers && <Writing answers={answers} />}
            {!open && !answers && <Welcome model={model} />}
            {s.plain && <p class="note">{words.chat.plain}</p>}
            <Trouble error={s.error} />
          </div>
          <p class="unseen" role="status">
            {open && !answers && shown[shown.length - 1]?.role === "assistant" ? words.chat.finished : ""}
          </p>
        </div>
        <div class="foot column">
          {away && (
            <button type="button" class="to-end" aria-label={words.chat.toBottom} title={words.chat.toBottom} onClick={toEnd}>
              <Icon name="bottom" />
            </button>
          )}
          <Composer model={model} parent={open?.leaf ?? 0} busy={answers !== null} key={open?.id ?? 0} />
        </div>
      </section>
      {settingsOpen && <SettingsPanel onClose={() => setSettingsOpen(false)} />}
    </>
  );
}
