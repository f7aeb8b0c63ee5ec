// A browser on the page of a server, and checks of what it shows. Every test also checks that no request went to another host,
// that the console has no error, and that no hostile text ran.
import { chromium } from "playwright-core";

export const base = process.argv[2];
const allowed = [base];
let failures = 0;

export const allow = (url) => allowed.push(url);

export const composer = ".composer textarea";
export const answer = ".message.assistant:not(.writing)";

// Waits until `count` answers are complete.
export async function answered(page, count = 1) {
  await page.waitForFunction(([s, n]) => document.querySelectorAll(s).length === n && !document.querySelector("[aria-busy=true]"), [answer, count]);
}

// Sends a message once the page can send: the list of models may still be loading.
export async function say(page, text) {
  await page.fill(composer, text);
  await page.waitForSelector(".composer .round:enabled");
  await page.press(composer, "Enter");
}

// Checks that `read()` becomes `ok`: pages update some time after an action. Returns the last value.
export async function becomes(read, ok, what, within = 20_000) {
  const end = Date.now() + within;
  let value = await read();
  while (!ok(value) && Date.now() < end) {
    await new Promise((done) => setTimeout(done, 50));
    value = await read();
  }
  check(ok(value), what);
  return value;
}

export async function setting(page, label, value) {
  await page.locator(`.settings input[type=number][aria-label="${label}"]`).fill(String(value));
  await page.keyboard.press("Tab");
}

// Stores a conversation of alternating messages; returns its id.
export async function conversation(title, ...texts) {
  const { id } = await api("/makar/conversations", { title, system: "" });
  let parent = 0;
  for (const [i, text] of texts.entries()) {
    const message = typeof text === "string" ? { content: text } : text;
    parent = (await api(`/makar/conversations/${id}/messages`, { parent, role: i % 2 ? "assistant" : "user", ...message })).id;
  }
  return id;
}

// The most processor time, in milliseconds, that one task of the page takes during `action`. Unlike elapsed time it does not
// depend on other load on the machine.
async function longestTask(browser, page, action) {
  await browser.startTracing(page, { categories: ["disabled-by-default-devtools.timeline"] });
  await action();
  await page.waitForTimeout(300);
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
  const main = new Set(traceEvents.filter((e) => e.name === "thread_name" && e.args.name === "CrRendererMain").map((e) => `${e.pid} ${e.tid}`));
  const tasks = traceEvents.filter((e) => e.name === "RunTask" && main.has(`${e.pid} ${e.tid}`) && e.tdur !== undefined);
  check(tasks.length > 10, `tasks are measured: ${tasks.length}`);
  return Math.round(Math.max(...tasks.map((e) => e.tdur)) / 1000);
}

// Saves a screenshot in the folder MAKAR_SHOTS, if that is set.
export async function shot(page, name) {
  if (process.env.MAKAR_SHOTS) await page.screenshot({ path: `${process.env.MAKAR_SHOTS}/${name}.png` });
}

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

// Runs `body(open)`; open({width, height, dark, touch, locale, origin}) opens a new page with its own storage.
// Console errors that contain one of the texts of `expectedErrors` are no failures.
export async function test(body, { expectedErrors = [] } = {}) {
  const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"],
  });
  const open = async ({ width = 1200, height = 800, dark = false, touch = false, locale = "en-US", origin = base } = {}) => {
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: dark ? "dark" : "light",
      hasTouch: touch,
      locale,
    });
    await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
    const page = await context.newPage();
    page.longestTask = (action) => longestTask(browser, page, action);
    page.setDefaultTimeout(120_000);
    page.on("request", (r) => check(allowed.some((url) => r.url().startsWith(url)) || /^(data|blob|about):/.test(r.url()), `a request to ${r.url()}`));
    page.on("pageerror", (e) => check(false, `an error in the page: ${e.stack}`));
    page.on("dialog", (d) => (check(false, `a dialog: ${d.message()}`), d.dismiss()));
    page.on("console", (m) => {
      if (m.type() === "error" && !expectedErrors.some((text) => m.text().includes(text))) check(false, `in the console: ${m.text()}`);
    });
    return page;
  };
  try {
    await body(open);
    for (const context of browser.contexts())
      for (const page of context.pages()) check(!(await page.evaluate(() => "pwned" in window)), "hostile text ran");
  } catch (error) {
    check(false, error.stack);
    for (const [i, page] of browser.contexts().flatMap((c) => c.pages()).entries()) await shot(page, `failed-${i}`);
  }
  await browser.close();
  console.log(failures ? `${failures} failures` : "passed");
  process.exit(failures ? 1 : 0);
}

// Checks that the page is not wider than the screen.
export async function fits(page, what) {
  const [contentWidth, screenWidth] = await page.evaluate(() => [
    Math.max(document.documentElement.scrollWidth, document.querySelector("main").scrollWidth),
    innerWidth,
  ]);
  check(contentWidth <= screenWidth, `${what} is ${contentWidth} wide on a screen of ${screenWidth}`);
}
