// Languages: the browser's is used, the switch changes it, and every string of the page is translated.
import { answered, base, check, composer, say, shot, test } from "./browser.mjs";

await test(async (open) => {
  const page = await open({ locale: "de-DE" });
  await page.goto(base);
  await page.waitForSelector(".welcome");
  check((await page.getAttribute("html", "lang")) === "de", "the page uses the language of the browser");
  check((await page.textContent(".welcome h1")).includes("schreiben"), "the page is German");
  check((await page.title()).startsWith("Chat"), "the page has a title");
  await page.fill(composer, "Guten Tag");
  await page.selectOption("select.language", "en");
  await page.waitForFunction(() => document.querySelector(".welcome h1").textContent.includes("would you like"));
  check((await page.inputValue(composer)) === "Guten Tag", "a draft survives the switch");
  check((await page.getAttribute("html", "lang")) === "en", "the page declares its language");
  await page.reload();
  await page.waitForFunction(() => document.querySelector(".welcome h1")?.textContent.includes("would you like"));
  await page.selectOption("select.language", "de");
  await say(page, "Sag etwas");
  await answered(page);
  // Texts and labels of both languages, page by page: only names and numbers may be the same in both.
  const words = () =>
    page.evaluate(() => {
      const out = [];
      const skip = "noscript, .message, .sidebar ul, .chip, .bars, .sample, select, textarea, code, pre, .model-name, .wordmark, .chat-bar h1, .u-legend .u-value";
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const n = walker.currentNode;
        const element = n.nodeType === 1 ? n : n.parentElement;
        if (element.closest(skip)) continue;
        if (n.nodeType === 3) out.push(n.data.trim());
        else for (const name of ["aria-label", "title", "placeholder"]) out.push(n.getAttribute(name) ?? "");
      }
      return [...new Set(out)].filter((t) => /[a-z]{4,}/i.test(t));
    });
  const sameInBoth = new Set(["Chat", "Engine", "Tokens", "Attention", "Text", "Top-k", "Top-p", "Min-p", "Seed", "Code", "Loss", "Tokens/s", "tokens/s", "Logarithmic", "Enter", "Escape", "Position", "position", "first"]);
  for (const [name, ready] of [["chat", ".composer"], ["look", ".heat-cells"], ["train", ".chart canvas"], ["engine", ".tiles"]]) {
    await page.goto(`${base}/#/${name}`);
    if (name === "chat") await page.click('[aria-label="Einstellungen"]');
    await page.waitForSelector(ready);
    await page.waitForTimeout(300);
    const german = await words();
    await shot(page, `${name}-german`);
    await page.selectOption("select.language", "en");
    await page.waitForSelector(ready);
    if (name === "chat") await page.click('.chat-bar [aria-label="Settings"]');
    await page.waitForTimeout(300);
    const english = new Set(await words());
    await page.selectOption("select.language", "de");
    const untranslated = german.filter((t) => english.has(t) && !sameInBoth.has(t) && !t.includes("/runs") && !t.includes("ForCausalLM"));
    check(german.length > 10, `${name} has words: ${german.length}`);
    check(untranslated.length === 0, `${name}: not translated: ${JSON.stringify(untranslated)}`);
  }
});
