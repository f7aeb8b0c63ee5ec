// A model's text as markdown. Blocks are drawn one by one, so that while a text grows only its last block is
// drawn again. HTML in the text is shown, never obeyed; what marked makes is sanitised before it is put in.
import DOMPurify from "dompurify";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { words } from "../strings";
import { IconButton } from "../ui/controls";
import { highlight } from "./highlight";

const escape = (text: string) =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const marked = new Marked({
  gfm: true,
  breaks: false,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const allowed = {
  ALLOWED_TAGS: (
    "p br strong em del code pre ul ol li blockquote h1 h2 h3 h4 h5 h6 table thead tbody tr th td a hr sup sub"
  ).split(" "),
  ALLOWED_ATTR: ["href", "start", "align"],
  ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
};
DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

export function safeHtml(block: Token[]): string {
  return DOMPurify.sanitize(marked.parser(block), allowed);
}

function CopyButton({ text }: { text: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return (
    <IconButton icon={done ? "check" : "copy"} label={done ? words.chat.copied : words.chat.copy} size={16} onClick={copy} />
  );
}

const CodeBlock = memo(({ text, language }: { text: string; language: string }) => (
  <figure class="code">
    <figcaption>
      <span>{language || words.chat.code}</span>
      <CopyButton text={text} />
    </figcaption>
    <pre tabIndex={0}>
      <code>
        {highlight(text).map(([kind, piece], i) => (kind ? <span key={i} class={`code-${kind}`}>{piece}</span> : piece))}
      </code>
    </pre>
  </figure>
));

const Block = memo(
  ({ token }: { raw: string; token: Token }) =>
    token.type === "code" ? (
      <CodeBlock text={(token as Tokens.Code).text} language={((token as Tokens.Code).lang ?? "").slice(0, 30)} />
    ) : (
      <div class="block" dangerouslySetInnerHTML={{ __html: safeHtml([token]) }} />
    ),
  (a, b) => a.raw === b.raw,
);

export const Markdown = memo(({ text }: { text: string }) => {
  // References to links are resolved in the lexer, so every block stands alone.
  const tokens = marked.lexer(text);
  return (
    <div class="markdown">
      {tokens.map((token, i) => (token.type === "space" ? null : <Block key={i} raw={token.raw} token={token} />))}
    </div>
  );
});
