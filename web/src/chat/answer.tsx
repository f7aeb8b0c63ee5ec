// What an answer consists of: folded reasoning, tool calls, text.
import { memo } from "preact/compat";
import { words } from "../strings";
import { Markdown } from "../markdown/markdown";
import type { ToolCall } from "../types";
import { parts } from "./parts";

function ToolCallView({ call, open }: { call: ToolCall; open: boolean }) {
  return (
    <details class="fold tool-call">
      <summary>{open && !call.name ? words.chat.toolCallOpen : words.chat.toolCall(call.name)}</summary>
      <pre tabIndex={0}>{call.arguments}</pre>
    </details>
  );
}

interface Props {
  content: string;
  toolCalls?: ToolCall[];
  growing?: boolean;
}
export const AnswerText = memo(({ content, toolCalls = [], growing = false }: Props) => (
  <>
    {parts(content, growing).map((part, i) =>
      part.kind === "text" ? (
        <Markdown key={i} text={part.text} />
      ) : part.kind === "tool" ? (
        <ToolCallView key={i} call={part.call} open={growing && part.open} />
      ) : (
        <details class="fold reasoning" key={i}>
          <summary>{growing && part.open ? words.chat.reasoningOpen : words.chat.reasoning}</summary>
          <Markdown text={part.text} />
        </details>
      ),
    )}
    {toolCalls.map((call, i) => (
      <ToolCallView key={`call-${i}`} call={call} open={false} />
    ))}
  </>
));
