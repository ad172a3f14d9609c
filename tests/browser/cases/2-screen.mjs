// Process, its first screen: verdict, heat map, time lost, worst moments, routes; and how one moves around.

import { format, holds, same } from "../browser.mjs";

const STOPS = ["in_request", "in_gap_arrivals", "in_gap", "forced"];

async function past(backend, id = backend.with, seconds = 8) {
  const { t } = await backend.get(`processes/${id}/series`, { range: "1m" });
  const to = t.at(-3);
  return { from: to - seconds * 1000, to };
}

function words(page) {
  return new URLSearchParams(new URL(page.url()).hash.split("?")[1]);
}

const PAGES = (backend) => [
  [backend.overview, `tr[data-id="${backend.with}"]`],
  [`#/process?id=${backend.with}`, ".routes tbody tr"],
  [`#/compare?a=${backend.without}&b=${backend.with}&range=1m`, '[data-chart="compare-p99"] canvas'],
  ["#/replay", ".recordings tbody tr"],
  [`#/policy?id=${backend.with}`, ".guards"],
  [`#/memory?id=${backend.with}`, ".memory-sites tbody tr, .nothing:not([hidden])"],
];

/** A result of a benchmark. */
async function recorded(backend) {
  const { recordings } = await backend.get("recordings");
  return recordings.filter(({ kind }) => kind === "bench").slice(0, 1).map(({ id }) => [`#/replay?rec=${id}`, ".bench tbody tr"]);
}

/** Tables that are wider than their frame. */
function cut() {
  const frames = [...document.querySelectorAll(".table-frame, .chart-table, .panel")].filter((frame) => frame.offsetParent && frame.querySelector("table"));
  return frames.filter((frame) => frame.scrollWidth > frame.clientWidth + 1).map((frame) => `${frame.querySelector("caption").textContent}: ${frame.scrollWidth} in ${frame.clientWidth}`);
}

/** Rows that are no cards, and cells that do not say what they are. */
function bare() {
  const faults = [];
  for (const row of [...document.querySelectorAll("tbody tr")].filter((each) => each.offsetParent)) {
    const name = row.closest("table").caption.textContent;
    if (getComputedStyle(row).display !== "grid") faults.push(`${name}: a row is no card`);
    // The buttons of a row and the warnings below one need no label.
    for (const cell of row.querySelectorAll("td:not(:has(button)):not([colspan])")) {
      if (["", "none", "normal"].includes(getComputedStyle(cell, "::before").content)) faults.push(`${name}: ${cell.textContent} has no label`);
    }
    const inset = Math.max(...[...row.cells].map((cell) => Number.parseFloat(getComputedStyle(cell).borderTopWidth)));
    if (inset > 0) faults.push(`${name}: lines inside a card`);
    if (row.scrollWidth > row.clientWidth + 1) faults.push(`${name}: a card is ${row.scrollWidth} wide in ${row.clientWidth}`);
  }
  return faults;
}

export default {
  async "the first finding is the headline"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    // Its figures change each second while the program runs, and the page is a moment behind: the words are compared.
    const words = (text) => text.replace(/\d[\d.,]*/g, "#");
    await backend.until(async () => {
      const { status } = await backend.get(`processes/${backend.with}`);
      return words(await browser.text(".finding")).startsWith(words(status.findings?.[0]?.text ?? "No finding"));
    }, "the headline is not the first finding", 20_000);
    const text = "Garbage collection caused 73 % of stall time.";
    await page.route(`**/api/v1/processes/${backend.with}`, async (route) => {
      const answer = await (await route.fetch()).json();
      answer.status.findings = [{ kind: "gc", confidence: "high", text, site: "app.py:9", advice: "Try the policy auto." }];
      await route.fulfill({ json: answer });
    });
    await page.locator(".finding", { hasText: `${text} Try the policy auto.` }).waitFor();
    await page.unrouteAll({ behavior: "ignoreErrors" });
  },

  async "the heat map counts what the API counts"(browser, backend) {
    if (!backend.real) return false;
    const { from, to } = await past(backend);
    const page = await browser.open(`#/process?id=${backend.with}&from=${from}&to=${to}`);
    const { t, counts, levels_ms } = await backend.get(`processes/${backend.with}/latency`, { from, to, points: 240 });
    const expected = t.flatMap((at, i) => (at < from || at > to ? [] : counts[i].map(([level, many]) => [new Date(at).toISOString(), String(levels_ms[level]), String(levels_ms[level + 1]), String(many)])));
    holds(expected.length > 5, `only ${expected.length} cells`);
    await browser.until(() => document.querySelector('[data-chart="heat"] [data-key="requests"] .value').textContent !== "0");
    same((await browser.csv("heat")).rows, expected, "the cells");
    const sum = expected.reduce((all, row) => all + Number(row[3]), 0);
    same(await browser.text('[data-chart="heat"] [data-key="requests"] .value'), sum.toLocaleString("en-US"), "all requests");
    // Something is drawn: the colour of cells is on the canvas.
    const drawn = await page.evaluate(() => {
      const canvas = document.querySelector('[data-chart="heat"] canvas');
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let teal = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 60 && data[i + 2] - data[i] > 40) teal += 1;
      return teal;
    });
    holds(drawn > 200, `${drawn} pixels of cells`);
  },

  async "stops are counted by where they fell"(browser, backend) {
    const { from, to } = await past(backend, backend.without);
    await browser.open(`#/process?id=${backend.without}&from=${from}&to=${to}`);
    const { events } = await backend.get(`processes/${backend.without}/events`, { from, to, limit: 6000 });
    for (const place of STOPS) {
      const own = events.filter((event) => event.kind === "collection" && event.place === place);
      const text = own.length ? `${own.length.toLocaleString("en-US")} · ${format.ms(own.reduce((sum, event) => sum + event.ms, 0))}` : "0";
      await browser.until(([key, value]) => document.querySelector(`[data-chart="heat"] [data-key="${key}"] .value`)?.textContent === value, [place, text]);
    }
  },

  async "time lost is that of the stalls, by cause"(browser, backend) {
    const { from, to } = await past(backend, backend.without, 12);
    await browser.open(`#/process?id=${backend.without}&from=${from}&to=${to}`);
    const { events } = await backend.get(`processes/${backend.without}/events`, { from, to, kinds: "stall" });
    const python = events.filter((event) => event.cause === "python").reduce((sum, event) => sum + event.ms, 0);
    const text = python ? `long-running Python ${format.ms(python)}` : events.length ? "In this window" : "Nothing held the program up";
    await browser.until((said) => document.querySelector('[data-chart="lost"] .chart-note').textContent.includes(said), text);
  },

  async "a bad moment opens, and leads to its time"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.without}&range=1m`);
    await page.locator(".moments summary").first().waitFor();
    holds((await page.locator(".moments > li").count()) <= 10, "more than ten");
    const lengths = (await page.locator(".moments summary b").allInnerTexts()).map((text) => Number.parseFloat(text.replace(",", "")) * (text.endsWith("µs") ? 0.001 : / s$/.test(text) ? 1000 : 1));
    holds(lengths.every((length, i) => i === 0 || length <= lengths[i - 1]), `not the worst first: ${lengths}`);
    await page.getByRole("button", { name: "Pause", exact: true }).click();
    for (const [kind, said] of [["stall", "Cause"], ["request", "Waited for the application"]]) {
      const moment = page.locator(`[data-moment="${kind}"]`).first();
      if (!(await moment.count())) continue;
      await moment.locator("summary").click();
      await moment.locator("dt", { hasText: said }).waitFor();
    }
    await page.getByRole("button", { name: "Zoom to it" }).first().click();
    await page.getByRole("button", { name: "Reset zoom" }).waitFor();
    holds(Number(words(page).get("to")) - Number(words(page).get("from")) < 30_000, "the zoom is not near the moment");
  },

  async "routes are those of the status"(browser, backend) {
    if (!backend.real) return false;
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await backend.until(async () => {
      const { status } = await backend.get(`processes/${backend.with}`);
      const shown = await page.locator(".routes tbody tr").evaluateAll((rows) => rows.map((row) => [row.querySelector("th").textContent, row.querySelectorAll("td")[5].textContent]));
      const expected = status.requests.routes.map((route) => [route.route, format.ms(route.wait_p99_ms)]);
      return expected.length > 1 && JSON.stringify(shown) === JSON.stringify(expected);
    }, "the table never showed what the status says", 15_000);
  },

  async "an SLO is a line that the address keeps"(browser, backend) {
    if (!backend.real) return false;
    const { from, to } = await past(backend);
    const page = await browser.open(`#/process?id=${backend.with}&from=${from}&to=${to}`);
    await browser.until(() => document.querySelector('[data-chart="heat"] [data-key="requests"] .value').textContent !== "0");
    await page.getByLabel("SLO").fill("4.5");
    const { rows } = await browser.csv("heat");
    const over = rows.filter((row) => Number(row[1]) >= 4.5).reduce((sum, row) => sum + Number(row[3]), 0);
    await page.locator('[data-chart="heat"] .chart-note', { hasText: `${over.toLocaleString("en-US")} of ` }).waitFor();
    await page.locator('[data-chart="heat"] .chart-note', { hasText: "took longer than 4.5 ms" }).waitFor();
    const kept = new URL(page.url()).hash;
    await browser.fresh();
    const again = await browser.open(kept);
    same(await again.getByLabel("SLO").inputValue(), "4.5", "the threshold");
    await again.locator('[data-chart="heat"] .chart-note', { hasText: "took longer than 4.5 ms" }).waitFor();
  },

  async "what is under the pointer is said beside it"(browser, backend) {
    const { from, to } = await past(backend);
    const page = await browser.open(`#/process?id=${backend.with}&from=${from}&to=${to}`);
    await browser.until(() => document.querySelector('[data-chart="heat"] [data-key="requests"] .value').textContent !== "");
    const over = page.locator('[data-chart="heat"] .u-over');
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    const [x, y] = [box.x + box.width * 0.4, box.y + box.height * 0.5];
    await page.mouse.move(x, y);
    const tip = page.locator('[data-chart="heat"] .tip');
    await tip.waitFor();
    holds(/\d\d:\d\d:\d\d\n.*requests/.test(await tip.evaluate((element) => element.textContent)), "it says neither time nor requests");
    const its = await tip.boundingBox();
    holds(its.x > x && its.x - x < 40 && Math.abs(its.y + its.height / 2 - y) < 60, `it is at ${its.x}, ${its.y} and the pointer at ${x}, ${y}`);
    await page.mouse.move(5, 5);
    await tip.waitFor({ state: "hidden" });
  },

  async "tabs keep the process and the range"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.without}&range=15m`);
    const tab = (name) => page.getByRole("navigation").getByRole("link", { name, exact: true });
    for (const [name, key] of [["Policy", "id"], ["Compare", "b"], ["Process", "id"]]) {
      await tab(name).click();
      await page.waitForURL((url) => url.hash.startsWith(`#/${name.toLowerCase()}`) && url.hash.includes(`${key}=${backend.without}`));
      same(words(page).get("range"), "15m", `the range on ${name}`);
    }
    await tab("Overview").click();
    await page.waitForSelector(`tr[data-service="${backend.service}"]`);
    await tab("Process").click();
    await page.waitForURL((url) => url.hash.includes(`id=${backend.without}`));
  },

  async "two moments can be chosen"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await page.locator(".between summary").click();
    const to = Math.floor(Date.now() / 1000) * 1000;
    const text = (t) => page.evaluate((at) => new Date(at - 60_000 * new Date(at).getTimezoneOffset()).toISOString().slice(0, 19), t);
    await page.getByLabel("From", { exact: true }).fill(await text(to));
    await page.getByLabel("To", { exact: true }).fill(await text(to - 5000));
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByText("The first moment must be before the second one.").waitFor();
    await page.getByLabel("From", { exact: true }).fill(await text(to - 20_000));
    await page.getByRole("button", { name: "Show", exact: true }).click();
    await page.getByRole("button", { name: "Reset zoom" }).waitFor();
    same([words(page).get("from"), words(page).get("to")].map(Number), [to - 20_000, to - 5000], "the window");
  },

  async "a process is found by typing"(browser, backend) {
    const page = await browser.open(`#/process?id=${backend.with}&range=1m`);
    await page.locator("[data-picker]").click();
    await page.locator(".picker-panel .group").first().waitFor();
    await page.getByRole("combobox").fill("nothing is called so");
    await page.getByText("No process matches").waitFor();
    const pid = backend.without.match(/-(\d+)-\d+$/)[1];
    await page.getByRole("combobox").fill(pid);
    await page.locator(`.option[data-id="${backend.without}"]`).waitFor();
    await page.keyboard.press("Enter");
    await page.waitForURL((url) => url.hash.includes(`id=${backend.without}`));
    await browser.until((id) => document.querySelector("[data-picker]")?.value === id, backend.without);
  },

  async "what stops the program asks first"(browser, backend) {
    const page = await browser.open(`#/policy?id=${backend.without}`);
    const full = page.getByRole("button", { name: "Full", exact: true });
    await browser.until(() => !document.querySelector('[data-how="full"]').disabled);
    let asked = 0;
    page.on("request", (request) => (asked += request.url().endsWith("/collect") ? 1 : 0));
    await full.click();
    const dialog = page.getByRole("dialog", { name: /Stop process \d+ for a full collection/ });
    await dialog.getByText("stops every thread").waitFor();
    await dialog.getByText(/tracks [\d,]+ objects/).waitFor();
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await dialog.waitFor({ state: "detached" });
    same(asked, 0, "collections that were asked for");
    await full.click();
    await dialog.getByRole("button", { name: "Stop and collect" }).click();
    await page.locator(".answer", { hasText: "the program was stopped for" }).waitFor();
    same(asked, 1, "collections that were asked for");
  },

  async "what is not there is said in a sentence"(browser) {
    const page = await browser.open("#/process?id=nowhere-1-2");
    await page.getByText("The hub knows no process nowhere-1-2.").waitFor();
    holds(!(await page.locator('[data-chart="latency"]').isVisible()), "there are empty charts");
    await browser.open("#/nonsense");
    await page.getByText("The dashboard has no page “nonsense”").waitFor();
  },

  async "no table is cut off, and on a telephone rows are cards"(browser, backend) {
    for (const width of [1440, 1024, 390]) {
      await browser.fresh({ viewport: { width, height: 900 } });
      for (const [hash, ready] of [...PAGES(backend), ...(await recorded(backend))]) {
        if (!backend.real && ready.startsWith(".routes")) continue;
        const page = await browser.open(hash);
        await page.waitForSelector(ready);
        if (width === 390 && hash.startsWith("#/process")) await page.locator('[data-chart="latency"]').getByRole("button", { name: "Table" }).click();
        same(await page.evaluate(cut), [], `${hash} at ${width}`);
        if (width === 390) same(await page.evaluate(bare), [], `${hash} at ${width}`);
      }
    }
    await browser.fresh();
  },
};
