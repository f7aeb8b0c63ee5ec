// Agents: the trace of a run that waits until a call is allowed and a question is answered on the page; at 390 pixels.
import { base, becomes, check, fits, shot, test } from "./browser.mjs";

await test(async (open) => {
  const page = await open();
  await page.goto(`${base}/#/evaluate/agents`);
  await page.waitForSelector(".trace .waiting");
  check((await page.textContent(".trace h2")) === "How much is it? <img src=x onerror=window.pwned=1>", "the question is text");
  check((await page.textContent(".waiting")).includes("May the agent use this tool?"), "a call waits for permission");
  check((await page.textContent(".waiting code")).includes("23 * 47"), "the input of the call is shown");
  await shot(page, "agent-waits");
  await page.click("text=Allow");
  await page.waitForSelector("text=The agent asks a person");
  check((await page.textContent(".steps")).includes("1081"), "the observation of the call is shown");
  check((await page.textContent(".steps")).includes("Allowed by a person"), "the step says that a person allowed it");
  await page.getByLabel("Your answer").fill("in euros");
  await page.click(".waiting button.primary");
  await becomes(() => page.textContent(".trace"), (t) => t.includes("1081 euros"), "the answer is shown");
  check((await page.textContent(".steps")).includes("in euros"), "the reply of the person is shown");
  check((await page.locator(".waiting").count()) === 0, "no request waits for a person");
  await page.setViewportSize({ width: 390, height: 800 });
  await fits(page, "agents");
  check(!(await page.evaluate(() => window.pwned)), "no hostile text ran");
});
