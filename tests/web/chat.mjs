// Chat: type, stream, stop, edit, branch, choose, rate, attach, export, delete, by mouse and by keyboard.
import { readFileSync } from "node:fs";
import { answer, answered as done, api, base, check, composer, fits, say, setting, test } from "./browser.mjs";

const chatRequest = (page) => page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));

async function testStreaming(open) {
  const page = await open();
  await page.goto(base);
  await page.click('[aria-label="Settings"]');
  await setting(page, "Max tokens", 4096);
  await page.fill("#system", "Be brief.");
  const sent = chatRequest(page);
  await page.evaluate(() => {
    window.lengths = new Set();
    setInterval(() => window.lengths.add(document.querySelector(".message.assistant .said")?.textContent.length), 10);
  });
  await say(page, "Tell me of the sea");
  const body = (await sent).postDataJSON();
  check(body.messages[0].role === "system" && body.messages[0].content === "Be brief.", "the system prompt is sent");
  check(body.messages[1].content === "Tell me of the sea" && body.max_tokens === 4096 && body.stream, "the request has the message and the settings");
  await done(page);
  const lengths = await page.evaluate(() => window.lengths.size);
  check(lengths > 2, `the answer grows as it is written: ${lengths} lengths were seen`);
  check((await page.textContent(".message.user .plain")) === "Tell me of the sea", "the message is shown");
  check((await page.textContent(".sidebar li a")) === "Tell me of the sea", "the title is the first message");
  const id = Number((await page.evaluate(() => location.hash)).split("/")[2]);
  const stored = await api(`/makar/conversations/${id}`);
  check(stored.messages.length === 2 && stored.system === "Be brief." && stored.messages[1].meta.tokens.length > 0, "the server stores the conversation");
  await page.reload();
  await done(page);
  check((await page.locator(answer).count()) === 1, "the answer is shown again after a reload");
  return page;
}

// Long answers: more tokens than the settings allow, and no early end.
const writeLong = (page) =>
  page.route("**/v1/chat/completions", (route) => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), max_tokens: 30000, ignore_eos: true }) }));

async function testStop(page) {
  await page.click('[aria-label="Settings"]');
  await writeLong(page);
  await page.fill(composer, "Go on for very long");
  await page.click('[aria-label="Send"]');
  await page.waitForSelector(".writing .markdown");
  await page.click('[aria-label="Stop"]');
  await done(page, 2);
  const id = Number((await page.evaluate(() => location.hash)).split("/")[2]);
  const last = (await api(`/makar/conversations/${id}`)).messages.at(-1);
  check(last.meta.finish === "stopped" && last.content.length > 0, "what was written until the stop is stored");
  check((await page.locator(".message").last().locator(".stats").textContent()).includes("stopped"), "the answer is marked as stopped");
  await page.unrouteAll();
  await setting(page, "Max tokens", 16);
}

async function testBranches(page) {
  const user = page.locator(".message.user").first();
  await user.hover();
  await user.locator('[aria-label="Edit"]').click();
  await page.locator(".editor textarea").fill("Tell me of the hills");
  await page.keyboard.press("Control+Enter");
  await done(page, 1);
  check((await page.locator(".message.user .versions span").textContent()) === "2 / 2", "the edit is a second version");
  await page.click('[aria-label="Previous version"]');
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 4);
  check((await page.locator(".message.user .plain").first().textContent()) === "Tell me of the sea", "the first version is still there");
  await page.click('[aria-label="Next version"]');
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
  await page.reload();
  await done(page, 1);
  check((await page.locator(".message.user .plain").first().textContent()) === "Tell me of the hills", "the branch shown last is remembered");
  // Another answer, and ratings.
  await page.locator(answer).locator('[aria-label="Bad answer"]').click();
  await page.locator(answer).locator('[aria-label="Regenerate"]').click();
  await page.waitForFunction(() => document.querySelector(".message.assistant .versions span")?.textContent === "2 / 2");
  await done(page, 1);
  const rated = page.waitForResponse((r) => r.url().includes("/makar/messages/"));
  await page.locator(answer).locator('[aria-label="Good answer"]').click();
  await rated;
  const lines = (await (await fetch(`${base}/makar/preferences.jsonl`)).text()).trim().split("\n").map((l) => JSON.parse(l));
  check(lines.length === 1 && lines[0].prompt.at(-1).content === "Tell me of the hills", "ratings are preferences");
  check(lines[0].chosen[0].content !== lines[0].rejected[0].content, "the pair has two different answers");
  // The probability of each token.
  await page.locator(answer).locator('[aria-label="Show token probabilities"]').click();
  await page.waitForSelector(".marks [data-token]", { state: "attached" }); // a token may be invisible
  check((await page.locator(".marks [data-token]").count()) > 1, "tokens are marked");
  await page.locator(".marks p").focus();
  await page.keyboard.press("ArrowRight");
  check((await page.textContent(".marks-detail")).includes("probability"), "a token shows its probability");
}

async function testPreference(page) {
  await page.click('[aria-label="Settings"]');
  await setting(page, "Max tokens", 24);
  await setting(page, "Answers", 3);
  await say(page, "Three ways, please");
  await page.waitForSelector(".choices");
  const texts = await page.locator(".choices .said").allTextContents();
  check(texts.length === 3, "three answers are shown");
  const chosen = page.waitForResponse((r) => r.url().endsWith("/makar/preferences"));
  await page.locator(".choices button", { hasText: "Choose" }).nth(1).click();
  check((await chosen).status() === 200, "the choice is stored");
  await page.waitForSelector(".choices", { state: "detached" });
  const selected = page.locator(".message.assistant").last();
  check((await selected.locator(".said").textContent()) === texts[1], "the chosen answer stays");
  check((await selected.locator(".versions span").textContent()) === "2 / 3", "the others are its versions");
  const lines = (await (await fetch(`${base}/makar/preferences.jsonl`)).text()).trim().split("\n");
  check(lines.length === 3, "the choice adds two preference pairs");
  await setting(page, "Answers", 1);
}

async function testAttachment(page) {
  await page.setInputFiles(".composer input[type=file]", { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("seven sheep") });
  check((await page.textContent(".attached span")).startsWith("notes.txt"), "the file is shown");
  const sent = chatRequest(page);
  await say(page, "How many?");
  const { content } = (await sent).postDataJSON().messages.at(-1);
  check(content.includes("seven sheep") && content.endsWith("How many?"), "the file is sent with the text");
  await page.waitForFunction(() => !document.querySelector("[aria-busy=true]"));
  await page.setInputFiles(".composer input[type=file]", { name: "x.bin", mimeType: "application/x", buffer: Buffer.from([0, 1, 2, 255]) });
  check((await page.textContent(".composer .error-message")).includes("neither text nor PDF"), "other files are refused");
}

async function testExport(page) {
  for (const [name, suffix, inside] of [["Markdown", ".md", "**You**"], ["JSON", ".json", '"messages"'], ["preferences", ".jsonl", '"chosen"']]) {
    await page.click(".menu summary");
    const [file] = await Promise.all([page.waitForEvent("download"), page.click(`.menu button:has-text("${name}")`)]);
    check(file.suggestedFilename().endsWith(suffix), `${name} has its name`);
    check(readFileSync(await file.path(), "utf8").includes(inside), `${name} has its text`);
  }
}

const hostile = [
  "# Title <img src=x onerror=window.pwned=1>",
  "<script>window.pwned=1</script>",
  "[link](javascript:window.pwned=1) [fine](https://example.com/a) ![pixel](https://example.com/pixel.png)",
  "<svg onload=window.pwned=1><iframe src='javascript:window.pwned=1'></iframe>",
  '<a href="data:text/html,<script>window.pwned=1</script>">x</a> <https://example.com/"onmouseover="window.pwned=1>',
  "```html\n<script>window.pwned=1</script>\n```",
  "$\\href{javascript:window.pwned=1}{x}$ \\(\\text{<img src=x onerror=window.pwned=1>}\\) $\\includegraphics{https://example.com/x.png}$",
  "[m \\(x\\)](\\(javascript:window.pwned=1\\)) $" + "{".repeat(900) + "$ $\\def\\a{\\a\\a}\\a$",
  "| a | b |\n|---|---|\n| <b onclick=window.pwned=1>c</b> | `d` |",
].join("\n\n");

async function testHostileText(open) {
  const created = await api("/makar/conversations", { title: "<img src=x onerror=window.pwned=1>", system: "" });
  const user = await api(`/makar/conversations/${created.id}/messages`, { role: "user", content: hostile });
  await api(`/makar/conversations/${created.id}/messages`, { role: "assistant", parent: user.id, content: hostile, meta: { tokens: [["<img src=x onerror=window.pwned=1>", -1, []]] } });
  const page = await open();
  await page.goto(`${base}/#/chat/${created.id}`);
  await done(page, 1);
  check((await page.locator(".message script, .message img, .message iframe, .message svg:not(.icon)").count()) === 0, "the text adds no elements");
  const links = await page.locator(".markdown a").evaluateAll((all) => all.map((a) => [a.getAttribute("href"), a.rel]));
  check(links.every(([href, rel]) => (href === null || /^https?:/.test(href)) && rel.includes("noopener")), `links: ${JSON.stringify(links)}`);
  check((await page.textContent(".markdown")).includes("<script>window.pwned=1</script>"), "HTML is shown as text");
  check((await page.textContent(".sidebar li a")).startsWith("<img"), "a title is text");
  await page.locator(answer).locator('[aria-label="Show token probabilities"]').click();
  await page.waitForTimeout(300);
}

async function testCopy(open) {
  const created = await api("/makar/conversations", { title: "code", system: "" });
  const user = await api(`/makar/conversations/${created.id}/messages`, { role: "user", content: "x" });
  const text = 'def f(x):\n    return x + 1  # "one"';
  await api(`/makar/conversations/${created.id}/messages`, { role: "assistant", parent: user.id, content: "Here:\n\n```python\n" + text + "\n```\n" });
  const page = await open();
  await page.goto(`${base}/#/chat/${created.id}`);
  await done(page, 1);
  check((await page.textContent(".code pre")) === text, "code is as it was written");
  await page.click(".code .icon-button");
  await page.waitForSelector('.code [aria-label="Copied"]');
  check((await page.evaluate(() => navigator.clipboard.readText())) === text, "code is copied");
  // Renamed, then deleted after a confirmation.
  const row = page.locator(".sidebar li", { hasText: "code" });
  await row.hover();
  await row.locator('[aria-label^="Rename"]').click();
  await page.fill("#title", "a better name");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".chat-bar h1").textContent === "a better name");
  const renamed = page.locator(".sidebar li", { hasText: "a better name" });
  await renamed.hover();
  await renamed.locator('[aria-label^="Delete"]').click();
  await page.click("dialog .danger");
  await page.waitForSelector(".welcome");
  check((await api(`/makar/conversations/${created.id}`)).error.code === "not_found", "the conversation is deleted");
}

async function testKeyboard(open) {
  const page = await open();
  await page.goto(base);
  await page.waitForSelector(".welcome");
  const focused = () => page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent);
  check((await focused()) === "Write a message", "the message field has the focus");
  await page.evaluate(() => document.activeElement.blur());
  const seen = new Set();
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press("Tab");
    seen.add(await focused());
    const outline = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement), around = getComputedStyle(document.activeElement.closest(".composer") ?? document.activeElement);
      return document.activeElement === document.body || style.outlineStyle !== "none" || around.borderColor !== "rgb(0, 0, 0)";
    });
    check(outline, `the focus on ${await focused()} is visible`);
  }
  for (const name of ["Skip to content", "Chat", "Look inside", "Train", "Engine", "Theme: system", "New chat", "Search conversations", "Import and export", "Settings", "Attach files (text, PDF or images)", "Write a message"])
    check(seen.has(name), `Tab reaches ${name}`);
  await page.focus('[aria-label="Settings"]');
  await page.keyboard.press("Enter");
  await page.waitForSelector(".settings");
  await page.focus("#knob-temperature");
  const before = await page.inputValue("#knob-temperature");
  await page.keyboard.press("ArrowRight");
  check((await page.inputValue("#knob-temperature")) > before, "arrow keys move a slider");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".settings", { state: "detached" });
}

async function testPhone(open) {
  const page = await open({ width: 360, height: 700, touch: true });
  await page.goto(base);
  await page.waitForSelector(".welcome");
  await fits(page, "the empty chat");
  await page.click('[aria-label="Show conversations"]');
  await page.waitForSelector(".sidebar.open");
  await fits(page, "the list");
  await page.locator(".sidebar li a").first().click();
  await page.waitForSelector(".message");
  await page.waitForSelector(".sidebar:not(.open)", { state: "attached" });
  await fits(page, "a conversation");
  await page.click('[aria-label="Settings"]');
  await fits(page, "the settings");
  const box = await page.locator(".settings").boundingBox();
  check(box.x >= 0 && box.x + box.width <= 360, "the settings are on the screen");
}

// Closing the tab during an answer keeps the text so far.
async function testClosedTab(open) {
  const page = await open();
  await page.goto(base);
  await writeLong(page);
  await say(page, "Shut in the middle");
  await page.waitForSelector(".writing .markdown");
  await page.goto("about:blank");
  let found = [];
  for (let i = 0; i < 50 && found.length < 2; ++i) {
    const first = (await api("/makar/conversations")).conversations.find((c) => c.title === "Shut in the middle");
    found = (await api(`/makar/conversations/${first.id}`)).messages;
    await new Promise((r) => setTimeout(r, 100));
  }
  check(found.length === 2 && found[1].content.length > 0, "what was written is stored");
}

// Five hundred messages: opening and typing stay quick.
async function testManyMessages(open) {
  const created = await api("/makar/conversations", { title: "long", system: "" });
  let parent = 0;
  for (let i = 0; i < 500; ++i)
    parent = (await api(`/makar/conversations/${created.id}/messages`, { parent, role: i % 2 ? "assistant" : "user", content: `**${i}** `.repeat(40) + "\n\n- a\n- b\n\n```js\nlet x = 1;\n```" })).id;
  const page = await open();
  await page.goto(`${base}/#/chat/${created.id}`);
  await done(page, 250);
  const start = Date.now();
  await page.type(composer, "fifty keys and not one of them may have to wait!!!");
  const msPerKey = (Date.now() - start) / 50;
  check(msPerKey < 250, `a key in a long chat takes ${msPerKey.toFixed(0)} ms`);
}

await test(async (open) => {
  const page = await testStreaming(open);
  await testStop(page);
  await testBranches(page);
  await testPreference(page);
  await testAttachment(page);
  await testExport(page);
  await testHostileText(open);
  await testCopy(open);
  await testKeyboard(open);
  await testClosedTab(open);
  await testPhone(open);
  await testManyMessages(open);
});
