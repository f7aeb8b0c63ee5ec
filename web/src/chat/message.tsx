// A message: its text, its versions, and what can be done with it.
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { useWatched, Watched } from "../state";
import { number, words } from "../strings";
import type { Conversation, Message, Model } from "../types";
import { Confirm, IconButton } from "../ui/controls";
import { CopyButton } from "../ui/copy";
import { AnswerText } from "./answer";
import { sizeText, split } from "./attachments";
import { Editor } from "./editor";
import { answerAgain, continueAnswer, type Generation } from "./generation";
import { Marks } from "./marks";
import { send } from "./sending";
import { SourceList } from "./sources";
import { editAnswer, rate, removeMessage, turn } from "./session";
import type { Answer } from "./stream";
import { children } from "./tree";

function Versions({ message, open }: { message: Message; open: Conversation }) {
  const all = children(open.messages, message.parent);
  if (all.length < 2) return null;
  const at = all.findIndex((m) => m.id === message.id);
  return (
    <span class="versions">
      <IconButton icon="left" size={16} label={words.chat.previousVersion} disabled={at === 0} onClick={() => turn(message, -1)} />
      <span>{words.chat.version(at + 1, all.length)}</span>
      <IconButton icon="right" size={16} label={words.chat.nextVersion} disabled={at === all.length - 1} onClick={() => turn(message, 1)} />
    </span>
  );
}

function stats({ meta }: Message): string {
  const { model, count, seconds, finish, edited } = meta;
  const parts = [];
  if (model) parts.push(model);
  if (count && seconds) parts.push(words.chat.stats(number(count), number(count / seconds, { max: count / seconds < 10 ? 1 : 0 })));
  if (finish === "length") parts.push(words.chat.truncated);
  if (finish === "stopped") parts.push(words.chat.stopped);
  if (edited) parts.push(words.chat.edited);
  return parts.join(" · ");
}

const isCut = ({ meta }: Message) => ["length", "stopped", "dropped", "error"].includes(meta.finish ?? "");

function UserText({ message }: { message: Message }) {
  const { files, text } = split(message);
  return (
    <>
      {files.filter((file) => file.image).map((file, i) => <img class="image" key={`image-${i}`} src={file.image} alt={file.name} />)}
      {files.filter((file) => !file.image).map((file, i) => (
        <details class="file-chip" key={i}>
          <summary>{words.chat.attached(file.name, sizeText(file.text.length))}</summary>
          <pre tabIndex={0}>{file.text}</pre>
        </details>
      ))}
      {text && (
        <p class="plain" dir="auto">
          {text}
        </p>
      )}
    </>
  );
}

const noAnswers = new Watched<Answer[]>([]);
// An answer, complete or while it is generated. The same element shows both, so that nothing is drawn again at the end.
function AnswerBody({ message, generation }: { message: Message; generation?: Generation }) {
  const [growing] = useWatched(generation?.answers ?? noAnswers);
  const content = generation ? (generation.continues?.content ?? "") + (growing?.content ?? "") : message.content;
  const toolCalls = generation ? growing?.toolCalls : message.meta.tool_calls;
  const sources = generation ? growing?.sources : message.meta.sources;
  const grounding = generation ? growing?.grounding : message.meta.grounding;
  const text =
    generation && !content && !toolCalls?.length ? (
      <Waiting model={generation.model} />
    ) : (
      <AnswerText content={content} toolCalls={toolCalls} growing={generation !== undefined} />
    );
  if (!sources) return text;
  return (
    <div class="with-sources">
      <div>{text}</div>
      <SourceList sources={sources} grounding={grounding} />
    </div>
  );
}

// Before the first token. The first request to a model loads it, which may take long.
export function Waiting({ model }: { model: Model }) {
  return (
    <div class="waiting" role="status" aria-label={words.chat.writing}>
      {!model.loaded && <span>{words.chat.loadingModel(model.id)}</span>}
      <i />
      <i />
      <i />
    </div>
  );
}

interface Props {
  message: Message;
  generation?: Generation; // that is writing this message
  open: Conversation;
  model?: Model;
  busy: boolean;
  last: boolean; // of the branch
}
export const MessageView = memo(
  ({ message, generation, open, model, busy, last }: Props) => {
    const [editing, setEditing] = useState(false);
    const [marking, setMarking] = useState(false);
    const [removing, setRemoving] = useState(false);
    const user = message.role === "user";
    const { tokens } = message.meta;
    const { files, text } = split(message);
    if (editing) {
      const close = () => setEditing(false);
      const sendEdited = (now: string) =>
        new Promise<boolean>((resolve) => void (model && send(model, message.parent, now, files, () => resolve(true)).then(resolve)));
      return (
        <article class={`message ${message.role}`}>
          {user ? (
            <Editor text={text} label={words.chat.edit} action={words.chat.saveEdit} onSave={sendEdited} onClose={close} />
          ) : (
            <Editor text={message.content} label={words.chat.editAnswer} action={words.save} onSave={(now) => editAnswer(message, now)} onClose={close} />
          )}
        </article>
      );
    }
    return (
      <article
        class={`message ${message.role} ${generation ? "writing" : ""}`}
        aria-label={user ? words.chat.you : words.chat.assistant}
        aria-busy={generation ? true : undefined}
      >
        <div class="said">
          {user ? (
            <UserText message={message} />
          ) : marking && tokens ? (
            <Marks tokens={tokens} />
          ) : (
            <AnswerBody message={message} generation={generation} />
          )}
        </div>
        {!generation && message.meta.error && (
          <p class="error-message" role="note">
            {message.meta.error}
          </p>
        )}
        {!generation && last && !user && isCut(message) && (
          <div class="cut-answer">
            <button type="button" disabled={busy || !model} onClick={() => model && void continueAnswer(model, message)}>
              {words.chat.continueAnswer}
            </button>
            <button type="button" disabled={busy || !model} onClick={() => model && void answerAgain(model, message.parent)}>
              {words.retry}
            </button>
          </div>
        )}
        {!generation && <footer>
          <Versions message={message} open={open} />
          <IconButton icon="edit" size={16} label={user ? words.chat.edit : words.chat.editAnswer} disabled={busy} onClick={() => setEditing(true)} />
          <CopyButton text={message.content} />
          {!user && (
            <>
              <IconButton icon="again" size={16} label={words.chat.regenerate} disabled={busy || !model} onClick={() => model && void answerAgain(model, message.parent)} />
              <IconButton icon="up" size={16} label={words.chat.goodAnswer} pressed={message.rating === 1} onClick={() => void rate(message, message.rating === 1 ? 0 : 1)} />
              <IconButton icon="down" size={16} label={words.chat.badAnswer} pressed={message.rating === -1} onClick={() => void rate(message, message.rating === -1 ? 0 : -1)} />
              {tokens && tokens.length > 0 && (
                <IconButton icon="drop" size={16} label={words.chat.showProbabilities} pressed={marking} onClick={() => setMarking(!marking)} />
              )}
            </>
          )}
          <IconButton icon="trash" size={16} label={words.chat.removeMessage} disabled={busy} onClick={() => setRemoving(true)} />
          {!user && <span class="stats">{stats(message)}</span>}
        </footer>}
        {removing && (
          <Confirm
            title={words.chat.removeMessage}
            text={words.chat.confirmRemoveMessage}
            onYes={() => void removeMessage(message)}
            onClose={() => setRemoving(false)}
          />
        )}
      </article>
    );
  },
  (a, b) =>
    a.message === b.message && a.generation === b.generation && a.busy === b.busy && a.model === b.model && a.last === b.last && a.open.messages === b.open.messages,
);
