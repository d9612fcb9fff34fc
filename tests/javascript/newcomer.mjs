// Somebody who has a browser follows the links that `berth up` prints when it is ready: node newcomer.mjs [FOLDER FOR SCREENSHOTS], each line of the input being LINK READY, READY
// in milliseconds since 1970. A line for each says whether a rollout was seen in time; what fails otherwise throws.
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { begin, live } from "./browser.mjs";

const [pictures] = process.argv.slice(2);
/** From the line that says that the server is ready to the sentence on the screen. */
const IN_TIME = 5000;
/** One sentence: what happens, and why it waits. */
const SENTENCE = /^\W*under way\s+Waiting for deployment "([a-z]+)" rollout to finish: \d[^.]* – \d pods? (are|is|have|has) [^.]+\.$/;

let visits = 0;
let root = "";
const { browser, complaints, opened, shoot } = await begin(() => root, { pictures });
const lines = createInterface({ input: process.stdin });
await (await opened()).goto("about:blank");
console.log("ready");

const visit = async (link, ready) => {
  root = new URL(link).origin;
  visits += 1;
  const page = await opened();
  await page.goto(link);
  const headline = page.locator("#part-headline");
  const left = Math.max(1, IN_TIME - (Date.now() - ready));
  const badge = headline.locator(".badge.under-way");
  const isSeen = await badge.waitFor({ timeout: left }).then(() => true, () => false);
  const said = (await headline.locator(".lead").first().innerText()).replaceAll("\n", " ");
  await page.locator("#part-picture svg").waitFor();
  await page.locator("#part-pods tbody tr").first().waitFor();
  const after = Date.now() - ready;
  if (!isSeen || IN_TIME < after) return await page.close(), `too late: after ${after} ms: ${said}`;
  assert.match(said, SENTENCE);
  const own = root + new URL(page.url()).pathname.split("/").slice(0, 2).join("/");
  assert.equal(page.url(), `${own}/ns/shop/deployments/${said.match(SENTENCE)[1]}`, "it is the page of what is under way");

  // It goes on before one's eyes: also for who comes as late as that.
  await live(page);
  await page.evaluate(() => { window.isTheSame = true; });
  await page.waitForTimeout(Math.max(0, IN_TIME - (Date.now() - ready)));
  const late = await opened();
  await late.goto(`${own}/ns/shop/deployments/catalog`);
  const isUnderWay = await late.locator("#part-headline .badge.under-way").isVisible();
  if (!isUnderWay) return `too late: after ${after} ms: ${said}; but at ${Date.now() - ready} ms it is over`;
  await headline.locator(".badge.complete").waitFor();
  assert.equal(await page.evaluate(() => window.isTheSame), true, "it was not loaded again");
  if (visits === 1) await shoot(page, "first-rollout");
  await Promise.all([page.close(), late.close()]);
  return `in time: after ${after} ms: ${said}`;
};

for await (const line of lines) {
  const [link, ready] = line.split(" ");
  console.log(await visit(link, Number(ready)));
}
assert.deepEqual(complaints, []);
await browser.close();
