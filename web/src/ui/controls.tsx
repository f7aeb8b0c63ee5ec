// Controls that all pages share.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { number, words } from "../strings";
import { Icon, type IconName } from "./icons";

interface IconButtonProps {
  icon: IconName;
  label: string;
  onClick: () => void;
  pressed?: boolean;
  disabled?: boolean;
  size?: number;
  class?: string;
}
export function IconButton({ icon, label, onClick, pressed, disabled, size, class: name }: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${name ?? ""}`}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      disabled={disabled}
      onClick={onClick}
    >
      <Icon name={icon} size={size} />
    </button>
  );
}

interface SliderProps {
  id: string;
  label: string;
  hint?: string;
  value: number;
  min: number;
  max: number;
  step: number;
  onInput: (value: number) => void;
}
export function Slider({ id, label, hint, value, min, max, step, onInput }: SliderProps) {
  const setFromText = (text: string) => {
    const number = Number(text);
    if (text !== "" && Number.isFinite(number)) onInput(Math.min(max, Math.max(min, number)));
  };
  return (
    <div class="slider">
      <label for={id}>{label}</label>
      <input
        class="slider-number"
        type="number"
        aria-label={label}
        {...{ min, max, step, value }}
        onChange={(e) => setFromText(e.currentTarget.value)}
      />
      <input
        id={id}
        type="range"
        aria-describedby={hint ? `${id}-hint` : undefined}
        {...{ min, max, step, value }}
        onInput={(e) => setFromText(e.currentTarget.value)}
      />
      {hint && (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
    </div>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  value: T;
  options: [T, string][];
  onChange: (value: T) => void;
}
// A row of radio buttons that looks like one control.
export function Choice<T extends string>({ label, value, options, onChange }: ChoiceProps<T>) {
  return (
    <fieldset class="choice">
      <legend>{label}</legend>
      {options.map(([key, text]) => (
        <label key={key} class={key === value ? "on" : ""}>
          <input type="radio" name={label} checked={key === value} onChange={() => onChange(key)} />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

interface DialogProps {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  class?: string;
}
export function Dialog({ title, onClose, children, class: name }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      class={name}
      aria-label={title}
      onClose={onClose}
      onClick={(e) => e.target === dialog.current && dialog.current?.close()}
    >
      <div class="dialog-body">
        <header>
          <h2>{title}</h2>
          <IconButton icon="close" label={words.close} onClick={() => dialog.current?.close()} />
        </header>
        {children}
      </div>
    </dialog>
  );
}

export function ErrorMessage({ error, onRetry }: { error: unknown; onRetry?: () => void }) {
  if (!error) return null;
  const text = error instanceof Error ? error.message : String(error);
  return (
    <div class="error-message" role="alert">
      <span>{text || words.failed}</span>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          {words.retry}
        </button>
      )}
    </div>
  );
}

// Asks before something is deleted.
interface ConfirmProps {
  title: string;
  text: string;
  onYes: () => void;
  onClose: () => void;
}
export function Confirm({ title, text, onYes, onClose }: ConfirmProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <p>{text}</p>
      <div class="dialog-end">
        <button type="button" onClick={onClose}>
          {words.cancel}
        </button>
        <button type="button" class="danger" onClick={() => (onYes(), onClose())}>
          {title}
        </button>
      </div>
    </Dialog>
  );
}

// Left and up move back, right and down forward.
export function arrow(e: KeyboardEvent, move: (by: number) => void): void {
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (by === undefined) return;
  e.preventDefault();
  move(by);
}

// Arrow keys move the focus between the buttons of a group, of which Tab reaches only one.
export function walk(e: KeyboardEvent): void {
  const all = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")];
  const at = all.indexOf(e.target as HTMLElement);
  if (at >= 0) arrow(e, (by) => all[at + by]?.focus());
}

export function percent(p: number): string {
  const value = p * 100;
  if (value >= 99.95) return "100 %";
  if (value < 0.1) return `${value.toPrecision(1)} %`;
  const digits = value >= 10 ? 1 : 2;
  return `${number(value, { min: digits, max: digits })} %`;
}

// A token with its spaces and line ends made visible.
export function visible(text: string): string {
  if (text === "") return "∅";
  return text.replace(/ /g, "·").replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/\r/g, "␍");
}
