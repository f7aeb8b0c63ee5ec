// A value that components watch.
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

// What the browser keeps for this page; private windows may keep nothing.
export function kept<T>(name: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`makar-${name}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function keep(name: string, value: unknown): void {
  try {
    localStorage.setItem(`makar-${name}`, JSON.stringify(value));
  } catch {
    // Then it lasts until the tab is closed.
  }
}

export function useInterval(what: () => void, milliseconds: number, restart: unknown[] = []): void {
  useEffect(() => {
    what();
    const timer = setInterval(() => document.hidden || what(), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds, ...restart]);
}
