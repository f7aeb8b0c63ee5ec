// One head as lines from each token to the tokens it attends to; choosing a token shows only its lines.
import { useState } from "preact/hooks";
import { words } from "../strings";
import type { LookToken } from "../types";
import { percent, visible, walk } from "../ui/controls";
import type { Cells } from "./matrix";

const step = 24;
const top = 16;
const minWeight = 0.02; // thinner lines are invisible

interface Props {
  cells: Cells;
  rows: LookToken[];
  keys: LookToken[];
}
export function Lines({ cells, rows, keys }: Props) {
  const [at, setAt] = useState<number | null>(null);
  const height = Math.max(rows.length, keys.length) * step + top;
  const y = (i: number) => top + i * step;
  const lines = [];
  for (let r = 0; r < rows.length; ++r) {
    if (at !== null && at !== r) continue;
    for (let k = 0; k < keys.length; ++k) {
      const weight = cells.at(r, k);
      if (weight < (at === null ? minWeight * 3 : minWeight)) continue;
      lines.push(
        <path
          key={`${r}-${k}`}
          d={`M0 ${y(r)} C 45 ${y(r)}, 55 ${y(k)}, 100 ${y(k)}`}
          stroke-opacity={Math.min(1, weight)}
          stroke-width={0.6 + 2.6 * weight}
        />,
      );
    }
  }
  return (
    <div class="lines" style={{ "--step": `${step}px`, "--top": `${top - step / 2}px` }} onPointerLeave={() => setAt(null)}>
      <ol aria-label={words.look.from} onKeyDown={walk}>
        {rows.map((t, i) => (
          <li key={i}>
            <button
              type="button"
              class={i === at ? "on" : ""}
              aria-pressed={i === at}
              tabIndex={i === (at ?? 0) ? 0 : -1}
              onPointerEnter={(e) => e.pointerType === "mouse" && setAt(i)}
              onFocus={() => setAt(i)}
              onClick={() => setAt(i)}
            >
              {visible(t.text)}
            </button>
          </li>
        ))}
      </ol>
      <svg viewBox={`0 0 100 ${height}`} preserveAspectRatio="none" style={{ height: `${height}px` }} aria-hidden="true">
        {lines}
      </svg>
      <ol aria-label={words.look.to}>
        {keys.map((t, i) => {
          const weight = at === null ? 0 : cells.at(at, i);
          return (
            <li key={i} style={at === null ? undefined : { opacity: 0.35 + 0.65 * Math.min(1, weight * 3) }}>
              <span>{visible(t.text)}</span>
              {weight >= minWeight && <small>{percent(weight)}</small>}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
