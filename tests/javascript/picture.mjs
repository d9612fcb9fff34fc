// Takes the picture of the how-to: node picture.mjs LINK FILE. A rollout that waits for pods to go, with the sentence that says so, and its pods over time.
import { begin, live } from "./browser.mjs";

const [link, file] = process.argv.slice(2);
const root = new URL(link).origin;
const { browser, opened } = await begin(root);
const page = await opened();
await page.setViewportSize({ width: 1000, height: 900 });
await page.goto(link);
const own = root + new URL(page.url()).pathname.split("/").slice(0, 2).join("/");
await page.goto(`${own}/ns/shop/deployments/checkout`);
await live(page);
await page.getByRole("link", { name: "Set image…" }).click();
await page.getByLabel("Image", { exact: true }).fill("registry.example/shop/checkout:2.1");
await page.getByRole("button", { name: "Preview" }).click();
await page.getByRole("button", { name: "Set image" }).click();
await page.goto(`${own}/ns/shop/deployments/checkout`);
await live(page);
// The first old pod is gone, and another new one stands in its place.
await page.locator("#part-state").getByText("2 of the newest template").waitFor();
const { y, height } = await page.locator("#part-picture").boundingBox();
await page.screenshot({ path: file, clip: { x: 0, y: 0, width: 1000, height: Math.round(y + height) } });
await browser.close();
