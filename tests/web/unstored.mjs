// A server that stores nothing: conversations stay in the tab and have the same functions as stored ones.
import { answer, answered, check, say, test } from "./browser.mjs";
import { gate, standIn } from "./stand_in.mjs";

await test(
  async (open) => {
    const server = await standIn();
    const page = await open({ origin: server.url });
    await page.goto(server.url);
    await page.waitForSelector(".welcome");
    await page.waitForFunction(() => document.querySelector(".sidebar").textContent.includes("does not store"));
    server.writes("The first answer.");
    await say(page, "A question");
    await answered(page);
    await page.click('nav a:has-text("Engine")');
    await page.waitForSelector(".tiles");
    await page.click('nav a:has-text("Chat")');
    await answered(page);
    check((await page.textContent(".message.assistant .said")).trim() === "The first answer.", "the conversation is still there after another page was shown");
    const dropGate = gate();
    server.writes("The start, ", { drop: dropGate.closed });
    await say(page, "Another");
    await page.waitForSelector('.writing .markdown:has-text("The start,")');
    dropGate.open();
    await page.waitForSelector(".cut-answer");
    server.writes("the end.");
    await page.click('.cut-answer button:has-text("Continue")');
    await page.waitForFunction(() => [...document.querySelectorAll(".message.assistant .said")].at(-1).textContent.trim() === "The start, the end.");
    await answered(page, 2);
    await page.locator(answer).last().locator('[aria-label="Edit answer"]').click();
    await page.fill(".editor textarea", "Edited");
    await page.click(".editor .primary");
    await page.waitForFunction(() => [...document.querySelectorAll(".message.assistant .said")].at(-1).textContent.trim() === "Edited");
    await page.fill(".sidebar input[type=search]", "first ans");
    await page.waitForSelector(".sidebar li small");
    await page.fill(".sidebar input[type=search]", "");
    await page.locator(".message.user").last().hover();
    await page.locator('.message.user [aria-label="Delete message"]').last().click();
    await page.click("dialog .danger");
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
    await page.click(".menu summary");
    const [file] = await Promise.all([page.waitForEvent("download"), page.click('.menu button:has-text("Markdown")')]);
    check(file.suggestedFilename() === "A-question.md", "the conversation can be exported");
    await page.click(".sidebar .fresh");
    await page.waitForSelector(".welcome");
    await page.click(".sidebar li a");
    await page.waitForFunction(() => document.querySelectorAll(".message").length === 2);
    server.close();
  },
  { expectedErrors: ["501", "400", "404", "net::ERR_"] },
);
