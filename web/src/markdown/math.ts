// Formulas in a text: $...$, $$...$$, \(...\), \[...\] and LaTeX environments. Before Markdown is read they are replaced by
// placeholders, so that no underscore or backslash in them is taken for Markdown; code is left alone.
import DOMPurify from "dompurify";
import temml from "temml";

export interface Formula {
  raw: string; // with its delimiters
  tex: string;
  display: boolean;
}

const open = "\uE000";
const close = "\uE001";
const placeholder = /\uE000(\d+)\uE001/g;
const maxFormulaLength = 20_000; // characters

// Normalises line ends and replaces the characters that delimit placeholders.
export function withoutMarks(text: string): string {
  return text.replace(/\r\n?/g, "\n").replace(/[\uE000\uE001]/g, "\uFFFD");
}

// The end of a code span or fence that starts at `at`, or -1.
function codeEnd(text: string, at: number): number {
  const mark = text[at]!;
  let size = 1;
  while (text[at + size] === mark) ++size;
  const fence = mark.repeat(size);
  const lineStart = text.lastIndexOf("\n", at - 1) + 1;
  if (size >= 3 && /^[ >\-*\d.]*$/.test(text.slice(lineStart, at))) {
    for (let end = text.indexOf(`\n`, at); end >= 0; end = text.indexOf("\n", end + 1)) {
      const line = /^[ >]*(`{3,}|~{3,})[ \t]*(?:\n|$)/.exec(text.slice(end + 1, end + 200));
      if (line && line[1]!.startsWith(fence)) return end + 1 + line[0].length;
    }
    return text.length; // a fence that is still open hides the rest
  }
  if (mark === "~") return at + size;
  for (let end = text.indexOf(fence, at + size); end >= 0; ) {
    let run = size;
    while (text[end + run] === mark) ++run;
    if (run === size) return end + run;
    end = text.indexOf(fence, end + run);
  }
  return -1;
}

const environment = /\\begin\{((?:equation|align|gather|multline|alignat|eqnarray|matrix|cases)\*?)\}/y;

// [start of the formula, its end, end with delimiters, display], or null. `missing`: closing delimiters that do not follow.
function formulaAt(text: string, at: number, missing: Set<string>): [number, number, number, boolean] | null {
  const until = (closing: string, from: number, display: boolean): [number, number, number, boolean] | null => {
    if (missing.has(closing)) return null;
    const end = text.indexOf(closing, from);
    if (end < 0) missing.add(closing);
    return end < 0 || end === from || end - from > maxFormulaLength ? null : [from, end, end + closing.length, display];
  };
  if (text.startsWith("$$", at)) return until("$$", at + 2, true);
  if (text.startsWith("\\[", at)) return until("\\]", at + 2, true);
  if (text.startsWith("\\(", at)) return until("\\)", at + 2, false);
  if (text.startsWith("\\begin{", at)) {
    environment.lastIndex = at;
    const name = environment.exec(text)?.[1];
    const found = name ? until(`\\end{${name}}`, at, true) : null;
    return found && [at, found[2], found[2], true];
  }
  // A single dollar: no space inside its ends, one line, no digit after it ("$5 and $6" is money).
  const inline = /\$(?![\s$])((?:\\[^\n]|[^$\\\n]){0,1000}?)(?<!\s)\$(?!\d)/y;
  inline.lastIndex = at;
  const found = inline.exec(text);
  return found && found[1] ? [at + 1, at + 1 + found[1].length, inline.lastIndex, false] : null;
}

export function protect(text: string): { text: string; formulas: Formula[] } {
  const formulas: Formula[] = [];
  const missing = new Set<string>();
  let out = "";
  let from = 0;
  for (let at = 0; at < text.length; ) {
    const c = text[at];
    if (c === "`" || (c === "~" && text.startsWith("~~~", at))) {
      const end = codeEnd(text, at);
      if (end >= 0) at = end;
      else while (text[at] === c) ++at;
      continue;
    }
    if (c !== "$" && c !== "\\") {
      ++at;
      continue;
    }
    const found = formulaAt(text, at, missing);
    if (!found) {
      at += c === "\\" ? 2 : 1;
      continue;
    }
    const [start, end, after, display] = found;
    out += `${text.slice(from, at)}${open}${formulas.length}${close}`;
    formulas.push({ raw: text.slice(at, after), tex: text.slice(start, end), display });
    at = from = after;
  }
  return { text: out + text.slice(from), formulas };
}

export function restore(text: string, formulas: Formula[]): string {
  return text.replace(placeholder, (all, i: string) => formulas[Number(i)]?.raw ?? all);
}

const renderedFormulas = new Map<string, Node>();
const allowedStyle = /^(color|background-color|border(-\w+)*|padding(-\w+)*|math-style|math-depth|font-(weight|style|variant))$/;

// MathML; styles are set through the object model, since the page's policy forbids style attributes.
function mathNode({ tex, display, raw }: Formula): Node {
  const key = `${display}${tex}`;
  const cached = renderedFormulas.get(key);
  if (cached) return cached.cloneNode(true);
  let rendered: Node;
  try {
    const text = temml.renderToString(tex, { displayMode: display, throwOnError: true, maxExpand: 500, maxSize: [20, 20] });
    const fragment = DOMPurify.sanitize(text.replace(/ style="/g, ' data-style="'), {
      USE_PROFILES: { mathMl: true },
      ADD_ATTR: ["data-style"],
      RETURN_DOM_FRAGMENT: true,
    });
    for (const node of fragment.querySelectorAll<MathMLElement>("[data-style]")) {
      for (const rule of node.dataset.style!.split(";")) {
        const [name, value] = rule.split(":").map((part) => part.trim());
        if (name && value && allowedStyle.test(name) && !value.includes("(")) node.style.setProperty(name, value);
      }
      node.removeAttribute("data-style");
    }
    rendered = fragment.firstElementChild ?? document.createTextNode(raw);
  } catch {
    rendered = document.createElement("code");
    rendered.textContent = raw;
  }
  if (renderedFormulas.size > 2000) renderedFormulas.clear();
  renderedFormulas.set(key, rendered);
  return rendered.cloneNode(true);
}

// Replaces the placeholders in the rendered text: by formulas in text nodes, by their source elsewhere.
export function insertFormulas(root: DocumentFragment, formulas: Formula[]): void {
  if (!formulas.length) return;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode()) if ((walker.currentNode as Text).data.includes(open)) found.push(walker.currentNode as Text);
  for (const text of found) {
    if (text.parentElement?.closest("code, pre")) {
      text.data = restore(text.data, formulas);
      continue;
    }
    const parts = text.data.split(placeholder); // text, index, text, ...
    text.replaceWith(...parts.map((part, i) => (i % 2 ? (formulas[Number(part)] ? mathNode(formulas[Number(part)]!) : "") : part)));
  }
  const encoded = new RegExp(`${encodeURI(open)}(\\d+)${encodeURI(close)}`, "gi");
  for (const link of root.querySelectorAll("a[href]")) {
    const source = (_: string, i: string) => encodeURI(formulas[Number(i)]?.raw ?? "");
    link.setAttribute("href", link.getAttribute("href")!.replace(encoded, source));
  }
}
