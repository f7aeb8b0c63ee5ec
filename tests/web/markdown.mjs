// Markdown of answers: line breaks, formulas, tables, code; complete and streamed.
import { answered, api, base, check, conversation, fits, say, shot, test } from "./browser.mjs";
import { standIn } from "./stand_in.mjs";

const poem = "The sea, the sea,\nit never sleeps,\nand what it takes\nit keeps.";
const formulas = [
  "Inline $a_1 + b_2$ and \\(\\frac{x_1}{y_2}\\), but $5 and $10 are money.",
  "\\[\n\\int_0^1 x^2\\,dx\n= \\frac{1}{3}\n\\]",
  "$$\\begin{aligned} a &= b * c \\\\ d &= e_1 * e_2 \\end{aligned}$$",
  "| f | g |\n|:-:|--:|\n| $|x|$ | $x_1$ and $y_1$ |",
  "In code: `$x_1$` and\n\n```tex\n\\[ x_1 \\]\n```",
  "Broken: $\\frac{1$ stays.",
  "[link \\(x\\)](https://example.com/\\(y\\))",
].join("\n\n");
const table = "| Name | Amount | Note |\n|:-----|-------:|:----:|\n| Extraordinarily | 12 | **yes** |\n| b | 3456 | no |";
const python = 'def half(x):  # not //\n    """A string // with # marks\n    over lines"""\n    return x // 2  # floor';
const c = '#include <stdio.h>\nint main(void) { // says hello\n  /* two\n     lines */\n  printf("// no comment");\n  return 0;\n}';
const marked = (page, index, kind) => page.locator(".code").nth(index).locator(`.code-${kind}`).allTextContents();

async function testRendering(open) {
  const id = await conversation("text", "poem", poem, "math", formulas, "table", table, "code", `\`\`\`python\n${python}\n\`\`\`\n\n\`\`\`c\n${c}\n\`\`\`\n\n\`\`\`\n${c}\n\`\`\``);
  const page = await open();
  await page.goto(`${base}/#/chat/${id}`);
  await answered(page, 4);
  const message = (i) => page.locator(".message.assistant").nth(i);
  check((await message(0).locator("br").count()) === 3, "a poem keeps its lines");
  // Formulas.
  const math = message(1);
  const tex = await math.locator("math").evaluateAll((all) => all.map((m) => [m.textContent.replace(/[\s\u2061-\u2064]/g, ""), m.getAttribute("display")]));
  check(tex.length === 8, `eight formulas: ${JSON.stringify(tex)}`);
  check(tex[0][0] === "a1+b2" && (await math.locator("math msub").count()) >= 6, "subscripts");
  check((await math.locator("mfrac").count()) === 2 && tex[2][1] === "block", "fractions, a display formula");
  check((await math.locator("math mtable, math mtr").count()) > 0, "aligned equations");
  check((await math.locator("td math").count()) === 3, "formulas in a table, one with bars");
  check((await math.locator("em").count()) === 0, "no underscore or star of a formula is Markdown");
  const text = await math.textContent();
  check(text.includes("$5 and $10 are money"), "money is no formula");
  check(text.includes("$x_1$") && text.includes("\\[ x_1 \\]"), "code is left alone");
  check(text.includes("$\\frac{1$ stays"), "a broken formula is shown as it was written");
  check((await math.locator("a").getAttribute("href")) === "https://example.com/%5C(y%5C)", "a formula in an address is its source");
  const box = await math.locator("math").nth(2).boundingBox();
  check(box.height > 20, "a display formula is drawn");
  // Tables.
  const cells = await message(2).locator("td").evaluateAll((all) => all.map((t) => [t.textContent, getComputedStyle(t).textAlign]));
  check(cells[1][1] === "right" && cells[2][1] === "center", `alignment: ${JSON.stringify(cells)}`);
  // Code.
  check((await marked(page, 1, "comment")).join("|") === "# not //|# floor", `comments of Python: ${await marked(page, 1, "comment")}`);
  check((await marked(page, 1, "string")).join("").includes("over lines"), "a string over several lines");
  for (const i of [2, 3]) {
    const comments = await marked(page, i, "comment");
    check(comments.length === 2 && comments[0] === "// says hello" && comments[1].includes("lines */"), `comments of C: ${JSON.stringify(comments)}`);
    check((await marked(page, i, "word")).includes("#include"), "#include is no comment");
  }
  await shot(page, "markdown");
}

// On a phone words of a table are not broken: the table scrolls.
async function testPhoneTable(open) {
  const wideTable = "| " + "Responsibilities | Characteristics | Recommendation | ".repeat(2) + "\n|" + "---|".repeat(6) + "\n| " + "internationalization | authentication | straightforward | ".repeat(2);
  const id = await conversation("wide", "table", wideTable + "\n\n$$" + "x_{1} + ".repeat(60) + "y$$");
  const page = await open({ width: 390, height: 800, touch: true });
  await page.goto(`${base}/#/chat/${id}`);
  await answered(page, 1);
  await page.waitForSelector("td");
  const heights = await page.locator("td").evaluateAll((all) => all.map((t) => t.getBoundingClientRect().height));
  check(Math.max(...heights) < 50, `words are whole: ${heights}`);
  await fits(page, "a wide table");
  await shot(page, "table-phone");
}

// A text that arrives in pieces ends as the same page as the whole text.
async function testStreamedText(open) {
  const parts = [poem, formulas, table, "1. one\n2. two\n\n3. three\n\n   more of three\n", "> quoted\n> text", "## Title", `\`\`\`python\n${python}\n\`\`\``, "- a\n  - b\n- c", "Setext\n======", "[late]: https://example.com/late"];
  const text = [parts.join("\n\n"), ...Array.from({ length: 12 }, (_, i) => `### Part ${i}\n\n${parts.slice(0, 8).join("\n\n")}`)].join("\n\n");
  const server = await standIn();
  const page = await open({ origin: server.url });
  await page.goto(server.url);
  server.writes(text, { piece: 5 });
  await say(page, "Write");
  await answered(page);
  const html = () => page.evaluate(() => [...document.querySelectorAll(".markdown .block, .markdown pre")].map((b) => b.innerHTML).join("\n").replace(/ class="code-chunk"/g, ""));
  const streamedHtml = await html();
  await page.reload();
  await answered(page);
  const loadedHtml = await html();
  check(streamedHtml === loadedHtml, "a streamed and a complete answer give the same page");
  check((await page.locator(".markdown h3").count()) === 12 && (await page.locator(".markdown ol li").count()) === 39, "all blocks are there");
  server.close();
}

// A long table and a long list are split into parts that are rendered separately: nothing is lost, and what follows is parsed as usual.
async function testSplitBlocks(open) {
  const rows = Array.from({ length: 700 }, (_, i) => `| ${i} | some cell $x_{${i}}$ | a third one |`);
  const items = Array.from({ length: 500 }, (_, i) => `${i + 1}. item number ${i + 1} of many`);
  const text = `Before\n\n| a | b | c |\n|--:|---|---|\n${rows.join("\n")}\n\n## After the table\n\n${items.join("\n")}\n\nThe end.`;
  const server = await standIn();
  const page = await open({ origin: server.url });
  await page.goto(server.url);
  server.writes(text, { piece: 200 });
  await say(page, "A long table");
  for (const mode of ["as it grows", "as a whole"]) {
    await answered(page);
    await page.waitForSelector(".markdown[aria-busy]", { state: "detached" });
    const numbers = await page.locator("tbody td:first-child").allTextContents();
    check(numbers.length === 700 && numbers.every((n, i) => Number(n) === i), `every row once, ${mode}: ${numbers.length}`);
    check((await page.locator("tbody math").count()) === 700, `rows have their formulas, ${mode}`);
    const markers = await page.locator(".markdown ol").evaluateAll((all) => all.flatMap((ol) => [...ol.children].map((_, i) => ol.start + i)));
    check(markers.length === 500 && markers.every((n, i) => n === i + 1), `every item once with its number, ${mode}: ${markers.length}`);
    check((await page.locator(".markdown h2").count()) === 1 && (await page.locator(".markdown").textContent()).trim().endsWith("The end."), `the text after the list is parsed, ${mode}`);
    if (mode === "as it grows") await page.reload();
  }
  server.close();
}

await test(async (open) => {
  await testRendering(open);
  await testPhoneTable(open);
  await testStreamedText(open);
  await testSplitBlocks(open);
  check((await api("/makar/conversations")).conversations.length === 4, "four conversations");
});
