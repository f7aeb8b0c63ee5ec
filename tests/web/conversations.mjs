// Conversations: reasoning and tool calls, search, import, editing, settings per conversation, presets,
// models, the context meter, shortcuts, text from right to left.
import { readFileSync } from "node:fs";
import { answer, answered, api, base, check, composer, conversation, fits, say, setting, shot, test } from "./browser.mjs";
import { gate, standIn, stream } from "./stand_in.mjs";

const idOf = async (page) => Number((await page.evaluate(() => location.hash)).split("/")[2]);
const last = (page) => page.locator(".message").last();

async function testReasoning(page, server) {
  const half = gate();
  const call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>';
  server.writes(`<think>\nFirst I *consider* it.\n</think>\n\nThe answer is **42**.\n\n${call}`, { hold: half.closed, calls: [{ name: "lookup", arguments: '{"id":7}' }] });
  await say(page, "Think first");
  await page.waitForSelector(".writing .reasoning");
  check(!(await page.textContent(".writing")).includes("<think"), "tags are not shown while the answer is streamed");
  half.open();
  await answered(page);
  const reasoning = last(page).locator(".reasoning");
  check(!(await reasoning.evaluate((d) => d.open)), "reasoning is folded");
  await reasoning.locator("summary").click();
  check((await reasoning.locator("em").textContent()) === "consider", "reasoning opens as Markdown");
  check((await last(page).locator(".said > .markdown").innerText()).trim() === "The answer is 42.", "the answer is shown without reasoning and calls");
  const calls = last(page).locator(".tool-call");
  check((await calls.locator("summary").allTextContents()).join() === "Tool call: weather,Tool call: lookup", "tool calls are shown");
  await calls.first().locator("summary").click();
  check((await calls.first().locator("pre").textContent()).includes("Oslo"), "a tool call shows its arguments");
  await shot(page, "reasoning");
  await page.reload();
  await answered(page);
  check((await page.locator(".reasoning").count()) === 1 && (await page.locator(".tool-call").count()) === 2, "reasoning and tool calls are shown after a reload");
}

async function testEdit(page) {
  const id = await idOf(page);
  await page.locator(answer).locator('[aria-label="Edit answer"]').click();
  await page.fill(".editor textarea", "My own words");
  await page.click(".editor .primary");
  await page.waitForFunction(() => document.querySelector(".message.assistant .said")?.textContent.startsWith("My own words"));
  const stored = (await api(`/makar/conversations/${id}`)).messages;
  check(stored[1].content === "My own words" && stored[1].meta.edited === true, "an edited answer is stored");
  check((await page.locator(answer).locator(".stats").textContent()).includes("edited"), "an edited answer is marked");
  await page.locator(answer).locator('[aria-label="Delete message"]').click();
  await page.click("dialog .danger");
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 1);
  check((await api(`/makar/conversations/${id}`)).messages.length === 1, "a message is deleted");
}

async function testSearch(page) {
  await conversation("Alpha", "a question", "the word zanzibar is here");
  await conversation("Beta", "nothing", "to see");
  await page.reload();
  await page.waitForSelector(".sidebar li");
  await page.click(composer);
  await page.keyboard.press("Control+k");
  await page.waitForFunction(() => document.activeElement.type === "search"); // Ctrl+K focuses the search
  await page.keyboard.type("ZANZIBAR");
  await page.waitForFunction(() => document.querySelectorAll(".sidebar li").length === 1);
  check((await page.textContent(".sidebar li a")).startsWith("Alpha"), "a text in a message is found");
  check((await page.textContent(".sidebar li small")).includes("zanzibar"), "a search result shows the text around it");
  await page.fill(".sidebar input[type=search]", "beta");
  await page.waitForFunction(() => document.querySelector(".sidebar li a")?.textContent === "Beta");
  await page.fill(".sidebar input[type=search]", "nowhere to be found");
  await page.waitForFunction(() => document.querySelector(".sidebar > .hint")?.textContent.includes("No conversation contains"));
  await page.fill(".sidebar input[type=search]", "");
  await page.keyboard.press("Control+Shift+O");
  await page.waitForSelector(".welcome");
}

async function testImport(page) {
  const id = await conversation("Tree", "root", "first answer");
  const root = (await api(`/makar/conversations/${id}`)).messages[0].id;
  const second = (await api(`/makar/conversations/${id}/messages`, { parent: root, role: "assistant", content: "second answer", meta: { model: "m" } })).id;
  await api(`/makar/conversations/${id}`, { system: "Be kind.", settings: { temperature: 0.3 } });
  await api(`/makar/messages/${second}`, { rating: 1 });
  await page.goto(`${base}/#/chat/${id}`);
  await answered(page);
  await page.click(".menu summary");
  const [file] = await Promise.all([page.waitForEvent("download"), page.click('.menu button:has-text("JSON")')]);
  const exported = readFileSync(await file.path());
  await page.setInputFiles("input.import", { name: "tree.json", mimeType: "application/json", buffer: exported });
  await page.waitForFunction((old) => location.hash !== `#/chat/${old}`, id);
  await answered(page);
  const copy = await api(`/makar/conversations/${await idOf(page)}`);
  check(copy.title === "Tree" && copy.system === "Be kind." && copy.settings.temperature === 0.3, "the conversation is imported");
  const [a, b, c] = copy.messages;
  check(copy.messages.length === 3 && b.parent === a.id && c.parent === a.id && copy.leaf === c.id, "branches are imported");
  check(c.content === "second answer" && c.meta.model === "m" && c.rating === 1, "ratings are imported");
  check((await page.locator(".versions span").textContent()) === "2 / 2", "the same branch is shown");
  const list = JSON.stringify([{ role: "system", content: "S" }, { role: "user", content: "u" }, { role: "assistant", content: "v" }]);
  await page.setInputFiles("input.import", { name: "list.json", mimeType: "application/json", buffer: Buffer.from(list) });
  await page.waitForFunction(() => document.querySelector(".chat-bar h1").textContent === "u");
  await page.setInputFiles("input.import", { name: "bad.json", mimeType: "application/json", buffer: Buffer.from('{"x": 1}') });
  await page.waitForSelector(".column .error-message");
  check((await page.textContent(".column .error-message")).includes("expected JSON"), "other files are refused with what was expected");
}

async function testSettings(page) {
  await page.goto(`${base}/#/chat`);
  await page.waitForSelector(".welcome");
  await page.click('[aria-label="Settings"]');
  await setting(page, "Max tokens", 16);
  await setting(page, "Temperature", 0.5);
  await page.fill("#system", "You are a pirate.");
  await page.keyboard.press("Tab");
  await page.fill('[aria-label="Preset name"]', "Pirate");
  await page.click('.presets button:has-text("Save as preset")');
  await page.waitForSelector(".presets select");
  await say(page, "First of two");
  await answered(page);
  const first = await idOf(page);
  const saved = page.waitForResponse((r) => r.url().endsWith(`/makar/conversations/${first}`) && r.request().method() === "POST");
  await setting(page, "Temperature", 1.5);
  await saved;
  check((await api(`/makar/conversations/${first}`)).settings.temperature === 1.5, "settings are stored with the conversation");
  await page.click(".sidebar .fresh");
  await page.waitForSelector(".welcome");
  check((await page.inputValue("#knob-temperature")) === "0.5", "a new chat has the defaults");
  await page.fill("#system", "");
  await page.keyboard.press("Tab");
  await page.selectOption(".presets select", "Pirate");
  await page.waitForFunction(() => document.querySelector("#system").value === "You are a pirate.");
  const sent = page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));
  await say(page, "Second of two");
  const body = (await sent).postDataJSON();
  check(body.temperature === 0.5 && body.messages[0].content === "You are a pirate.", "the preset and the defaults are sent");
  await answered(page);
  await page.goto(`${base}/#/chat/${first}`);
  await page.waitForFunction(() => document.querySelector("#knob-temperature")?.value === "1.5");
  await shot(page, "settings");
  await page.click('.presets [aria-label^="Delete preset"]');
  await page.waitForSelector(".presets select", { state: "detached" });
}

async function testContextMeter(page) {
  const path = `/makar/conversations/${await idOf(page)}`;
  const { meta } = (await api(path)).messages[1];
  check(meta.context > 20 && meta.model === "tiny", `tokens of the context: ${meta.context}`);
  const meter = page.locator(".context");
  check((await meter.textContent()).startsWith(`${meta.context} of`), `the meter: ${await meter.textContent()}`);
  await page.fill(composer, "five+");
  await page.waitForFunction((n) => document.querySelector(".context").textContent.startsWith(`${n} of`), meta.context + 5);
  await page.fill(composer, "");
  check((await page.locator(answer).locator(".stats").textContent()).includes("tiny"), "an answer names its model");
}

// The first answer of a model that is not loaded takes longer, and the page shows that it is loading.
async function testLoadingModel(page, server) {
  await page.goto(`${server.url}/#/chat`);
  await page.waitForSelector(".welcome");
  await page.selectOption(".top select:not(.language)", "second");
  const loaded = gate();
  server.on("/v1/chat/completions", async (body, out) => (await loaded.closed, stream(out, "Here I am.", { body })));
  await say(page, "Wake up");
  await page.waitForFunction(() => document.querySelector(".waiting")?.textContent.includes("Loading second"));
  loaded.open();
  await answered(page);
  await page.selectOption(".top select:not(.language)", "tiny");
}

async function testModels(page) {
  const options = () => page.locator(".top select:not(.language) option").evaluateAll((all) => all.map((o) => `${o.value}:${o.dataset.loaded}`));
  check((await options()).join() === "tiny:true,second:false", `models that chat, with their state: ${await options()}`);
  check((await page.locator('option[value="second"]').textContent()).includes("not loaded"), "the state is shown as text");
  await page.selectOption(".top select:not(.language)", "second");
  await page.click(".sidebar .fresh");
  await page.waitForSelector(".welcome");
  await say(page, "To the other one");
  await answered(page);
  await page.waitForFunction(() => document.querySelector('option[value="second"]').dataset.loaded === "true");
  check((await page.locator(answer).locator(".stats").textContent()).startsWith("second"), "the other model answered");
  await page.goto(`${base}/#/look`);
  await page.waitForFunction(() => document.querySelectorAll(".top select:not(.language) option").length === 3);
  await page.goto(`${base}/#/chat`);
  await page.selectOption(".top select:not(.language)", "tiny");
}

async function testStopByKey(page, server) {
  await page.goto(server.url);
  await page.waitForSelector(".welcome");
  const never = gate();
  server.writes("A long answer without end", { hold: never.closed });
  await say(page, "Stop this");
  await page.waitForSelector(".writing .markdown");
  await page.locator("main").focus();
  await page.keyboard.press("Escape");
  await answered(page);
  never.open();
  check((await page.locator(answer).locator(".stats").textContent()).includes("stopped"), "Escape stops the answer from anywhere");
}

// Hebrew and Arabic run from right to left, English next to them from left to right.
async function testTextDirection(open) {
  const id = await conversation("שלום", "שלום לכולם", "مرحبا بالعالم\n\n- قائمة\n\nAnd English.");
  const page = await open();
  await page.goto(`${base}/#/chat/${id}`);
  await answered(page);
  const direction = (selector, i = 0) => page.locator(selector).nth(i).evaluate((e) => getComputedStyle(e).direction);
  check((await direction(".message.user .plain")) === "rtl" && (await direction(".chat-bar h1")) === "rtl", "Hebrew runs from right to left");
  const blocks = [await direction(".markdown .block", 0), await direction(".markdown .block", 1), await direction(".markdown .block", 2)];
  check(blocks.join() === "rtl,rtl,ltr", `each block has its direction: ${blocks}`);
  await page.fill(composer, "مرحبا");
  check((await direction(composer)) === "rtl", "the field follows what is typed");
  await shot(page, "directions");
}

await test(async (open) => {
  const server = await standIn();
  const page = await open({ origin: server.url });
  await page.goto(server.url);
  await testReasoning(page, server);
  await testEdit(page);
  await testSearch(page);
  const direct = await open();
  await testImport(direct);
  await testSettings(direct);
  await testContextMeter(direct);
  await testLoadingModel(page, server);
  await testModels(direct);
  await testStopByKey(page, server);
  await testTextDirection(open);
  const phone = await open({ width: 390, height: 800, touch: true, dark: true });
  await phone.goto(`${base}/#/chat`);
  await phone.click('[aria-label="Show conversations"]');
  await phone.waitForSelector(".sidebar.open");
  await fits(phone, "the list with its search");
  await shot(phone, "list-phone-dark");
  server.close();
});
