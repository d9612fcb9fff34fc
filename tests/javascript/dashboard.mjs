// A journey over the page in Debian's Chromium: node dashboard.mjs LINK [FOLDER FOR SCREENSHOTS]. What fails throws.
import assert from "node:assert/strict";
import { createServer, request as send } from "node:http";
import { badge, begin, live } from "./browser.mjs";

const [link, pictures] = process.argv.slice(2);
const root = new URL(link).origin;

// Between the browser and the page, so that a connection can be lost.
const sockets = new Set();
let isCut = false;
const between = createServer((asked, answer) => {
  if (isCut) return asked.destroy();
  const onward = send(asked.url, { method: asked.method, headers: asked.headers }, (answered) => {
    answer.writeHead(answered.statusCode, answered.headers);
    answered.pipe(answer);
  });
  onward.on("error", () => answer.destroy());
  answer.on("close", () => onward.destroy());
  asked.pipe(onward);
});
between.on("connection", (socket) => {
  sockets.add(socket);
  socket.on("close", () => sockets.delete(socket));
});
await new Promise((listening) => between.listen(0, "127.0.0.1", listening));

const { browser, context, complaints, opened, shoot } = await begin(root, { pictures, proxy: between.address().port, isExpected: () => isCut });

const heading = (page, text) => page.locator("#part-headline").getByText(text).first().waitFor();

/** By the keyboard alone, as far as that is a matter of links and buttons. */
const press = async (page, locator) => {
  await locator.focus();
  await page.keyboard.press("Enter");
};

const setImage = async (page, image) => {
  await press(page, page.getByRole("link", { name: "Set image…" }));
  await page.getByLabel("Image", { exact: true }).fill(image);
  await press(page, page.getByRole("button", { name: "Preview" }));
  await page.getByText(`-> ${image}`).waitFor();
  await page.getByText("4 pods are deleted, 4 created.").waitFor();
  await press(page, page.getByRole("button", { name: "Set image" }));
  await page.getByText("Image set.").waitFor();
};

/** How many pods there shall be, up to the question. */
const scaled = async (page, replicas) => {
  await page.getByLabel("How many pods").fill(replicas);
  await press(page, page.getByRole("button", { name: "Preview" }));
  await page.getByText(new RegExp(`It scales from \\d pods to ${replicas} pods`)).waitFor();
};

// Signing in: no address has the token afterwards, and the link is worth nothing then.
const page = await opened();
await page.goto(link);
// Its pages are below a path of the session alone.
const own = root + new URL(page.url()).pathname.split("/").slice(0, 2).join("/");
const WEB = `${own}/ns/shop/deployments/web`;
assert.equal(page.url(), `${own}/`);
assert.match(own, /\/~[\w-]{43}$/);
assert.equal((await fetch(link, { redirect: "manual" })).status, 403);
assert.equal(await page.evaluate(() => document.cookie), "", "no script sees the cookie");

// All workloads, one that is looked for, and back.
await page.getByRole("link", { name: "checkout" }).first().waitFor();
await live(page);
await shoot(page, "workloads");
await page.keyboard.press("/");
await page.keyboard.type("checkout");
await page.keyboard.press("Enter");
await page.waitForURL("**/?q=checkout*");
assert.equal(await page.locator("ul.cards > li").count(), 1);
await page.goBack();
assert.ok(2 < await page.locator("ul.cards > li").count());

// A rollout to its end, without loading the page again.
await press(page, page.locator("ul.cards").getByRole("link", { name: "web", exact: true }));
await page.waitForURL(WEB);
await live(page);
await shoot(page, "complete");
await setImage(page, "registry.example/shop/web:1.1");
await page.evaluate(() => { window.isTheSame = true; });
await page.locator("#part-headline .badge.under-way, #part-headline .badge.complete").first().waitFor();
await page.locator("#part-revisions").getByText("registry.example/shop/web:1.1").first().waitFor();
await badge(page, "complete");
await page.getByText("complete", { exact: false }).first().waitFor();
assert.equal(await page.evaluate(() => window.isTheSame), true, "it was not loaded again");
assert.match(await page.title(), /web: complete/);

// One that hangs: the list says which, its page says why.
await setImage(page, "registry.example/shop/web:404");
await badge(page, "stuck");
await heading(page, /cannot pull (its|their) images?/);
await shoot(page, "stuck");
await page.getByRole("link", { name: "Workloads" }).click();
await heading(page, "1 workload needs attention");
const first = page.locator("ul.cards > li").first();
await first.getByText(/cannot pull/).waitFor();
await shoot(page, "needs-attention");
await first.getByRole("link").click();

// Why: which pod, what it waits for, what comes next, and what one can do, which is a command that can be copied.
await page.getByText(/^What happens next:/).waitFor();
await page.getByRole("heading", { name: "What you can do" }).waitFor();
await page.getByText("berth rollout undo deployment/web -n shop").first().waitFor();
const inTrouble = page.locator("#part-pods tbody tr").first();
await inTrouble.getByText("in trouble").waitFor();
await inTrouble.getByText(/cannot pull its image/).waitFor();
await page.locator("#part-events").getByText(/Failed|BackOff|ErrImagePull/).first().waitFor();
await page.locator("#part-revisions summary").first().click();
await page.locator("#part-revisions").getByText("-> registry.example/shop/web:404").first().waitFor();

// Another tab sees what is done in this one.
const other = await opened();
await other.goto(WEB);
await live(other);
await badge(other, "stuck");
await press(page, page.getByRole("link", { name: "Undo…" }));
await page.getByText("It rolls back to the template of revision 2.").waitFor();
await shoot(page, "question");
await press(page, page.getByRole("button", { name: "Undo" }));
await page.getByText("Rolled back.").waitFor();
await badge(page, "complete");
await badge(other, "complete");

// One tab loses its connection, the other goes on: what is done there meanwhile is seen here as soon as there is a connection again, without loading the page.
await page.goto(WEB);
await live(page);
await page.evaluate(() => { window.isTheSame = true; });
isCut = true;
sockets.forEach((socket) => socket.destroy());
await page.locator("#connection[data-state=lost]").waitFor();
await other.locator("#connection[data-state=lost]").waitFor();
await shoot(page, "lost");
isCut = false;
await live(page);
await live(other);
await press(other, other.getByRole("link", { name: "Scale…" }));
await scaled(other, "5");
isCut = true;
sockets.forEach((socket) => socket.destroy());
await page.locator("#connection[data-state=lost]").waitFor();
isCut = false;
await press(other, other.getByRole("button", { name: "Scale" }));
await other.getByText("Scaled.").waitFor();
await page.getByText("5 of 5 available").waitFor();
await live(page);
assert.equal(await page.evaluate(() => window.isTheSame), true, "it was not loaded again");

// Two tabs ask about the same: what was asked about in one is not done when the other was quicker.
for (const [tab, replicas] of [[page, "6"], [other, "4"]]) {
  await press(tab, tab.getByRole("link", { name: "Scale…" }));
  await scaled(tab, replicas);
}
await press(other, other.getByRole("button", { name: "Scale" }));
await other.getByText("Scaled.").waitFor();
await press(page, page.getByRole("button", { name: "Scale" }));
await page.getByText(/another client has changed it/).waitFor();
complaints.splice(0, complaints.length, ...complaints.filter((text) => !text.includes("409 (Conflict)")));
await page.goto(WEB);
await live(page);
await page.getByText("4 of 4 available").waitFor();
await badge(page, "complete");
await shoot(page, "undone");

// What runs where, and quotas.
await page.getByRole("link", { name: "Nodes" }).click();
await page.locator("#part-nodes a").first().waitFor();
await shoot(page, "nodes");
await page.locator("#part-nodes a").first().click();
await page.locator("#part-pods table").waitFor();
await shoot(page, "node");
await page.getByRole("link", { name: "Quotas" }).click();
await page.getByText("There is no quota.").waitFor();
await page.goto(`${own}/ns/shop/deployments/nothing`).catch(() => {});
await page.getByRole("heading", { name: "There is no Deployment nothing in shop." }).waitFor();
complaints.splice(0, complaints.length, ...complaints.filter((text) => !text.includes("404 (Not Found)")));

// A link that somebody has shared, or an old bookmark, opens in this session.
await page.goto(`${root}/nodes`).catch(() => {});
await page.locator("#part-nodes a").first().waitFor();
assert.equal(page.url(), `${own}/nodes`);

// Signing out ends all tabs.
await page.goto(`${own}/`);
await page.getByRole("button", { name: "Sign out" }).click();
await page.getByRole("heading", { name: "Sign in" }).waitFor();
await other.getByRole("heading", { name: "Sign in" }).waitFor();
await shoot(page, "sign-in");
await page.goto(WEB);
await page.getByRole("heading", { name: "Sign in" }).waitFor();

// What a browser says of a connection that was cut may come after there is one again.
complaints.splice(0, complaints.length, ...complaints.filter((text) => !/401 \(Unauthorized\)|net::ERR_(EMPTY_RESPONSE|CONNECTION_|INCOMPLETE_|NETWORK_)/.test(text)));
assert.deepEqual(complaints, []);
await browser.close();
between.close();
sockets.forEach((socket) => socket.destroy());
console.log("the journey over the page is done");
