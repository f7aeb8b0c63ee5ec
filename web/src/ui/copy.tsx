// Copying text. Over plain HTTP browsers have no navigator.clipboard: then a selected text field is copied, and where even that
// is refused, the text is shown selected.
import { useState } from "preact/hooks";
import { words } from "../strings";
import { Dialog, IconButton } from "./controls";

function copySelected(text: string): boolean {
  const before = document.activeElement as HTMLElement | null;
  const field = document.createElement("textarea");
  field.className = "unseen";
  field.value = text;
  field.readOnly = true;
  document.body.append(field);
  field.select();
  try {
    return document.execCommand("copy");
  } catch {
    return false;
  } finally {
    field.remove();
    before?.focus();
  }
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

export function CopyButton({ text }: { text: string }) {
  const [state, setState] = useState<"" | "done" | "refused">("");
  const copy = async () => {
    if (!(await copyText(text))) return setState("refused");
    setState("done");
    setTimeout(() => setState(""), 1500);
  };
  const done = state === "done";
  return (
    <>
      <IconButton icon={done ? "check" : "copy"} size={16} label={done ? words.chat.copied : words.chat.copy} onClick={copy} />
      {state === "refused" && (
        <Dialog title={words.chat.copy} onClose={() => setState("")}>
          <p class="hint">{words.copyFailed}</p>
          <textarea class="copy-field" readOnly rows={8} aria-label={words.chat.copy} autofocus value={text} onFocus={(e) => e.currentTarget.select()} />
        </Dialog>
      )}
    </>
  );
}
