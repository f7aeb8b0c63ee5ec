// Engine: the state of the server now.
import { useRef, useState } from "preact/hooks";
import { get } from "../api";
import { useInterval } from "../state";
import { number, words } from "../strings";
import type { EngineView } from "../types";
import { ErrorMessage } from "../ui/controls";
import { Pages } from "./pages";
import { Sequences } from "./sequences";
import { Spark } from "./spark";

const pollMilliseconds = 1000;
const maxPoints = 60;

interface Point {
  computed: number;
  inFlight: number;
  batch: number;
  memory: number;
}

export function bytesText(bytes: number): string {
  if (bytes >= 1e9) return `${number(bytes / 1e9, { min: 2, max: 2 })} GB`;
  return `${number(bytes / 1e6, { max: 0 })} MB`;
}

function short(value: number): string {
  return number(value, { max: value >= 100 ? 0 : value >= 10 ? 1 : 2 });
}

export function EnginePage() {
  const [view, setView] = useState<EngineView | null>(null);
  const [points, setPoints] = useState<Point[]>([]);
  const [error, setError] = useState<unknown>(null);
  const previous = useRef<EngineView | null>(null);
  useInterval(() => {
    get<EngineView>("/makar/engine").then((now) => {
      const old = previous.current;
      previous.current = now;
      setView(now);
      setError(null);
      if (!old) return;
      const seconds = Math.max(0.001, now.seconds - old.seconds);
      const steps = now.engine.steps - old.engine.steps;
      const point = {
        computed: (now.engine.rows - old.engine.rows) / seconds,
        inFlight: now.requests.in_flight,
        batch: steps > 0 ? (now.engine.rows - old.engine.rows) / steps : 0,
        memory: now.memory.resident,
      };
      setPoints((all) => [...all.slice(1 - maxPoints), point]);
    }, setError);
  }, pollMilliseconds);
  const t = words.engine;
  const last = points[points.length - 1];
  const tile = (name: string, key: keyof Point, value: string, unit: string) => (
    <section class="card tile" key={name}>
      <h2>{name}</h2>
      <p>
        <b>{value}</b> <span>{unit}</span>
      </p>
      <Spark values={points.map((p) => p[key])} capacity={maxPoints} label={name} />
    </section>
  );
  return (
    <div class="sheet engine">
      <h1>{t.title}</h1>
      <p class="lead">{t.lead}</p>
      <ErrorMessage error={error} />
      {view && (
        <>
          <div class="tiles">
            {tile(t.throughput, "computed", short(last?.computed ?? 0), t.perSecond)}
            {tile(t.inFlight, "inFlight", String(view.requests.in_flight), t.ofSlots(view.requests.max_in_flight))}
            {tile(t.batch, "batch", short(last?.batch ?? 0), t.perStep)}
            {tile(t.memory, "memory", bytesText(view.memory.resident), t.peak(bytesText(view.memory.peak)))}
          </div>
          <Sequences view={view} />
          <Pages view={view} />
          <dl class="figures">
            {(
              [
                [t.running, view.engine.tasks],
                [t.promptTokens, view.prompt_tokens],
                [t.generatedTokens, view.generated_tokens],
                [t.steps, view.engine.steps],
                [t.reused, view.engine.reused],
                [t.preempted, view.engine.preempted],
              ] as [string, number][]
            ).map(([name, value]) => (
              <div key={name}>
                <dt>{name}</dt>
                <dd>{number(value)}</dd>
              </div>
            ))}
            {view.cost && (
              <div>
                <dt>{t.cost}</dt>
                <dd>{t.costs(number(view.cost.money, { max: 6 }), view.cost.currency, number(view.cost.joules, { max: 0 }))}</dd>
              </div>
            )}
          </dl>
        </>
      )}
    </div>
  );
}
