// Attention: an overview of all heads, and one of them as a heat map or as lines between tokens.
import { useEffect, useMemo, useState } from "preact/hooks";
import { bytes, post } from "../api";
import { words } from "../strings";
import type { Attention, Look } from "../types";
import { Choice, ErrorMessage } from "../ui/controls";
import { HeatMap } from "./heat";
import { Lines } from "./lines";
import { type Cells, MatrixImage } from "./matrix";
import { lookRequest, type Subject } from "./subject";

const maxValues = 4 << 20; // the server's limit per response

export interface Maps {
  layers: Map<number, Uint16Array>; // [heads, rows, keys]
  heads: number;
  rows: number;
  keys: number;
  scale: number;
}

export function headCells(maps: Maps, layer: number, head: number): Cells {
  const data = maps.layers.get(layer);
  const start = head * maps.rows * maps.keys;
  return {
    rows: maps.rows,
    columns: maps.keys,
    at: (r, c) => (data ? data[start + r * maps.keys + c]! / maps.scale : 0),
  };
}

function read(a: Attention): Maps {
  const layers = new Map<number, Uint16Array>();
  a.layers.forEach((layer, i) => layers.set(layer, new Uint16Array(bytes(a.data[i]!).buffer)));
  return { layers, heads: a.heads, rows: a.rows, keys: a.keys, scale: a.scale };
}

interface Props {
  look: Look;
  subject: Subject;
}
export function AttentionCard({ look, subject }: Props) {
  const { kinds } = look.model;
  const [of, setOf] = useState("");
  // An encoder-decoder has something to show in its decoder once a continuation is given.
  const defaultKind = look.target && look.target.length < 2 ? "encoder" : kinds[kinds.length - 1]!;
  const kind = kinds.includes(of) ? of : defaultKind;
  const count = kind === "encoder" ? (look.model.encoder_layers ?? look.model.layers) : look.model.layers;
  const [chosen, setLayer] = useState(0);
  const [chosenHead, setHead] = useState(0);
  const [view, setView] = useState<"map" | "lines">("map");
  const [maps, setMaps] = useState<Maps | null>(null);
  const [error, setError] = useState<unknown>(null);
  const layer = Math.min(chosen, count - 1);
  const head = Math.min(chosenHead, look.model.heads - 1);
  const rows = kind === "encoder" || !look.target ? look.tokens : look.target;
  const keys = kind === "decoder" && look.target ? look.target : look.tokens;
  const fitsOneResponse = count * look.model.heads * rows.length * Math.max(rows.length, keys.length) <= maxValues;
  useEffect(() => {
    const abort = new AbortController();
    const body = { ...lookRequest(subject), what: ["attention"], attention_of: kind, ...(fitsOneResponse ? {} : { layers: [layer] }) };
    post<Look>("/makar/look", body, abort.signal).then(
      (response) => {
        setMaps(read(response.attention!));
        setError(null);
      },
      (e) => abort.signal.aborted || setError(e),
    );
    return () => abort.abort();
  }, [look, kind, fitsOneResponse, fitsOneResponse ? 0 : layer]);
  const mapsMatch = maps && maps.rows === rows.length && maps.keys === keys.length && maps.layers.has(layer);
  const cells = useMemo(() => (mapsMatch ? headCells(maps, layer, head) : null), [maps, mapsMatch, layer, head]);
  return (
    <section class="card" aria-labelledby="attention-title">
      <header>
        <h2 id="attention-title">{words.look.attention}</h2>
        <div class="row">
          {kinds.length > 1 && (
            <select aria-label={words.look.attentionOf} value={kind} onChange={(e) => setOf(e.currentTarget.value)}>
              {kinds.map((k) => (
                <option key={k} value={k}>
                  {words.look.ofNames[k]}
                </option>
              ))}
            </select>
          )}
          <Choice
            label={words.look.view}
            value={view}
            onChange={setView}
            options={[
              ["map", words.look.heatMap],
              ["lines", words.look.lines],
            ]}
          />
        </div>
      </header>
      <p class="hint">{words.look.attentionLead}</p>
      <ErrorMessage error={error} />
      {maps && mapsMatch && (
        <div class={`attention ${maps.heads > 12 ? "wide" : ""}`}>
          <Overview maps={maps} count={count} layer={layer} head={head} onPick={(l, h) => (setLayer(l), setHead(h))} />
          <div class="head">
            <h3>{words.look.headName(layer + 1, head + 1)}</h3>
            {cells && view === "map" && <HeatMap {...{ cells, rows, keys }} label={words.look.mapLabel(layer + 1, head + 1)} />}
            {cells && view === "lines" && <Lines {...{ cells, rows, keys }} />}
          </div>
        </div>
      )}
    </section>
  );
}

interface OverviewProps {
  maps: Maps;
  count: number;
  layer: number;
  head: number;
  onPick: (layer: number, head: number) => void;
}
function Overview({ maps, count, layer, head, onPick }: OverviewProps) {
  const layers = [...Array(count).keys()];
  const move = (e: KeyboardEvent) => {
    const by = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] }[e.key];
    if (!by) return;
    e.preventDefault();
    const l = Math.min(count - 1, Math.max(0, layer + by[0]!));
    const h = Math.min(maps.heads - 1, Math.max(0, head + by[1]!));
    onPick(l, h);
    (e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button")[l * maps.heads + h]?.focus();
  };
  return (
    <div class="overview">
      <h3>{words.look.heads}</h3>
      <div class="grid" role="group" aria-label={words.look.heads} style={{ "--heads": maps.heads }} onKeyDown={move} tabIndex={-1}>
        {layers.map((l) => (
          <div class="grid-row" key={l}>
            <span class="grid-label">{l + 1}</span>
            {[...Array(maps.heads).keys()].map((h) => (
              <Thumb key={h} maps={maps} layer={l} head={h} on={l === layer && h === head} onPick={onPick} />
            ))}
          </div>
        ))}
      </div>
      {!maps.layers.has(0) || maps.layers.size < count ? <p class="hint">{words.look.byLayer}</p> : null}
    </div>
  );
}

interface ThumbProps {
  maps: Maps;
  layer: number;
  head: number;
  on: boolean;
  onPick: (layer: number, head: number) => void;
}
function Thumb({ maps, layer, head, on, onPick }: ThumbProps) {
  const cells = useMemo(() => headCells(maps, layer, head), [maps, layer, head]);
  const name = words.look.headName(layer + 1, head + 1);
  return (
    <button type="button" class={on ? "on" : ""} aria-label={name} title={name} aria-pressed={on} tabIndex={on ? 0 : -1} onClick={() => onPick(layer, head)}>
      <MatrixImage cells={cells} />
    </button>
  );
}
