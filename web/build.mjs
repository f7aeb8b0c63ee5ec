// build.mjs FOLDER: bundles and minifies the page's script, its style, and the script that reads PDF files.
import { build } from "esbuild";
import { copyFile } from "node:fs/promises";

const out = process.argv[2];
await build({
  entryPoints: { app: "src/main.tsx", pdf: "src/pdf/worker.ts" },
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome111", "firefox121", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  logLevel: "warning",
  logOverride: { "empty-import-meta": "silent" },
});
await copyFile("src/index.html", `${out}/index.html`);
