// A text coloured by the probability of each of its tokens, with the alternatives. Only the tokens near the screen become
// elements; the others are plain text of the same size, so that long answers open at once.
import { memo } from "preact/compat";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { words } from "../strings";
import type { TokenMark } from "../types";
import { arrow, percent, visible } from "../ui/controls";

const groupSize = 200; // tokens

// The surprisal of a token, scaled: 0 for probability 1, 1 for a probability of 0.001 or less.
export function surprise(logprob: number): number {
  return Math.min(1, -logprob / Math.log(1000));
}

interface GroupProps {
  index: number;
  tokens: TokenMark[];
  near: boolean;
  at: number; // the chosen token, -1: none of this group
}
const Group = memo(({ index, tokens, near, at }: GroupProps) => (
  <span class="marks-group" data-group={index}>
    {near
      ? tokens.map(([text, logprob], i) => (
          <span key={i} class={i === at ? "on" : ""} data-token={i} style={{ "--surprise": surprise(logprob) }}>
            {text}
          </span>
        ))
      : tokens.map(([text]) => text).join("")}
  </span>
));

export function Marks({ tokens }: { tokens: TokenMark[] }) {
  const [at, setAt] = useState<number | null>(null);
  const [near, setNear] = useState<ReadonlySet<number>>(new Set());
  const box = useRef<HTMLParagraphElement>(null);
  const groups = useMemo(() => {
    const out: TokenMark[][] = [];
    for (let i = 0; i < tokens.length; i += groupSize) out.push(tokens.slice(i, i + groupSize));
    return out;
  }, [tokens]);
  useEffect(() => {
    const seen = new Set<number>();
    const watcher = new IntersectionObserver(
      (entries) => {
        for (const e of entries) {
          const index = Number((e.target as HTMLElement).dataset.group);
          if (e.isIntersecting) seen.add(index);
          else seen.delete(index);
        }
        setNear(new Set(seen));
      },
      { rootMargin: "300px" },
    );
    for (const group of box.current!.children) watcher.observe(group);
    return () => watcher.disconnect();
  }, [groups]);
  // The element of the chosen token exists once its group is near.
  useEffect(() => {
    if (at !== null && document.activeElement === box.current) {
      const group = box.current?.children[Math.floor(at / groupSize)];
      (group?.querySelector(".on") ?? group)?.scrollIntoView({ block: "nearest" });
    }
  }, [at]);
  const choose = (e: Event) => {
    const token = (e.target as HTMLElement).closest<HTMLElement>("[data-token]");
    const group = token?.closest<HTMLElement>("[data-group]");
    if (token && group) setAt(Number(group.dataset.group) * groupSize + Number(token.dataset.token));
  };
  const selected = at === null ? null : tokens[at];
  return (
    <div class="marks">
      <p
        ref={box}
        role="group"
        tabIndex={0}
        dir="auto"
        aria-label={words.chat.probabilitiesLabel}
        onKeyDown={(e) => arrow(e, (by) => setAt(Math.min(tokens.length - 1, Math.max(0, (at ?? -1) + by))))}
        onFocus={() => setAt(at ?? 0)}
        onClick={choose}
        onMouseOver={choose}
      >
        {groups.map((group, i) => {
          const hasSelected = at !== null && Math.floor(at / groupSize) === i;
          return <Group key={i} index={i} tokens={group} near={near.has(i) || hasSelected} at={hasSelected ? at! % groupSize : -1} />;
        })}
      </p>
      <div class="marks-detail" aria-live="polite">
        {selected && (
          <>
            <b>{visible(selected[0])}</b> {words.chat.tokenProbability(percent(Math.exp(selected[1])))}
            <ol aria-label={words.chat.alternatives}>
              {selected[2].map(([text, logprob]) => (
                <li key={text}>
                  <span>{visible(text)}</span> <span>{percent(Math.exp(logprob))}</span>
                </li>
              ))}
            </ol>
          </>
        )}
      </div>
    </div>
  );
}
