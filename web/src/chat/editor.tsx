// Editing a message in place. It stays open until the server has accepted the change.
import { useEffect, useRef, useState } from "preact/hooks";
import { words } from "../strings";

interface Props {
  text: string;
  label: string;
  action: string;
  onSave: (text: string) => Promise<boolean>;
  onClose: () => void;
}
export function Editor({ text: initialText, label, action, onSave, onClose }: Props) {
  const [text, setText] = useState(initialText);
  const [saving, setSaving] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  useEffect(() => box.current?.focus(), []);
  const save = async () => {
    if (saving || !text.trim()) return;
    setSaving(true);
    const accepted = await onSave(text.trim());
    setSaving(false);
    if (accepted) onClose();
  };
  return (
    <form
      class="editor"
      onSubmit={(e) => (e.preventDefault(), void save())}
      onKeyDown={(e) => {
        if (e.key === "Escape") (e.preventDefault(), onClose());
        if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) void save();
      }}
    >
      <textarea
        ref={box}
        dir="auto"
        aria-label={label}
        rows={Math.min(16, text.split("\n").length + 1)}
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      <div class="dialog-end">
        <button type="button" onClick={onClose}>
          {words.cancel}
        </button>
        <button class="primary" disabled={saving || !text.trim()}>
          {action}
        </button>
      </div>
    </form>
  );
}
