// GPU: devices, steps and verdict of a training loop, and snapshot files of PyTorch's allocator.

import { execFile } from "node:child_process";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { format, holds, same } from "../browser.mjs";

const execute = promisify(execFile);
const maker = fileURLToPath(new URL("../../gpu/snapshot_file.py", import.meta.url));

async function folder() {
  return mkdtemp(join(tmpdir(), "neurogc-gpu-"));
}

/** A snapshot file, and what the hub says of it. */
async function snapshot(backend) {
  const path = join(await folder(), "snapshot.pickle");
  await execute(backend.python, [maker, path]);
  const body = await readFile(path);
  const answer = await fetch(`${backend.base}/api/v1/gpu/snapshot`, { method: "POST", headers: { "Content-Type": "application/octet-stream" }, body });
  return { path, report: await answer.json() };
}

/** Opens a file on the page. */
async function opened(browser, backend, path) {
  const page = await browser.open(`#/gpu?id=${backend.with}`);
  await page.locator("input[type=file]").setInputFiles(path);
  return page;
}

/** What is drawn is what the report has. */
async function checked(page, report) {
  const count = (selector) => page.locator(selector).count();
  const blocks = report.map.segments.flatMap((segment) => segment.blocks);
  same(await count(".map rect.segment"), report.map.segments.length, "segments");
  same(await count(".map rect:not(.segment)"), blocks.length, "blocks");
  same(await count(".map rect.free"), blocks.filter((block) => block.used_bytes + block.pending_bytes === 0).length, "free blocks");
  const [history] = report.history;
  const points = await page.locator(".course polyline.allocated").getAttribute("points");
  same(points.split(" ").length, history.course.length, "points of the course");
  same(await count(".course line.oom"), history.errors.length, "errors");
  const row = await page.locator(".snapshot-devices tbody tr").first().innerText();
  const [device] = report.devices;
  for (const size of [device.allocated_bytes, device.reserved_bytes, device.largest_free_bytes]) holds(row.includes(format.bytes(size)), `${row} has no ${format.bytes(size)}`);
  const site = await page.locator(".snapshot-sites tbody tr").first().innerText();
  holds(site.includes(format.bytes(report.sites[0].bytes)) && site.includes(report.sites[0].site), `${site} is not ${report.sites[0].site}`);
  same(await count(".snapshot-largest tbody tr"), report.largest.length, "largest blocks");
  same(await count(".snapshot i:not([class])"), 0, "markup from names");
}

export default {
  async "a training loop has its devices, steps and verdict"(browser, backend) {
    if (!backend.real) return false;
    const training = await backend.training();
    try {
      const page = await browser.open(`#/gpu?id=${training.id}`);
      const row = page.locator(".gpu-devices tbody tr");
      await row.waitFor();
      const cells = await row.locator("td").allInnerTexts();
      same([await row.locator("th").innerText(), cells[9]], ["GPU 0", format.bytes(2 ** 30)], "the card");
      await page.locator(".table-frame .note", { hasText: `Pinned memory of the host: ${format.bytes(12345)}.` }).waitFor();
      await browser.until(() => /^Steps [\d,]+ to [\d,]+, each a mark/.test(document.querySelector(".gpu-steps")?.nextElementSibling?.textContent ?? ""));
      // The canvas is not empty.
      const drawn = await page.locator("canvas.gpu-steps").evaluate((canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((value) => value));
      holds(drawn, "the steps are not drawn");
      // The holder is known after two looks that are some steps apart.
      const leak = page.locator('.leaks li[data-kind="gpu_leak"]', { hasText: "__main__.history[…]" });
      await leak.waitFor({ timeout: 60_000 });
      const said = await leak.innerText();
      holds(said.includes("container for logging"), said);
      // What the chart shows is what the hub keeps.
      await backend.until(async () => (await backend.get(`processes/${training.id}/series`, { range: "1m", names: "gpu.allocated" })).t.length >= 6, "no series");
      await page.reload();
      await page.locator('[data-chart="gpu"]').waitFor();
      await browser.until(() => !document.querySelector(".toolbar .waiting"));
      const { head, rows } = await browser.csv("gpu");
      const column = head.findIndex((name) => name.includes("gpu.allocated") || name.includes("in use"));
      const values = rows.map((each) => Number(each[column])).filter((value) => value > 0);
      holds(values.length >= 3 && values[values.length - 1] > values[0] && values[0] > 6 * 2 ** 20, `${head} ${JSON.stringify(values)}`);
      return said.split("\n")[0];
    } finally {
      await training.end();
    }
  },

  async "a snapshot file is drawn with its blocks and events"(browser, backend) {
    const { path, report } = await snapshot(backend);
    const page = await opened(browser, backend, path);
    await page.locator(".snapshot .map").waitFor();
    await checked(page, report);
    // A block says what it is, and where it was allocated.
    const place = report.map.segments.flatMap((segment) => segment.blocks).findIndex((block) => block.stack !== null);
    await page.locator(".map rect:not(.segment)").nth(place).dispatchEvent("click");
    const block = report.map.segments.flatMap((segment) => segment.blocks)[place];
    same(await page.locator("pre.stack").textContent(), report.map.stacks[block.stack].join("\n"), "the call stack");
    holds((await page.locator(".snapshot .map ~ .note").innerText()).startsWith(format.bytes(block.bytes)), "the size of the block");
    // The course can be followed by keys.
    await page.locator(".course").focus();
    await page.keyboard.press("End");
    const [history] = report.history;
    const last = history.course[history.course.length - 1];
    await page.locator(".table-frame .note", { hasText: `Event ${format.count(last.event)} of` }).waitFor();
    const size = page.viewportSize();
    await page.setViewportSize({ width: 390, height: 800 });
    await browser.until(() => document.documentElement.scrollWidth <= innerWidth);
    await page.setViewportSize(size);
    return `${report.map.segments.length} segments, ${history.events} events`;
  },

  async "another file is refused with a reason, and the next one is opened"(browser, backend) {
    const { path } = await snapshot(backend);
    const page = await opened(browser, backend, path);
    await page.locator(".snapshot .map").waitFor();
    const other = join(await folder(), "weights.pickle");
    await writeFile(other, "PK\u0003\u0004 weights");
    await page.locator("input[type=file]").setInputFiles(other);
    await page.getByText("weights.pickle was refused").waitFor();
    same(await page.locator(".snapshot").count(), 0, "snapshots that are shown");
    if (backend.real) holds((await page.getByText("weights.pickle was refused").innerText()).includes("as torch.save writes"), "the reason");
    await page.locator("input[type=file]").setInputFiles(path);
    await page.locator(".snapshot .map").waitFor();
  },

  async "a file that was cut off is drawn as far as it goes"(browser, backend) {
    if (!backend.real) return false;
    const { path, report } = await snapshot(backend);
    const body = await readFile(path);
    await writeFile(path, body.subarray(0, body.length / 2));
    const page = await opened(browser, backend, path);
    await page.locator(".snapshot .map").waitFor();
    holds((await page.locator(".snapshot .trouble").innerText()).includes("it is cut off at byte"), "it does not say so");
    const drawn = await page.locator(".map rect.segment").count();
    holds(drawn > 0 && drawn <= report.map.segments.length, `${drawn} segments`);
  },

  async "the file of neurogc gpu show opens by itself"(browser, backend) {
    if (!backend.real) return false;
    const { path, report } = await snapshot(backend);
    const file = `${path}.html`;
    await execute(backend.command, ["gpu", "show", path, "-o", file]);
    const page = await browser.context.newPage();
    const [asked, errors] = [[], []];
    page.on("request", (request) => asked.push(request.url()));
    page.on("pageerror", (error) => errors.push(error.message));
    page.on("console", (said) => said.type() === "error" && errors.push(said.text()));
    try {
      await page.goto(`file://${file}`);
      await page.locator(".map svg").waitFor();
      await checked(page, report);
      await page.getByRole("button", { name: /Theme/ }).click();
      same([errors, asked.length], [[], 1], "errors, and what the file asked for");
    } finally {
      await page.close();
    }
  },
};
