// The npm peers of the tokenizer benchmark; the protocol is that of makar.cpp.
//   node peers.cjs PEER TOKENIZER TEXT THREADS   PEER: tiktoken, gpt-tokenizer, hf, hf-js
//   node peers.cjs train FOLDER TEXT             the Hugging Face trainer, 30,000 tokens, the only size it offers
// TOKENIZER is an encoding's name for the first two, a tokenizer.json for the others. Each thread is a worker
// with its share of the documents, or one of the library's own threads where it has them.
const fs = require('fs')
const path = require('path')
const readline = require('readline')
const { isMainThread, parentPort, workerData, Worker } = require('worker_threads')
const modules = process.env.PEERS || path.join(__dirname, '..', '..', 'build', 'peers')
const load = (name) => require(require.resolve(name, { paths: [modules] }))

// The same cuts as documents.h; the text's line breaks are single bytes, so this works on bytes.
function documents(bytes) {
  const out = []
  for (let at = 0; at < bytes.length; ) {
    let end = bytes.indexOf(10, Math.min(at + 4096, bytes.length - 1))
    end = end < 0 ? bytes.length : end + 1
    out.push(bytes.toString('utf8', at, end))
    at = end
  }
  return out
}

// Each maker returns a function from documents to the number of tokens (or a promise of it).
const makers = {
  tiktoken(name) {
    const encoding = load('tiktoken').get_encoding(name)
    return (texts) => {
      let tokens = 0
      for (const text of texts) tokens += encoding.encode(text, 'all').length
      return tokens
    }
  },
  'gpt-tokenizer'(name) {
    const encoder = load(`gpt-tokenizer/encoding/${name === 'gpt2' ? 'r50k_base' : name}`)
    const options = { allowedSpecial: 'all' }
    return (texts) => {
      let tokens = 0
      for (const text of texts) tokens += encoder.encode(text, options).length
      return tokens
    }
  },
  hf(file) {
    const tokenizer = load('tokenizers').Tokenizer.fromFile(file)
    return async (texts) => {
      let tokens = 0
      for (let at = 0; at < texts.length; at += 256) {
        const batch = await tokenizer.encodeBatch(texts.slice(at, at + 256), { addSpecialTokens: false })
        for (const encoding of batch) tokens += encoding.getLength()
      }
      return tokens
    }
  },
  'hf-js'(file) {
    const { Tokenizer } = load('@huggingface/tokenizers')
    const tokenizer = new Tokenizer(JSON.parse(fs.readFileSync(file, 'utf8')), {})
    return (texts) => {
      let tokens = 0
      for (const text of texts) tokens += tokenizer.encode(text, { add_special_tokens: false }).ids.length
      return tokens
    }
  },
}

function train(folder, text) {
  const hf = load('tokenizers')
  const tokenizer = new hf.Tokenizer(hf.BPE.empty())
  tokenizer.setPreTokenizer(hf.byteLevelPreTokenizer(false))
  tokenizer.train([text])
  fs.mkdirSync(folder, { recursive: true })
  tokenizer.save(path.join(folder, 'tokenizer.json'))
  console.log(JSON.stringify({ vocab: tokenizer.getVocabSize() }))
}

async function serve(peer, name, file, threads) {
  const start = process.cpuUsage()
  let texts = documents(fs.readFileSync(file))
  const inProcess = peer === 'hf' || threads === 1  // hf has threads of its own
  const workers = []
  let encode
  if (inProcess) {
    encode = makers[peer](name)
  } else {
    for (let t = 0; t < threads; ++t) {
      const share = texts.slice((texts.length * t) / threads, (texts.length * (t + 1)) / threads)
      workers.push(new Worker(__filename, { workerData: { peer, name, texts: share } }))
    }
    texts = null
    const answers = () => Promise.all(workers.map((w) => new Promise((done) => w.once('message', done))))
    await answers()
    encode = async () => {
      const all = answers()
      for (const worker of workers) worker.postMessage('go')
      return (await all).reduce((a, b) => a + b, 0)
    }
  }
  const seconds = (usage) => (usage.user + usage.system) / 1e6
  console.log(JSON.stringify({ ready: seconds(process.cpuUsage(start)) }))
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const wall = process.hrtime.bigint()
    const cpu = process.cpuUsage()
    const tokens = await encode(texts)
    const used = seconds(process.cpuUsage(cpu))
    console.log(JSON.stringify({ wall: Number(process.hrtime.bigint() - wall) / 1e9, cpu: used, tokens }))
  }
  for (const worker of workers) worker.terminate()
}

if (!isMainThread) {
  const encode = makers[workerData.peer](workerData.name)
  parentPort.postMessage(0)
  parentPort.on('message', async () => parentPort.postMessage(await encode(workerData.texts)))
} else if (process.argv[2] === 'train') {
  train(process.argv[3], process.argv[4])
} else {
  serve(process.argv[2], process.argv[3], process.argv[4], Number(process.argv[5]))
}
