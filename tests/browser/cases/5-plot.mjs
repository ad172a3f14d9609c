// The file of `neurogc run --memory-plot`, opened as a file.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { format, holds, same } from "../browser.mjs";

/** Where the command puts its data: `crates/cli/src/plot`. */
const MARK = '"NEUROGC-PLOT-DATA"';
const MB = 1 << 20;

/** A program with a child, two functions that overlap, three collections, and a name that would be markup. */
const data = {
  command: "python \u003c/script>\u003cb>.py",
  outcome: "exit code 0",
  began: "2026-01-01 00:00:00 UTC",
  seconds: 10,
  step_ms: 1000,
  at: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
  processes: [
    { pid: 10, name: "python", rss: [20, 30, 40, 90, 80, 70, 60, 50, 40, 30].map((size) => size * MB) },
    { pid: 11, name: "child", rss: [0, 0, 5, 10, 10, 10, 5, 0, 0, 0].map((size) => size * MB) },
  ],
  uss: [null, 25, null, 80, null, 60, null, 40, null, 20].map((size) => size && size * MB),
  collections: [
    { at: 1.5, ms: 2, what: "young", pid: 10 },
    { at: 3, ms: 9, what: "full", pid: 10 },
    { at: 3.1, ms: 1, what: "young", pid: 11 },
  ],
  collections_in_all: 3,
  spans: [
    { name: "load", pid: 10, from: 1, to: 6 },
    { name: "parse", pid: 10, from: 2, to: 5 },
  ],
  spans_in_all: 2,
  remarks: ["Resident sets are added up."],
};

/** Opens a file in a page of its own, and gives what it complained about at the end. */
async function alone(browser, path, act) {
  const page = await browser.context.newPage();
  const [asked, errors] = [[], []];
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => errors.push(error.message));
  page.on("console", (said) => said.type() === "error" && errors.push(said.text()));
  try {
    await page.goto(`file://${path}`);
    await page.locator("svg polygon.band").first().waitFor({ state: "attached" });
    await act(page);
    same(errors, [], "errors in the file");
    same(asked.length, 1, `the file asked for more than itself: ${asked}`);
  } finally {
    await page.close();
  }
}

async function written(name, text) {
  const path = join(await mkdtemp(join(tmpdir(), "neurogc-plot-")), name);
  await writeFile(path, text);
  return path;
}

export default {
  async "a memory plot shows processes, functions and collections"(browser) {
    const page = await readFile(new URL("../../../dashboard/dist/plot.html", import.meta.url), "utf8");
    const path = await written("plot.html", page.replace(MARK, () => JSON.stringify(data).replaceAll("<", "\\u003c")));
    await alone(browser, path, async (plot) => {
      const count = (selector) => plot.locator(selector).count();
      same([await count("svg polygon.band"), await count("svg line.gc"), await count("svg rect.span"), await count("tbody tr")], [2, 3, 2, 2], "what is drawn");
      same(await plot.evaluate(() => document.querySelectorAll("b").length), 0, "markup from names");
      holds((await plot.locator("svg text.peak").textContent()).includes(format.bytes(100 * MB)), "the peak of both processes");
      holds((await plot.locator(".facts").innerText()).includes("3 collections"), "the facts");
      // From the peak on by keys: the moment has its functions and collections.
      await plot.locator("svg").focus();
      await plot.keyboard.press("ArrowLeft");
      await plot.keyboard.press("ArrowRight");
      const tip = await plot.locator(".tip").innerText();
      for (const part of [format.bytes(100 * MB), "child (11)", "in load (10)", "in parse (10)", "full collection"]) holds(tip.includes(part), `${part} is not in ${tip}`);
      await plot.setViewportSize({ width: 390, height: 700 });
      await plot.waitForFunction(() => document.documentElement.scrollWidth <= innerWidth);
      await plot.getByRole("button", { name: /Theme/ }).click();
    });
  },

  async "the plot of a real program opens"(browser, backend) {
    if (!backend.real) return false;
    const program = await written("program.py", "import gc, time\nheld = bytearray(60_000_000)\ngc.collect()\ntime.sleep(0.6)\n");
    const path = `${program}.html`;
    await promisify(execFile)(backend.command, ["run", "--memory-plot", path, "--", backend.python, program]);
    await alone(browser, path, async (plot) => {
      holds((await plot.locator("h1").innerText()).endsWith("program.py"), "the headline");
      holds((await plot.locator("svg line.gc.full").count()) >= 1, "the collection is not marked");
      holds(Number.parseFloat((await plot.locator("svg text.peak").textContent()).split(" ")[1]) >= 60, "the peak");
    });
  },
};
