// Process: charts that show what the API gives, and act together.

import { cpus, loadavg } from "node:os";
import { format, holds, same } from "../browser.mjs";

/** A window of the past that does not change any more. */
async function past(backend, id = backend.with, seconds = 8) {
  const { t } = await backend.get(`processes/${id}/series`, { range: "1m" });
  const to = t.at(-3);
  return { from: to - seconds * 1000, to };
}

function tile(browser, name) {
  return browser.text(`[data-tile="${name}"] .figure`);
}

export default {
  async "saved values are those of the API"(browser, backend) {
    const { from, to } = await past(backend);
    await browser.open(`#/process?id=${backend.with}&from=${from}&to=${to}`);
    await browser.page.waitForSelector('[data-chart="latency"] canvas');
    const { t, series } = await backend.get(`processes/${backend.with}/series`, { from: from - 2000, to: to + 2000, points: 1000 });
    holds(t.length >= 5, `there are only ${t.length} points`);
    for (const [chart, names] of [["latency", ["requests.p50_ms", "requests.p95_ms", "requests.p99_ms", "requests.p999_ms"]], ["memory", ["memory.rss"]], ["gil", ["gil.busy_percent"]]]) {
      await browser.until((key) => document.querySelector(`[data-chart="${key}"] .legend .value`).textContent !== "–", chart);
      const { rows } = await browser.csv(chart);
      const expected = t.flatMap((at, i) => (at >= from && at <= to && names.some((name) => series[name][i] !== null) ? [[new Date(at).toISOString(), ...names.map((name) => (series[name][i] === null ? "" : String(series[name][i])))]] : []));
      same(rows.map((row) => row.slice(0, names.length + 1)), expected, chart);
    }
  },

  async "pauses are counted by class as the API lists them"(browser, backend) {
    for (const id of [backend.without, backend.with]) {
      const { from, to } = await past(backend, id);
      await browser.open(`#/process?id=${id}&from=${from}&to=${to}`);
      const { events } = await backend.get(`processes/${id}/events`, { from, to, limit: 6000 });
      const inside = events.filter((event) => event.kind === "collection" && event.t >= from && event.t <= to);
      holds(inside.length > 0, "no collection in the window");
      for (const kind of ["in_request", "in_gap", "forced", "clone", "reap"]) {
        const own = inside.filter((event) => event.class === kind);
        const sum = own.reduce((total, event) => total + event.ms, 0);
        const text = own.length ? `${own.length.toLocaleString("en-US")} · ${format.ms(sum)}` : "0";
        await browser.until(([key, value]) => document.querySelector(`[data-chart="pauses"] [data-key="${key}"] .value`)?.textContent === value, [kind, text]);
      }
    }
  },

  async "stalls come with cause and site"(browser, backend) {
    const id = backend.without;
    const range = "5m";
    const stalls = await backend.until(async () => {
      const { events } = await backend.get(`processes/${id}/events`, { range, kinds: "stall" });
      return events.length ? events : null;
    }, "the service never stalled");
    const page = await browser.open(`#/process?id=${id}&range=${range}`);
    const site = stalls.at(-1).site;
    await page.locator(".sites tbody tr").first().waitFor();
    const titles = await page.locator(".sites tbody th").evaluateAll((cells) => cells.map((cell) => cell.title));
    holds(titles.includes(site), `${site} is not among ${titles}`);
  },

  async "a collection is on the screen soon after its end"(browser, backend) {
    if (!backend.real) return false;
    const page = await browser.fresh();
    await page.addInitScript(() => {
      globalThis.late = [];
      // Listens before the page does; what the page draws for a message is drawn when the next task runs.
      globalThis.WebSocket = class extends WebSocket {
        constructor(...words) {
          super(...words);
          this.addEventListener("message", ({ data }) => {
            const message = JSON.parse(data);
            if (message.type !== "events") return;
            const ended = message.events.filter((event) => event.kind === "collection").map((event) => event.t + event.ms);
            if (ended.length > 0) setTimeout(() => globalThis.late.push(Date.now() - Math.min(...ended)));
          });
        }
      };
    });
    await browser.open(`#/process?id=${backend.with}&range=1m`);
    await browser.until(() => globalThis.late.length >= 20);
    const late = await page.evaluate(() => globalThis.late.slice(2));
    const middle = late.sort((one, other) => one - other)[late.length >> 1];
    await browser.fresh();
    const said = `the oldest of each message ${middle.toFixed(0)} ms later`;
    // On an overloaded machine the browser and the hub wait for a CPU, so the time says nothing about our code.
    const [load] = loadavg();
    if (load > cpus().length) return `${said}, load ${load.toFixed(0)}: not judged`;
    // The agent keeps a stop in a gap back for 300 ms, in which requests may turn out to have waited for it (SETTLE_NS).
    holds(middle < 600, said);
    return said;
  },

  async "the large figures are those of the latest sample"(browser, backend) {
    await browser.open(`#/process?id=${backend.with}&range=1m`);
    await backend.until(async () => {
      const shown = [await tile(browser, "p99"), await tile(browser, "rss")];
      return browser.heard.some((message) => message.type === "sample" && format.figure(message.values["requests.p99_ms"], "ms") === shown[0] && format.figure(message.values["memory.rss"], "bytes") === shown[1]);
    }, "the tiles never showed a sample", 10_000);
  },

  async "pointing at one chart reads all of them"(browser, backend) {
    const { from, to } = await past(backend);
    const page = await browser.open(`#/process?id=${backend.with}&from=${from}&to=${to}`);
    const { t, series } = await backend.get(`processes/${backend.with}/series`, { from, to, points: 1000 });
    const over = page.locator('[data-chart="latency"] .u-over');
    await over.waitFor();
    await browser.until(() => document.querySelector('[data-chart="memory"] .value').textContent !== "–" && document.querySelector(".routes").rows.length);
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const index = Math.floor(t.length / 2);
    await page.mouse.move(box.x + (box.width * (t[index] - from)) / (to - from), box.y + 40);
    for (const [chart, name, unit] of [["latency", "requests.p99_ms", "ms"], ["memory", "memory.rss", "bytes"], ["cpu", "cpu.percent", "percent"], ["gil", "gil.busy_percent", "percent"]]) {
      await browser.until(([key, series_name, value]) => document.querySelector(`[data-chart="${key}"] [data-key="${series_name}"] .value`).textContent === value, [chart, name, format.figure(series[name][index], unit)]);
    }
    holds((await browser.text(".toolbar .when")).includes(format.moment(t[index]).slice(0, 5)), "the time is not written");
    await page.mouse.move(5, 5);
  },

  async "dragging zooms all charts, and the address keeps it"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    const over = page.locator('[data-chart="heat"] .u-over');
    await over.waitFor();
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.85, box.y + 50);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.97, box.y + 60, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("button", { name: "Reset zoom" }).waitFor();
    const words = new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
    const width = Number(words.get("to")) - Number(words.get("from"));
    holds(width > 5000 && width < 10_000, `zoomed to ${width} ms, and 12 % of a minute are 7200`);
    await page.getByRole("button", { name: "Reset zoom" }).click();
    await page.getByRole("button", { name: "Reset zoom" }).waitFor({ state: "hidden" });
    holds(!page.url().includes("from="), "the address still has the zoom");
  },

  async "a link restores range, zoom and what is switched off"(browser, backend) {
    const { from, to } = await past(backend);
    const page = await browser.open(`#/process?id=${backend.with}&range=15m&from=${from}&to=${to}`);
    await page.locator('[data-chart="latency"] [data-key="requests.p50_ms"]').click();
    await page.locator('[data-chart="latency"] .chart-actions >> text=Log').click();
    const kept = new URL(page.url()).hash;
    await browser.fresh();
    const again = await browser.open(kept);
    await again.getByRole("button", { name: "Reset zoom" }).waitFor();
    same(await again.locator('[data-chart="latency"] [data-key="requests.p50_ms"]').getAttribute("aria-pressed"), "false", "p50");
    same(await again.locator('[data-chart="latency"] .chart-actions >> text=Log').getAttribute("aria-pressed"), "false", "the scale");
    const { head } = await browser.csv("latency");
    same(head, ["time", "p95", "p99", "p99.9"], "the columns");
  },

  async "paused it stands still, and resumed it catches up"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await browser.until(() => document.querySelector('[data-tile="p99"] .figure').textContent !== "–");
    await page.getByRole("button", { name: "Pause" }).click();
    const when = await browser.text(".toolbar .when");
    await page.getByRole("button", { name: /Resume \([2-9] s behind\)/ }).waitFor();
    same(await browser.text(".toolbar .when"), when, "the window");
    await page.getByRole("button", { name: /Resume/ }).click();
    await browser.until((before) => document.querySelector(".toolbar .when").textContent !== before, when);
  },

  async "every range loads"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}`);
    for (const range of ["1m", "15m", "1h", "6h", "1d", "7d"]) {
      const answered = page.waitForResponse((response) => response.url().includes("/series?"));
      await page.getByRole("group", { name: "Range" }).getByText(range, { exact: true }).click();
      same((await answered).status(), 200, range);
      await browser.until((name) => location.hash.includes(`range=${name}`), range);
    }
  },

  async "seven days are drawn in a blink"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await browser.until(() => document.querySelector('[data-tile="p99"] .figure').textContent !== "–");
    const { series } = await backend.get(`processes/${backend.with}/series`, { range: "1m" });
    const [to, step] = [Date.now(), 660_000];
    const t = Array.from({ length: 916 }, (_, i) => to - (916 - i) * step);
    const columns = Object.fromEntries(Object.keys(series).map((name, n) => [name, t.map((_, i) => 50 + 40 * Math.sin(i / 9 + n))]));
    const answer = JSON.stringify({ id: backend.with, from_ms: t[0], to_ms: to, step_ms: step, t, series: columns });
    await page.route("**/series?*range=604800s*", (route) => route.fulfill({ body: answer, contentType: "application/json" }));
    let best = Infinity;
    for (let n = 0; n < 3; n += 1) {
      await page.getByRole("group", { name: "Range" }).getByText("1m", { exact: true }).click();
      await browser.until(() => document.querySelector(".toolbar .when").textContent.includes("(1 m"));
      const took = await page.evaluate(async () => {
        const began = performance.now();
        [...document.querySelectorAll(".segments button")].find((button) => button.textContent === "7d").click();
        while (!document.querySelector(".toolbar .when").textContent.includes("(7 d") && !document.querySelector(".toolbar .when").textContent.includes("(6 d")) await new Promise(requestAnimationFrame);
        return performance.now() - began;
      });
      best = Math.min(best, took);
    }
    holds(best < 300 || loadavg()[0] > 2 * cpus().length, `7 days took ${best} ms`);
    return `${best.toFixed(0)} ms with the answer at hand`;
  },

  async "a chart is saved as a picture, and shown as a table"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await browser.until(() => document.querySelector('[data-tile="p99"] .figure').textContent !== "–");
    const picture = await browser.saved(() => page.locator('[data-chart="latency"] .chart-actions >> text=PNG').click());
    same(picture.subarray(1, 4).toString(), "PNG", "the format");
    holds(picture.length > 5000, `a picture of ${picture.length} bytes`);
    await page.locator('[data-chart="pauses"] .chart-actions >> text=Table').click();
    const rows = await page.locator('[data-chart="pauses"] .chart-table tbody tr').count();
    holds(rows > 3, `the table has ${rows} rows`);
  },
};
