// A server that asks for a key, and the colours of the page.
import { base, check, test } from "./browser.mjs";

const background = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);

await test(
  async (open) => {
    const page = await open({ dark: true });
    await page.goto(base);
    await page.waitForSelector("dialog #key");
    await page.fill("#key", "wrong");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => document.querySelector("#key")?.value === "");
    await page.fill("#key", "open-sesame");
    await page.keyboard.press("Enter");
    await page.waitForSelector("dialog", { state: "detached" });
    await page.waitForFunction(() => document.querySelector(".model-name")?.textContent === "tiny");
    await page.fill(".composer textarea", "Let me in");
    await page.keyboard.press("Enter");
    await page.waitForSelector(".message.assistant footer");
    await page.reload();
    await page.waitForSelector(".message.assistant footer");
    check((await page.locator("dialog").count()) === 0, "the key is remembered in the tab");
    check(await page.evaluate(() => !JSON.stringify(localStorage).includes("sesame")), "and only there");

    const dark = await background(page);
    await page.click('[aria-label="Colours: as the system"]');
    const light = await background(page);
    check(dark !== light, "the switch makes it light");
    await page.click('[aria-label="Colours: light"]');
    check((await background(page)) === dark, "and dark again");
    await page.reload();
    await page.waitForSelector('[aria-label="Colours: dark"]');
    check((await background(page)) === dark, "the choice is remembered");

    const head = await fetch(base, { headers: { "accept-encoding": "gzip" } });
    const policy = head.headers.get("content-security-policy");
    check(policy.includes("script-src 'self'") && !policy.includes("unsafe"), "a strict policy");
    const again = await fetch(base, { headers: { "if-none-match": head.headers.get("etag") } });
    check(again.status === 304, "what the browser has is not sent again");
    check((await fetch(`${base}/makar/conversations`)).status === 401, "conversations need the key");
    check((await fetch(`${base}/makar/look`, { method: "POST", body: "{}" })).status === 401, "looking inside needs it");
  },
  { quiet: ["401 (Unauthorized)"] },
);
