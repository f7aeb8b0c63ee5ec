// GGUF files written by makar give the same greedy tokens and the same perplexity (to 3 digits) in llama.cpp.
//
//   node tests/llama.cpp/check.mjs MAKAR MODEL.gguf IDS.txt [PROMPT_TOKENS]
//
// llama.cpp comes from the npm package node-llama-cpp, installed outside the repository:
//   mkdir -p ~/.cache/makar-llama.cpp && cd ~/.cache/makar-llama.cpp && npm install node-llama-cpp --ignore-scripts
// (or in the folder that MAKAR_LLAMA_CPP names). IDS.txt holds token ids, for instance from
// `makar tokenizer encode`. Exits with 77 when the package is not there.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {pathToFileURL} from "node:url";

const [makar, file, idsFile, promptTokens = "16"] = process.argv.slice(2);
if (!idsFile) {
  console.log("usage: node tests/llama.cpp/check.mjs MAKAR MODEL.gguf IDS.txt [PROMPT_TOKENS]");
  process.exit(2);
}
const cache = process.env.MAKAR_LLAMA_CPP ?? path.join(os.homedir(), ".cache", "makar-llama.cpp");
const entry = path.join(cache, "node_modules", "node-llama-cpp", "dist", "index.js");
if (!fs.existsSync(entry)) {
  console.log(`no ${entry}`);
  process.exit(77);
}
const {getLlama} = await import(pathToFileURL(entry));
const ids = fs.readFileSync(idsFile, "utf8").trim().split(/[\s,]+/).map(Number);
const newTokens = 24;
// Perplexity over up to 32 windows of 256 tokens: with int8 activations, the perplexity of a single window differs by 0.2 %.
const windows = [];
for (let i = 0; i < ids.length && windows.length < 32; i += 256)
  if (i === 0 || ids.length - i >= 256) windows.push(ids.slice(i, i + 256));
const scored = windows.reduce((sum, w) => sum + w.length - 1, 0);

async function llamaCppResults() {
  const llama = await getLlama({gpu: false, build: "never", progressLogs: false, logLevel: "error"});
  const model = await llama.loadModel({modelPath: path.resolve(file), gpuLayers: 0});
  const context = await model.createContext({contextSize: 512, threads: 2, sequences: 1});
  const sequence = context.getSequence();
  let nll = 0;
  for (const window of windows) {
    const out = await sequence.controlledEvaluate(window.map((id) => [id, {generateNext: {probabilities: true}}]));
    for (let i = 0; i + 1 < window.length; ++i) nll -= Math.log(out[i].next.probabilities.get(window[i + 1]));
    await sequence.clearHistory();
  }
  const greedy = [], margins = [];
  let next = ids.slice(0, Number(promptTokens));
  for (let i = 0; i < newTokens; ++i) {
    const step = next.map((id, at) => (at + 1 < next.length ? id : [id, {generateNext: {probabilities: true}}]));
    const answer = (await sequence.controlledEvaluate(step)).at(-1).next.probabilities;
    const best = [...answer].sort((a, b) => b[1] - a[1]);
    greedy.push(best[0][0]);
    margins.push(Math.log(best[0][1] / best[1][1]));
    next = [best[0][0]];
  }
  return {perplexity: Math.exp(nll / scored), greedy, margins};
}

// makar's logits for one row of ids.
function logits(row) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "makar-check-"));
  const data = Buffer.alloc(row.length * 8);
  row.forEach((id, i) => data.writeBigInt64LE(BigInt(id), i * 8));
  const header = JSON.stringify({"in.input_ids": {dtype: "I64", shape: [1, row.length], data_offsets: [0, data.length]}});
  const padded = header.padEnd(Math.ceil(header.length / 8) * 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  fs.writeFileSync(path.join(folder, "in"), Buffer.concat([length, Buffer.from(padded), data]));
  execFileSync(makar, ["forward", "--model", file, "--input", path.join(folder, "in"), "--output", path.join(folder, "out")]);
  const bytes = fs.readFileSync(path.join(folder, "out"));
  fs.rmSync(folder, {recursive: true});
  const size = Number(bytes.readBigUInt64LE(0));
  const tensor = JSON.parse(bytes.subarray(8, 8 + size).toString())["out.logits"];
  const from = 8 + size + tensor.data_offsets[0], vocab = tensor.shape[2];
  return (t) => Array.from({length: vocab}, (_, v) => bytes.readFloatLE(from + (t * vocab + v) * 4));
}

function makarResults() {
  let nll = 0;
  for (const window of windows) {
    const all = logits(window);
    for (let i = 0; i + 1 < window.length; ++i) {
      const row = all(i), max = row.reduce((a, b) => Math.max(a, b));
      nll += max + Math.log(row.reduce((sum, x) => sum + Math.exp(x - max), 0)) - row[window[i + 1]];
    }
  }
  const prompt = ids.slice(0, Number(promptTokens));
  const out = execFileSync(makar, ["generate", "-m", file, "--ids", prompt.join(","), "-n", String(newTokens), "--json"]);
  return {perplexity: Math.exp(nll / scored), greedy: JSON.parse(out).ids.slice(prompt.length)};
}

const a = await llamaCppResults(), b = makarResults();
// The comparison ends where llama.cpp's two best tokens are nearly equal, because rounding decides there.
let equalTokens = 0;
while (equalTokens < b.greedy.length && a.greedy[equalTokens] === b.greedy[equalTokens]) ++equalTokens;
const tie = equalTokens < b.greedy.length && a.margins[equalTokens] < 0.02;
const closePerplexity = a.perplexity.toPrecision(3) === b.perplexity.toPrecision(3) ||
  Math.abs(a.perplexity / b.perplexity - 1) < 5e-4;
console.log(JSON.stringify({file: path.basename(file), scored, perplexity_llama_cpp: a.perplexity,
  perplexity: b.perplexity, greedy_same: equalTokens, of: b.greedy.length, tie}));
process.exit(closePerplexity && (equalTokens === b.greedy.length || tie) ? 0 : 1);
