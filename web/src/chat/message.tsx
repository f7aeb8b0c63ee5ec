// A message: its text, its versions, and what can be done with it.
import { memo } from "preact/compat";
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../strings";
import type { Conversation, Message, Model } from "../types";
import { IconButton } from "../ui/controls";
import { Markdown } from "./markdown";
import { Marks } from "./marks";
import { again, choose, send } from "./sending";
import { rate, turn } from "./session";
import { children } from "./tree";
import type { Answer } from "./writing";

function Editor({ message, model, onClose }: { message: Message; model: Model; onClose: () => void }) {
  const [text, setText] = useState(message.content);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => box.current?.focus(), []);
  const go = () => {
    onClose();
    if (text.trim()) void send(model, message.parent, text.trim());
  };
  return (
    <form
      class="editor"
      onSubmit={(e) => (e.preventDefault(), go())}
      onKeyDown={(e) => {
        if (e.key === "Escape") onClose();
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) go();
      }}
    >
      <textarea
        ref={box}
        aria-label={words.chat.edit}
        rows={Math.min(12, text.split("\n").length + 1)}
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      <div class="dialog-end">
        <button type="button" onClick={onClose}>
          {words.cancel}
        </button>
        <button class="primary">{words.chat.saveEdit}</button>
      </div>
    </form>
  );
}

function Versions({ message, open }: { message: Message; open: Conversation }) {
  const all = children(open.messages, message.parent);
  if (all.length < 2) return null;
  const at = all.findIndex((m) => m.id === message.id);
  return (
    <span class="versions">
      <IconButton icon="left" size={16} label={words.chat.before} disabled={at === 0} onClick={() => turn(message, -1)} />
      <span>{words.chat.version(at + 1, all.length)}</span>
      <IconButton icon="right" size={16} label={words.chat.after} disabled={at === all.length - 1} onClick={() => turn(message, 1)} />
    </span>
  );
}

function Copy({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return <IconButton icon={done ? "check" : "copy"} size={16} label={done ? words.chat.copied : words.chat.copy} onClick={copy} />;
}

function stats(message: Message): string {
  const { count, seconds, finish } = message.meta;
  const parts = [];
  if (count && seconds) parts.push(words.chat.stats(count, (count / seconds).toFixed(count / seconds < 10 ? 1 : 0)));
  if (finish === "length") parts.push(words.chat.cut);
  if (finish === "stopped") parts.push(words.chat.stopped);
  return parts.join(" · ");
}

interface Props {
  message: Message;
  open: Conversation;
  model?: Model;
  busy: boolean;
}
export const MessageView = memo(
  ({ message, open, model, busy }: Props) => {
    const [editing, setEditing] = useState(false);
    const [marking, setMarking] = useState(false);
    const user = message.role === "user";
    const { tokens } = message.meta;
    if (user && editing && model)
      return (
        <article class="message user">
          <Editor message={message} model={model} onClose={() => setEditing(false)} />
        </article>
      );
    return (
      <article class={`message ${message.role}`} aria-label={user ? words.chat.you : words.chat.assistant}>
        <div class="said">
          {user ? <p class="plain">{message.content}</p> : marking && tokens ? <Marks tokens={tokens} /> : <Markdown text={message.content} />}
        </div>
        <footer>
          <Versions message={message} open={open} />
          {user && <IconButton icon="edit" size={16} label={words.chat.edit} disabled={busy} onClick={() => setEditing(true)} />}
          <Copy text={message.content} />
          {!user && (
            <>
              <IconButton icon="again" size={16} label={words.chat.again} disabled={busy || !model} onClick={() => model && again(model, message.parent)} />
              <IconButton icon="up" size={16} label={words.chat.good} pressed={message.rating === 1} onClick={() => rate(message, message.rating === 1 ? 0 : 1)} />
              <IconButton icon="down" size={16} label={words.chat.bad} pressed={message.rating === -1} onClick={() => rate(message, message.rating === -1 ? 0 : -1)} />
              {tokens && tokens.length > 0 && (
                <IconButton icon="drop" size={16} label={words.chat.marks} pressed={marking} onClick={() => setMarking(!marking)} />
              )}
              <span class="stats">{stats(message)}</span>
            </>
          )}
        </footer>
      </article>
    );
  },
  (a, b) =>
    a.message === b.message && a.busy === b.busy && a.model === b.model && a.open.messages === b.open.messages,
);

// Answers as they come.
export function Writing({ answers }: { answers: Answer[] }) {
  const several = answers.length > 1;
  const empty = answers.every((a) => !a.content);
  return (
    <div class={several ? "several" : ""} aria-busy="true">
      {empty && <div class="waiting" role="status" aria-label={words.look.reading}><i /><i /><i /></div>}
      {!empty &&
        answers.map((a, i) => (
          <article key={i} class="message assistant writing" aria-label={words.chat.answer(i + 1)}>
            <div class="said">
              <Markdown text={a.content} />
            </div>
          </article>
        ))}
    </div>
  );
}

export function Choices({ messages }: { messages: Message[] }) {
  return (
    <section class="choices" aria-label={words.chat.choices(messages.length)}>
      <h2>{words.chat.choices(messages.length)}</h2>
      <p class="hint">{words.chat.chooseHint}</p>
      <div class="several">
        {messages.map((m, i) => (
          <article key={m.id} class="message assistant" aria-label={words.chat.answer(i + 1)}>
            <div class="said">
              <Markdown text={m.content} />
            </div>
            <button type="button" onClick={() => choose(m.id)}>
              {words.chat.choose}
            </button>
          </article>
        ))}
      </div>
    </section>
  );
}
