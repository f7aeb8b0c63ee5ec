// The chat page: the list of conversations, the branch that is shown, the composer, the settings.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { models } from "../models";
import { address } from "../address";
import { useWatched } from "../state";
import { words } from "../strings";
import type { Model } from "../types";
import { ErrorMessage } from "../ui/controls";
import { Icon } from "../ui/icons";
import { ChatBar } from "./bar";
import { Composer } from "./composer";
import { answerAgain, generations } from "./generation";
import { MessageView } from "./message";
import { Choices, SeveralAnswers } from "./several";
import { send } from "./sending";
import { openConversation, refresh, session } from "./session";
import { SettingsPanel } from "./settings";
import { useShortcuts } from "./shortcuts";
import { Sidebar } from "./sidebar";
import { branch } from "./tree";

// Follows the end of the conversation while it grows, unless the user has scrolled up.
function useFollowing(restart: unknown[]) {
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
    const growth = new ResizeObserver(() => following.current && toEnd());
    growth.observe(el.firstElementChild!);
    growth.observe(el);
    el.addEventListener("scroll", onScroll, { passive: true });
    return () => (growth.disconnect(), el.removeEventListener("scroll", onScroll));
  }, []);
  useLayoutEffect(toEnd, restart);
  return { box, away, toEnd };
}

function Welcome({ model }: { model?: Model }) {
  return (
    <div class="welcome">
      <h1>{words.chat.welcome}</h1>
      <p>{!model && models.value.list.length > 0 ? words.chat.noModel : words.chat.welcomeHint}</p>
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
  const [, id] = useWatched(address);
  const generation = useWatched(generations).get(s.open?.id ?? 0);
  const [listOpen, setListOpen] = useState(false);
  const [searching, setSearching] = useState(0); // counts requests to focus the search field
  const [settingsOpen, setSettingsOpen] = useState(false);
  useEffect(() => void refresh(), []);
  useEffect(() => {
    setListOpen(false);
    openConversation(id && /^\d+$/.test(id) ? Number(id) : null);
  }, [id]);
  useShortcuts(() => (setListOpen(true), setSearching((n) => n + 1)));
  const { open, choosing, failure } = s;
  const busy = generation !== undefined;
  const currentBranch = open ? branch(open.messages, open.leaf) : [];
  const { box, away, toEnd } = useFollowing([open?.id, busy]);
  const choices = choosing && open ? open.messages.filter((m) => choosing.includes(m.id)) : null;
  const last = currentBranch[currentBranch.length - 1];
  const path = choices ? currentBranch.slice(0, -1) : [...currentBranch];
  const several = generation && generation.count > 1;
  // The answer that is being generated is the last message.
  if (generation && !several && !generation.continues)
    path.push({ id: 0, parent: generation.parent, role: "assistant", content: "", meta: {}, rating: 0, created: 0, key: generation.key });
  const failed = failure && failure.conversation === (open?.id ?? 0) ? failure : null;
  return (
    <>
      <Sidebar open={listOpen} searching={searching} onClose={() => setListOpen(false)} />
      <section class="chat">
        <ChatBar onList={() => setListOpen(true)} settingsOpen={settingsOpen} onSettings={() => setSettingsOpen(!settingsOpen)} />
        <div class="scroll" ref={box}>
          <div class="column" role="log" aria-live="off" aria-label={open?.title ?? words.nav.chat}>
            {path.map((m) => {
              const key = m.key ?? String(m.id);
              const writing = generation?.key === key ? generation : undefined;
              return <MessageView key={key} message={m} generation={writing} open={open!} model={model} busy={busy} last={m === last} />;
            })}
            {choices && <Choices messages={choices} />}
            {several && <SeveralAnswers generation={generation} />}
            {!open && <Welcome model={model} />}
            {generation?.plain && <p class="note">{words.chat.noTemplate}</p>}
            {failed && <ErrorMessage error={failed.error} onRetry={failed.retry} />}
            {last?.role === "user" && !busy && !failed && model && (
              <button type="button" class="answer-missing" onClick={() => void answerAgain(model, last.id)}>
                {words.retry}
              </button>
            )}
          </div>
          <p class="unseen" role="status">
            {last?.role === "assistant" && !busy ? words.chat.finished : ""}
          </p>
        </div>
        <div class="foot column">
          {away && (
            <button type="button" class="to-end" aria-label={words.chat.scrollToEnd} title={words.chat.scrollToEnd} onClick={toEnd}>
              <Icon name="bottom" />
            </button>
          )}
          <Composer key={open?.id ?? 0} model={model} conversation={open?.id ?? 0} branch={currentBranch} busy={busy} />
        </div>
      </section>
      {settingsOpen && <SettingsPanel onClose={() => setSettingsOpen(false)} />}
    </>
  );
}
