// A model's text as Markdown, rendered block by block while it is streamed.
import type { Tokens } from "marked";
import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Block, BlockStream } from "./blocks";
import { CodeBlock } from "./code";
import { restore } from "./math";
import { toDom } from "./render";

const BlockView = memo(
  ({ block }: { block: Block }) => {
    const { token, formulas } = block;
    const box = useRef<HTMLDivElement>(null);
    useLayoutEffect(() => box.current?.replaceChildren(toDom(token, formulas)), [block]);
    if (token.type === "code") {
      const { text, lang } = token as Tokens.Code;
      return <CodeBlock text={restore(text, formulas)} language={(lang ?? "").split(/\s/)[0]!.slice(0, 30)} />;
    }
    return <div class={`block ${block.joined ? "joined" : ""}`} dir="auto" ref={box} />;
  },
  (a, b) => a.block === b.block || (a.block.raw === b.block.raw && sameFormulas(a.block, b.block)),
);

function sameFormulas(a: Block, b: Block): boolean {
  return !a.raw.includes("\uE000") || restore(a.raw, a.formulas) === restore(b.raw, b.formulas);
}

const Group = memo(({ blocks, open }: { blocks: Block[]; open: boolean }) => (
  <div class={open ? "blocks" : "blocks finished"}>
    {blocks.map((block, i) => (
      <BlockView key={i} block={block} />
    ))}
  </div>
));

export const Markdown = memo(({ text }: { text: string }) => {
  const stream = useRef(new BlockStream());
  const [, redraw] = useState(0);
  const more = stream.current.update(text);
  useEffect(() => {
    if (!more) return;
    const frame = requestAnimationFrame(() => redraw((n) => n + 1));
    return () => cancelAnimationFrame(frame);
  });
  const { groups, tail } = stream.current;
  const open = tail.filter((block) => block.token.type !== "space");
  return (
    <div class="markdown" aria-busy={more || undefined}>
      {groups.map((blocks, i) => (
        <Group key={i} blocks={blocks} open={i === groups.length - 1} />
      ))}
      <div class="blocks" key="tail">
        {open.map((block, i) => (
          <BlockView key={i} block={block} />
        ))}
      </div>
    </div>
  );
});
