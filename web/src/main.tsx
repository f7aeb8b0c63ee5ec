// The frame around all pages: navigation, model, language, theme, key.
import { render } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { generations } from "./chat/generation";
import { ChatPage } from "./chat/page";
import { session } from "./chat/session";
import { EnginePage } from "./engine/page";
import { EvaluatePage } from "./evaluate/page";
import { keyDeclined, keyQuestion, type KeyQuestion } from "./key";
import { LookPage } from "./look/page";
import { chooseModel, models, modelsFor, refreshModels } from "./models";
import { address, currentPage, pages, type PageName } from "./address";
import { saveSetting, loadSetting, useWatched } from "./state";
import { language, type Language, languageNames, setLanguage, words } from "./strings";
import { TrainPage } from "./train/page";
import type { Model } from "./types";
import { Dialog, IconButton, ErrorMessage } from "./ui/controls";
import { Icon, type IconName } from "./ui/icons";
import "./style/main.css";

type Theme = "system" | "light" | "dark";
const themes: Record<Theme, [Theme, IconName]> = {
  system: ["light", "both"],
  light: ["dark", "sun"],
  dark: ["system", "moon"],
};

function KeyDialog({ question }: { question: KeyQuestion }) {
  const [key, setKey] = useState("");
  return (
    <Dialog title={words.key.title} onClose={() => question.answer(null)}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          if (key) question.answer(key);
        }}
      >
        <label for="key">{words.key.label}</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          autofocus
          aria-invalid={question.wrong}
          aria-describedby={question.wrong ? "key-wrong" : undefined}
          value={key}
          onInput={(e) => setKey(e.currentTarget.value)}
        />
        {question.wrong && (
          <p class="error-message" id="key-wrong" role="alert">
            {words.key.wrong}
          </p>
        )}
        <p class="hint">{words.key.hint}</p>
        <button class="primary" disabled={!key}>
          {words.key.go}
        </button>
      </form>
    </Dialog>
  );
}

function KeyNeeded() {
  return (
    <div class="error-message key-needed" role="alert">
      <span>{words.key.needed}</span>
      <button
        type="button"
        onClick={() => {
          keyDeclined.set(false);
          void refreshModels();
        }}
      >
        {words.key.enter}
      </button>
    </div>
  );
}

function ModelPicker({ list, current }: { list: Model[]; current?: Model }) {
  const state = (m: Model) => (m.loaded ? words.modelLoaded : words.modelNotLoaded);
  if (list.length < 2)
    return (
      <span class="model-name" title={current && `${words.model}: ${state(current)}`}>
        {current?.id}
      </span>
    );
  return (
    <select aria-label={words.model} value={current?.id} onChange={(e) => chooseModel(e.currentTarget.value)}>
      {list.map((m) => (
        <option key={m.id} value={m.id} data-loaded={m.loaded}>
          {m.loaded ? m.id : `${m.id} (${words.modelNotLoaded})`}
        </option>
      ))}
    </select>
  );
}

// The chat that was open, so that its link leads back to it.
function pageAddress(page: PageName): string {
  const { open } = session.value;
  return page === "chat" && open ? `#/chat/${open.id}` : `#/${page}`;
}

function App() {
  useWatched(address);
  useWatched(session);
  const page = currentPage();
  const question = useWatched(keyQuestion);
  const declined = useWatched(keyDeclined);
  const currentLanguage = useWatched(language);
  const { list, chosen, error } = useWatched(models);
  const inFlight = useWatched(generations).size;
  const [theme, setTheme] = useState<Theme>(loadSetting("theme", "system"));
  // A model may be loaded by the first request to it.
  useEffect(() => void refreshModels(), [declined, inFlight]);
  useLayoutEffect(() => {
    saveSetting("theme", theme);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
    };
    apply();
    dark.addEventListener("change", apply);
    return () => dark.removeEventListener("change", apply);
  }, [theme]);
  useEffect(() => {
    document.title = `${words.nav[page]} · ${words.name}`;
  }, [page, currentLanguage]);
  const usable = modelsFor(list, page);
  const current = usable.find((m) => m.id === chosen) ?? usable[0];
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
            <a key={name} href={pageAddress(name)} aria-current={name === page ? "page" : undefined}>
              <Icon name={name} />
              <span>{words.nav[name]}</span>
            </a>
          ))}
        </nav>
        <div class="top-end">
          {(page === "chat" || page === "look") && <ModelPicker list={usable} current={current} />}
          <select class="language" aria-label={words.language} value={currentLanguage} onChange={(e) => setLanguage(e.currentTarget.value as Language)}>
            {languageNames.map(([id, name]) => (
              <option key={id} value={id} lang={id} aria-label={name}>
                {id.toUpperCase()}
              </option>
            ))}
          </select>
          <IconButton icon={icon} label={words.theme[theme]} onClick={() => setTheme(next)} />
        </div>
      </header>
      <main id="main" tabIndex={-1} class={`page-${page}`}>
        {declined ? (
          <KeyNeeded />
        ) : (
          <div class="page" key={currentLanguage}>
            <ErrorMessage error={error} onRetry={() => void refreshModels()} />
            {page === "chat" && <ChatPage model={current} />}
            {page === "look" && <LookPage model={current} />}
            {page === "train" && <TrainPage />}
            {page === "evaluate" && <EvaluatePage />}
            {page === "engine" && <EnginePage />}
          </div>
        )}
      </main>
      {question && <KeyDialog question={question} key={question.wrong ? "wrong" : "first"} />}
    </>
  );
}

render(<App />, document.getElementById("app")!);
