// Runs all cases before one hub, in one browser, and says how many passed.

import { readdir } from "node:fs/promises";
import { parseArgs } from "node:util";
import { Backend } from "./backend.mjs";
import { Browser } from "./browser.mjs";
import { pictures } from "./pictures.mjs";

const { values: options } = parseArgs({
  options: {
    hub: { type: "string" },
    python: { type: "string", default: "python3" },
    only: { type: "string", default: "" },
    images: { type: "string" },
    dist: { type: "string" },
    live: { type: "string" },
  },
});

/** A case that takes so long has failed. */
const LIMIT_MS = 90_000;

function within(limit, work) {
  let timer;
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Error(`it is not done after ${limit / 1000} s`)), limit);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

const cases = [];
for (const name of (await readdir(new URL("cases/", import.meta.url))).sort()) {
  const { default: list } = await import(new URL(`cases/${name}`, import.meta.url));
  for (const [title, act] of Object.entries(list)) cases.push({ title: `${name.replace(/^\d+-|\.mjs$/g, "")}: ${title}`, act });
}

const backend = new Backend(options);
const browser = new Browser();
// Asked to end, it takes along what it has started.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => void browser.stop().then(() => backend.stop()).then(() => process.exit(1)));
let [passed, failed, skipped] = [0, 0, 0];
try {
  console.log(`before ${await backend.start()}`);
  await browser.start(backend, options.dist);
  if (options.images) await pictures(browser, backend, options.images);
  for (const { title, act } of cases.filter((each) => each.title.includes(options.only))) {
    const began = performance.now();
    try {
      const said = await within(LIMIT_MS, act(browser, backend));
      browser.complaints();
      const note = typeof said === "string" ? ` (${said})` : "";
      if (said === false) skipped += 1;
      else passed += 1;
      console.log(`${said === false ? "skip" : "ok  "} ${title}${note} ${((performance.now() - began) / 1000).toFixed(1)} s`);
    } catch (error) {
      failed += 1;
      console.log(`FAIL ${title}\n     ${String(error.stack ?? error).replaceAll("\n", "\n     ")}`);
      const picture = await browser.picture(title).catch(() => null);
      if (picture) console.log(`     what it looked like: ${picture}`);
      await browser.fresh();
    }
  }
  const { ingest, clients } = await backend.get("hub");
  console.log(`the hub: ${JSON.stringify({ ...ingest, skipped: clients.skipped })}`);
} finally {
  await browser.stop();
  await backend.stop();
}
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
process.exitCode = failed ? 1 : 0;
