// The models of the server, and the one in use.
import { get } from "./api";
import { saveSetting, loadSetting, Watched } from "./state";
import type { Model } from "./types";

interface Models {
  list: Model[];
  chosen: string;
  error: unknown;
}
export const models = new Watched<Models>({ list: [], chosen: loadSetting("model", ""), error: null });

export async function refreshModels(): Promise<void> {
  try {
    models.change({ list: (await get<{ data: Model[] }>("/v1/models")).data, error: null });
  } catch (error) {
    models.change({ error });
  }
}

export function chooseModel(id: string): void {
  saveSetting("model", id);
  models.change({ chosen: id });
}

// Chat needs a model that generates text; the other pages accept every model.
export function modelsFor(list: Model[], page: string): Model[] {
  return page === "chat" ? list.filter((m) => m.generates) : list;
}
