// Runs that are read again while the page is open.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useInterval } from "../state";
import { emptyRun, grown, type Run } from "./run";

export const pollMilliseconds = 2000;

export function useRuns(names: string[]): { runs: ReadonlyMap<string, Run>; error: unknown } {
  const [runs, setRuns] = useState<ReadonlyMap<string, Run>>(new Map());
  const [error, setError] = useState<unknown>(null);
  const held = useRef(new Map<string, Run>());
  const busy = useRef(false);
  const late = useMemo(() => new AbortController(), []);
  useEffect(() => () => late.abort(), []);
  const wanted = useRef(names);
  wanted.current = names;
  const poll = async () => {
    if (busy.current) return;
    busy.current = true;
    try {
      for (const name of wanted.current) held.current.set(name, await grown(name, held.current.get(name) ?? emptyRun(), late.signal));
      setRuns(new Map(held.current));
      setError(null);
    } catch (e) {
      if (!late.signal.aborted) setError(e);
    } finally {
      busy.current = false;
    }
  };
  useInterval(() => void poll(), pollMilliseconds, [names.join("\n")]);
  return { runs, error };
}
