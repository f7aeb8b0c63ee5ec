// Answers from a folder of PDF files: the collection is a model, and the sources are beside the answer.
import { answered, api, base, check, say, setting, shot, test } from "./browser.mjs";

await test(async (open) => {
  const page = await open();
  await page.goto(base);
  await page.waitForFunction(() => document.querySelectorAll("select option").length > 1);
  await page.locator("select", { has: page.locator('option[value="library"]') }).selectOption("library");
  await page.click('[aria-label="Settings"]');
  await setting(page, "Max tokens", 24);
  await say(page, "Who counts ships at night?");
  await answered(page);
  const first = page.locator(".sources li").first();
  check((await first.locator(".place").textContent()).includes("keeper.pdf"), "the source is the PDF that has the answer");
  await first.locator("summary").click();
  check((await first.locator(".plain").textContent()).includes("The lighthouse keeper counts ships"), "a source opens");
  const [text, sources] = await Promise.all([".with-sources > div", ".sources"].map((s) => page.locator(s).boundingBox()));
  check(sources.x >= text.x + text.width && Math.abs(sources.y - text.y) < 40, "sources are beside the answer");
  await shot(page, "sources");
  // Sources are stored with the conversation.
  const id = (await page.evaluate(() => location.hash)).split("/")[2];
  const { meta } = (await api(`/makar/conversations/${id}`)).messages.at(-1);
  check(meta.model === "library" && meta.sources[0].document.endsWith("keeper.pdf"), "the stored answer has its sources");
  check(typeof meta.grounding.groundedness === "number", "the stored answer has its groundedness");
  await page.reload();
  await page.waitForSelector(".sources li");
  // HTML in a document is text.
  await say(page, "Who bakes bread at dawn?");
  await answered(page, 2);
  check((await page.locator(".sources").last().textContent()).includes("<img src=x"), "a hostile document is shown as text");
  // Nothing relevant is found: the model is not used.
  await say(page, "zeppelin quarks");
  await answered(page, 3);
  check((await page.locator(".message.assistant").last().textContent()).includes("nothing relevant"), "the answer says that nothing was found");
  // On a narrow screen sources are below the answer.
  const narrow = await open({ width: 360, height: 700 });
  await narrow.goto(`${base}/#/chat/${id}`);
  await narrow.waitForSelector(".sources li");
  const [above, below] = await Promise.all([".with-sources > div", ".sources"].map((s) => narrow.locator(s).first().boundingBox()));
  check(below.y >= above.y + above.height && below.x + below.width <= 360, "sources are below the answer on a narrow screen");
});
