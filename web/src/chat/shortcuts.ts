// Keys that work anywhere on the chat page. Dialogs and panels handle Escape themselves.
import { useEffect } from "preact/hooks";
import { session } from "./session";
import { stop } from "./generation";

export function useShortcuts(onSearch: () => void): void {
  useEffect(() => {
    const onKey = (e: KeyboardEvent) => {
      const command = e.ctrlKey || e.metaKey;
      if (command && !e.shiftKey && e.key.toLowerCase() === "k") {
        e.preventDefault();
        onSearch();
      } else if (command && e.shiftKey && e.key.toLowerCase() === "o") {
        e.preventDefault();
        location.hash = "#/chat";
      } else if (e.key === "Escape" && !e.defaultPrevented && !document.querySelector("dialog[open]")) {
        stop(session.value.open?.id ?? 0);
      }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [onSearch]);
}
