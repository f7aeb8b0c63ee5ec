// Markdown to DOM. HTML in the text is shown, not interpreted; the HTML that marked generates is sanitised before it is inserted.
import DOMPurify from "dompurify";
import { Lexer, Marked, type Token, type TokensList } from "marked";
import { type Formula, insertFormulas } from "./math";

const escape = (text: string) => text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

const options = { gfm: true, breaks: true };
const marked = new Marked({
  ...options,
  renderer: {
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const purifier = DOMPurify();
purifier.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("target", "_blank");
  node.setAttribute("rel", "noopener noreferrer");
});

export type Links = TokensList["links"];

// The blocks of a text. Link definitions in `links` are applied; new ones are added to it.
export function lex(text: string, links: Links): Token[] {
  const lexer = new Lexer({ ...marked.defaults, ...options });
  Object.assign(lexer.tokens.links, links);
  const tokens = lexer.lex(text);
  Object.assign(links, tokens.links);
  return tokens;
}

export function toDom(token: Token, formulas: Formula[]): DocumentFragment {
  const fragment = purifier.sanitize(marked.parser([token]), {
    ALLOWED_TAGS: "p br strong em del code pre ul ol li blockquote h1 h2 h3 h4 h5 h6 table thead tbody tr th td a hr sup sub".split(" "),
    ALLOWED_ATTR: ["href", "start", "align"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
    ADD_URI_SAFE_ATTR: ["align", "start"], // their values are not URLs
    RETURN_DOM_FRAGMENT: true,
  });
  insertFormulas(fragment, formulas);
  return fragment;
}
