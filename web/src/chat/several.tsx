// Several answers: while they are generated, and the choice between them.
import { useWatched } from "../state";
import { words } from "../strings";
import type { Message } from "../types";
import { AnswerText } from "./answer";
import type { Generation } from "./generation";
import { Waiting } from "./message";
import { choose } from "./sending";

export function SeveralAnswers({ generation }: { generation: Generation }) {
  const answers = useWatched(generation.answers);
  const empty = answers.every((a) => !a.content && !a.toolCalls.length);
  return (
    <div class="several" aria-busy="true">
      {empty && <Waiting model={generation.model} />}
      {!empty &&
        answers.map((a, i) => (
          <article key={i} class="message assistant writing" aria-label={words.chat.answer(i + 1)}>
            <div class="said">
              <AnswerText content={a.content} toolCalls={a.toolCalls} growing />
            </div>
          </article>
        ))}
    </div>
  );
}

export function Choices({ messages }: { messages: Message[] }) {
  return (
    <section class="choices" aria-label={words.chat.choices(messages.length)}>
      <h2>{words.chat.choices(messages.length)}</h2>
      <p class="hint">{words.chat.chooseHint}</p>
      <div class="several">
        {messages.map((m, i) => (
          <article key={m.id} class="message assistant" aria-label={words.chat.answer(i + 1)}>
            <div class="said">
              <AnswerText content={m.content} toolCalls={m.meta.tool_calls} />
            </div>
            <button type="button" onClick={() => void choose(m.id)}>
              {words.chat.choose}
            </button>
          </article>
        ))}
      </div>
    </section>
  );
}
