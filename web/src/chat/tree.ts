// A conversation is a tree: editing and answering again make siblings. One branch of it is shown.
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

// The newest message below `id`, itself where there is none.
export function lastBelow(messages: Message[], id: number): number {
  for (;;) {
    const below = children(messages, id);
    const last = below[below.length - 1];
    if (!last) return id;
    id = last.id;
  }
}
