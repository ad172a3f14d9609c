// A hub that goes and comes back.

import { holds, same } from "../browser.mjs";

export default {
  async "a lost hub is said, and found again"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=5m`);
    await browser.until(() => document.querySelector('[data-tile="p99"] .figure').textContent !== "–");
    const { t } = await backend.get(`processes/${backend.with}/series`, { range: "5m" });
    await backend.down();
    await page.locator(".banner", { hasText: "The connection to the hub is lost" }).waitFor();
    same(await browser.text(".connection"), "Disconnected", "the state");
    // The pauses between tries grow.
    await browser.until(() => /try [3-9]/.test(document.querySelector(".banner").textContent));
    await backend.up();
    await page.locator(".banner").waitFor({ state: "hidden" });
    await browser.until(() => document.querySelector(".connection").textContent === "Live");
    // What was before the restart is still there, and new samples come.
    const back = Date.now();
    await backend.until(async () => {
      const { rows } = await browser.csv("latency");
      const times = rows.map(([time]) => Date.parse(time));
      return times.at(-1) > back && (!backend.real || times.some((time) => time <= t.at(-5)));
    }, "the chart does not go on", 30_000);
    holds(!(await page.locator(".banner").isVisible()), "the banner is back");
  },

  async "one can try at once"(browser, backend) {
    const page = await browser.open("#/overview");
    await browser.until(() => document.querySelector(".connection").textContent === "Live");
    await backend.down();
    await browser.until(() => /try [4-9]/.test(document.querySelector(".banner").textContent), undefined, 30_000);
    await backend.up();
    await page.getByRole("button", { name: "Try now" }).click();
    await browser.until(() => document.querySelector(".connection").textContent === "Live", undefined, 3000);
  },
};
