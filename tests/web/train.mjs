// Train: the curves of a run while its log grows, samples, a run that starts again, time left, comparison.
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { api, base, check, fits, shot, test } from "./browser.mjs";

const runs = process.argv[3];
const line = (step, loss, more = {}) => JSON.stringify({ step, loss, norm: 1, lr: 1e-3, seconds: 0.1, tokens: 512, ...more }) + "\n";
const waitForPoints = (page, n) => page.waitForFunction((count) => document.querySelector(".chart")?.dataset.points === String(count), n);
// Pixels of the first chart that are not empty.
const drawnPixels = (page) =>
  page.evaluate(() => {
    const c = document.querySelector(".chart canvas");
    const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    let count = 0;
    for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
    return count;
  });
const figure = (page, name) => page.locator(".figures div", { hasText: name }).locator("dd").textContent();
const labels = (page) => page.locator(".chart").first().locator(".u-legend .u-label").allTextContents();

// The time left: the remaining steps at the speed of the last ones.
async function testTimeLeft(page) {
  mkdirSync(`${runs}/timed`);
  const log = `${runs}/timed/log.jsonl`;
  writeFileSync(log, line(1, 3, { total: 1000, seconds: 3 }) + line(2, 2.9, { total: 1000, seconds: 3 }));
  await page.goto(`${base}/#/train/timed`);
  await waitForPoints(page, 2);
  check((await figure(page, "Step")) === "2 of 1,000", `the step: ${await figure(page, "Step")}`);
  check((await figure(page, "Time left")) === "50 min", `998 steps of 3 seconds: ${await figure(page, "Time left")}`);
  appendFileSync(log, line(1000, 1, { total: 1000, seconds: 3 }));
  await waitForPoints(page, 3);
  check((await figure(page, "Time left")) === "finished", "a finished run has no time left");
}

// Other runs are drawn in the same chart, over one axis of steps.
async function testComparison(page) {
  mkdirSync(`${runs}/other`);
  writeFileSync(`${runs}/other/log.jsonl`, [5, 10, 15, 20].map((step) => line(step, 4 - step / 10)).join(""));
  await page.goto(`${base}/#/train/first`);
  await page.waitForSelector('[aria-label="Compare with other"]');
  await waitForPoints(page, 1);
  const alone = await drawnPixels(page);
  await page.check('[aria-label="Compare with other"]');
  await waitForPoints(page, 5);
  check((await labels(page)).includes("other") && (await labels(page)).includes("first"), `both runs are named: ${await labels(page)}`);
  check((await drawnPixels(page)) > alone, "another curve is drawn");
  await page.check('[aria-label="Compare with timed"]');
  await waitForPoints(page, 7);
  await shot(page, "compare");
  await page.uncheck('[aria-label="Compare with timed"]');
  await page.uncheck('[aria-label="Compare with other"]');
  await waitForPoints(page, 1);
}

await test(async (open) => {
  const page = await open();
  await page.goto(`${base}/#/train`);
  await waitForPoints(page, 100);
  check((await drawnPixels(page)) > 1000, "a curve is drawn");
  check((await page.textContent(".figures")).includes("100"), "the last step is shown");
  check((await page.textContent(".sample")).includes("<img src=x"), "a sample is text");
  await page.locator('input[aria-label="Samples"]').evaluate((el) => {
    el.value = "0";
    el.dispatchEvent(new Event("input", { bubbles: true }));
  });
  check((await page.textContent(".sample")).startsWith("at 20"), "an earlier sample can be chosen");
  // The log grows, an incomplete line is read later, and a restarted run is noticed.
  appendFileSync(`${runs}/first/log.jsonl`, line(101, 0.5) + line(102, 0.4) + '{"step": 103, "lo');
  await waitForPoints(page, 102);
  appendFileSync(`${runs}/first/log.jsonl`, 'ss": 0.3}\n');
  await waitForPoints(page, 103);
  writeFileSync(`${runs}/first/new`, line(1, 5));
  renameSync(`${runs}/first/new`, `${runs}/first/log.jsonl`);
  await waitForPoints(page, 1);
  await testTimeLeft(page);
  await testComparison(page);
  // Another run, with a hostile name.
  const name = "b <img src=x onerror=window.pwned=1>";
  mkdirSync(`${runs}/${name}`);
  writeFileSync(`${runs}/${name}/log.jsonl`, line(1, 3) + line(2, 2));
  await page.click(".runs a:has-text('onerror')");
  await waitForPoints(page, 2);
  await page.check('label:has-text("Logarithmic") input');
  await page.locator("#smoothing").focus();
  await page.keyboard.press("ArrowLeft");
  for (const path of ["..%2f..%2fetc", "%2e%2e", "first%2f..%2ffirst", ".hidden", "a%00b", "%2fetc"])
    check((await api(`/makar/runs/${path}`)).error?.code === "not_found", `an invalid run name: ${path}`);
  const phone = await open({ width: 390, height: 800, touch: true, dark: true });
  await phone.goto(`${base}/#/train`);
  await phone.waitForSelector(".chart canvas");
  await phone.check('[aria-label="Compare with other"]');
  await fits(phone, "training");
  await shot(phone, "train-phone-dark");
});
