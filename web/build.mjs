// build.mjs FOLDER: the page's script and style, bundled and made small.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";

const out = process.argv[2];
await build({
  entryPoints: { app: "src/main.tsx" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome111", "firefox121", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
});
await copyFile("src/index.html", `${out}/index.html`);
