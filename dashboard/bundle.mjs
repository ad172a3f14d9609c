// Bundles the page into the folder that is named: index.html, app.js, app.css and the icon, under fixed names.

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
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  logLevel: "warning",
});
await copyFile(join(here, "src/index.html"), join(out, "index.html"));
await copyFile(join(here, "src/icon.svg"), join(out, "icon.svg"));

// What is distributed in the bundle has its licence beside it.
const uplot = await readFile(join(here, "node_modules/uplot/LICENSE"), "utf8");
await writeFile(join(out, "LICENSES.txt"), `uPlot\n\n${uplot}`);

let plain = 0;
let packed = 0;
for (const name of await readdir(out)) {
  plain += (await stat(join(out, name))).size;
  packed += gzipSync(await readFile(join(out, name))).length;
}
console.log(`${plain} bytes, ${packed} gzipped`);
if (plain > LIMIT) {
  console.error(`the bundle is over its ${LIMIT} bytes`);
  process.exit(1);
}
