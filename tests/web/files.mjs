// Attached files: several at once, text and PDF, as chips with their text; unreadable files are refused with their names.
import { answered, api, base, check, composer, say, shot, test } from "./browser.mjs";

const input = ".composer input[type=file]";
const file = (name, content, mimeType = "text/plain") => ({ name, mimeType, buffer: Buffer.from(content) });

// A PDF as a browser prints it: compressed, with embedded fonts.
async function printPdf(open, html) {
  const page = await open();
  await page.setContent(html);
  return page.pdf();
}

await test(async (open) => {
  const pdf = await printPdf(open, "<h1>Quarterly report</h1><p>Umsatz für Köln: 1234 €</p><div style='page-break-before: always'>Second page</div>");
  const blank = await printPdf(open, "<p></p>");
  const page = await open();
  await page.goto(base);
  await page.click('[aria-label="Settings"]');
  await page.locator('.settings input[type=number][aria-label="Max tokens"]').fill("16");
  await page.keyboard.press("Tab");
  await page.setInputFiles(input, [file("notes.txt", "seven sheep\r\nand ```a``` goat"), file("report.pdf", pdf, "application/pdf"), file("data.csv", "a,b\n1,2\n")]);
  await page.waitForFunction(() => document.querySelectorAll(".attached li button").length === 3);
  await shot(page, "attached");
  await page.click('[aria-label="Remove data.csv"]');
  const sent = page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));
  await say(page, "Sum it up");
  const { content } = (await sent).postDataJSON().messages[0];
  check(content.includes("seven sheep\nand ```a``` goat"), "the text file is sent");
  check(content.includes("Quarterly report") && content.includes("Köln: 1234 €") && content.includes("Second page"), `the text of the PDF is sent: ${content}`);
  check(!content.includes("data.csv") && content.endsWith("Sum it up"), "a removed file is not sent");
  await answered(page);
  const chips = page.locator(".message.user .file-chip summary");
  check((await chips.allTextContents()).map((t) => t.split(",")[0]).join() === "notes.txt,report.pdf", "files are chips");
  check((await page.textContent(".message.user .plain")) === "Sum it up", "the message shows only its text");
  await chips.nth(1).click();
  check((await page.locator(".file-chip pre").nth(1).textContent()).includes("Second page"), "a chip opens");
  await shot(page, "chips");
  // An edit keeps the files.
  await page.locator(".message.user").hover();
  await page.locator('.message.user [aria-label="Edit"]').click();
  check((await page.inputValue(".editor textarea")) === "Sum it up", "the editor has the text without the files");
  await page.fill(".editor textarea", "Once more");
  await page.click(".editor .primary");
  await page.waitForFunction(() => document.querySelector(".message.user .plain")?.textContent === "Once more");
  await answered(page);
  const id = (await page.evaluate(() => location.hash)).split("/")[2];
  const edited = (await api(`/makar/conversations/${id}`)).messages.filter((m) => m.role === "user").at(-1);
  check(edited.content.includes("Quarterly report") && edited.content.endsWith("Once more"), "the edited message has the files");
  const markdown = await (await fetch(`${base}/makar/conversations/${id}/markdown`)).text();
  check(markdown.includes("seven sheep"), "the export has the files too");
  // Unreadable files.
  for (const [bad, reason] of [
    [file("x.bin", Buffer.from([0, 1, 2, 255])), "neither text nor PDF"],
    [file("blank.pdf", blank, "application/pdf"), "contains no text"],
    [file("broken.pdf", "%PDF-1.7 broken", "application/pdf"), "broken.pdf"],
    [file("big.txt", "x".repeat(300 * 1024)), "too large"],
  ]) {
    await page.setInputFiles(input, [bad, file("good.txt", "fine")]);
    await page.waitForFunction((text) => document.querySelector(".composer .error-message")?.textContent.includes(text), reason);
    check((await page.textContent(".composer .error-message")).startsWith(bad.name), `${bad.name} is named`);
    await page.waitForSelector('[aria-label="Remove good.txt"]');
    await page.click('[aria-label="Remove good.txt"]');
  }
});
