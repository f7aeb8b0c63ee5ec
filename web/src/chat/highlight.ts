// Code with its comments, strings, numbers and keywords marked, whatever the language is: enough to read by.
const keywords = new Set(
  (
    "and as async await auto bool break case catch char class const continue def default delete do double elif else " +
    "enum except export extends false final finally float fn for from func function if impl import in include int " +
    "interface is lambda let long loop match mod module mut namespace new nil none not null or package pass private " +
    "protected pub public raise return self short static std string struct super switch template this throw trait " +
    "true try type typedef typename union unsigned use using var void while with yield None True False"
  ).split(" "),
);
const pieces =
  /(\/\/[^\n]*|#(?![0-9a-fA-F]{3,8}\b)[^\n]*|\/\*[\s\S]*?\*\/|<!--[\s\S]*?-->)|("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)|(\b\d[\w.]*\b)|([A-Za-z_]\w*)/g;

export type Kind = "" | "comment" | "string" | "number" | "word";

export function highlight(text: string): [Kind, string][] {
  if (text.length > 50_000) return [["", text]];
  const out: [Kind, string][] = [];
  let end = 0;
  const push = (kind: Kind, piece: string) => {
    const last = out[out.length - 1];
    if (last && last[0] === kind) last[1] += piece;
    else out.push([kind, piece]);
  };
  for (const found of text.matchAll(pieces)) {
    if (found.index > end) push("", text.slice(end, found.index));
    const kind: Kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "number" : keywords.has(found[0]) ? "word" : "";
    push(kind, found[0]);
    end = found.index + found[0].length;
  }
  if (end < text.length) push("", text.slice(end));
  return out;
}
