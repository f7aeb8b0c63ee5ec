// The pages of the cache as squares: in use, cached prefixes, free.
import { useEffect, useRef, useState } from "preact/hooks";
import { colour, useTheme } from "../look/matrix";
import { number, words } from "../strings";
import type { EngineView } from "../types";

const side = 9;
const gap = 2;
const maxRows = 14;

export function Pages({ view }: { view: EngineView }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const theme = useTheme();
  const e = view.engine;
  const prefixPages = Math.min(e.prefix_pages, e.pages);
  const totalPages = Math.max(e.max_pages, e.pages, 1);
  const columns = Math.max(1, Math.floor((width + gap) / (side + gap)));
  const pagesPerSquare = Math.max(1, Math.ceil(totalPages / (columns * maxRows)));
  const squares = (pages: number) => Math.ceil(pages / pagesPerSquare);
  const usedSquares = squares(e.pages - prefixPages);
  const prefixSquares = squares(prefixPages);
  const squareCount = Math.max(usedSquares + prefixSquares, squares(totalPages));
  useEffect(() => {
    const el = canvas.current?.parentElement;
    if (!el) return;
    const watcher = new ResizeObserver(() => setWidth(el.clientWidth));
    watcher.observe(el);
    return () => watcher.disconnect();
  }, []);
  const height = Math.ceil(squareCount / columns) * (side + gap);
  useEffect(() => {
    const el = canvas.current;
    const context = el?.getContext("2d");
    if (!el || !context || !width) return;
    const ratio = devicePixelRatio || 1;
    el.width = width * ratio;
    el.height = height * ratio;
    el.style.height = `${height}px`;
    context.scale(ratio, ratio);
    const colours = [colour("--series-1"), colour("--series-2"), colour("--line")];
    for (let i = 0; i < squareCount; ++i) {
      context.fillStyle = colours[i < usedSquares ? 0 : i < usedSquares + prefixSquares ? 1 : 2]!;
      context.fillRect((i % columns) * (side + gap), Math.floor(i / columns) * (side + gap), side, side);
    }
  }, [width, height, squareCount, usedSquares, prefixSquares, theme]);
  const t = words.engine;
  const legend: [string, string, number][] = [
    ["used", t.used, e.pages - prefixPages],
    ["prefix", t.prefix, prefixPages],
  ];
  if (e.max_pages > 0) legend.push(["free", t.free, e.max_pages - e.pages]);
  return (
    <section class="card" aria-labelledby="pages-title">
      <h2 id="pages-title">{t.pages}</h2>
      <p class="hint">
        {t.pagesLead(e.page_tokens)} {pagesPerSquare > 1 && t.pagesEach(pagesPerSquare)}
      </p>
      <div class="page-map">
        <canvas ref={canvas} role="img" aria-label={legend.map(([, name, n]) => `${n} ${name}`).join(", ")} />
      </div>
      <ul class="legend">
        {legend.map(([key, name, n]) => (
          <li key={key} class={`legend-${key}`}>
            <b>{number(n)}</b> {name}
          </li>
        ))}
      </ul>
    </section>
  );
}
