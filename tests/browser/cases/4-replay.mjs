// Replay: traces and bench results.

import { readFile } from "node:fs/promises";
import { BENCH } from "../backend.mjs";
import { format, holds, same } from "../browser.mjs";

export default {
  async "an uploaded trace plays, and shows what the API gives"(browser, backend) {
    const page = await browser.open("#/replay");
    await page.locator('input[type="file"]').setInputFiles(await backend.trace());
    await page.waitForURL((url) => url.hash.includes("rec="));
    const id = new URLSearchParams(new URL(page.url()).hash.split("?")[1]).get("rec");
    await page.waitForSelector('[data-chart="latency"] canvas');
    const recording = await backend.get(`recordings/${id}`);
    const { t, series } = await backend.get(`recordings/${id}/series`, { points: 5000, from: recording.from_ms, to: recording.to_ms });
    holds(t.length > 3, `the trace has ${t.length} points`);
    // At the end the latest values are the last ones that there are.
    await page.getByRole("button", { name: "End" }).click();
    const last = series["requests.p99_ms"].findLast((value) => value !== null);
    await browser.until((text) => document.querySelector('[data-tile="p99"] .figure').textContent === text, format.figure(last, "ms"));
    // In the middle nothing is drawn that has not happened yet.
    const middle = (recording.to_ms - recording.from_ms) / 2;
    await page.getByLabel("Position").fill(String(middle));
    const { rows } = await browser.csv("latency");
    const seen = t.filter((at, i) => at - recording.from_ms <= middle && ["requests.p50_ms", "requests.p99_ms"].some((name) => series[name][i] !== null));
    const shown = await page.getByRole("group", { name: "Window" }).getByText("1m", { exact: true }).getAttribute("aria-pressed");
    same(shown, "true", "the window of a minute");
    same(rows.length, seen.filter((at) => at - recording.from_ms >= Math.max(0, middle - 60_000)).length, "rows before the middle");
  },

  async "the heat map of a trace counts what the API counts, up to the position"(browser, backend) {
    const { recordings } = await backend.get("recordings");
    const { id } = recordings.find((each) => each.kind === "trace");
    const { from_ms, to_ms } = await backend.get(`recordings/${id}`);
    const heat = await backend.get(`recordings/${id}/latency`, { points: 5000, from: from_ms, to: to_ms });
    for (const at of [Math.floor((to_ms - from_ms) / 2), to_ms - from_ms]) {
      await browser.open(`#/replay?rec=${id}&window=all&at=${at}`);
      const steps = heat.counts.filter((_, i) => Math.min(heat.t[i] - from_ms, to_ms - from_ms) <= at);
      const sum = steps.flat().reduce((all, [, many]) => all + many, 0);
      holds(sum > 0, `there are no requests before ${at}`);
      const text = sum.toLocaleString("en-US");
      await browser.until((wanted) => document.querySelector('[data-chart="heat"] [data-key="requests"] .value')?.textContent === wanted, text);
    }
  },

  async "it plays at the speed that is chosen, and stops"(browser, backend) {
    const { recordings } = await backend.get("recordings");
    const page = await browser.open(`#/replay?rec=${recordings.find((each) => each.kind === "trace").id}&at=0`);
    await page.waitForSelector('[data-chart="latency"] canvas');
    await page.getByLabel("Speed").selectOption("5");
    await page.getByRole("button", { name: "Play", exact: true }).click();
    const place = () => page.getByLabel("Position").inputValue().then(Number);
    const [from, began] = [await place(), Date.now()];
    await backend.until(async () => (await place()) - from > 4000, "it does not play", 10_000);
    const [moved, took] = [(await place()) - from, Date.now() - began];
    holds(moved / took > 3 && moved / took < 7, `at 5× it moved by ${moved} ms in ${took} ms`);
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    const stopped = await place();
    await page.waitForTimeout(300);
    same(await place(), stopped, "the position");
    holds(page.url().includes("at="), "the address does not have the position");
  },

  async "a link restores position and zoom"(browser, backend) {
    const { recordings } = await backend.get("recordings");
    const page = await browser.open(`#/replay?rec=${recordings.find((each) => each.kind === "trace").id}&at=5000&from=1000&to=3000`);
    await page.locator("output.when", { hasText: "00:01 – 00:03" }).waitFor();
    const back = page.getByRole("button", { name: "Reset zoom" });
    await back.click();
    await back.waitFor({ state: "hidden" });
    holds(!page.url().includes("from="), "the address keeps a zoom that was left");
    same(new URLSearchParams(page.url().split("?")[1]).get("at"), "5000", "the position");
  },

  async "a bench result shows its medians, and its trials one by one"(browser, backend) {
    const { run, id } = await backend.until(async () => {
      const { recordings } = await backend.get("recordings");
      const entry = recordings.find((each) => each.kind === "bench");
      return entry && backend.get(`recordings/${entry.id}`);
    }, "no bench result is listed");
    const file = JSON.parse(await readFile(BENCH, "utf8"));
    same(run.scenarios.length, file.scenarios.length, "scenarios");
    const page = await browser.open(`#/replay?rec=${id}`);
    await page.locator("section.bench").first().waitFor();
    const [scenario] = run.scenarios;
    for (const entry of scenario.entries) {
      const cells = await page.locator(`section.bench >> nth=0 >> tr[data-contender="${entry.contender}"] td`).allInnerTexts();
      const [trial] = entry.trials;
      same(cells.slice(1, 4), ["p50_ms", "p95_ms", "p99_ms"].map((name) => format.figure(trial.figures[name], "ms")), entry.contender);
    }
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await browser.until(() => document.querySelector("section.bench td").textContent === "0");
    await page.getByLabel("Speed").selectOption("10");
    await page.getByRole("button", { name: "Play", exact: true }).click();
    await browser.until(() => document.querySelector("section.bench td").textContent === "1");
  },

  async "what is no recording is refused with a reason"(browser) {
    const page = await browser.open("#/replay");
    await page.locator('input[type="file"]').setInputFiles({ name: "photo.jpg", mimeType: "image/jpeg", buffer: Buffer.from("no trace at all") });
    await page.getByText("photo.jpg was refused").waitFor();
  },

  async "an upload can be deleted"(browser, backend) {
    const page = await browser.open("#/replay");
    await page.locator(".recordings tbody tr").first().waitFor();
    const before = await page.locator(".recordings tbody tr").count();
    const button = page.getByRole("button", { name: /Delete/ }).first();
    await button.click();
    await backend.until(async () => (await page.locator(".recordings tbody tr").count()) === before - 1, "it is still listed", 10_000);
  },
};
