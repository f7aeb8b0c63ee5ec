// Look inside: tokens, probability bars, heat maps with the model's attention weights, lines, positions, experts.
import { api, base, becomes, check, fits, near, shot, test } from "./browser.mjs";

const text = "a small test";

const shownValue = (page) => page.evaluate(() => Number(document.querySelector(".heat-value").dataset.value));
const slide = (page, name, value) =>
  page.locator(`#look-${name}`).evaluate((el, v) => {
    el.value = v;
    el.dispatchEvent(new Event("input", { bubbles: true }));
  }, String(value));
const bars = (page) => page.locator(".bars .now[data-now]").evaluateAll((all) => all.map((i) => [Number(i.dataset.now), i.getBoundingClientRect().width]));
// Replies to earlier keystrokes may still arrive: wait until the tokens and the heat map have this many rows.
const waitForChips = (page, count) => page.waitForFunction((n) => document.querySelectorAll(".chip").length === n && document.querySelector(".heat-cells")?.dataset.rows === String(n), count);

function values(look, index, row, key) {
  const a = look.attention;
  const data = Buffer.from(a.data[index], "base64");
  return (head) => data.readUInt16LE(2 * ((head * a.rows + row) * a.keys + key)) / a.scale;
}

async function testChips(page) {
  const { tokens } = await api("/tokenize", { content: text, with_pieces: true });
  const chipTexts = await page.locator(".chip").evaluateAll((all) => all.map((c) => [c.querySelector("span").textContent, Number(c.querySelector("small").textContent)]));
  check(chipTexts.length === tokens.length, "one chip per token");
  tokens.forEach((t, i) => check(chipTexts[i][1] === t.id && chipTexts[i][0] === t.piece.replace(" ", "·"), `chip ${i}`));
  await page.click('.choice label:has-text("probability")');
  await page.locator(".chip").nth(3).focus();
  const scores = await api("/score", { prompt: text.slice(0, 3), completion: text.slice(3), top: 0 });
  const detail = await page.textContent(".chip-detail");
  const p = 100 * Math.exp(scores.token_logprobs[0].logprob);
  near(Number(detail.match(/([\d.e-]+) %/)[1]), p, "a token's probability is that of /score", p / 50);
}

async function testNextToken(page) {
  const score = await api("/score", { prompt: text, completion: "x", top: 10 });
  const best = score.token_logprobs[0].top.map((t) => Math.exp(t.logprob));
  const initial = await bars(page);
  best.forEach((p, i) => near(initial[i][0], p, `bar ${i} is the engine's probability`, 1e-5));
  await slide(page, "temperature", 0.2);
  await becomes(() => bars(page), (cold) => cold[0][0] > initial[0][0] && cold[5][1] < initial[5][1], "a lower temperature raises the first bar and shortens others");
  await slide(page, "temperature", 2);
  await becomes(() => bars(page), (hot) => hot[0][0] < initial[0][0], "a higher temperature lowers the first bar");
  await slide(page, "temperature", 1);
  await slide(page, "top_k", 3);
  const three = await becomes(() => bars(page), (all) => all.filter(([p]) => p > 0).length === 3, "top-k leaves three tokens");
  near(three.reduce((sum, [p]) => sum + p, 0), 1, "their probabilities sum to 1", 1e-6);
  check((await page.textContent("main")).includes("3 candidate tokens"), "the page names the number of candidates");
  await slide(page, "top_k", 0);
  await slide(page, "top_p", 0.01);
  await becomes(() => bars(page), (all) => all.filter(([p]) => p > 0).length === 1, "a tiny top-p leaves one token");
  await slide(page, "top_p", 1);
  const before = await page.inputValue("#look-text");
  await page.locator(".bars button").first().click();
  check((await page.inputValue("#look-text")).length > before.length, "a click on a bar appends its token");
  await page.fill("#look-text", text);
  await waitForChips(page, text.length);
  await page.click("text=Sample one");
  check((await page.inputValue("#look-text")).length > text.length, "a token is drawn");
  await page.fill("#look-text", text);
  await waitForChips(page, text.length);
}

async function testAttention(page) {
  const look = await api("/makar/look", { prompt: text, what: ["attention"] });
  const { rows, keys, heads, layers } = look.attention;
  const cells = await page.evaluate(() => {
    const c = document.querySelector(".heat-cells canvas");
    return [c.height, c.width, document.querySelectorAll(".grid button").length];
  });
  check(cells[0] === rows && cells[1] === keys && rows === text.length, "a cell for each pair of tokens");
  check(cells[2] === heads * layers.length, "every head of every layer in the overview");
  // Cells above the diagonal are empty; the first token attends only to itself.
  const pixel = (r, c) => page.evaluate(([y, x]) => [...document.querySelector(".heat-cells canvas").getContext("2d").getImageData(x, y, 1, 1).data], [r, c]);
  const empty = await pixel(0, keys - 1);
  check(JSON.stringify(await pixel(1, keys - 1)) === JSON.stringify(empty), "a later token has no weight");
  check(JSON.stringify(await pixel(0, 0)) !== JSON.stringify(empty), "the first token attends to itself");
  // Move with the keys, and compare the values shown.
  const map = page.locator(".heat-cells");
  await map.focus();
  near(await shownValue(page), values(look, 0, rows - 1, 0)(0), "the value of the first cell", 1e-6);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  near(await shownValue(page), values(look, 0, rows - 2, 2)(0), "the value of the cell moved to", 1e-6);
  await page.locator(".grid button").nth(heads + 1).click();
  check((await page.textContent(".head h3")) === "Layer 2, head 2", "a head is chosen");
  await map.focus();
  near(await shownValue(page), values(look, 1, rows - 2, 2)(1), "another head has another value", 1e-6);
  await page.click('.choice label:has-text("Lines")');
  check((await page.locator(".lines ol").first().locator("li").count()) === rows, "words are on both sides");
  await page.locator(".lines button").nth(2).focus();
  const lineCount = await page.locator(".lines path").count();
  check(lineCount >= 1 && lineCount <= 3, `lines of the third word to those before it: ${lineCount}`);
  check((await page.locator(".positions canvas").count()) === 1, "positions are drawn");
}

async function testOtherModels(page) {
  await page.click('.choice label:has-text("Heat map")');
  await page.selectOption(".top select:not(.language)", "experts");
  await page.waitForSelector(".routing");
  const look = await api("/makar/look", { model: "experts", prompt: text, what: ["routing"] });
  const first = await page.locator(".routing tbody tr").first().locator("td").first().locator(".expert").allTextContents();
  check(JSON.stringify(first.map((e) => Number(e) - 1)) === JSON.stringify(look.routing.layers[0].choices.slice(0, look.routing.per_token)), "the experts of the first token");
  await page.selectOption(".top select:not(.language)", "slopes");
  await page.waitForFunction(() => document.querySelector(".positions")?.textContent.includes("ALiBi"));
  await page.selectOption(".top select:not(.language)", "both");
  await page.waitForSelector("#look-completion");
  // Without a continuation the page shows the encoder; few tokens give a small map.
  await page.waitForFunction((n) => document.querySelector(".heat-cells")?.dataset.rows === String(n) && document.querySelector(".heat-cells").dataset.keys === String(n), text.length);
  check((await page.inputValue('select[aria-label="Attention of"]')) === "encoder", "an encoder-decoder opens on its encoder");
  await page.fill("#look-completion", "yes");
  await page.waitForFunction(() => document.querySelector(".heat-cells")?.dataset.rows === "4");
  check((await page.getAttribute(".heat-cells", "data-keys")) >= String(text.length), "the decoder attends to the encoder's tokens");
  check((await page.textContent(".positions")).includes("Relative bias"), "a bias by distance is drawn");
  await page.selectOption('select[aria-label="Attention of"]', "decoder");
  await page.fill("#look-completion", "");
  await page.waitForFunction(() => document.querySelector(".heat-cells")?.dataset.rows === "1");
  const cell = await page.locator(".heat-cells").boundingBox();
  check(cell.width <= 60 && cell.height <= 60, `one token makes one small cell: ${cell.width} x ${cell.height}`);
  await page.selectOption(".top select:not(.language)", "learned");
  await page.waitForFunction(() => document.querySelector(".positions")?.textContent.includes("Learned"));
  check((await page.textContent(".axis-right")).startsWith("dimension →"), `learned positions have dimensions: ${await page.textContent(".axis-right")}`);
  await page.selectOption(".top select:not(.language)", "tiny");
  await page.waitForFunction(() => document.querySelector(".positions")?.textContent.includes("Rotary"));
  check((await page.textContent(".axis-right")).startsWith("dimension pair"), "rotary positions have pairs of dimensions");
}

// Many heads stay large enough to see and to touch.
async function testHeads(page, width) {
  await page.selectOption(".top select:not(.language)", "heads");
  await page.waitForFunction(() => document.querySelectorAll(".grid button").length === 22 * 32);
  const box = await page.locator(".grid button").first().boundingBox();
  check(box.width >= 24 && box.height >= 24, `a head of ${box.width} x ${box.height} pixels at ${width}`);
  await fits(page, "many heads");
  await page.locator(".grid").scrollIntoViewIfNeeded();
  await shot(page, `heads-${width}`);
}

// Only the main area scrolls, and the header stays.
async function testScrolling(page) {
  const [outer, inner] = await page.evaluate(() => {
    const main = document.querySelector("main");
    main.scrollTop = main.scrollHeight;
    document.documentElement.scrollTop = 10_000;
    return [document.documentElement.scrollTop, main.scrollTop];
  });
  check(outer === 0 && inner > 0, `the page itself does not scroll: ${outer} and ${inner}`);
  const top = await page.locator(".top").boundingBox();
  check(top.y === 0, "the header stays");
  await page.evaluate(() => (document.querySelector("main").scrollTop = 0));
}

// Every image has a name, or is hidden from assistive software because the element around it has one.
async function testImageNames(page) {
  const unnamed = await page.locator("canvas").evaluateAll((all) =>
    all.filter((c) => !(c.getAttribute("role") === "img" && c.getAttribute("aria-label")) && c.getAttribute("aria-hidden") !== "true").length);
  check(unnamed === 0, `${unnamed} canvases without a name`);
  const hidden = await page.locator("canvas[aria-hidden=true]").evaluateAll((all) => all.filter((c) => !c.closest("[aria-label]:not(main)")).length);
  check(hidden === 0, `${hidden} canvases in something without a name`);
}

// The contrast of each chip's text with its background, in both colourings.
async function testContrast(page, what) {
  for (const by of ["token", "probability"]) {
    await page.click(`.choice label:has-text("${by}")`);
    const worst = await page.locator(".chip").evaluateAll((all) => {
      const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
      const rgb = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
      };
      const light = (c) => {
        const [r, g, b] = rgb(c).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return Math.min(...all.flatMap((chip) => {
        chip.style.setProperty("--surprise", "1");
        const ground = light(getComputedStyle(chip).backgroundColor);
        return [...chip.children].map((part) => {
          const ink = light(getComputedStyle(part).color);
          return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        });
      }));
    });
    check(worst >= 4.5, `chips by ${by}, ${what}: contrast ${worst.toFixed(2)}`);
  }
}

async function testLimits(page) {
  await page.selectOption(".top select:not(.language)", "tiny");
  await page.fill("#look-text", "x".repeat(600));
  await page.waitForSelector(".error-message");
  check((await page.textContent(".error-message")).includes("600 tokens"), "a text that is too long is refused with its length");
  check((await page.locator(".chip, .bars, .heat-cells, .positions").count()) === 0, "no result of the text before is left");
  await page.fill("#look-text", "<img src=x onerror=window.pwned=1>");
  await page.waitForFunction(() => document.querySelectorAll(".chip").length === 34);
}

await test(
  async (open) => {
    const page = await open();
    await page.goto(`${base}/#/look`);
    await page.fill("#look-text", text);
    await waitForChips(page, text.length);
    await testChips(page);
    await testNextToken(page);
    await testAttention(page);
    await testOtherModels(page);
    await testLimits(page);
    await page.fill("#look-text", text);
    await waitForChips(page, text.length);
    await shot(page, "look");
    await testScrolling(page);
    await testImageNames(page);
    const otherRow = await page.locator(".others").evaluate((row) => [...row.children].map((e) => [e.scrollWidth - e.clientWidth, e.getBoundingClientRect().width]));
    check(otherRow.every(([hidden]) => hidden <= 0), `the row of all other tokens is not clipped: ${JSON.stringify(otherRow)}`);
    const share = await page.locator(".others .now").evaluate((bar) => bar.getBoundingClientRect().width / bar.parentElement.getBoundingClientRect().width);
    const listed = (await bars(page)).reduce((sum, [p]) => sum + p, 0);
    near(share, 1 - listed, "the bar of all other tokens has the length of their probability", 0.02);
    await testContrast(page, "light");
    await testHeads(page, 1200);
    const phone = await open({ width: 390, height: 800, touch: true, dark: true });
    await phone.goto(`${base}/#/look`);
    await phone.waitForSelector(".heat-cells");
    await fits(phone, "the inspection page");
    await testScrolling(phone);
    await testContrast(phone, "dark");
    await shot(phone, "look-phone-dark");
    await testHeads(phone, 390);
  },
  { expectedErrors: ["400 (Bad Request)"] },
);
