// The store of conversations: on the server, or in this tab if the server stores none.
import { ApiError, get, post, remove } from "../api";
import type { Conversation, ConversationSummary, Message, Meta, TokenMark } from "../types";
import { without } from "./tree";

export interface ConversationStore {
  readonly persistent: boolean;
  list(): Promise<ConversationSummary[]>;
  open(id: number): Promise<Conversation>;
  create(start: Pick<Conversation, "title" | "system" | "settings">): Promise<Conversation>;
  change(id: number, change: Partial<Pick<Conversation, "title" | "system" | "leaf" | "settings">>): Promise<void>;
  remove(id: number): Promise<void>;
  add(id: number, parent: number, role: Message["role"], content: string, meta: Meta): Promise<number>;
  edit(message: number, content: string, meta: Meta): Promise<void>;
  // Removes the message and everything below it. Returns the leaf of the branch to show.
  removeMessage(message: number): Promise<number>;
  rate(message: number, rating: number): Promise<void>;
  // Conversations that contain the text, with an excerpt.
  search(text: string): Promise<{ id: number; excerpt: string }[]>;
  prefer(chosen: number, rejected: number[]): Promise<void>;
}

const root = "/makar/conversations";
const maxMetaLength = 900_000; // characters; the server's limit is 1 MiB

// The probabilities of a long answer are stored with fewer alternatives, or without, or not at all. A token takes about 20
// characters, an alternative 25.
function storable(meta: Meta): Meta {
  const count = meta.tokens?.length ?? 0;
  for (const max of [5, 2, 0]) {
    if (count * (10 + 15 * max) > maxMetaLength) continue;
    const reduced = { ...meta, tokens: meta.tokens?.map(([text, p, others]): TokenMark => [text, p, others.slice(0, max)]) };
    if (JSON.stringify(reduced).length <= maxMetaLength) return reduced;
  }
  return { ...meta, tokens: undefined };
}

// Conversations stored by earlier versions call the images of a message pictures.
function withImages(conversation: Conversation): Conversation {
  for (const message of conversation.messages) {
    const earlier = (message.meta as { pictures?: Meta["images"] }).pictures;
    if (earlier) message.meta.images ??= earlier;
  }
  return conversation;
}

const onServer: ConversationStore = {
  persistent: true,
  list: async () => (await get<{ conversations: ConversationSummary[] }>(root)).conversations,
  open: async (id) => withImages(await get<Conversation>(`${root}/${id}`)),
  create: (start) => post(root, start),
  change: async (id, change) => void (await post(`${root}/${id}`, change)),
  remove: async (id) => void (await remove(`${root}/${id}`)),
  add: async (id, parent, role, content, meta) =>
    (await post<{ id: number }>(`${root}/${id}/messages`, { parent, role, content, meta: storable(meta) })).id,
  edit: async (message, content, meta) => void (await post(`/makar/messages/${message}`, { content, meta: storable(meta) })),
  removeMessage: async (message) => (await remove<{ leaf: number }>(`/makar/messages/${message}`)).leaf,
  search: async (text) => (await post<{ found: { id: number; excerpt: string }[] }>("/makar/search", { text })).found,
  rate: async (message, rating) => void (await post(`/makar/messages/${message}`, { rating })),
  prefer: async (chosen, rejected) => void (await post("/makar/preferences", { chosen, rejected })),
};

class InTab implements ConversationStore {
  readonly persistent = false;
  private conversations: Conversation[] = [];
  private next = 1;
  private find(id: number): Conversation {
    const found = this.conversations.find((c) => c.id === id);
    if (!found) throw new ApiError(`conversation ${id} not found`, 404, "not_found", "");
    return found;
  }
  async list(): Promise<ConversationSummary[]> {
    return this.conversations.map((c) => ({ id: c.id, title: c.title, updated: 0, messages: c.messages.length }));
  }
  async open(id: number): Promise<Conversation> {
    return structuredClone(this.find(id));
  }
  async create(start: Pick<Conversation, "title" | "system" | "settings">): Promise<Conversation> {
    this.conversations.unshift({ id: this.next++, ...start, leaf: 0, messages: [] });
    return structuredClone(this.conversations[0]!);
  }
  async change(id: number, change: Partial<Conversation>): Promise<void> {
    Object.assign(this.find(id), change);
  }
  async remove(id: number): Promise<void> {
    this.conversations = this.conversations.filter((c) => c.id !== id);
  }
  async add(id: number, parent: number, role: Message["role"], content: string, meta: Meta): Promise<number> {
    const to = this.find(id);
    to.leaf = this.next++;
    to.messages.push({ id: to.leaf, parent, role, content, meta, rating: 0, created: 0 });
    return to.leaf;
  }
  private messageOf(message: number): [Conversation, Message] {
    for (const c of this.conversations) for (const m of c.messages) if (m.id === message) return [c, m];
    throw new ApiError(`message ${message} not found`, 404, "not_found", "");
  }
  async edit(message: number, content: string, meta: Meta): Promise<void> {
    Object.assign(this.messageOf(message)[1], { content, meta });
  }
  async removeMessage(message: number): Promise<number> {
    const [from, first] = this.messageOf(message);
    const { messages, leaf } = without(from.messages, from.leaf, first);
    Object.assign(from, { messages, leaf });
    return leaf;
  }
  async rate(message: number, rating: number): Promise<void> {
    this.messageOf(message)[1].rating = rating;
  }
  async search(text: string): Promise<{ id: number; excerpt: string }[]> {
    const query = text.toLowerCase();
    return this.conversations.flatMap((c) => {
      const found = c.messages.find((m) => m.content.toLowerCase().includes(query));
      if (!found) return [];
      const at = Math.max(0, found.content.toLowerCase().indexOf(query) - 30);
      return [{ id: c.id, excerpt: found.content.slice(at, at + 120) }];
    });
  }
  async prefer(): Promise<void> {}
}

let storePromise: Promise<ConversationStore> | null = null;
export function conversationStore(): Promise<ConversationStore> {
  storePromise ??= onServer.list().then(
    () => onServer,
    (error: unknown) => {
      // The server stores none, or its file cannot be opened.
      if (error instanceof ApiError && ["unsupported", "internal_error"].includes(error.code)) return new InTab();
      storePromise = null;
      throw error;
    },
  );
  return storePromise;
}
