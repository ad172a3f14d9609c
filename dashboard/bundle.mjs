// Bundles the page into the folder that is named: index.html, app.js, app.css, the icon, and the flame graph, the memory plot and the snapshot as files of their own.

import { copyFile, mkdir, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const LIMIT = 250 * 1024;
const here = dirname(fileURLToPath(import.meta.url));
const out = resolve(process.argv[2] ?? join(here, "dist"));

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const shared = { absWorkingDir: here, outdir: out, bundle: true, minify: true, target: "es2022", charset: "utf8", legalComments: "none", logLevel: "warning" };
await build({ ...shared, entryPoints: { app: "src/main.ts" }, format: "esm" });

// Pages in one file, into which the command, and for flame graphs the dashboard, put the data.
for (const name of ["flame", "plot", "snapshot"]) {
  const page = await build({ ...shared, entryPoints: { [name]: `src/${name}/page.ts` }, format: "iife", write: false });
  const built = (end) => page.outputFiles.find((file) => file.path.endsWith(end)).text.trim();
  const [style, script] = [built(".css"), built(".js")];
  if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style)) throw new Error(`the code of ${name} would end the element that it is in`);
  const around = await readFile(join(here, `src/${name}/page.html`), "utf8");
  await writeFile(join(out, `${name}.html`), around.replace("/* style */", () => style).replace("// script", () => script));
}
await copyFile(join(here, "src/index.html"), join(out, "index.html"));
await copyFile(join(here, "src/icon.svg"), join(out, "icon.svg"));

// What is distributed in the bundle has its licence beside it.
const uplot = await readFile(join(here, "node_modules/uplot/LICENSE"), "utf8");
await writeFile(join(out, "LICENSES.txt"), `uPlot\n\n${uplot}`);

// The memory plot and the snapshot's file are the command's alone: the dashboard does not load them.
let plain = 0;
let packed = 0;
for (const name of (await readdir(out)).filter((name) => !["plot.html", "snapshot.html"].includes(name))) {
  plain += (await stat(join(out, name))).size;
  packed += gzipSync(await readFile(join(out, name))).length;
}
console.log(`${plain} bytes, ${packed} gzipped`);
if (plain > LIMIT) {
  console.error(`the bundle is over its ${LIMIT} bytes`);
  process.exit(1);
}
