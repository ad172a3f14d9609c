// A picture of each page, for the docs.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";

export async function pictures(browser, backend, folder) {
  await mkdir(folder, { recursive: true });
  // A minute that is full.
  await backend.until(async () => (await backend.get(`processes/${backend.with}/series`, { range: "1m" })).t.length >= 59, "no minute without a hole", 90_000);
  const trace = await backend.upload();
  const { recordings } = await backend.get("recordings");
  const bench = recordings.find((each) => each.kind === "bench")?.id;
  // A policy with a model has most to show; the other pages are of the one that is the default.
  const learned = async () => {
    await backend.switchTo("neural");
    await new Promise((wake) => setTimeout(wake, 60_000));
  };
  const list = [
    ["overview", "#/overview?find=service.py", "light", 520],
    ["process", `#/process?id=${backend.with}&range=1m`, "light", 1180],
    ["compare", `#/compare?a=${backend.without}&b=${backend.with}&range=1m`, "light", 960],
    ["compare-dark", `#/compare?a=${backend.without}&b=${backend.with}&range=1m`, "dark", 960],
    ["replay", trace && `#/replay?rec=${trace}&window=all`, "light", 1000],
    ["replay-bench", bench && `#/replay?rec=${bench}`, "light", 900],
    ["policy", `#/policy?id=${backend.with}&range=1m`, "light", 1180, learned],
  ];
  for (const [name, hash, scheme, height, before] of list) {
    if (!hash) continue;
    await before?.();
    const page = await browser.fresh({ viewport: { width: 1360, height }, colorScheme: scheme, deviceScaleFactor: 1 });
    await browser.open(backend.real ? hash : hash.replace("?find=service.py", ""));
    await page.waitForTimeout(4000);
    if (name === "replay") await page.getByRole("button", { name: "End" }).click();
    await page.waitForTimeout(500);
    await page.screenshot({ path: join(folder, `dashboard-${name}.png`) });
  }
  await backend.switchTo("gap");
}
