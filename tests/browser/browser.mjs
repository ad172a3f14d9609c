// Chromium with one page, and what the cases ask of it.

import { createRequire } from "node:module";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const need = createRequire(new URL("../../dashboard/package.json", import.meta.url));
const { chromium } = need("playwright-core");
const { build } = need("esbuild");

/** How the page writes figures, from its own source. */
export const format = await written();

async function written() {
  const out = join(await mkdtemp(join(tmpdir(), "neurogc-format-")), "format.mjs");
  const source = fileURLToPath(new URL("../../dashboard/src/format.ts", import.meta.url));
  await build({ entryPoints: [source], outfile: out, format: "esm", logLevel: "error" });
  return import(pathToFileURL(out));
}

export class Browser {
  #chromium;
  #complaints = [];
  #dist;
  /** Messages that the page got from the hub, newest last. */
  heard = [];

  async start(backend, dist) {
    this.base = backend.base;
    this.#dist = dist;
    this.#chromium = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", ...(dist ? ["--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets"] : [])] });
    await this.fresh();
  }

  /** A page that knows nothing of the one before. */
  async fresh(options = {}) {
    await this.context?.close();
    this.#complaints = [];
    this.heard = [];
    this.context = await this.#chromium.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: "light", acceptDownloads: true, ...options });
    if (this.#dist) {
      await this.context.route(/127\.0\.0\.1:\d+\/(\w+\.(js|css|svg|html))?(#.*)?$/, (route) => {
        route.fulfill({ path: join(this.#dist, new URL(route.request().url()).pathname.slice(1) || "index.html") });
      });
    }
    this.page = await this.context.newPage();
    this.page.setDefaultTimeout(20_000);
    this.page.on("pageerror", (error) => this.#complaints.push(`error in the page: ${error.message}\n${error.stack}`));
    this.page.on("console", (message) => {
      // A hub that is away is what some cases are about.
      if (message.type() === "error" && !/ERR_CONNECTION|Failed to load resource|WebSocket connection/.test(message.text())) this.#complaints.push(`console: ${message.text()}`);
    });
    this.page.on("request", (request) => {
      const { protocol, hostname } = new URL(request.url());
      if (!["blob:", "data:"].includes(protocol) && hostname !== "127.0.0.1") this.#complaints.push(`the page asked ${request.url()}`);
    });
    this.page.on("websocket", (socket) => socket.on("framereceived", ({ payload }) => {
      this.heard.push(JSON.parse(payload));
      if (this.heard.length > 400) this.heard.shift();
    }));
    return this.page;
  }

  /** Fails where the page has complained since it was opened. */
  complaints() {
    const list = this.#complaints;
    this.#complaints = [];
    if (list.length) throw new Error(list.join("\n"));
  }

  async stop() {
    await this.#chromium?.close();
  }

  async open(hash, base = this.base) {
    await this.page.goto("about:blank");
    await this.page.goto(`${base}/${hash}`);
    return this.page;
  }

  async picture(title) {
    const path = join(await mkdtemp(join(tmpdir(), "neurogc-failed-")), `${title.replace(/\W+/g, "-")}.png`);
    await this.page.screenshot({ path });
    return path;
  }

  text(selector) {
    return this.page.locator(selector).first().innerText();
  }

  /** Waits until something in the page is so. */
  until(act, argument, timeout = 20_000) {
    return this.page.waitForFunction(act, argument, { timeout, polling: 50 });
  }

  /** What a button saves. */
  async saved(click) {
    const waiting = this.page.waitForEvent("download");
    await click();
    const stream = await (await waiting).createReadStream();
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return Buffer.concat(chunks);
  }

  /** Rows of a saved table. */
  async csv(chart) {
    const text = (await this.saved(() => this.page.locator(`[data-chart="${chart}"] .chart-actions >> text=CSV`).click())).toString();
    const [head, ...rows] = text.trim().split("\n").map((row) => row.split(","));
    return { head, rows };
  }
}

/** Throws where two things are not the same. */
export function same(got, expected, what) {
  const [one, other] = [JSON.stringify(got), JSON.stringify(expected)];
  if (one !== other) throw new Error(`${what}: ${one}, and it should be ${other}`);
}

export function holds(truth, what) {
  if (!truth) throw new Error(what);
}
