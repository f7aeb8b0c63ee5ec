// The sources of an answer, beside it: passages of a collection, and which sentences they support.
import { number, words } from "../strings";
import type { Grounding, Source } from "../types";

interface Props {
  sources: Source[];
  grounding?: Grounding;
}
export function SourceList({ sources, grounding }: Props) {
  const quotes = (i: number) =>
    (grounding?.sentences ?? []).flatMap((s) => s.citations.filter((c) => c.source === i + 1).map((c) => ({ sentence: s.text, quote: c.quote })));
  const unsupported = grounding?.sentences.filter((s) => !s.grounded).length ?? 0;
  return (
    <aside class="sources" aria-label={words.chat.sources}>
      <h2>{words.chat.sources}</h2>
      {sources.length === 0 && <p class="hint">{words.chat.noSources}</p>}
      <ol>
        {sources.map((source, i) => (
          <li key={source.id}>
            <details>
              <summary dir="auto">
                <b>{source.title || source.document}</b>
                <span class="place">{words.chat.sourceRange(source.document, number(source.begin), number(source.end))}</span>
              </summary>
              <p class="plain" dir="auto">
                {source.text}
              </p>
            </details>
            {quotes(i).map((q, j) => (
              <blockquote key={j} dir="auto" title={q.sentence}>
                {q.quote}
              </blockquote>
            ))}
          </li>
        ))}
      </ol>
      {grounding && grounding.sentences.length > 0 && (
        <p class="hint grounding">
          {unsupported === 0 ? words.chat.allSupported : words.chat.unsupported(unsupported, grounding.sentences.length)}
        </p>
      )}
    </aside>
  );
}
