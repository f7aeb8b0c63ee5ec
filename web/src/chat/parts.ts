// The parts of an answer: reasoning in <think>, tool calls in <tool_call>, and the text.
import type { ToolCall } from "../types";

export type Part =
  | { kind: "text"; text: string }
  | { kind: "reasoning"; text: string; open: boolean }
  | { kind: "tool"; call: ToolCall; open: boolean };

const tags = /<(think|thinking|tool_call)>/g;
// An incomplete tag at the end of a streamed text is not shown yet.
const incompleteTag = /<\/?(?:t(?:h(?:i(?:n(?:k(?:i(?:ng?)?)?)?)?)?|o(?:o(?:l(?:_(?:c(?:a(?:ll?)?)?)?)?)?)?)?)?$/;

// {"name": ..., "arguments": ...} as models write it; any other text is shown unchanged.
export function toolCall(text: string): ToolCall {
  try {
    const call = JSON.parse(text) as { name?: unknown; arguments?: unknown; parameters?: unknown };
    const args = call.arguments ?? call.parameters ?? {};
    if (typeof call.name === "string") return { name: call.name, arguments: typeof args === "string" ? args : JSON.stringify(args, null, 1) };
  } catch {
    // Not complete, or another notation.
  }
  return { name: "", arguments: text };
}

export function parts(content: string, streaming: boolean): Part[] {
  const text = streaming ? content.replace(incompleteTag, "") : content;
  const out: Part[] = [];
  const push = (piece: string) => piece.trim() && out.push({ kind: "text", text: piece });
  // Some templates put the opening tag into the prompt: then the answer starts inside the reasoning.
  let at = 0;
  const closing = text.indexOf("</think>");
  const opening = text.indexOf("<think>");
  if (closing >= 0 && (opening < 0 || opening > closing)) {
    out.push({ kind: "reasoning", text: text.slice(0, closing).trim(), open: false });
    at = closing + "</think>".length;
  }
  tags.lastIndex = at;
  for (let found = tags.exec(text); found; found = tags.exec(text)) {
    const name = found[1]!;
    const from = found.index + found[0].length;
    const end = text.indexOf(`</${name}>`, from);
    const inner = text.slice(from, end < 0 ? undefined : end).trim();
    push(text.slice(at, found.index));
    if (name === "tool_call") out.push({ kind: "tool", call: toolCall(inner), open: end < 0 });
    else if (inner || end < 0) out.push({ kind: "reasoning", text: inner, open: end < 0 });
    at = end < 0 ? text.length : end + name.length + 3;
    tags.lastIndex = at;
  }
  push(text.slice(at));
  return out;
}
