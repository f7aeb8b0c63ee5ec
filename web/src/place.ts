// The address of the page: the parts of the hash, such as #/chat/12.
import { Watched } from "./state";

function read(): string[] {
  try {
    return location.hash.slice(2).split("/").map(decodeURIComponent);
  } catch {
    return [];
  }
}
export const place = new Watched(read());
addEventListener("hashchange", () => place.set(read()));

// Changes the address of the current view without a new entry in the history.
export function replacePlace(...parts: string[]): void {
  history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}`);
  place.set(parts);
}

export const pages = ["chat", "look", "train", "evaluate", "engine"] as const;
export type PageName = (typeof pages)[number];
export function currentPage(): PageName {
  const [name] = place.value;
  return pages.find((p) => p === name) ?? "chat";
}
