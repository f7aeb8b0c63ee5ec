// Curves, drawn by uPlot in the colours of the theme.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { colour, useTheme } from "../look/matrix";
import { number, words } from "../strings";

export interface Series {
  label: string;
  colour: "--series-1" | "--series-2" | "--series-3" | "--series-4" | "--series-5";
  values: (number | null)[];
  faint?: boolean;
  points?: boolean;
}

interface Props {
  label: string;
  steps: number[];
  series: Series[];
  log?: boolean;
  height?: number;
}

function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 1e4 || size < 1e-3 ? value.toExponential(2) : number(value, { max: size >= 100 ? 0 : size >= 10 ? 2 : 3 });
}

function tick(value: number): string {
  const size = Math.abs(value);
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? value.toExponential() : number(Number(value.toPrecision(4)), { max: 6 });
}

export function Chart({ label, steps, series, log = false, height = 260 }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const shape = series.map((s) => s.label).join("|");
  const data = () => [steps, ...series.map((s) => s.values)] as uPlot.AlignedData;
  useEffect(() => {
    const container = box.current;
    if (!container) return;
    const ink = colour("--faint");
    const axis = (text?: string): uPlot.Axis => ({
      label: text,
      stroke: ink,
      grid: { stroke: colour("--line"), width: 1 },
      ticks: { stroke: colour("--line"), width: 1 },
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
    });
    const chart = new uPlot(
      {
        width: container.clientWidth,
        height,
        cursor: { y: false },
        scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
        axes: [{ ...axis(), values: (_, ticks) => ticks.map((t) => (t === null ? "" : tick(t))) }, { ...axis(), size: 60, values: (_, ticks) => ticks.map((t) => (t === null ? "" : tick(t))) }],
        series: [
          { label: words.train.step, value: (_, v) => (v === null ? "–" : number(v)) },
          ...series.map((s) => ({
            label: s.label,
            stroke: s.faint ? `${colour(s.colour)}55` : colour(s.colour),
            width: s.faint ? 1 : 1.75,
            spanGaps: true,
            points: { show: s.points ?? false, size: 6 },
            value: (_: uPlot, v: number | null) => short(v),
          })),
        ],
      },
      data(),
      container,
    );
    plot.current = chart;
    const watcher = new ResizeObserver(() => chart.setSize({ width: container.clientWidth, height }));
    watcher.observe(container);
    return () => {
      watcher.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [theme, shape, log, height]);
  useEffect(() => plot.current?.setData(data()), [steps, series]);
  return <div class={`chart ${series.length === 1 ? "alone" : ""}`} ref={box} role="img" aria-label={label} data-points={steps.length} />;
}
