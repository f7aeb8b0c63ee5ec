// Where one writes: a text that grows, a file beside it, send or stop.
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../strings";
import type { Model } from "../types";
import { IconButton } from "../ui/controls";
import { send } from "./sending";
import { stop } from "./writing";

const largestFile = 256 * 1024;

interface Props {
  model?: Model;
  parent: number;
  busy: boolean;
}
export function Composer({ model, parent, busy }: Props) {
  const [text, setText] = useState("");
  const [file, setFile] = useState<{ name: string; text: string } | null>(null);
  const [trouble, setTrouble] = useState("");
  const box = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const el = box.current;
    if (!el) return;
    el.style.height = "auto";
    el.style.height = `${el.scrollHeight}px`;
  }, [text]);
  useEffect(() => {
    // A keyboard on glass would jump up unasked.
    if (matchMedia("(pointer: fine)").matches) box.current?.focus();
  }, []);
  const attach = async (from: File | undefined) => {
    setTrouble("");
    if (!from) return;
    if (from.size > largestFile) return setTrouble(words.chat.attachTooLarge);
    const read = await from.text();
    if (read.includes("\0") || read.includes("\uFFFD")) return setTrouble(words.chat.attachNotText);
    setFile({ name: from.name, text: read });
  };
  const go = () => {
    if (busy || !model || (!text.trim() && !file)) return;
    const fence = "```";
    const content = file ? `${file.name}:\n${fence}\n${file.text}\n${fence}\n\n${text}` : text;
    setText("");
    setFile(null);
    void send(model, parent, content.trim(), file ? { file: file.name } : {});
  };
  return (
    <form
      class="composer"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
      onDragOver={(e) => e.preventDefault()}
      onDrop={(e) => {
        e.preventDefault();
        void attach(e.dataTransfer?.files[0]);
      }}
    >
      {file && (
        <div class="attached">
          <span>{file.name}</span>
          <IconButton icon="close" size={14} label={words.chat.detach(file.name)} onClick={() => setFile(null)} />
        </div>
      )}
      {trouble && (
        <p class="trouble" role="alert">
          {trouble}
        </p>
      )}
      <div class="composer-row">
        <IconButton icon="clip" label={words.chat.attach} onClick={() => picker.current?.click()} />
        <input
          ref={picker}
          type="file"
          hidden
          onChange={(e) => {
            void attach(e.currentTarget.files?.[0]);
            e.currentTarget.value = "";
          }}
        />
        <textarea
          ref={box}
          rows={1}
          aria-label={words.chat.placeholder}
          placeholder={words.chat.placeholder}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Escape" && busy) stop();
            if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
            e.preventDefault();
            go();
          }}
        />
        {busy ? (
          <IconButton icon="stop" label={words.chat.stop} class="round" onClick={stop} />
        ) : (
          <IconButton icon="send" label={words.chat.send} class="round" disabled={!model || (!text.trim() && !file)} onClick={go} />
        )}
      </div>
      <p class="unseen">{words.chat.hint}</p>
    </form>
  );
}
