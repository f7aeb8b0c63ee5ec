// What interrupts a chat: other pages, other conversations, failed requests, lost connections. No draft and no answer is lost.
import { answer, answered, api, base, check, composer, say, setting, shot, test } from "./browser.mjs";
import { fails, gate, standIn } from "./stand_in.mjs";

const text = (page, selector = ".message.assistant .said") => page.locator(selector).last().textContent();

// Leaving the chat stops nothing: the answer is complete on return, in this conversation and in others.
async function testNavigation(page, server) {
  const half = gate();
  server.writes("The first half and the second half.", { hold: half.closed });
  await say(page, "Keep writing");
  await page.waitForSelector(".writing .markdown");
  await page.fill(composer, "a draft");
  await page.click('nav a:has-text("Engine")');
  await page.waitForSelector(".tiles");
  half.open();
  await page.click('nav a:has-text("Chat")');
  await answered(page);
  check((await text(page)).trim() === "The first half and the second half.", "the answer was finished while another page was shown");
  check((await page.inputValue(composer)) === "a draft", "the draft is there again");
  const background = gate();
  server.writes("In the background it goes to its end.", { hold: background.closed });
  await say(page, "Now elsewhere");
  await page.waitForSelector(".writing .markdown");
  const here = await page.evaluate(() => location.hash);
  await page.click(".sidebar .fresh");
  await page.waitForSelector(".welcome");
  await page.waitForSelector(".sidebar .in-flight");
  await page.fill(composer, "another draft");
  background.open();
  await page.waitForSelector(".sidebar .in-flight", { state: "detached" });
  const stored = (await api(`/makar/conversations/${here.split("/")[2]}`)).messages;
  check(stored.length === 4 && stored[3].content === "In the background it goes to its end.", "an answer is stored when its conversation is not shown");
  await page.click(".sidebar li a");
  await answered(page, 2);
  check((await page.inputValue(composer)) === "", "each conversation has its own draft");
  await page.click(".sidebar .fresh");
  await page.waitForSelector(".welcome");
  check((await page.inputValue(composer)) === "another draft", "the draft of a new chat is kept");
  await page.reload();
  await page.waitForSelector(".welcome");
  check((await page.inputValue(composer)) === "another draft", "a draft survives a reload");
  await page.fill(composer, "");
}

// A message that the server does not accept stays in the field.
async function testRefusedMessage(page, server) {
  await page.goto(`${server.url}/#/chat`);
  await page.waitForSelector(".welcome");
  const before = (await api("/makar/conversations")).conversations.length;
  server.on("/makar/conversations", fails(503, "no room"));
  await say(page, "Do not lose me");
  await page.waitForSelector(".column .error-message");
  check((await page.textContent(".column .error-message")).includes("no room"), "the error is shown");
  check((await page.inputValue(composer)) === "Do not lose me", "the message stays in the field");
  check((await api("/makar/conversations")).conversations.length === before, "no empty conversation is left");
  server.writes("Accepted.");
  await page.click('.column .error-message button:has-text("Retry")');
  await answered(page);
  check((await page.inputValue(composer)) === "", "the field is cleared once the message is accepted");
  check((await page.textContent(".message.user .plain")) === "Do not lose me", "the message was sent again");
  // An edit stays open too.
  const id = (await page.evaluate(() => location.hash)).split("/")[2];
  const user = page.locator(".message.user").first();
  await user.hover();
  await user.locator('[aria-label="Edit"]').click();
  await page.fill(".editor textarea", "An edited text");
  server.on(`/makar/conversations/${id}/messages`, fails(500, "disk full"));
  await page.click(".editor .primary");
  await page.waitForSelector(".column .error-message");
  check((await page.inputValue(".editor textarea")) === "An edited text", "a failed edit stays open");
  server.writes("To the edited text.");
  await page.click(".editor .primary");
  await page.waitForSelector(".editor", { state: "detached" });
  await page.waitForFunction(() => [...document.querySelectorAll(".message.assistant .said")].at(-1)?.textContent.trim() === "To the edited text.");
}

// Without an answer there is an error with Retry, also after a reload.
async function testRetry(page, server) {
  await page.goto(`${server.url}/#/chat`);
  await page.waitForSelector(".welcome");
  server.on("/v1/chat/completions", fails(503, "too many requests"));
  await say(page, "First try");
  await page.waitForSelector(".column .error-message");
  check((await page.locator(".message.user").count()) === 1, "the message stays");
  server.writes("Second try.");
  await page.click('.column .error-message button:has-text("Retry")');
  await answered(page);
  check((await page.locator(".column .error-message").count()) === 0, "the error is removed");
  server.on("/v1/chat/completions", fails(503, "too many requests"));
  await say(page, "Once more");
  await page.waitForSelector(".column .error-message");
  await page.reload();
  await page.waitForSelector(".answer-missing");
  server.writes("After the reload.");
  await page.click(".answer-missing");
  await answered(page, 2);
  check((await text(page)).trim() === "After the reload.", "a message without an answer can be answered");
}

// A lost connection is reported; the text that arrived is stored and can be continued.
async function testLostConnection(page, server) {
  await page.goto(`${server.url}/#/chat`);
  await page.waitForSelector(".welcome");
  const dropGate = gate();
  server.writes("The beginning ", { drop: dropGate.closed });
  await say(page, "Tell me");
  await page.waitForSelector('.writing .markdown:has-text("The beginning")');
  dropGate.open();
  await page.waitForSelector(".cut-answer");
  await shot(page, "dropped");
  check((await page.textContent(".message.assistant .error-message")).includes("connection was lost"), "a dropped stream is reported");
  await page.reload();
  await page.waitForSelector(".cut-answer");
  check((await page.textContent(".message.assistant .error-message")).includes("connection was lost"), "a dropped stream is reported after a reload");
  let request;
  server.writes("and the end.", { onRequest: (body) => (request = body), logprobs: true });
  await page.click('.cut-answer button:has-text("Continue")');
  await page.waitForSelector(".cut-answer", { state: "detached" });
  await answered(page);
  check(request.continue_final_message === true && request.messages.at(-1).content === "The beginning ", "the request continues the answer so far");
  check((await text(page)).trim() === "The beginning and the end.", `the answer is continued: ${await text(page)}`);
  const id = (await page.evaluate(() => location.hash)).split("/")[2];
  const stored = (await api(`/makar/conversations/${id}`)).messages;
  check(stored.length === 2 && stored[1].content === "The beginning and the end.", "the continued answer is stored as one");
  check(stored[1].meta.finish === "stop" && !stored[1].meta.error, "the continued answer is complete");
  // An error of the server in the middle, and an answer cut by its length.
  server.on("/v1/chat/completions", (_, out) => {
    out.writeHead(200, { "content-type": "text/event-stream" });
    out.end('data: {"choices":[{"index":0,"delta":{"content":"Half "},"finish_reason":null}]}\n\ndata: {"error":{"message":"out of memory"}}\n\n');
  });
  await say(page, "And more");
  await page.waitForSelector(".cut-answer");
  check((await page.textContent(".message.assistant .error-message")).includes("out of memory"), "an error in the middle is shown");
  server.writes("A whole one.", { finish: "length" });
  await page.click('.cut-answer button:has-text("Retry")');
  await page.waitForFunction(() => [...document.querySelectorAll(".versions span")].at(-1)?.textContent === "2 / 2");
  check((await page.locator('.cut-answer button:has-text("Continue")').count()) === 1, "an answer cut by its length can be continued");
}

// The real server continues an answer that was cut by its length.
async function testContinue(open) {
  const page = await open();
  await page.goto(base);
  await page.click('[aria-label="Settings"]');
  await setting(page, "Max tokens", 16);
  await say(page, "Go");
  await page.waitForSelector(".cut-answer");
  const path = `/makar/conversations/${(await page.evaluate(() => location.hash)).split("/")[2]}`;
  const before = (await api(path)).messages[1];
  const stored = page.waitForResponse((r) => r.url().endsWith(`/makar/messages/${before.id}`));
  await page.click('.cut-answer button:has-text("Continue")');
  await stored;
  await answered(page);
  const after = (await api(path)).messages[1];
  check(after.id === before.id && after.content.startsWith(before.content), "the same answer is continued");
  check(after.meta.count === 32, `16 tokens more: ${before.meta.count}, ${after.meta.count}`);
  check(after.meta.context > before.meta.context, "the context grows");
}

// Over plain HTTP there is no navigator.clipboard.
async function testCopyWithoutClipboard(open) {
  const page = await open();
  await page.addInitScript(() => Object.defineProperty(navigator, "clipboard", { value: undefined }));
  await page.goto(base);
  await page.waitForSelector(".sidebar li a");
  await page.click(".sidebar li a");
  await page.waitForSelector(answer);
  const copy = page.locator(answer).last().locator('[aria-label="Copy"]');
  const expected = (await api(`/makar/conversations/${(await page.evaluate(() => location.hash)).split("/")[2]}`)).messages.at(-1).content;
  await copy.click();
  await page.waitForSelector('[aria-label="Copied"]');
  await page.click(composer);
  await page.keyboard.press("Control+V");
  const normalized = (s) => s.replace(/[\r\n\0]/g, "");
  check(normalized(await page.inputValue(composer)) === normalized(expected), "the text is copied without the clipboard API");
  await page.fill(composer, "");
  await page.evaluate(() => (document.execCommand = () => false));
  await page.waitForSelector(`${answer} [aria-label="Copy"]`);
  await copy.click();
  await page.waitForSelector("dialog .copy-field");
  check((await page.textContent("dialog")).includes("did not allow"), "a refusal is shown, with the text to copy");
  await page.keyboard.press("Escape");
  await page.waitForSelector("dialog", { state: "detached" });
}

await test(
  async (open) => {
    const server = await standIn();
    const page = await open({ origin: server.url });
    await page.goto(server.url);
    await testNavigation(page, server);
    await testRefusedMessage(page, server);
    await testRetry(page, server);
    await testLostConnection(page, server);
    await testContinue(open);
    await testCopyWithoutClipboard(open);
    server.close();
  },
  { expectedErrors: ["503 (Service Unavailable)", "500 (Internal Server Error)", "net::ERR_"] },
);
