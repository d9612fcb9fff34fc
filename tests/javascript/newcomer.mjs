// Somebody follows the link of `berth up` for the first time: node newcomer.mjs LINK READY [FOLDER FOR SCREENSHOTS], READY in milliseconds since 1970. What fails throws.
import assert from "node:assert/strict";
import { begin, live } from "./browser.mjs";

const [link, ready, pictures] = process.argv.slice(2);
const root = new URL(link).origin;
const { browser, complaints, opened, shoot } = await begin(root, { pictures });

// A rollout is under way: a heading says what happens and why it waits, and pods are drawn.
const page = await opened();
await page.goto(link);
const headline = page.locator("#part-headline");
await headline.locator(".badge.under-way").waitFor();
assert.match(page.url(), /\/ns\/shop\/deployments\/[a-z]+$/, "it is the page of what is under way");
assert.match(await headline.innerText(), /Waiting for deployment "[a-z]+" rollout to finish: \d.*\.\s+Why: \d pods (are|have) .+\./s);
await page.locator("#part-picture svg").waitFor();
await page.locator("#part-pods tbody tr").first().waitFor();
console.log(`a rollout is seen ${Date.now() - Number(ready)} ms after the server was ready, the browser's start included`);

// It goes on before one's eyes, to its end.
await live(page);
await page.evaluate(() => { window.isTheSame = true; });
await headline.locator(".badge.complete").waitFor();
assert.equal(await page.evaluate(() => window.isTheSame), true, "it was not loaded again");
await shoot(page, "first-rollout");

assert.deepEqual(complaints, []);
await browser.close();
