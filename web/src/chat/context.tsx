// How much of the model's context the conversation takes: the server's token count for the last answer, and the draft.
import { useEffect, useState } from "preact/hooks";
import { post } from "../api";
import { number, words } from "../strings";
import type { Message, Model } from "../types";

const almostFull = 0.9; // share of the context

// Tokens of a text, counted by the server a moment after the last change.
function useTokens(model: Model | undefined, text: string): number {
  const [count, setCount] = useState(0);
  useEffect(() => {
    if (!text || !model?.loaded) return setCount(0);
    const abort = new AbortController();
    const timer = setTimeout(
      () => post<{ tokens: unknown[] }>("/tokenize", { model: model.id, content: text }, abort.signal).then((r) => setCount(r.tokens.length), () => {}),
      500,
    );
    return () => (clearTimeout(timer), abort.abort());
  }, [model?.id, model?.loaded, text]);
  return count;
}

interface Props {
  model?: Model;
  branch: Message[];
  draft: string;
}
export function ContextMeter({ model, branch, draft }: Props) {
  const draftTokens = useTokens(model, draft);
  const contextTokens = [...branch].reverse().find((m) => m.meta.context)?.meta.context ?? 0;
  const limit = model?.max_model_len;
  if (!limit || contextTokens + draftTokens === 0) return null;
  const used = contextTokens + draftTokens;
  const share = Math.min(1, used / limit);
  const text = words.chat.context(number(used), number(limit));
  return (
    <div class={`context ${share >= almostFull ? "full" : ""}`} title={share >= almostFull ? words.chat.contextFull : text}>
      <span class="context-bar" role="meter" aria-label={text} aria-valuemin={0} aria-valuemax={limit} aria-valuenow={Math.min(used, limit)}>
        <i style={{ width: `${100 * share}%` }} />
      </span>
      <span>{text}</span>
    </div>
  );
}
