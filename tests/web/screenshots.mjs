// Makes the screenshots of README.md with a server of models/world.gguf: node tests/web/screenshots.mjs URL FOLDER
import { answered, say, test } from "./browser.mjs";

const folder = process.argv[3];
const story = "Anna was a baker. Ben was a pilot. Ben was twelve years old. Anna was nine years old.\n\n";

await test(async (open) => {
  const page = await open({ width: 900, height: 640 });
  await page.goto(process.argv[2]);
  await say(page, story + "What is Anna's job?");
  await answered(page, 1);
  await say(page, "How old is Ben?");
  await answered(page, 2);
  await page.screenshot({ path: `${folder}/page-chat.png` });
  await page.goto(`${process.argv[2]}/#/look`);
  await page.fill("#look-text", "Anna was a baker. Ben was a pilot.\nWhat is Anna's job?\nAnswer:");
  await page.waitForSelector(".heat-cells");
  await page.locator(".heat-cells").evaluate((cells) => window.scrollTo(0, cells.getBoundingClientRect().top + window.scrollY - 260));
  await page.waitForTimeout(1500);
  await page.screenshot({ path: `${folder}/page-look.png` });
});
