// A matrix drawn on a canvas in the colours of the theme.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Cells {
  rows: number;
  columns: number;
  at: (row: number, column: number) => number; // -1 to 1; below 0 in the second colour
}

// The current theme; a change redraws.
export function useTheme(): string {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme ?? "light");
  useEffect(() => {
    const watcher = new MutationObserver(() => setTheme(document.documentElement.dataset.theme ?? "light"));
    watcher.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    return () => watcher.disconnect();
  }, []);
  return theme;
}

export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function rgb(name: string): [number, number, number] {
  const hex = colour(name);
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)) as [number, number, number];
}

// One pixel per cell; the browser enlarges it without blurring.
export function paint(canvas: HTMLCanvasElement, cells: Cells): void {
  const { rows, columns } = cells;
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  if (!context || rows * columns === 0) return;
  const background = rgb("--sunk");
  const [more, less] = [rgb("--series-1"), rgb("--series-2")];
  const image = context.createImageData(columns, rows);
  for (let r = 0, o = 0; r < rows; ++r)
    for (let c = 0; c < columns; ++c, o += 4) {
      const value = cells.at(r, c);
      const foreground = value < 0 ? less : more;
      const share = Math.min(1, Math.abs(value));
      for (let i = 0; i < 3; ++i) image.data[o + i] = background[i]! + (foreground[i]! - background[i]!) * share;
      image.data[o + 3] = 255;
    }
  context.putImageData(image, 0, 0);
}

interface Props {
  cells: Cells;
  label?: string; // omitted if the surrounding element is labelled
  class?: string;
}
export function MatrixImage({ cells, label, class: name }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const theme = useTheme();
  useEffect(() => {
    if (canvas.current) paint(canvas.current, cells);
  }, [cells, theme]);
  const named = label ? { role: "img" as const, "aria-label": label } : { "aria-hidden": true };
  return <canvas ref={canvas} class={`matrix ${name ?? ""}`} {...named} />;
}
