// Bundles the page into the folder named on the command line, by default ../static, which is committed.

import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { build } from "esbuild";

const out = process.argv[2] ?? "../static";
await mkdir(out, { recursive: true });
const { metafile } = await build({
  entryPoints: ["src/main.tsx", "src/style.css"],
  outdir: out,
  bundle: true,
  minify: true,
  metafile: true,
  charset: "utf8",
  legalComments: "none",
  banner: { js: "/* The licenses of raycade and of the packages in this file are in licenses.txt. */" },
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
for (const name of ["index.html", "archive.html", "icon.svg"]) await copyFile(`src/${name}`, `${out}/${name}`);

// The license of each package of which anything is in the bundle.
const bundled = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
const texts = [];
for (const name of [...new Set(bundled)].filter(Boolean).sort()) {
  const { version } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
  texts.push(`${name} ${version}\n\n${(await readFile(`node_modules/${name}/LICENSE`, "utf8")).trim()}\n`);
}
await writeFile(`${out}/licenses.txt`, texts.join("\n\n"));
