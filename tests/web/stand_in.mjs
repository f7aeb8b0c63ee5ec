// A proxy that answers chosen requests itself, with a given text, an error, or a broken connection, and forwards all others.
import { createServer, request } from "node:http";
import { allow, base } from "./browser.mjs";

// `rules` is a list of { path, answer(body, response) }, each used once and in order per path.
export async function standIn() {
  const rules = [];
  const upstream = new URL(base);
  const server = createServer((incoming, outgoing) => {
    const chunks = [];
    incoming.on("data", (c) => chunks.push(c));
    incoming.on("end", () => {
      const body = Buffer.concat(chunks);
      const at = rules.findIndex((r) => r.path === incoming.url && (r.method ?? "POST") === incoming.method);
      if (at >= 0) {
        const [rule] = rules.splice(at, 1);
        return rule.answer(body.length ? JSON.parse(body) : null, outgoing);
      }
      const forwarded = request(
        { host: upstream.hostname, port: upstream.port, path: incoming.url, method: incoming.method, headers: incoming.headers },
        (reply) => {
          outgoing.writeHead(reply.statusCode, reply.headers);
          reply.pipe(outgoing);
        },
      );
      outgoing.on("close", () => forwarded.destroy());
      forwarded.on("error", () => outgoing.destroy());
      forwarded.end(body);
    });
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const url = `http://127.0.0.1:${server.address().port}`;
  allow(url);
  return {
    url,
    on: (path, answer, method) => rules.push({ path, answer, method }),
    writes: (text, options) => rules.push({ path: "/v1/chat/completions", answer: (body, out) => stream(out, text, { body, ...options }) }),
    close: () => (server.closeAllConnections(), server.close()),
  };
}

export function fails(status, message, code = "") {
  return (_, out) => {
    out.writeHead(status, { "content-type": "application/json" });
    out.end(JSON.stringify({ error: { message, code } }));
  };
}

const event = (fields) => `data: ${JSON.stringify(fields)}\n\n`;
const wait = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

// Sends `text` in pieces. `drop`: a promise, after which the connection breaks; `hold`: a promise to wait for halfway; `onRequest`: called with the body of the request.
export async function stream(out, text, { body, piece = 7, pause = 0, drop, hold, onRequest, logprobs = false, finish = "stop", calls } = {}) {
  onRequest?.(body);
  out.writeHead(200, { "content-type": "text/event-stream" });
  const choice = (fields) => ({ choices: [{ index: 0, finish_reason: null, ...fields }] });
  let pendingHold = hold;
  for (let at = 0; at < text.length; at += piece) {
    const content = text.slice(at, at + piece);
    const marks = logprobs && { logprobs: { content: [{ token: content, logprob: -0.5, top_logprobs: [{ token: content, logprob: -0.5 }, { token: "other", logprob: -1.5 }] }] } };
    out.write(event(choice({ delta: { content }, ...marks })));
    if (pendingHold && at + piece >= text.length / 2) await pendingHold, (pendingHold = null);
    if (pause) await wait(pause);
    else if (at % (piece * 200) === 0) await wait(1);
  }
  if (drop) {
    await drop;
    return out.destroy();
  }
  if (calls) out.write(event(choice({ delta: { tool_calls: calls.map((f, index) => ({ index, id: `c${index}`, type: "function", function: f })) } })));
  out.write(event(choice({ delta: {}, finish_reason: finish })));
  out.write(event({ choices: [], usage: { total_tokens: 50 } }));
  out.end("data: [DONE]\n\n");
}

// A promise, and the function that resolves it.
export function gate() {
  let open;
  const closed = new Promise((done) => (open = done));
  return { closed, open };
}
