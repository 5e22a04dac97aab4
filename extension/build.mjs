// Builds dist/unpacked (to load into a browser), the two zip files, and with --tests the unit tests; with --out DIR there.
// The same sources give the same bytes: names are sorted and no time goes into a file.

import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { build } from "esbuild";
import { zipSync } from "fflate";
import { ICONS, icon } from "./icons.mjs";

const root = import.meta.dirname;
const out = process.argv.includes("--out") ? process.argv[process.argv.indexOf("--out") + 1] : join(root, "dist");
const unpacked = join(out, "unpacked");
const common = { absWorkingDir: root, preserveSymlinks: true, bundle: true, charset: "utf8", legalComments: "none", logLevel: "warning", target: ["chrome121", "firefox142"] };
const version = JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version;

/** Where a rule's pages are, as match patterns: with a query in the address, unless the site may post it. */
function patterns({ templates, domains, box, wholeHost }) {
  const all = templates.flatMap((one) => (domains ?? [""]).map((domain) => one.replace("{domain}", domain)));
  return all.map((template) => (wholeHost ? template.replace(/([^/])\/[^/].*/s, "$1/*") : template.replace(/\?.*/s, box ? "*" : "?*")));
}

function manifest() {
  const made = JSON.parse(readFileSync(join(root, "static/manifest.json"), "utf8"));
  const { sites } = JSON.parse(readFileSync(join(root, "src/capture/rules.json"), "utf8"));
  made.version = version;
  made.content_scripts[0].matches = sites.flatMap(patterns).sort();
  return `${JSON.stringify(made, null, 2)}\n`;
}

function files(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

function write(path, content) {
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
}

async function extension() {
  rmSync(unpacked, { recursive: true, force: true });
  for (const name of files(join(root, "static"))) write(join(unpacked, name), readFileSync(join(root, "static", name)));
  write(join(unpacked, "manifest.json"), manifest());
  for (const name of ICONS) write(join(unpacked, "icons", `${name}.png`), icon(name));
  const entry = (name) => ({ in: join(root, "src", `${name}.ts`), out: name.split("/").at(-1) });
  await build({
    ...common,
    entryPoints: ["background/background", "background/sender", "capture/capture", "pages/log", "pages/jobs", "pages/settings"].map(entry),
    outdir: unpacked,
    format: "iife",
  });
  const content = Object.fromEntries(files(unpacked).map((name) => [name, readFileSync(join(unpacked, name))]));
  const zip = zipSync(content, { level: 9, mtime: new Date(2020, 0, 1), os: 3 });
  for (const browser of ["firefox", "chromium"]) write(join(out, `searchveil-${version}-${browser}.zip`), zip);
}

async function tests() {
  const folder = join(out, "tests");
  rmSync(folder, { recursive: true, force: true });
  const names = readdirSync(join(root, "test")).filter((name) => name.endsWith(".ts"));
  await build({
    ...common,
    target: "node20",
    entryPoints: names.map((name) => join(root, "test", name)),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    format: "esm",
    platform: "node",
    packages: "external",
  });
}

await extension();
if (process.argv.includes("--tests")) await tests();
