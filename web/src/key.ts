// The API key of the server, and the request to the user to enter it. The key is stored until the tab is closed.
import { Watched } from "./state";

const name = "makar-key";

export interface KeyQuestion {
  wrong: boolean; // the previous key was refused
  answer: (key: string | null) => void; // null: the user closed the dialog
}
export const keyQuestion = new Watched<KeyQuestion | null>(null);
// The user closed the dialog: requests fail until the user opens it again.
export const keyDeclined = new Watched(false);
let asking: Promise<string | null> | null = null;

export function storedKey(): string {
  return sessionStorage.getItem(name) ?? "";
}

// Asks once, however many requests need the key. Null: declined.
export function askForKey(wrong: boolean): Promise<string | null> {
  if (keyDeclined.value) return Promise.resolve(null);
  asking ??= new Promise((resolve) =>
    keyQuestion.set({
      wrong,
      answer: (key) => {
        asking = null;
        keyQuestion.set(null);
        if (key === null) keyDeclined.set(true);
        else sessionStorage.setItem(name, key);
        resolve(key);
      },
    }),
  );
  return asking;
}
