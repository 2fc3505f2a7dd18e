// Bundles the page into the folder named on the command line, by default ../static, which is committed.
import { build } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";

const out = process.argv[2] ?? "../static";
await mkdir(out, { recursive: true });
await build({
  entryPoints: ["src/main.tsx", "src/style.css"],
  outdir: out,
  bundle: true,
  minify: true,
  charset: "utf8",
  legalComments: "none",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) await copyFile(`src/${name}`, `${out}/${name}`);
