// The address of the page: the parts of the hash, such as #/chat/12.
import { Watched } from "./state";

function read(): string[] {
  try {
    return location.hash.slice(2).split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}
export const address = new Watched(read());
addEventListener("hashchange", () => address.set(read()));

// Changes the address of the current view without a new entry in the history.
export function replaceAddress(...parts: string[]): void {
  history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}`);
  address.set(parts);
}

export const pages = ["chat", "look", "train", "evaluate", "engine"] as const;
export type PageName = (typeof pages)[number];
export function currentPage(): PageName {
  const [name] = address.value;
  return pages.find((p) => p === name) ?? "chat";
}
