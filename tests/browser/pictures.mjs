// Pictures of each page for the docs: three widths, light and dark.

import { spawnSync } from "node:child_process";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";

/** Width and height of the window, by what is looked at. */
const WINDOWS = [
  [1440, 1180],
  [1024, 1000],
  [390, 844],
];
const SCHEMES = ["light", "dark"];

export async function pictures(browser, backend, folder) {
  await mkdir(folder, { recursive: true });
  // A minute that is full.
  await backend.until(async () => (await backend.get(`processes/${backend.with}/series`, { range: "1m" })).t.length >= 59, "no minute without a hole", 90_000);
  const trace = await backend.upload();
  const { recordings } = await backend.get("recordings");
  const bench = recordings.find((each) => each.kind === "bench")?.id;
  const written = [];
  const take = async (name, hash, before = async () => {}) => {
    for (const [width, height] of WINDOWS) {
      for (const scheme of SCHEMES) {
        const page = await browser.fresh({ viewport: { width, height }, colorScheme: scheme, deviceScaleFactor: 1 });
        await browser.open(hash);
        await page.waitForTimeout(2000);
        await before(page);
        const path = join(folder, `dashboard-${name}-${width}-${scheme}.png`);
        await page.screenshot({ path });
        written.push(path);
      }
    }
  };
  // On a real machine others may run programs, too.
  await take("overview", backend.real ? `${backend.overview}&find=${backend.service}` : backend.overview);
  await take("process", `#/process?id=${backend.without}&range=1m&slo=50`, opened);
  await take("memory", `#/memory?id=${backend.without}&since=30s`);
  const heap = await dumped(backend);
  if (heap) await take("heap", `#/heap?id=${backend.with}&heap=${heap}`, (page) => page.locator(".heap").waitFor());
  await take("compare", `#/compare?a=${backend.without}&b=${backend.with}&range=1m`);
  if (trace) await take("replay", `#/replay?rec=${trace}&window=all`, (page) => page.getByRole("button", { name: "End" }).click().then(() => page.waitForTimeout(500)));
  if (bench) await take("replay-bench", `#/replay?rec=${bench}`);
  // A policy with a model has most to show; the other pages are of the one that is the default.
  await backend.switchTo("neural");
  await new Promise((wake) => setTimeout(wake, 30_000));
  await take("policy", `#/policy?id=${backend.with}&range=1m`);
  await backend.switchTo("gap");
  // Charts have few colours: with a palette the files are a third as large.
  const smaller = spawnSync("pngquant", ["--force", "--ext", ".png", "--speed", "1", "--strip", "128", ...written]);
  if (smaller.error) console.log("pngquant is not here: the pictures are larger than they need be");
  // The cases that follow expect the usual window.
  await browser.fresh();
}

/** Takes a heap dump and gives its id; nothing where the process cannot be dumped. */
async function dumped(backend) {
  const answer = await fetch(`${backend.base}/api/v1/processes/${backend.with}/heap`, { method: "POST", headers: { "Content-Type": "application/json" }, body: "{}" });
  return answer.ok ? (await answer.json()).id : null;
}

/** The slowest request that is listed, open. */
async function opened(page) {
  const first = page.locator('[data-moment="request"] summary').first();
  if (await first.isVisible()) await first.evaluate((element) => element.click());
  await page.waitForTimeout(300);
}
