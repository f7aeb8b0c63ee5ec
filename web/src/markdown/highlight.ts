// Code with its comments, strings, numbers and keywords marked, by the comment and string syntax of its language.
export type Kind = "" | "comment" | "string" | "number" | "word";
export type Pieces = [Kind, string][];

const keywords = new Set(
  (
    "and as async await auto begin bool break case catch char class const continue def default defer delete do done double elif else elsif " +
    "end enum esac except export extends extern false fi final finally float fn for foreach from func function go if impl import in " +
    "int interface is lambda let local long loop match mod module mut namespace new nil none not null or package pass private " +
    "protected pub public raise return self short static string struct super switch template then this throw trait " +
    "true try type typedef typename union unless unsigned until use using val var void when where while with yield None True False " +
    "SELECT FROM WHERE INSERT INTO UPDATE DELETE JOIN LEFT ON GROUP ORDER BY LIMIT VALUES CREATE TABLE AND OR NOT NULL AS"
  ).split(" "),
);

// How a language writes comments and strings. `blocks` and `long` may span lines: [opening, closing].
export interface Syntax {
  line?: string; // a pattern
  blocks?: [string, string][];
  long?: [string, string][];
  quotes?: string; // characters that delimit strings on one line
  directives?: boolean; // lines such as #include
}

const slash: Syntax = { line: "//", blocks: [["/*", "*/"]], quotes: `"'` };
const hash: Syntax = { line: "#", quotes: `"'` };
const dash: Syntax = { line: "--", quotes: `"'` };
const syntaxes: Record<string, Syntax> = {
  "c cpp c++ cc h hpp cuda cu objc arduino glsl hlsl": { ...slash, directives: true },
  "java js javascript jsx mjs ts typescript tsx go swift kotlin kt scala dart zig groovy csharp cs c# scss less jsonc proto": {
    ...slash,
    long: [["`", "`"]],
  },
  "rust rs": { ...slash, quotes: `"` },
  php: { ...slash, line: "(?://|#)" },
  css: { blocks: [["/*", "*/"]], quotes: `"'` },
  "python py python3 ipython gdscript": {
    ...hash,
    long: [
      [`"""`, `"""`],
      ["'''", "'''"],
    ],
  },
  "sh bash shell zsh fish console ruby rb perl pl r julia jl elixir ex nim toml yaml yml make makefile dockerfile cmake conf ini awk tcl powershell ps1":
    { ...hash, line: "(?<![\\w$&])#" },
  sql: { ...dash, blocks: [["/*", "*/"]] },
  lua: { ...dash, blocks: [["--[[", "]]"]] },
  "haskell hs elm": { ...dash, quotes: `"`, blocks: [["{-", "-}"]] },
  "html xml svg vue markdown md": { blocks: [["<!--", "-->"]], quotes: `"` },
  "json json5": { quotes: `"` },
  "lisp clojure clj scheme racket elisp asm nasm": { line: ";", quotes: `"` },
  "tex latex matlab octave erlang prolog": { line: "%", quotes: `"` },
};
const byName = new Map(Object.entries(syntaxes).flatMap(([names, s]) => names.split(" ").map((name) => [name, s] as const)));

// The syntax of code without a language, guessed from its first lines; unknown code stays plain.
function guess(text: string): Syntax {
  const head = text.slice(0, 2000);
  if (/^\s*#\s*include\b/m.test(head)) return byName.get("c")!;
  if (/^\s*(def|from|import|elif|print\(|class \w+:)/m.test(head) || /^\s*(if|for|while)\b.*:\s*$/m.test(head)) return byName.get("python")!;
  if (/^\s*(\$ |#!|sudo |apt |git |npm |pip |cd |export \w+=)/m.test(head)) return byName.get("sh")!;
  if (/[;{]\s*$/m.test(head)) return slash;
  return {};
}

export function syntaxOf(language: string, text: string): Syntax {
  return byName.get(language.toLowerCase()) ?? (language ? {} : guess(text));
}

const literal = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
const patterns = new Map<Syntax, RegExp>();
function pattern(s: Syntax): RegExp {
  let regex = patterns.get(s);
  if (!regex) {
    const opening = [...(s.blocks ?? []), ...(s.long ?? [])].map(([o]) => literal(o)).join("|");
    const strings = [...(s.quotes ?? "")].map((q) => `${q}(?:\\\\.|[^${q}\\\\\\n])*${q}`).join("|");
    const never = "(?!)";
    const parts = [
      `(?<open>${opening || never})`,
      `(?<comment>${s.line ? `${s.line}[^\\n]*` : never})`,
      `(?<directive>${s.directives ? "(?<=^[ \\t]*)#[ \\t]*\\w+" : never})`,
      `(?<string>${strings || never})`,
      "(?<number>\\b\\d[\\w.]*)",
      "(?<name>[A-Za-z_]\\w*)",
    ];
    patterns.set(s, (regex = new RegExp(parts.join("|"), "gm")));
  }
  regex.lastIndex = 0;
  return regex;
}

// The pieces of some lines. `inside` is the closing mark of a comment or string that began before them.
export function highlight(text: string, s: Syntax, inside: string): { pieces: Pieces; inside: string } {
  const pieces: Pieces = [];
  const push = (kind: Kind, piece: string) => {
    const last = pieces[pieces.length - 1];
    if (last && last[0] === kind) last[1] += piece;
    else if (piece) pieces.push([kind, piece]);
  };
  const kindOf = (closing: string): Kind => (s.long?.some(([, c]) => c === closing) ? "string" : "comment");
  let at = 0;
  const through = (closing: string, from: number): boolean => {
    const end = text.indexOf(closing, from);
    const to = end < 0 ? text.length : end + closing.length;
    push(kindOf(closing), text.slice(at, to));
    at = to;
    return end >= 0;
  };
  if (inside && !through(inside, 0)) return { pieces, inside };
  const find = pattern(s);
  find.lastIndex = at;
  for (let found = find.exec(text); found; found = find.exec(text)) {
    push("", text.slice(at, found.index));
    at = found.index;
    const g = found.groups!;
    if (g.open) {
      const closing = [...(s.blocks ?? []), ...(s.long ?? [])].find(([o]) => o === g.open)![1];
      if (!through(closing, at + g.open.length)) return { pieces, inside: closing };
    } else {
      const word = g.directive || (g.name && keywords.has(g.name));
      push(g.comment ? "comment" : g.string ? "string" : g.number ? "number" : word ? "word" : "", found[0]);
      at += found[0].length;
    }
    find.lastIndex = at;
  }
  push("", text.slice(at));
  return { pieces, inside: "" };
}
