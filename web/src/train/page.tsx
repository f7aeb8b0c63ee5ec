// Train: the runs of a folder, and the selected run.
import { useState } from "preact/hooks";
import { get } from "../api";
import { address } from "../address";
import { useInterval, useWatched } from "../state";
import { words } from "../strings";
import { ErrorMessage } from "../ui/controls";
import { maxCompared } from "./curves";
import { RunView } from "./run_view";
import { pollMilliseconds } from "./use_runs";

interface ListedRun {
  name: string;
  bytes: number;
  changed: number;
}

const liveSeconds = 30;

export function TrainPage() {
  const [, selected] = useWatched(address);
  const [folder, setFolder] = useState("");
  const [runs, setRuns] = useState<ListedRun[] | null>(null);
  const [chosen, setChosen] = useState<string[]>([]); // to compare with
  const [error, setError] = useState<unknown>(null);
  const list = () =>
    get<{ folder: string; runs: ListedRun[] }>("/makar/runs").then((found) => {
      setFolder(found.folder);
      setRuns(found.runs);
      setError(null);
    }, setError);
  useInterval(list, pollMilliseconds * 2);
  const name = selected || runs?.[0]?.name;
  const compared = chosen.filter((other) => other !== name && runs?.some((r) => r.name === other));
  const now = Date.now() / 1000;
  return (
    <div class="sheet train">
      <h1>{words.train.title}</h1>
      <p class="lead">{folder && words.train.lead(folder)}</p>
      <ErrorMessage error={error} onRetry={() => void list()} />
      {runs?.length === 0 && (
        <section class="card empty">
          <h2>{words.train.noRuns}</h2>
          <p class="hint">{words.train.noneHint}</p>
          <pre>{words.train.command(folder)}</pre>
        </section>
      )}
      {runs && runs.length > 0 && (
        <div class="train-body">
          <nav class="runs" aria-label={words.train.runs}>
            <h2>{words.train.runs}</h2>
            <ul>
              {runs.map((r) => (
                <li key={r.name} class={r.name === name ? "on" : ""}>
                  <a href={`#/train/${encodeURIComponent(r.name)}`} aria-current={r.name === name ? "true" : undefined}>
                    {r.name}
                    {now - r.changed < liveSeconds && <span class="live">{words.train.live}</span>}
                  </a>
                  {runs.length > 1 && r.name !== name && (
                    <input
                      type="checkbox"
                      aria-label={words.train.compareWith(r.name)}
                      title={words.train.compareWith(r.name)}
                      checked={compared.includes(r.name)}
                      disabled={!compared.includes(r.name) && compared.length >= maxCompared}
                      onChange={(e) => setChosen(e.currentTarget.checked ? [...compared, r.name] : compared.filter((c) => c !== r.name))}
                    />
                  )}
                </li>
              ))}
            </ul>
          </nav>
          {name && <RunView key={name} name={name} compared={compared} />}
        </div>
      )}
    </div>
  );
}
