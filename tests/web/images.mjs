// Attached images: shown in the message field and in the conversation, sent as data URLs, stored, and refused with the name of the file.
import { answered, api, base, check, say, shot, test } from "./browser.mjs";

const input = ".composer input[type=file]";

// An image that the browser draws and encodes.
async function drawImage(page, width, height, type) {
  const url = await page.evaluate(
    ([w, h, kind]) => {
      const canvas = document.createElement("canvas");
      canvas.width = w;
      canvas.height = h;
      const context = canvas.getContext("2d");
      for (let i = 0; i < w; i += 2) {
        context.fillStyle = `rgb(${(i * 7) % 256}, ${(i * 3) % 256}, ${(i * 13) % 256})`;
        context.fillRect(i, 0, 2, h - (i % 50));
      }
      return canvas.toDataURL(kind);
    },
    [width, height, type],
  );
  return Buffer.from(url.split(",")[1], "base64");
}

await test(async (open) => {
  const page = await open();
  await page.goto(base);
  const small = { name: "small.png", mimeType: "image/png", buffer: await drawImage(page, 60, 40, "image/png") };
  const large = { name: "large.png", mimeType: "image/png", buffer: Buffer.concat([await drawImage(page, 2000, 900, "image/png"), Buffer.alloc(300 * 1024)]) };
  await page.click('[aria-label="Settings"]');
  await page.locator('.settings input[type=number][aria-label="Max tokens"]').fill("8");
  await page.keyboard.press("Tab");
  await page.setInputFiles(input, [small, large]);
  await page.waitForFunction(() => document.querySelectorAll(".attached li img").length === 2);
  await shot(page, "images-attached");
  const sent = page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));
  await say(page, "What is it?");
  const { content } = (await sent).postDataJSON().messages[0];
  check(content.length === 3 && content[2].text === "What is it?", "two images and a text are sent");
  check(content[0].image_url.url === `data:image/png;base64,${small.buffer.toString("base64")}`, "a small image is sent unchanged");
  check(content[1].image_url.url.startsWith("data:image/jpeg;base64,"), "a large image is scaled down");
  await answered(page);
  const displayed = await page.locator(".message.user img.image").evaluateAll((all) => all.map((i) => [i.alt, i.naturalWidth, i.naturalHeight]));
  check(JSON.stringify(displayed) === JSON.stringify([["small.png", 60, 40], ["large.png", 768, 346]]), `the conversation shows the images: ${JSON.stringify(displayed)}`);
  await shot(page, "images-sent");
  const id = (await page.evaluate(() => location.hash)).split("/")[2];
  const stored = (await api(`/makar/conversations/${id}`)).messages[0];
  check(stored.meta.images.length === 2 && stored.content === "What is it?", "the conversation is stored with its images");
  // Earlier versions stored images as `pictures`.
  const { images, ...rest } = stored.meta;
  await api(`/makar/messages/${stored.id}`, { content: stored.content, meta: { ...rest, pictures: images } });
  await page.reload();
  await page.waitForFunction(() => document.querySelectorAll(".message.user img.image").length === 2);
  // An edit keeps the images.
  await page.locator(".message.user").hover();
  await page.locator('.message.user [aria-label="Edit"]').click();
  await page.fill(".editor textarea", "And now?");
  const editRequest = page.waitForRequest((r) => r.url().endsWith("/v1/chat/completions"));
  await page.click(".editor .primary");
  check((await editRequest).postDataJSON().messages[0].content.length === 3, "an edited message has its images");
  await answered(page);
  await page.setInputFiles(input, [{ name: "broken.png", mimeType: "image/png", buffer: Buffer.from("not an image") }]);
  await page.waitForFunction(() => document.querySelector(".composer .error-message")?.textContent.startsWith("broken.png is not an image"));
});
