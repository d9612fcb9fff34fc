// Debian's Chromium for the journeys over the page, and what is looked at on each: complaints of the console, accessibility, width, pictures.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** A browser, and a reader's window in it, for the page at `root`, which may be a function. What it complains of while that is not expected is kept in `complaints`. */
export const begin = async (root, { pictures, proxy, isExpected = () => false } = {}) => {
  const browser = await chromium.launch({
    proxy: proxy && { server: `http://127.0.0.1:${proxy}`, bypass: "<-loopback>" },
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, colorScheme: "light" });
  context.setDefaultTimeout(60_000);
  const complaints = [];
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
  });
  const opened = async () => {
    const page = await context.newPage();
    page.on("console", (message) => {
      if (message.type() === "error" && !isExpected()) complaints.push(`${page.url()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => complaints.push(`${page.url()}: ${error}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${typeof root === "function" ? root() : root}/`) && !request.url().startsWith("data:")) complaints.push(`asks elsewhere: ${request.url()}`);
    });
    return page;
  };
  return { browser, context, complaints, opened, shoot: (page, name) => shoot(page, name, pictures) };
};

const accessible = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  const told = found.violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
  assert.deepEqual(told, [], `accessibility of ${page.url()}`);
};

const looks = [
  ["light", 1280, 900],
  ["dark", 1280, 900],
  ["light", 360, 740],
  ["dark", 390, 844],
];

/** Looks at a page in both themes, on a desk and on a phone; keeps pictures where there is a folder for them. */
const shoot = async (page, name, pictures) => {
  for (const [colorScheme, width, height] of looks) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height });
    await accessible(page);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, `${page.url()} is wider than ${width} pixels by ${wide}`);
    if (pictures) await page.screenshot({ path: join(pictures, `${name}-${colorScheme}-${width}.png`), fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1280, height: 900 });
};

export const live = (page) => page.locator("#connection[data-state=live]").waitFor();
export const badge = (page, state) => page.locator(`#part-headline .badge.${state}`).waitFor();
