// The language of the page: the browser's where there is a translation, or the one chosen with the switch.
import { saveSetting, loadSetting, Watched } from "../state";
import { de } from "./de";
import { en, type Words } from "./en";

const languages = { en: { name: "English", words: en }, de: { name: "Deutsch", words: de } };
export type Language = keyof typeof languages;
export const languageNames = Object.entries(languages).map(([id, l]) => [id as Language, l.name] as const);

function preferred(): Language {
  const chosen = loadSetting<string>("language", "");
  for (const tag of [chosen, ...navigator.languages]) {
    const id = tag.toLowerCase().split("-")[0]!;
    if (id in languages) return id as Language;
  }
  return "en";
}

export const language = new Watched<Language>(preferred());
// Changes with the language: read it at each use, do not keep a copy.
export let words: Words = languages[language.value].words;
document.documentElement.lang = language.value;

export function setLanguage(id: Language): void {
  saveSetting("language", id);
  words = languages[id].words;
  document.documentElement.lang = id;
  language.set(id);
}

export function number(value: number, digits?: { min?: number; max?: number }): string {
  return value.toLocaleString(language.value, { minimumFractionDigits: digits?.min, maximumFractionDigits: digits?.max });
}
