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
    await page.waitForSelector(`tr[data-service="${backend.service}"]`);
    holds(painted < 1000 || loadavg()[0] > 2 * cpus().length, `the first paint took ${painted} ms`);
    return `${painted.toFixed(0)} ms`;
  },

  async "rows show the numbers that the hub sends"(browser, backend) {
    const page = await browser.open(backend.overview);
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

  async "a service of several processes is one row with merged figures"(browser, backend) {
    const page = await browser.open("#/overview");
    const row = page.locator(`tr[data-service="${backend.service}"]`);
    await row.waitFor();
    const columns = { p50: ["requests.p50_ms", "ms"], p99: ["requests.p99_ms", "ms"], pause: ["gc.max_ms", "ms"], cpu: ["cpu.percent", "percent"], memory: ["memory.rss", "bytes"] };
    await backend.until(async () => {
      const shown = await row.evaluate((element, keys) => Object.fromEntries(keys.map((key) => [key, element.querySelector(`.${key}`).textContent])), Object.keys(columns));
      const merged = browser.heard.flatMap((message) => (message.type === "processes" ? message.services.filter(({ service }) => service === backend.service) : []));
      return merged.some(({ latest }) => Object.entries(columns).every(([key, [name, unit]]) => shown[key] === format.figure(latest[name], unit)));
    }, "the row of the service never showed what a message said", 10_000);
    holds((await row.locator("th small").innerText()).startsWith("2 processes"), "it does not say how many processes there are");
    // Two times a resident set is more than one of them.
    const message = browser.heard.findLast(({ type }) => type === "processes");
    const [merged] = message.services.filter(({ service }) => service === backend.service);
    const most = Math.max(...message.processes.filter(({ service }) => service === backend.service).map(({ latest }) => latest["memory.rss"]));
    holds(merged.processes === 2 && merged.latest["memory.rss"] > most, "the figures are not those of both");
  },

  async "a service opens and closes by keyboard, and stays so"(browser, backend) {
    const page = await browser.open("#/overview");
    const opener = page.locator(`tr[data-service="${backend.service}"] .opener`);
    const members = page.locator("tr.member[data-id]");
    await opener.waitFor();
    same(await opener.getAttribute("aria-expanded"), "false", "whether it is open at first");
    same(await members.count(), 0, "processes shown while it is closed");
    await opener.focus();
    await page.keyboard.press("Enter");
    await members.nth(1).waitFor();
    same(await opener.getAttribute("aria-expanded"), "true", "whether it is open");
    const ids = await members.evaluateAll((rows) => rows.map((row) => row.dataset.id));
    same(ids.sort(), [backend.with, backend.without].sort(), "who is below it");
    const { role } = await backend.get(`processes/${backend.with}`);
    same(await page.locator(`tr[data-id="${backend.with}"] th a`).innerText(), role, "the role");
    // The next list has come, and the focus is where it was.
    await page.waitForTimeout(1500);
    holds(await opener.evaluate((element) => element === document.activeElement), "the focus is lost");
    await browser.open(new URL(page.url()).hash);
    await members.nth(1).waitFor();
    await opener.focus();
    await page.keyboard.press("Space");
    await browser.until(() => document.querySelectorAll("tr.member").length === 0);
    same(await opener.getAttribute("aria-expanded"), "false", "whether it is closed");
    // A search opens what it finds.
    await browser.open("#/overview?find=" + backend.with.match(/-(\d+)-\d+$/)[1]);
    await members.first().waitFor();
    same(await members.count(), 1, "members that match");
    holds((await page.locator(`tr[data-service="${backend.service}"] small`).first().innerText()).startsWith("1 of 2"), "it does not say how many match");
  },

  async "figures change while one looks"(browser, backend) {
    const page = await browser.open(backend.overview);
    const row = page.locator(`tr[data-id="${backend.with}"]`);
    await row.waitFor();
    const before = await row.innerText();
    await backend.until(async () => (await row.innerText()) !== before, "the row never changed", 10_000);
  },

  async "search and order are kept in the address"(browser, backend) {
    const page = await browser.open("#/overview");
    await page.waitForSelector(`tr[data-service="${backend.service}"]`);
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
    const page = await browser.open(backend.overview);
    await page.locator(`tr[data-id="${backend.with}"] th a`).click();
    await page.waitForSelector('[data-chart="latency"] canvas');
    holds(page.url().includes(encodeURIComponent(backend.with)), "the address does not name the process");
  },
};
