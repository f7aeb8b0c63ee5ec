// Where conversations are kept: on the server, or in this tab where the server keeps none.
import { ApiError, get, post, remove } from "../api";
import type { Conversation, Listed, Message, Meta } from "../types";

export interface Keeper {
  readonly lasting: boolean;
  list(): Promise<Listed[]>;
  open(id: number): Promise<Conversation>;
  create(title: string, system: string): Promise<Conversation>;
  change(id: number, change: Partial<Pick<Conversation, "title" | "system" | "leaf" | "settings">>): Promise<void>;
  remove(id: number): Promise<void>;
  add(id: number, parent: number, role: Message["role"], content: string, meta: Meta): Promise<number>;
  rate(message: number, rating: number): Promise<void>;
  prefer(chosen: number, rejected: number[]): Promise<void>;
}

const root = "/makar/conversations";

const onServer: Keeper = {
  lasting: true,
  list: async () => (await get<{ conversations: Listed[] }>(root)).conversations,
  open: (id) => get(`${root}/${id}`),
  create: (title, system) => post(root, { title, system }),
  change: async (id, change) => void (await post(`${root}/${id}`, change)),
  remove: (id) => remove(`${root}/${id}`),
  add: async (id, parent, role, content, meta) => {
    const body = { parent, role, content, meta };
    if (JSON.stringify(meta).length > 900_000) body.meta = { ...meta, tokens: undefined };
    return (await post<{ id: number }>(`${root}/${id}/messages`, body)).id;
  },
  rate: async (message, rating) => void (await post(`/makar/messages/${message}`, { rating })),
  prefer: async (chosen, rejected) => void (await post("/makar/preferences", { chosen, rejected })),
};

class InTab implements Keeper {
  readonly lasting = false;
  private held: Conversation[] = [];
  private next = 1;
  private find(id: number): Conversation {
    const found = this.held.find((c) => c.id === id);
    if (!found) throw new ApiError(`there is no conversation ${id}`, 404, "not_found", "");
    return found;
  }
  async list(): Promise<Listed[]> {
    return this.held.map((c) => ({ id: c.id, title: c.title, updated: 0, messages: c.messages.length }));
  }
  async open(id: number): Promise<Conversation> {
    return structuredClone(this.find(id));
  }
  async create(title: string, system: string): Promise<Conversation> {
    this.held.unshift({ id: this.next++, title, system, settings: {}, leaf: 0, messages: [] });
    return structuredClone(this.held[0]!);
  }
  async change(id: number, change: Partial<Conversation>): Promise<void> {
    Object.assign(this.find(id), change);
  }
  async remove(id: number): Promise<void> {
    this.held = this.held.filter((c) => c.id !== id);
  }
  async add(id: number, parent: number, role: Message["role"], content: string, meta: Meta): Promise<number> {
    const to = this.find(id);
    to.leaf = this.next++;
    to.messages.push({ id: to.leaf, parent, role, content, meta, rating: 0, created: 0 });
    return to.leaf;
  }
  async rate(message: number, rating: number): Promise<void> {
    for (const c of this.held) for (const m of c.messages) if (m.id === message) m.rating = rating;
  }
  async prefer(): Promise<void> {}
}

let found: Promise<Keeper> | null = null;
export function keeper(): Promise<Keeper> {
  found ??= onServer.list().then(
    () => onServer,
    (error: unknown) => {
      // None is kept, or the file cannot be opened.
      if (error instanceof ApiError && ["unsupported", "internal_error"].includes(error.code)) return new InTab();
      found = null;
      throw error;
    },
  );
  return found;
}
