// Evaluate: results as a table, two side by side; ratings of pairs, rankings and scales, blind, by keyboard, at 390 pixels.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { base, becomes, check, fits, shot, test } from "./browser.mjs";

const root = process.argv[3].replace(/runs$/, "");
const lines = (list) => list.map((one) => JSON.stringify(one) + "\n").join("");
const stored = () => readFileSync(`${root}ratings/colours.ratings.jsonl`, "utf8").trim().split("\n").map((l) => JSON.parse(l));

function results(name, acc) {
  mkdirSync(`${root}results/${name}`, { recursive: true });
  writeFileSync(
    `${root}results/${name}/results.json`,
    JSON.stringify({
      results: { "piqa <img src=x onerror=window.pwned=1>": { "acc,none": acc, "acc_stderr,none": 0.01, "ppl,none": 12 } },
      higher_is_better: {},
      config: { model_args: { model: `models/${name}` } },
    }),
  );
}

await test(async (open) => {
  results("base", 0.5);
  results("tuned", 0.625);
  mkdirSync(`${root}ratings`);
  writeFileSync(
    `${root}ratings/colours.jsonl`,
    lines([
      { prompt: "Name a colour. <img src=x onerror=window.pwned=1>", answers: ["red <b>x</b>", "loud"], systems: ["hidden-a", "hidden-b"] },
      { prompt: [{ role: "user", content: "Rank these." }], answers: ["one", "two", "three", "four"] },
      { prompt: "Only one.", answers: ["single"] },
    ]),
  );
  const page = await open();
  await page.goto(`${base}/#/evaluate`);
  await page.waitForSelector(".scores table");
  await page.click(".runs a:has-text('base')");
  await becomes(() => page.textContent(".scores h2"), (t) => t === "models/base", "the model is named");
  check((await page.textContent(".scores table")).includes("0.5000"), "a score is shown");
  check((await page.textContent(".scores table")).includes("± 0.0196"), "the interval of a score is shown");
  await page.selectOption(".beside select", "tuned");
  await becomes(() => page.textContent(".scores table"), (t) => t.includes("0.6250"), "the scores of another model are beside it");
  await shot(page, "results");

  await page.click('.tabs a:has-text("Rate answers")');
  await page.click(".studies a");
  await page.waitForSelector("text=Enter a name first");
  await page.fill(".rater input", "ann");
  await page.waitForSelector(".rate");
  const text = await page.textContent(".rate");
  check(text.includes("<img src=x") && text.includes("<b>x</b>"), "prompts and answers are text");
  check(!(await page.content()).includes("hidden-a"), "systems are hidden");
  check(await page.locator(".rate button.primary").isDisabled(), "nothing is chosen yet");
  // "red" is better, wherever it is shown.
  const first = await page.locator(".answers .text").first().textContent();
  await page.getByLabel(first.startsWith("red") ? "A is better" : "B is better").check({ force: true });
  await page.getByLabel("Correction").fill("blue");
  await page.getByLabel("Critique").fill("loud is no colour");
  await shot(page, "rate-pair");
  await page.click(".rate button.primary");
  await page.waitForSelector("text=1 of 3 rated");
  check(JSON.stringify(stored()[0].ranks) === "[1,2]", `the ranks of the file's order: ${JSON.stringify(stored()[0])}`);
  check(stored()[0].correction === "blue" && stored()[0].critique === "loud is no colour", "correction and critique are stored");
  // A ranking by keyboard: each answer gets its rank.
  const displayed = await page.locator(".answers .text").allTextContents();
  const ranks = { two: 1, one: 2, four: 3, three: 4 };
  for (const [i, answer] of displayed.entries()) {
    await page.locator(".answers .card").nth(i).getByLabel(String(ranks[answer]), { exact: true }).first().focus();
    await page.keyboard.press("Space");
  }
  await page.keyboard.press("Enter");
  await page.waitForSelector("text=2 of 3 rated");
  check(JSON.stringify(stored()[1].ranks) === "[2,1,4,3]", `a ranking: ${JSON.stringify(stored()[1])}`);
  check(await page.locator(".rate button.primary").isDisabled(), "scales are missing");
  for (const scale of ["Usefulness", "Truthfulness", "Harmlessness"])
    await page.locator("fieldset", { hasText: scale }).getByLabel("4", { exact: true }).check({ force: true });
  await page.click(".rate button.primary");
  await page.waitForSelector("text=All 3 items are rated");
  check(stored()[2].scales[0].truthfulness === 4, "scales are stored");
  await page.click(".report summary");
  await page.waitForSelector(".report table");
  check((await page.textContent(".report")).includes("hidden-a"), "the report names systems");
  const [saved] = await Promise.all([page.waitForEvent("download"), page.click(".report button")]);
  const pairs = readFileSync(await saved.path(), "utf8").trim().split("\n").map((l) => JSON.parse(l));
  check(pairs.length === 8 && pairs[0].chosen === "red <b>x</b>", `1 pair, 1 correction, 6 of the ranking: ${pairs.length}`);

  const phone = await open({ width: 390, height: 800, touch: true, dark: true, locale: "de-DE" });
  await phone.goto(`${base}/#/evaluate/rate/colours`);
  await phone.fill(".rater input", "ben");
  await phone.waitForSelector(".rate");
  await fits(phone, "rating");
  await shot(phone, "rate-phone-dark");
  await phone.goto(`${base}/#/evaluate/results/base`);
  await phone.waitForSelector(".scores table");
  await fits(phone, "results");
});
