// A browser on the page of a server, and claims about what it shows. Every test ends by claiming that nothing was asked of
// another host, that nothing went wrong in the console, and that no hostile text ran.
import { chromium } from "playwright-core";

export const base = process.argv[2];
let failures = 0;

export function check(ok, what) {
  if (ok) return;
  ++failures;
  console.log("FAIL", what);
}

export function near(a, b, what, within = 1e-4) {
  check(Math.abs(a - b) <= within, `${what}: ${a} and ${b}`);
}

export async function api(path, body, method) {
  const init = body === undefined ? { method } : { method: method ?? "POST", body: JSON.stringify(body) };
  const response = await fetch(base + path, init);
  const text = await response.text();
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

// Runs `body(open)`; open({width, height, dark}) is a new page of its own.
export async function test(body, { quiet = [] } = {}) {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
  const open = async ({ width = 1200, height = 800, dark = false, touch = false } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      hasTouch: touch,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    page.on("request", (r) => check(r.url().startsWith(base) || /^(data|blob|about):/.test(r.url()), `a request to ${r.url()}`));
    page.on("pageerror", (e) => check(false, `an error in the page: ${e.stack}`));
    page.on("dialog", (d) => (check(false, `a dialog: ${d.message()}`), d.dismiss()));
    page.on("console", (m) => {
      if (m.type() === "error" && !quiet.some((text) => m.text().includes(text))) check(false, `in the console: ${m.text()}`);
    });
    return page;
  };
  try {
    await body(open);
    for (const context of browser.contexts())
      for (const page of context.pages()) check(!(await page.evaluate(() => "pwned" in window)), "hostile text ran");
  } catch (error) {
    check(false, error.stack);
    // MAKAR_SHOTS=DIR keeps what was on the screen.
    if (process.env.MAKAR_SHOTS)
      for (const [i, page] of browser.contexts().flatMap((c) => c.pages()).entries())
        await page.screenshot({ path: `${process.env.MAKAR_SHOTS}/failed-${i}.png` });
  }
  await browser.close();
  console.log(failures ? `${failures} failures` : "fine");
  process.exit(failures ? 1 : 0);
}

// A person on a phone scrolls in one direction.
export async function fits(page, what) {
  const [inside, outside] = await page.evaluate(() => [
    Math.max(document.documentElement.scrollWidth, document.querySelector("main").scrollWidth),
    innerWidth,
  ]);
  check(inside <= outside, `${what} is ${inside} wide on a screen of ${outside}`);
}
