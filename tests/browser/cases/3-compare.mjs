// Compare: two processes on shared axes.

import { format, holds, same } from "../browser.mjs";

const METRICS = { "requests.p50_ms": "ms", "requests.p95_ms": "ms", "requests.p99_ms": "ms", "memory.rss": "bytes", "cpu.percent": "percent" };

async function window_of(backend) {
  const { t } = await backend.get(`processes/${backend.with}/series`, { range: "1m" });
  return { from: t.at(-3) - 8000, to: t.at(-3) };
}

export default {
  async "the table says what the API says"(browser, backend) {
    const { from, to } = await window_of(backend);
    const page = await browser.open(`#/compare?a=${backend.without}&b=${backend.with}&from=${from}&to=${to}`);
    const { whole } = await backend.get("compare", { a: backend.without, b: backend.with, from, to, points: 800 });
    for (const [name, unit] of Object.entries(METRICS)) {
      const { a, b, diff, percent } = whole[name];
      const row = page.locator(`tr[data-metric="${name}"]`);
      await browser.until((key) => document.querySelector(`tr[data-metric="${key}"] td`)?.textContent !== "", name);
      same(await row.locator("td").allInnerTexts(), [format.figure(a, unit), format.figure(b, unit), format.signed(diff, unit), format.signed(percent, "percent")], name);
    }
  },

  async "differences run with time, below both courses"(browser, backend) {
    const { from, to } = await window_of(backend);
    await browser.open(`#/compare?a=${backend.without}&b=${backend.with}&from=${from}&to=${to}`);
    const { t, series } = await backend.get("compare", { a: backend.without, b: backend.with, from, to, points: 800 });
    for (const [title, name] of [["p99", "requests.p99_ms"], ["RSS", "memory.rss"], ["CPU", "cpu.percent"]]) {
      await browser.until((key) => document.querySelector(`[data-chart="compare-${key}"] .value`)?.textContent !== "–", title);
      const { rows } = await browser.csv(`difference-${title}`);
      const expected = t.flatMap((at, i) => (at >= from && at <= to && series[name].diff[i] !== null ? [[new Date(at).toISOString(), String(series[name].diff[i])]] : []));
      same(rows, expected, title);
    }
  },

  async "it follows live, and says who is better"(browser, backend) {
    const page = await browser.open(`#/compare?a=${backend.without}&b=${backend.with}&range=1m`);
    await browser.until(() => document.querySelector(".verdict").textContent.includes("p99"));
    const before = await browser.text(".toolbar .when");
    await browser.until((text) => document.querySelector(".toolbar .when").textContent !== text, before);
    holds((await page.locator('[data-chart^="pauses-"] canvas').count()) === 2, "the pauses of both are not there");
  },

  async "from their starts both begin at zero"(browser, backend) {
    const page = await browser.open(`#/compare?a=${backend.without}&b=${backend.with}&range=1m`);
    await page.getByRole("button", { name: "From their start" }).click();
    await browser.until(() => document.querySelector(".toolbar .when").textContent.startsWith("00:00 – "));
    holds(page.url().includes("align=start"), "the address does not say so");
    await browser.until(() => document.querySelector('tr[data-metric="memory.rss"] td').textContent !== "–");
  },

  async "sides can be exchanged"(browser, backend) {
    const page = await browser.open(`#/compare?a=${backend.without}&b=${backend.with}&range=1m`);
    await page.getByRole("button", { name: "Swap" }).click();
    await page.waitForURL((url) => url.hash.includes(`a=${backend.with}`));
    await browser.until((id) => document.querySelector('[data-picker="A, without"]').value === id, backend.with);
  },

  async "opened without names it finds a pair"(browser) {
    const page = await browser.open("#/compare");
    await page.waitForURL((url) => url.hash.includes("a=") && url.hash.includes("b="));
    await page.waitForSelector('[data-chart="compare-p99"] canvas');
  },
};
