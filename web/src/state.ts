// Values that components observe, and what the browser stores for this page.
import { useEffect, useState } from "preact/hooks";

export class Watched<T> {
  private watchers = new Set<() => void>();
  constructor(private held: T) {}
  get value(): T {
    return this.held;
  }
  set(value: T): void {
    this.held = value;
    for (const watcher of [...this.watchers]) watcher();
  }
  change(part: Partial<T>): void {
    this.set({ ...this.held, ...part });
  }
  watch(watcher: () => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }
}

export function useWatched<T>(source: Watched<T>): T {
  const [, tick] = useState(0);
  useEffect(() => source.watch(() => tick((n) => n + 1)), [source]);
  return source.value;
}

// Returns the fallback if the browser stores nothing, as in private windows.
function stored<T>(storage: () => Storage, name: string, fallback: T): T {
  try {
    const text = storage().getItem(`makar-${name}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

function store(storage: () => Storage, name: string, value: unknown): void {
  try {
    storage().setItem(`makar-${name}`, JSON.stringify(value));
  } catch {
    // The value lasts until the tab is closed.
  }
}

export const kept = <T>(name: string, fallback: T): T => stored(() => localStorage, name, fallback);
export const keep = (name: string, value: unknown): void => store(() => localStorage, name, value);
export const keptInTab = <T>(name: string, fallback: T): T => stored(() => sessionStorage, name, fallback);
export const keepInTab = (name: string, value: unknown): void => store(() => sessionStorage, name, value);

export function useInterval(what: () => void, milliseconds: number, restart: unknown[] = []): void {
  useEffect(() => {
    what();
    const timer = setInterval(() => document.hidden || what(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, ...restart]);
}
