// Values that components observe, and what the browser stores for this page.
import { useEffect, useState } from "preact/hooks";

export class Watched<T> {
  private watchers = new Set<() => void>();
  constructor(private current: T) {}
  get value(): T {
    return this.current;
  }
  set(value: T): void {
    this.current = value;
    for (const watcher of [...this.watchers]) watcher();
  }
  change(part: Partial<T>): void {
    this.set({ ...this.current, ...part });
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
function readStorage<T>(storage: () => Storage, name: string, fallback: T): T {
  try {
    const text = storage().getItem(`makar-${name}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

function writeStorage(storage: () => Storage, name: string, value: unknown): void {
  try {
    storage().setItem(`makar-${name}`, JSON.stringify(value));
  } catch {
    // The value lasts until the tab is closed.
  }
}

// Settings are stored in the browser; tab values until the tab is closed.
export const loadSetting = <T>(name: string, fallback: T): T => readStorage(() => localStorage, name, fallback);
export const saveSetting = (name: string, value: unknown): void => writeStorage(() => localStorage, name, value);
export const loadFromTab = <T>(name: string, fallback: T): T => readStorage(() => sessionStorage, name, fallback);
export const saveInTab = (name: string, value: unknown): void => writeStorage(() => sessionStorage, name, value);

// Calls `action` immediately and then at intervals while the page is visible. A changed value in `restart` starts over.
export function useInterval(action: () => void, milliseconds: number, restart: unknown[] = []): void {
  useEffect(() => {
    action();
    const timer = setInterval(() => document.hidden || action(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, ...restart]);
}
