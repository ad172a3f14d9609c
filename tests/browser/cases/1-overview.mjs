// Overview: the list of processes, as the hub sends it.

import { cpus, loadavg } from "node:os";
import { format, holds, same } from "../browser.mjs";

/** The messages of the last seconds that hold a process. */
function sent(browser, id) {
  return browser.heard.filter((message) => message.type === "processes").flatMap((message) => message.processes.filter((process) => process.id === id));
}

export default {
  async "the page is there within a second, and sends requests to the hub only"(browser, backend) {
    const page = await browser.open("#/overview");
    const painted = await page.evaluate(
      () =>
        new Promise((found) => {
          new PerformanceObserver((list) => {
            for (const entry of list.getEntriesByName("first-contentful-paint")) found(entry.startTime);
          }).observe({ type: "paint", buffered: true });
        }),
    );
    await page.waitForSelector(`tr[data-id="${backend.with}"]`);
    holds(painted < 1000 || loadavg()[0] > 2 * cpus().length, `the first paint took ${painted} ms`);
    return `${painted.toFixed(0)} ms`;
  },

  async "rows show the numbers that the hub sends"(browser, backend) {
    const page = await browser.open("#/overview");
    for (const id of [backend.without, backend.with]) {
      const row = page.locator(`tr[data-id="${id}"]`);
      await row.waitFor();
      const columns = { p50: ["requests.p50_ms", "ms"], p99: ["requests.p99_ms", "ms"], pause: ["gc.max_ms", "ms"], cpu: ["cpu.percent", "percent"], gil: ["gil.busy_percent", "percent"] };
      await backend.until(async () => {
        const shown = await row.evaluate((element, keys) => Object.fromEntries(keys.map((key) => [key, element.querySelector(`.${key}`).textContent])), Object.keys(columns));
        return sent(browser, id).some(({ latest }) => Object.entries(columns).every(([key, [name, unit]]) => shown[key] === format.figure(latest[name], unit)));
      }, `the row of ${id} never showed what a message said`, 10_000);
      const [process] = sent(browser, id).slice(-1);
      same(await row.locator(".chip").innerText(), process.policy_shown, "the policy");
      holds((await row.locator("th small").innerText()).includes(String(process.pid)), "the process id is not in its row");
    }
  },

  async "figures change while one looks"(browser, backend) {
    const page = await browser.open("#/overview");
    const row = page.locator(`tr[data-id="${backend.with}"]`);
    await row.waitFor();
    const before = await row.innerText();
    await backend.until(async () => (await row.innerText()) !== before, "the row never changed", 10_000);
  },

  async "search and order are kept in the address"(browser, backend) {
    const page = await browser.open("#/overview");
    await page.waitForSelector(`tr[data-id="${backend.with}"]`);
    await page.getByLabel("Find").fill("nothing is called so");
    await page.getByText("No process matches").waitFor();
    const pid = backend.with.match(/-(\d+)-\d+$/)[1];
    await page.getByLabel("Find").fill(pid);
    await page.locator("th button", { hasText: "p99" }).click();
    await browser.until(() => document.querySelectorAll(".processes tbody tr[data-id]").length === 1);
    const kept = page.url();
    await browser.open(new URL(kept).hash);
    await page.waitForSelector(`tr[data-id="${backend.with}"]`);
    same(await page.getByLabel("Find").inputValue(), pid, "what was looked for");
    same(await page.locator('th[data-key="p99"]').getAttribute("aria-sort"), "descending", "the order");
  },

  async "a row leads to its process"(browser, backend) {
    const page = await browser.open("#/overview");
    await page.locator(`tr[data-id="${backend.with}"] th a`).click();
    await page.waitForSelector('[data-chart="latency"] canvas');
    holds(page.url().includes(encodeURIComponent(backend.with)), "the address does not name the process");
  },
};
