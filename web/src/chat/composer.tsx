// The message field: a text that grows, attached files, send or stop. It is cleared once the server has stored the message.
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../strings";
import type { Message, Model } from "../types";
import { IconButton } from "../ui/controls";
import { readFile, sizeText } from "./attachments";
import { ContextMeter } from "./context";
import { type Draft, draftOf, setDraft } from "./drafts";
import { stop } from "./generation";
import { send } from "./sending";

interface Props {
  model?: Model;
  conversation: number; // 0: a new one
  branch: Message[];
  busy: boolean;
}
export function Composer({ model, conversation, branch, busy }: Props) {
  const [draft, setLocalDraft] = useState<Draft>(() => draftOf(conversation));
  const [sending, setSending] = useState(false);
  const [reading, setReading] = useState("");
  const [errors, setErrors] = useState<string[]>([]);
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const change = (part: Partial<Draft>) => {
    const next = { ...draftOf(conversation), ...part };
    setDraft(conversation, next);
    setLocalDraft(next);
  };
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    el.style.height = "auto";
    el.style.height = `${el.scrollHeight}px`;
  }, [draft.text]);
  useEffect(() => {
    // On touch screens focus would open the keyboard.
    if (matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, []);
  const attach = async (files: Iterable<File>) => {
    const messages: string[] = [];
    for (const file of files) {
      setReading(file.name);
      await readFile(file).then(
        (read) => change({ files: [...draftOf(conversation).files, read] }),
        (error: Error) => messages.push(error.message),
      );
    }
    setReading("");
    setErrors(messages);
  };
  const { text, files } = draft;
  const ready = model && !busy && !sending && !reading && (text.trim() || files.length > 0);
  const submit = async () => {
    if (!ready) return;
    setSending(true);
    const parent = branch[branch.length - 1]?.id ?? 0;
    const accepted = () => {
      change({ text: "", files: [] });
      setSending(false);
    };
    await send(model, parent, text.trim(), files, accepted);
    setSending(false);
  };
  return (
    <form
      class="composer"
      onSubmit={(e) => (e.preventDefault(), void submit())}
      onDragOver={(e) => e.preventDefault()}
      onDrop={(e) => (e.preventDefault(), void attach([...(e.dataTransfer?.files ?? [])]))}
    >
      {(files.length > 0 || reading) && (
        <ul class="attached">
          {files.map((file, i) => (
            <li key={i}>
              {file.image && <img src={file.image} alt="" />}
              <span>{words.chat.attached(file.name, sizeText((file.image ?? file.text).length))}</span>
              <IconButton icon="close" size={14} label={words.chat.detach(file.name)} onClick={() => change({ files: files.filter((f) => f !== file) })} />
            </li>
          ))}
          {reading && <li role="status">{words.chat.attachReading(reading)}</li>}
        </ul>
      )}
      {errors.map((line) => (
        <p class="error-message" role="alert" key={line}>
          {line}
        </p>
      ))}
      <div class="composer-row">
        <IconButton icon="clip" label={words.chat.attach} onClick={() => picker.current?.click()} />
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label={words.chat.attach}
          onChange={(e) => {
            void attach([...(e.currentTarget.files ?? [])]);
            e.currentTarget.value = "";
          }}
        />
        <textarea
          ref={box}
          rows={1}
          dir="auto"
          aria-label={words.chat.placeholder}
          placeholder={words.chat.placeholder}
          readOnly={sending}
          value={text}
          onInput={(e) => change({ text: e.currentTarget.value })}
          onKeyDown={(e) => {
            if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
            e.preventDefault();
            void submit();
          }}
        />
        {busy ? (
          <IconButton icon="stop" label={words.chat.stop} class="round" onClick={() => stop(conversation)} />
        ) : (
          <IconButton icon="send" label={words.chat.send} class="round" disabled={!ready} onClick={() => void submit()} />
        )}
      </div>
      <ContextMeter model={model} branch={branch} draft={text} />
      <p class="unseen">{words.chat.hint}</p>
    </form>
  );
}
