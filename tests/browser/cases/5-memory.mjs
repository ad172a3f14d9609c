// Memory: the flame graph, the table of sites, and why there is nothing.

import { format, holds, same } from "../browser.mjs";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** The sites of a process, or why there are none. */
async function sites(backend, id, query = {}) {
  const answer = await fetch(`${backend.base}/api/v1/processes/${id}/sites?${new URLSearchParams(query)}`);
  const said = await answer.json();
  return answer.ok ? said : { reason: said.error.message };
}

async function opened(browser, backend, more = "") {
  const page = await browser.open(`#/memory?id=${backend.with}${more}`);
  await browser.until(() => Boolean(document.querySelector(".flame-status")?.textContent));
  return page;
}

const status = (browser) => browser.text(".flame-status");

export default {
  async "a process that is not sampled says why"(browser, backend) {
    const { reason } = await sites(backend, backend.without);
    if (!reason) return false;
    const page = await browser.open(`#/memory?id=${backend.without}`);
    await page.locator(".nothing", { hasText: reason }).waitFor();
    same(await page.locator(".memory").isHidden(), true, "whether the graph is hidden");
    return reason;
  },

  async "the table is that of the API"(browser, backend) {
    const now = await sites(backend, backend.with, { measure: "live" });
    if (now.reason) return false;
    const page = await opened(browser, backend);
    const first = await page.locator(".memory-sites tbody tr").first().innerText();
    const [place] = now.rows[0].places;
    holds(first.includes(place.function) && first.includes(`:${place.line}`), `${first} is not ${JSON.stringify(place)}`);
    const rows = await page.locator(".memory-sites tbody tr").count();
    same(rows, Math.min(30, now.rows.length), "the number of rows");
    // A second answer gives the small lines their second point.
    await browser.until(() => document.querySelectorAll(".memory-sites canvas.spark").length > 0);
    await page.getByRole("button", { name: "Growth" }).click();
    await page.locator(".note", { hasText: "By how much live memory has grown" }).waitFor();
    await page.getByLabel("Table by").selectOption("domain");
    await browser.until(() => [...document.querySelectorAll(".memory-sites tbody th")].every((cell) => /^(object|raw|malloc|mmap)$/.test(cell.textContent)));
    holds(page.url().includes("measure=growth") && page.url().includes("by=domain"), "the address does not say what is shown");
    return first.replace(/\s+/g, " ");
  },

  async "one click leads to heap dumps and to the flame graph"(browser, backend) {
    if ((await sites(backend, backend.with)).reason) return false;
    const page = await opened(browser, backend);
    await page.getByRole("button", { name: "Flame graph of live memory" }).click();
    await browser.until(() => document.activeElement?.textContent === "By call stack");
    await page.getByRole("link", { name: "Heap dumps" }).click();
    await page.locator(".heap-bar").first().waitFor();
    holds(page.url().includes(`id=${encodeURIComponent(backend.with)}`), page.url());
    return page.url().split("#")[1];
  },

  async "the verdict comes first, and the chart shows where the memory is"(browser, backend) {
    const { findings } = (await (await fetch(`${backend.base}/api/v1/processes/${backend.with}`)).json()).status;
    const page = await browser.open(`#/memory?id=${backend.with}`);
    const leak = findings.find(({ pattern }) => pattern);
    await page.locator(".leaks li", { hasText: leak ? leak.holder || leak.text.slice(0, 20) : "No leak is known" }).first().waitFor();
    await page.locator('[data-chart="breakdown"] canvas').waitFor();
    const legend = await page.locator('[data-chart="breakdown"] .legend').innerText();
    holds(legend.includes("Python objects") && legend.includes("malloc free"), legend);
    return (await page.locator(".leaks li").first().innerText()).replace(/\s+/g, " ");
  },

  async "the largest containers and types are those of the census"(browser, backend) {
    const { census } = (await (await fetch(`${backend.base}/api/v1/processes/${backend.with}`)).json()).status;
    const page = await browser.open(`#/memory?id=${backend.with}`);
    if (!census.at_s) {
      await page.locator(".note", { hasText: "There is no census yet" }).waitFor();
      return "there is none yet";
    }
    await page.locator(".census-types tbody tr").first().waitFor();
    const names = await page.locator(".census-types tbody th").allInnerTexts();
    holds(census.types.filter(({ type }) => names.includes(type)).length > census.types.length / 2, `${names} are not the types`);
    const first = await page.locator(".census-containers tbody tr").first().innerText();
    holds(first.includes(census.containers[0].type), `${first} is not ${JSON.stringify(census.containers[0])}`);
    return first.replace(/\s+/g, " ");
  },

  async "the flame graph is searched, zoomed and moved in by keys"(browser, backend) {
    const now = await sites(backend, backend.with);
    if (now.reason) return false;
    const page = await opened(browser, backend);
    holds((await status(browser)).startsWith("all"), "it does not begin with everything");
    const canvas = page.locator(".flame canvas");
    await canvas.focus();
    await page.keyboard.press("ArrowDown");
    const largest = await status(browser);
    holds(!largest.startsWith("all"), "no frame was chosen");
    await page.keyboard.press("Enter");
    await page.getByRole("button", { name: "Reset zoom" }).waitFor();
    await page.keyboard.press("Escape");
    await browser.until(() => document.querySelector(".flame-bar button").hidden);
    const { function: name } = now.flame.frames[now.flame.nodes.at(-1).frame];
    await page.keyboard.press("/");
    await page.keyboard.type(name);
    await browser.until(() => /frames? match/.test(document.querySelector(".flame-status").textContent));
    await page.locator(".flame-bar input").fill("");
    // The pointer gets the same words.
    const box = await canvas.boundingBox();
    await page.mouse.move(box.x + 20, box.y + 30);
    await page.locator(".flame-tip", { hasText: "of all" }).waitFor();
    await page.mouse.click(box.x + 20, box.y + 30);
    await page.getByRole("button", { name: "Reset zoom" }).click();
    return largest;
  },

  async "it fits on a phone"(browser, backend) {
    if ((await sites(backend, backend.with)).reason) return false;
    const page = await opened(browser, backend);
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 800 });
    await browser.until(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector(".flame canvas").clientWidth <= 390);
    await page.setViewportSize(size);
  },

  async "a saved flame graph opens as a file, and no name in it becomes markup"(browser, backend) {
    const now = await sites(backend, backend.with);
    if (now.reason) return false;
    const page = await opened(browser, backend);
    const saved = (await browser.saved(() => page.getByRole("button", { name: "Save as HTML" }).click())).toString();
    const hostile = now.flame.frames.some((frame) => frame.function.includes("</script"));
    if (hostile) holds(!saved.includes("</script><b>"), "a name is written as it is");
    const path = join(await mkdtemp(join(tmpdir(), "neurogc-flame-")), "flame.html");
    await writeFile(path, saved);
    const alone = await browser.context.newPage();
    const asked = [];
    alone.on("request", (request) => asked.push(request.url()));
    const errors = [];
    alone.on("pageerror", (error) => errors.push(error.message));
    alone.on("console", (said) => said.type() === "error" && errors.push(said.text()));
    await alone.setViewportSize({ width: 390, height: 700 });
    await alone.goto(`file://${path}`);
    await alone.waitForFunction(() => document.querySelector("canvas").height > 20);
    same(errors, [], "errors in the file");
    same(asked.length, 1, `the file asked for more than itself: ${asked}`);
    same(await alone.evaluate(() => document.querySelectorAll("b").length), 0, "markup from names");
    holds(await alone.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "it is wider than a phone");
    holds((await alone.locator("h1").innerText()).startsWith("Live memory of process"), "the headline");
    holds((await alone.locator(".facts").innerText()).includes(format.bytes(now.flame.nodes[0].value).split(" ")[1]), "the facts");
    await alone.getByRole("button", { name: /Theme/ }).click();
    await alone.close();
  },
};
