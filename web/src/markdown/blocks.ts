// A growing text as a list of Markdown blocks. Blocks that can no longer change are finished and never read again, so the work
// per update depends on the last blocks and not on the whole text. A long text is read in slices.
import type { Token } from "marked";
import { type Formula, protect, restore, withoutMarks } from "./math";
import { lex, type Links } from "./render";

export interface Block {
  raw: string;
  token: Token;
  formulas: Formula[];
  joined: boolean; // continues the previous block, which was cut because it was too long
}

const slice = 3_000; // characters that are read at a time
const groupSize = 24; // blocks that are drawn together
const maxBlockLength = 6_000; // an open paragraph or list beyond this is cut at a line end
const maxTableLength = 2_500; // cells take more work than text

export class BlockStream {
  groups: Block[][] = []; // finished; all but the last one are full
  tail: Block[] = []; // may still change
  private text = "";
  private done = 0; // characters in finished blocks
  private read = 0; // characters that have been read
  private joined = false;
  private head = ""; // header of the table that was cut, put before its remaining rows so that they are read as a table
  private links: Links = {};

  // True: there is more to read, call it again.
  update(source: string): boolean {
    const text = withoutMarks(source);
    if (!text.startsWith(this.text.slice(0, this.read))) this.restart();
    this.text = text;
    let to = Math.min(text.length, Math.max(this.done + slice, this.read));
    while (to < text.length && text[to - 1] !== "\n" && to < this.done + 2 * slice) ++to;
    for (;;) {
      const before = this.done;
      this.readTo(to);
      if (to === text.length || this.done > before) break;
      to = Math.min(text.length, to + slice); // one block is longer than the slice
    }
    this.read = to;
    return to < text.length;
  }

  private restart(): void {
    Object.assign(this, { groups: [], tail: [], done: 0, read: 0, joined: false, head: "", links: {} });
  }

  // `exact`: the blocks add up to the text, so that their lengths are positions in it.
  private blocksOf(text: string): { blocks: Block[]; exact: boolean } {
    const part = protect(text);
    const blocks = lex(part.text, this.links).map((token) => ({ raw: token.raw, token, formulas: part.formulas, joined: false }));
    if (blocks[0]) blocks[0].joined = this.joined;
    return { blocks, exact: blocks.map((b) => b.raw).join("") === part.text };
  }

  private readTo(to: number): void {
    const text = this.text.slice(this.done, to);
    if (/^\n/.test(text)) this.head = ""; // the table has ended
    const { blocks, exact } = this.blocksOf(text ? this.head + text : "");
    // The last two blocks may change: the last one grows, and the one before it may be joined by it (a list).
    let open = 2;
    let finished = exact ? blocks.length : 0;
    while (finished > 0 && open > 0) if (blocks[--finished]!.token.type !== "space") --open;
    this.finish(blocks.slice(0, finished));
    this.tail = blocks.slice(finished);
    this.cutLongBlock();
  }

  private finish(blocks: Block[]): void {
    for (const block of blocks) {
      this.done += restore(block.raw, block.formulas).length - this.head.length;
      this.head = "";
      this.joined = false;
      if (block.token.type === "space") continue;
      const last = this.groups[this.groups.length - 1];
      if (last && last.length < groupSize) this.groups[this.groups.length - 1] = [...last, block];
      else this.groups.push([block]);
    }
  }

  // An open block without end would be read again with every token.
  private cutLongBlock(): void {
    const last = this.tail[this.tail.length - 1];
    const limit = last?.token.type === "table" ? maxTableLength : maxBlockLength;
    if (!last || last.token.type === "code" || last.raw.length < limit) return;
    this.finish(this.tail.slice(0, -1));
    const raw = restore(last.raw, last.formulas);
    const start = raw.slice(0, Math.floor(raw.length * 0.75));
    const cut = start.lastIndexOf("\n") + 1 || start.lastIndexOf(" ") + 1 || start.length;
    const end = this.done + cut - this.head.length;
    this.joined = last.joined;
    this.finish(this.blocksOf(raw.slice(0, cut)).blocks);
    this.done = end;
    this.joined = true;
    this.head = last.token.type === "table" ? raw.split("\n", 2).join("\n") + "\n" : "";
    this.tail = this.blocksOf(this.head + raw.slice(cut)).blocks;
  }
}
