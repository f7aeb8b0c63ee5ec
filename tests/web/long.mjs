// An answer of 120,000 characters: no task of the page takes long while it streams, when it is opened again, and when its token
// probabilities are shown.
import { answered, check, say, shot, test } from "./browser.mjs";
import { standIn } from "./stand_in.mjs";

const maxTaskMs = 300; // of processor time, also on a busy machine

const prose = (i) =>
  `## Section ${i}\n\nSome *text* with **marks**, \`code\` and $x_{${i}}^2$ in a paragraph of a few lines that goes across the page and ends with a [link](https://example.com/${i}).\n\n` +
  `- an item\n- another item with \\(y_${i}\\)\n\n| a | b |\n|---|--:|\n| ${i} | ${i * i} |\n\n`;
const code = (i) => `def function_${i}(x):\n    """Doc"""\n    return x // ${i}  # comment\n\n`;
const repeated = (piece, length) => {
  let out = "";
  for (let i = 1; out.length < length; ++i) out += piece(i);
  return out;
};
const texts = {
  Markdown: repeated(prose, 120_000),
  code: "```python\n" + repeated(code, 120_000) + "```\n",
  "one paragraph": repeated((i) => `word${i} `, 120_000),
  "one table": "| n | square | name |\n|--:|--:|---|\n" + repeated((i) => `| ${i} | ${i * i} | row number $n_{${i}}$ |\n`, 120_000),
  "one list": repeated((i) => `- item ${i} of a long list\n`, 120_000),
};

async function measure(open, text) {
  const server = await standIn();
  const page = await open({ origin: server.url });
  await page.goto(server.url);
  await page.waitForSelector(".welcome");
  const taskMs = {};
  taskMs.streaming = await page.longestTask(async () => {
    server.writes(text, { piece: 24, logprobs: true });
    await say(page, "Write a long answer");
    await answered(page);
  });
  const shownLength = await page.evaluate(() => document.querySelector(".message.assistant .said").textContent.length);
  check(shownLength > text.length * 0.5, `the answer is shown: ${shownLength} characters`);
  taskMs.probabilities = await page.longestTask(async () => {
    await page.click('[aria-label="Show token probabilities"]');
    await page.waitForSelector(".marks [data-token]");
  });
  const [spans, length] = await page.evaluate(() => [document.querySelectorAll(".marks [data-token]").length, document.querySelector(".marks p").textContent.length]);
  check(length === text.length, `all of the text is there: ${length}`);
  check(spans > 100 && spans < 5000, `only tokens near the screen are elements: ${spans}`);
  await page.locator(".marks p").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForSelector(".marks .on");
  check((await page.textContent(".marks-detail")).includes("probability"), "a token shows its probability");
  await shot(page, "probabilities");
  taskMs.opening = await page.longestTask(async () => {
    await page.reload();
    await answered(page);
    await page.waitForSelector(".markdown[aria-busy]", { state: "detached" });
  });
  server.close();
  await page.context().close();
  return taskMs;
}

await test(async (open) => {
  const names = process.env.MAKAR_SLOW ? Object.keys(texts) : ["Markdown", "code"];
  for (const name of names) {
    const text = texts[name];
    const taskMs = await measure(open, text);
    console.log(name, JSON.stringify(taskMs));
    for (const [when, milliseconds] of Object.entries(taskMs)) check(milliseconds <= maxTaskMs, `${name}, ${when}: a task of ${milliseconds} ms`);
  }
});
