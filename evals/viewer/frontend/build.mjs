// Bundles the viewer's page and the page for people into the folders named on the command line, by default ../static and
// ../../human/static, which are committed.

import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename } from "node:path";
import { build } from "esbuild";

const [viewer = "../static", play = "../../human/static"] = process.argv.slice(2);
await bundle(viewer, { main: "src/main.tsx", style: "src/style.css" }, ["index.html", "archive.html", "icon.svg"]);
await bundle(play, { play: "src/play/main.tsx", "play-style": "src/play/play.css" }, ["play/play.html"]);

async function bundle(out, entryPoints, copied) {
  await mkdir(out, { recursive: true });
  const { metafile } = await build({
    entryPoints,
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
  for (const name of copied) await copyFile(`src/${name}`, `${out}/${basename(name)}`);
  await writeFile(`${out}/licenses.txt`, await licenses(metafile));
}

// The license of each package of which anything is in the bundle.
async function licenses(metafile) {
  const bundled = Object.keys(metafile.inputs).map((path) => /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const texts = [];
  for (const name of [...new Set(bundled)].filter(Boolean).sort()) {
    const { version } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
    texts.push(`${name} ${version}\n\n${(await readFile(`node_modules/${name}/LICENSE`, "utf8")).trim()}\n`);
  }
  return texts.join("\n\n");
}
