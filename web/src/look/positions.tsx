// How the model encodes positions: tables, angles, slopes, biases.
import { useMemo } from "preact/hooks";
import { bytes } from "../api";
import { words } from "../strings";
import type { Matrix, Positions } from "../types";
import { type Cells, MatrixImage } from "./matrix";

const maxPositions = 96;
const maxDistance = 64; // of ALiBi

// Values as a share of the largest magnitude.
export function matrixCells(m: Matrix): Cells {
  const data = bytes(m.data);
  const max = Math.max(Math.abs(m.low), Math.abs(m.high)) || 1;
  return {
    rows: m.rows,
    columns: m.columns,
    at: (r, c) => (m.low + ((m.high - m.low) * data[r * m.columns + c]!) / 255) / max,
  };
}

function cellsOf(p: Positions): Cells {
  switch (p.kind) {
    case "rotary":
      return { rows: maxPositions, columns: p.frequencies.length, at: (r, c) => Math.cos(r * p.frequencies[c]!) };
    case "alibi": {
      const max = Math.max(...p.slopes) * maxDistance;
      return { rows: p.slopes.length, columns: maxDistance + 1, at: (r, c) => (-p.slopes[r]! * (maxDistance - c)) / max };
    }
    default:
      return matrixCells(p.matrix);
  }
}

function axes(p: Positions): [string, string] {
  if (p.kind === "alibi" || p.kind === "t5") return [words.look.head, words.look.distance];
  return [words.look.position, p.kind === "rotary" ? words.look.dimensionPair : words.look.dimension];
}

function PositionFigure({ p }: { p: Positions }) {
  const cells = useMemo(() => cellsOf(p), [p]);
  const [down, right] = axes(p);
  const text = words.look.positionsOf[p.kind]!;
  return (
    <figure class="positions">
      <figcaption class="hint">{text}</figcaption>
      <div class="axes">
        <span class="axis-down">{down} ↓</span>
        <MatrixImage cells={cells} label={text} class={cells.rows < 40 ? "low" : ""} />
        <span class="axis-right">{right} →</span>
      </div>
    </figure>
  );
}

export function PositionsCard({ positions }: { positions: Positions[] }) {
  return (
    <section class="card" aria-labelledby="positions-title">
      <header>
        <h2 id="positions-title">{words.look.positions}</h2>
      </header>
      {positions.map((p, i) => (
        <PositionFigure key={i} p={p} />
      ))}
    </section>
  );
}
