// The results of a folder as tables, optionally next to those of another model.
import { useEffect, useState } from "preact/hooks";
import { get } from "../api";
import { number, words } from "../strings";
import type { EvaluationResults, EvaluationRow } from "../types";
import { ErrorMessage } from "../ui/controls";

const key = (row: EvaluationRow) => `${row.task} ${row.metric} ${row.filter}`;

function Score({ row }: { row?: EvaluationRow }) {
  if (!row || row.value === null) return <td class="number">–</td>;
  return (
    <td class="number">
      {number(row.value, { min: 4, max: 4 })}
      {row.stderr !== null && <span class="hint"> ± {number(1.96 * row.stderr, { min: 4, max: 4 })}</span>}
    </td>
  );
}

function useResults(name: string | undefined): { found: EvaluationResults | null; error: unknown } {
  const [found, setFound] = useState<EvaluationResults | null>(null);
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    setFound(null);
    setError(null);
    if (!name) return;
    const abort = new AbortController();
    get<EvaluationResults>(`/makar/results/${encodeURIComponent(name)}`, abort.signal).then(setFound, (e: unknown) => abort.signal.aborted || setError(e));
    return () => abort.abort();
  }, [name]);
  return { found, error };
}

export function Results({ name: selected }: { name?: string }) {
  const [list, setList] = useState<{ folder: string; results: { name: string }[] } | null>(null);
  const [listError, setListError] = useState<unknown>(null);
  const [beside, setBeside] = useState("");
  useEffect(() => void get<{ folder: string; results: { name: string }[] }>("/makar/results").then(setList, setListError), []);
  const name = selected || list?.results[0]?.name;
  const { found, error } = useResults(name);
  const other = useResults(beside || undefined);
  const others = new Map(other.found?.rows.map((row) => [key(row), row]));
  return (
    <>
      <ErrorMessage error={listError ?? error ?? other.error} />
      {list?.results.length === 0 && (
        <section class="card empty">
          <h2>{words.evaluate.noResults}</h2>
          <pre>{words.evaluate.command(list.folder)}</pre>
        </section>
      )}
      {list && list.results.length > 0 && (
        <div class="train-body">
          <nav class="runs" aria-label={words.evaluate.results}>
            <ul>
              {list.results.map((r) => (
                <li key={r.name} class={r.name === name ? "on" : ""}>
                  <a href={`#/evaluate/results/${encodeURIComponent(r.name)}`} aria-current={r.name === name ? "true" : undefined}>
                    {r.name}
                  </a>
                </li>
              ))}
            </ul>
          </nav>
          {found && (
            <section class="scores">
              <h2>{found.model ?? found.name}</h2>
              <label class="beside">
                {words.evaluate.compareWith}{" "}
                <select value={beside} onChange={(e) => setBeside(e.currentTarget.value)}>
                  <option value="">–</option>
                  {list.results.filter((r) => r.name !== name).map((r) => <option key={r.name}>{r.name}</option>)}
                </select>
              </label>
              <div class="wide">
                <table>
                  <thead>
                    <tr>
                      <th scope="col">{words.evaluate.task}</th>
                      <th scope="col">{words.evaluate.metric}</th>
                      <th scope="col">{words.evaluate.documents}</th>
                      <th scope="col">{found.name}</th>
                      {beside && <th scope="col">{beside}</th>}
                    </tr>
                  </thead>
                  <tbody>
                    {found.rows.map((row) => (
                      <tr key={key(row)}>
                        <td>{row.task}</td>
                        <td>
                          {row.metric}
                          {row.filter !== "none" && <span class="hint"> {row.filter}</span>} {row.higher_is_better ? "↑" : "↓"}
                        </td>
                        <td class="number">{row.documents ?? "–"}</td>
                        <Score row={row} />
                        {beside && <Score row={others.get(key(row))} />}
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              <p class="hint">{words.evaluate.interval}</p>
            </section>
          )}
        </div>
      )}
    </>
  );
}
