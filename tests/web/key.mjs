// A server that needs a key, the theme, and the headers of the page's files.
import { base, check, say, shot, test } from "./browser.mjs";

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

// The dialog for the key: focus, a wrong key, Escape.
async function testKeyDialog(page) {
  await page.waitForSelector("dialog #key");
  check((await page.evaluate(() => document.activeElement?.id)) === "key", "the field has the focus");
  check((await page.locator("dialog .error-message").count()) === 0, "no error is shown yet");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".key-needed");
  await page.waitForTimeout(500);
  check((await page.locator("dialog").count()) === 0, "Escape closes the dialog, and it stays closed");
  check((await page.textContent(".key-needed")).includes("needs an API key"), "the page says what is missing");
  await page.click('.key-needed button:has-text("Enter key")');
  await page.waitForSelector("dialog #key");
  await page.keyboard.type("wrong");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#key-wrong");
  await shot(page, "key");
  check((await page.textContent("#key-wrong")).includes("Wrong key"), "a wrong key is named");
  check((await page.evaluate(() => [document.activeElement?.id, document.querySelector("#key").value].join())) === "key,", "another key can be typed at once");
  await page.keyboard.type("open-sesame");
  await page.keyboard.press("Enter");
  await page.waitForSelector("dialog", { state: "detached" });
  await page.waitForFunction(() => document.querySelector(".model-name")?.textContent === "tiny");
}

await test(
  async (open) => {
    const page = await open({ dark: true });
    await page.goto(base);
    await testKeyDialog(page);
    await say(page, "Let me in");
    await page.waitForSelector(".message.assistant footer");
    await page.reload();
    await page.waitForSelector(".message.assistant footer");
    check((await page.locator("dialog").count()) === 0, "the key is remembered in the tab");
    check(await page.evaluate(() => !JSON.stringify(localStorage).includes("sesame")), "the key is not in localStorage");

    const dark = await background(page);
    await page.click('[aria-label="Theme: system"]');
    const light = await background(page);
    check(dark !== light, "the switch changes the theme to light");
    await page.click('[aria-label="Theme: light"]');
    check((await background(page)) === dark, "the switch changes the theme back to dark");
    await page.reload();
    await page.waitForSelector('[aria-label="Theme: dark"]');
    check((await background(page)) === dark, "the theme is remembered");

    const head = await fetch(base, { headers: { "accept-encoding": "gzip" } });
    const policy = head.headers.get("content-security-policy");
    check(policy.includes("script-src 'self'") && !policy.includes("unsafe"), "the content security policy is strict");
    const unchanged = await fetch(base, { headers: { "if-none-match": head.headers.get("etag") } });
    check(unchanged.status === 304, "a file that the browser has is not sent again");
    check((await fetch(`${base}/makar/conversations`)).status === 401, "conversations need the key");
    check((await fetch(`${base}/makar/look`, { method: "POST", body: "{}" })).status === 401, "Look inside needs the key");
    check((await fetch(`${base}/makar/search`, { method: "POST", body: '{"text":"x"}' })).status === 401, "the search needs the key");
  },
  { expectedErrors: ["401 (Unauthorized)"] },
);
