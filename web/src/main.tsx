// The frame around all pages: where one is, which model, which colours, the key.
import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { get, onKeyNeeded } from "./api";
import { ChatPage } from "./chat/page";
import { EnginePage } from "./engine/page";
import { LookPage } from "./look/page";
import { place } from "./place";
import { keep, kept, useWatched, Watched } from "./state";
import { words } from "./strings";
import { TrainPage } from "./train/page";
import type { Model } from "./types";
import { Dialog, IconButton, Trouble } from "./ui/controls";
import { Icon, type IconName } from "./ui/icons";
import "./style/main.css";

type Theme = "system" | "light" | "dark";
const themes: Record<Theme, [Theme, IconName]> = {
  system: ["light", "both"],
  light: ["dark", "sun"],
  dark: ["system", "moon"],
};

const keyAsked = new Watched<((key: string) => void) | null>(null);
let asking: Promise<string> | null = null;
onKeyNeeded(() => {
  asking ??= new Promise<string>((resolve) =>
    keyAsked.set((key) => {
      asking = null;
      keyAsked.set(null);
      resolve(key);
    }),
  );
  return asking;
});

function KeyDialog({ give }: { give: (key: string) => void }) {
  const [key, setKey] = useState("");
  return (
    <Dialog title={words.key.title} onClose={() => give(key)}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          give(key);
        }}
      >
        <label for="key">{words.key.label}</label>
        <input id="key" type="password" autocomplete="off" value={key} onInput={(e) => setKey(e.currentTarget.value)} />
        <p class="hint">{words.key.hint}</p>
        <button class="primary">{words.key.go}</button>
      </form>
    </Dialog>
  );
}

const pages = ["chat", "look", "train", "engine"] as const;

function App() {
  const [page = "chat"] = useWatched(place);
  const here = (pages as readonly string[]).includes(page) ? page : "chat";
  const give = useWatched(keyAsked);
  const [theme, setTheme] = useState<Theme>(kept("theme", "system"));
  const [models, setModels] = useState<Model[]>([]);
  const [model, setModel] = useState<string>(kept("model", ""));
  const [error, setError] = useState<unknown>(null);
  useEffect(() => {
    get<{ data: Model[] }>("/v1/models").then((list) => setModels(list.data), setError);
  }, []);
  useLayoutEffect(() => {
    keep("theme", theme);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
    };
    apply();
    dark.addEventListener("change", apply);
    return () => dark.removeEventListener("change", apply);
  }, [theme]);
  useEffect(() => {
    document.title = `${words.nav[here as (typeof pages)[number]]} · ${words.name}`;
  }, [here]);
  const current = models.find((m) => m.id === model) ?? models[0];
  const pick = (id: string) => {
    setModel(id);
    keep("model", id);
  };
  const [next, icon] = themes[theme];
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.getElementById("main")?.focus())}>
        {words.skip}
      </a>
      <header class="top">
        <span class="wordmark">{words.name}</span>
        <nav aria-label={words.nav.label}>
          {pages.map((name) => (
            <a key={name} href={`#/${name}`} aria-current={name === here ? "page" : undefined}>
              <Icon name={name} />
              <span>{words.nav[name]}</span>
            </a>
          ))}
        </nav>
        <div class="top-end">
          {models.length > 1 ? (
            <select aria-label={words.model} value={current?.id} onChange={(e) => pick(e.currentTarget.value)}>
              {models.map((m) => (
                <option key={m.id}>{m.id}</option>
              ))}
            </select>
          ) : (
            <span class="model-name" title={words.model}>
              {current?.id}
            </span>
          )}
          <IconButton icon={icon} label={words.theme[theme]} onClick={() => setTheme(next)} />
        </div>
      </header>
      <main id="main" tabIndex={-1} class={`page-${here}`}>
        <Trouble error={error} />
        {here === "chat" && <ChatPage model={current} />}
        {here === "look" && <LookPage model={current} />}
        {here === "train" && <TrainPage />}
        {here === "engine" && <EnginePage />}
      </main>
      {give && <KeyDialog give={give} />}
    </>
  );
}

render(<App />, document.getElementById("app")!);
