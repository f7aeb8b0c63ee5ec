// Runs whose logs are polled while the page is open.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useInterval } from "../state";
import { emptyRun, fetchNewLines, type Run } from "./run";

export const pollMilliseconds = 2000;

export function useRuns(names: string[]): { runs: ReadonlyMap<string, Run>; error: unknown } {
  const [runs, setRuns] = useState<ReadonlyMap<string, Run>>(new Map());
  const [error, setError] = useState<unknown>(null);
  const runsByName = useRef(new Map<string, Run>());
  const busy = useRef(false);
  const abort = useMemo(() => new AbortController(), []);
  useEffect(() => () => abort.abort(), []);
  const currentNames = useRef(names);
  currentNames.current = names;
  const poll = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      for (const name of currentNames.current) runsByName.current.set(name, await fetchNewLines(name, runsByName.current.get(name) ?? emptyRun(), abort.signal));
      setRuns(new Map(runsByName.current));
      setError(null);
    } catch (e) {
      if (!abort.signal.aborted) setError(e);
    } finally {
      busy.current = false;
    }
  };
  useInterval(() => void poll(), pollMilliseconds, [names.join("\n")]);
  return { runs, error };
}
