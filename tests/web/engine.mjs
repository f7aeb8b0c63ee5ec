// Engine: figures under load, the batch, the pages of the cache, and their labels.
import { api, base, check, fits, shot, test } from "./browser.mjs";

const number = (text) => Number(text.replace(/[^\d.]/g, ""));

await test(async (open) => {
  const page = await open();
  await page.goto(`${base}/#/engine`);
  await page.waitForSelector(".tiles .tile");
  check((await page.textContent(".idle")).length > 0, "the page shows that the engine is idle");
  const controller = new AbortController();
  const load = [1, 2, 3].map((i) =>
    fetch(`${base}/v1/completions`, {
      method: "POST",
      body: JSON.stringify({ prompt: `story ${i} `.repeat(30), max_tokens: 30000, stream: true }),
      signal: controller.signal,
    }).then((r) => r.text()).catch(() => ""),
  );
  await page.waitForFunction(() => document.querySelectorAll(".batch li").length === 3);
  await page.waitForFunction(() => parseFloat(document.querySelector(".tile b").textContent) > 0);
  check((await page.textContent(".batch li")).includes("tokens"), "a sequence shows its length");
  await page.waitForFunction(() => Number(document.querySelector(".legend-used b").textContent) > 0);
  const legend = await page.locator(".legend b").allTextContents();
  const state = await api("/makar/engine");
  check(legend.map(number).reduce((a, b) => a + b, 0) === state.engine.max_pages, "pages add up");
  const colourCount = await page.evaluate(() => {
    const c = document.querySelector(".page-map canvas");
    const data = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
    const colours = new Set();
    for (let i = 0; i < data.length; i += 4) if (data[i + 3] === 255) colours.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return colours.size;
  });
  check(colourCount >= 2, "pages in use have another colour than free ones");
  const text = await page.textContent("main");
  for (const words of ["Active requests", "Batch size", "Throughput", "Preempted", "Prompt tokens from cache"]) check(text.includes(words), `the page says ${words}`);
  await shot(page, "engine");
  controller.abort();
  await Promise.all(load);
  await page.waitForSelector(".idle");
  const phone = await open({ width: 390, height: 800, touch: true, dark: true });
  await phone.goto(`${base}/#/engine`);
  await phone.waitForSelector(".tiles .tile");
  await fits(phone, "the engine");
  await shot(phone, "engine-phone-dark");
});
