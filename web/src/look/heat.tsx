// The heat map of one head: one cell per pair of tokens. The pointer or the arrow keys choose a cell, whose value is shown.
import { useState } from "preact/hooks";
import { words } from "../strings";
import type { LookToken } from "../types";
import { percent, visible } from "../ui/controls";
import { type Cells, MatrixImage } from "./matrix";

const maxCellPixels = 44;

interface Props {
  cells: Cells;
  rows: LookToken[];
  keys: LookToken[];
  label: string;
}
export function HeatMap({ cells, rows, keys, label }: Props) {
  const [at, setAt] = useState<[number, number] | null>(null);
  const clamp = (r: number, c: number): [number, number] => [
    Math.min(rows.length - 1, Math.max(0, r)),
    Math.min(keys.length - 1, Math.max(0, c)),
  ];
  const onMove = (e: PointerEvent) => {
    const box = (e.currentTarget as HTMLElement).getBoundingClientRect();
    const row = Math.floor(((e.clientY - box.top) / box.height) * rows.length);
    const column = Math.floor(((e.clientX - box.left) / box.width) * keys.length);
    setAt(clamp(row, column));
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
    if (!by) return;
    e.preventDefault();
    setAt(at ? clamp(at[0] + by[0]!, at[1] + by[1]!) : [0, 0]);
  };
  // Tokens are written along the edges while there is room for them.
  const named = rows.length <= 40 && keys.length <= 40;
  const cellBox = at && {
    left: `${(100 * at[1]) / keys.length}%`,
    top: `${(100 * at[0]) / rows.length}%`,
    width: `${100 / keys.length}%`,
    height: `${100 / rows.length}%`,
  };
  // Few tokens make a small map, not large cells.
  const width = Math.min(620, keys.length * maxCellPixels);
  const cellText = at ? words.look.cell(visible(rows[at[0]]!.text), visible(keys[at[1]]!.text), percent(cells.at(at[0], at[1]))) : "";
  return (
    <div class={`heat ${named ? "named" : ""}`} style={{ "--rows": rows.length, "--keys": keys.length, "--width": `${width}px` }}>
      {named && (
        <ol class="heat-rows" aria-hidden="true">
          {rows.map((t, i) => (
            <li key={i} class={at?.[0] === i ? "on" : ""}>
              {visible(t.text)}
            </li>
          ))}
        </ol>
      )}
      <div
        class="heat-cells"
        role="application"
        tabIndex={0}
        aria-label={label}
        data-rows={rows.length}
        data-keys={keys.length}
        onPointerMove={onMove}
        onPointerDown={onMove}
        onPointerLeave={(e) => document.activeElement === e.currentTarget || setAt(null)}
        onKeyDown={onKeyDown}
        onFocus={() => at ?? setAt([rows.length - 1, 0])}
      >
        <MatrixImage cells={cells} />
        {cellBox && <i class="heat-at" style={cellBox} />}
      </div>
      {named && (
        <ol class="heat-keys" aria-hidden="true">
          {keys.map((t, i) => (
            <li key={i} class={at?.[1] === i ? "on" : ""}>
              <span>{visible(t.text)}</span>
            </li>
          ))}
        </ol>
      )}
      <p class="heat-value" aria-live="polite" data-value={at ? cells.at(at[0], at[1]) : undefined}>
        {cellText || words.look.mapHint}
      </p>
    </div>
  );
}
