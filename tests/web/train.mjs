// Train: a curve from a run's log, which grows while one looks; samples; a run begun anew.
import { appendFileSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { api, base, check, fits, test } from "./browser.mjs";

const runs = process.argv[3];
const line = (step, loss) => JSON.stringify({ step, loss, norm: 1, lr: 1e-3, seconds: 0.1, tokens: 512 }) + "\n";
const points = (page, n) => page.waitForFunction((wanted) => document.querySelector(".chart")?.dataset.points === String(wanted), n);
// Pixels of the first chart that are not empty.
const ink = (page) =>
  page.evaluate(() => {
    const c = document.querySelector(".chart canvas");
    const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    let count = 0;
    for (let i = 3; i < data.length; i += 4) count += data[i] > 0;
    return count;
  });

await test(async (open) => {
  const page = await open();
  await page.goto(`${base}/#/train`);
  await points(page, 100);
  check((await ink(page)) > 1000, "a curve is drawn");
  check((await page.textContent(".figures")).includes("100"), "the last step");
  check((await page.textContent(".sample")).includes("<img src=x"), "a sample is text");
  await page.locator('input[aria-label="Samples"]').evaluate((el) => {
    el.value = "0";
    el.dispatchEvent(new Event("input", { bubbles: true }));
  });
  check((await page.textContent(".sample")).startsWith("at 20"), "an earlier sample");
  // It grows, a line that is cut off is left for later, and a folder that begins anew is noticed.
  appendFileSync(`${runs}/first/log.jsonl`, line(101, 0.5) + line(102, 0.4) + '{"step": 103, "lo');
  await points(page, 102);
  appendFileSync(`${runs}/first/log.jsonl`, 'ss": 0.3}\n');
  await points(page, 103);
  writeFileSync(`${runs}/first/new`, line(1, 5));
  renameSync(`${runs}/first/new`, `${runs}/first/log.jsonl`);
  await points(page, 1);
  // Another run, of a name that is trouble.
  const name = "b <img src=x onerror=window.pwned=1>";
  mkdirSync(`${runs}/${name}`);
  writeFileSync(`${runs}/${name}/log.jsonl`, line(1, 3) + line(2, 2));
  await page.click(".runs a:has-text('onerror')");
  await points(page, 2);
  await page.check('label:has-text("Logarithmic") input');
  await page.locator("#smoothing").focus();
  await page.keyboard.press("ArrowLeft");
  for (const path of ["..%2f..%2fetc", "%2e%2e", "first%2f..%2ffirst", ".hidden", "a%00b", "%2fetc"])
    check((await api(`/makar/runs/${path}`)).error?.code === "not_found", `a trick: ${path}`);
  const phone = await open({ width: 360, height: 700, touch: true });
  await phone.goto(`${base}/#/train`);
  await phone.waitForSelector(".chart canvas");
  await fits(phone, "training");
});
