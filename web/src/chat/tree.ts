// A conversation is a tree: editing and regenerating add siblings. One branch of it is shown.
import type { Message } from "../types";

export function children(messages: Message[], parent: number): Message[] {
  return messages.filter((m) => m.parent === parent);
}

// From the first message to `leaf`.
export function branch(messages: Message[], leaf: number): Message[] {
  const byId = new Map(messages.map((m) => [m.id, m]));
  const out: Message[] = [];
  for (let at = byId.get(leaf); at && out.length <= messages.length; at = byId.get(at.parent)) out.push(at);
  return out.reverse();
}

// The newest message below `id`, or `id` itself.
export function lastBelow(messages: Message[], id: number): number {
  for (;;) {
    const below = children(messages, id);
    const last = below[below.length - 1];
    if (!last) return id;
    id = last.id;
  }
}

// The messages without `first` and everything below it, and the leaf of the branch to show then.
export function without(messages: Message[], leaf: number, first: Message): { messages: Message[]; leaf: number } {
  const removed = new Set([first.id]);
  for (const m of messages) if (removed.has(m.parent)) removed.add(m.id); // parents come before their children
  const remaining = messages.filter((m) => !removed.has(m.id));
  return { messages: remaining, leaf: removed.has(leaf) ? lastBelow(remaining, first.parent) : leaf };
}
