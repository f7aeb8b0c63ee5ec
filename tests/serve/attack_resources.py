#!/usr/bin/env python3
"""Valid requests that try to exhaust the server: memory, processor time, the log, bodies, files. Each case runs against
a real server: it does not crash, other clients are answered, and memory stays within its limit.

usage: attack_resources.py MAKAR [CASE...]      MAKAR_SLOW=1: the full sizes
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time

from batches_api import get, line, upload
from ranking_api import golden
from serving import PATIENCE, Server, Stalls, check, make_model, processor_seconds, quiet, resident, run_cases, wait_until

SLOW = bool(os.environ.get("MAKAR_SLOW"))
KEYS = 'alpha-key alpha\nbeta-key beta\nroot-key root admin\n'


def as_key(name):
    return {"authorization": f"Bearer {name}-key"}


@contextlib.contextmanager
def watched(s, what, megabytes, seconds=4.0, headers=None):
    """While the block runs, another client calls /tokenize: its longest wait and the server's resident memory have limits."""
    waits, peak, finished = [0.0], [resident(s)], threading.Event()

    def ask():
        while not finished.is_set():
            start = time.monotonic()
            try:
                status = s.request("POST", "/tokenize", {"content": "hello"}, headers)[0]
            except OSError as e:
                status = repr(e)
            waits[0] = max(waits[0], time.monotonic() - start)
            check(status == 200, f"{what}: another client got {status}")
            time.sleep(0.02)

    def measure():
        while not finished.is_set():
            with contextlib.suppress(OSError, ValueError):
                peak[0] = max(peak[0], resident(s))
            time.sleep(0.005)

    before = resident(s)
    threads = [threading.Thread(target=f) for f in (ask, measure)]
    for t in threads:
        t.start()
    with Stalls() as stalls:  # the attack runs in this process and delays the other client too
        try:
            yield
        finally:
            finished.set()
            for t in threads:
                t.join()
    check(s.process.poll() is None, f"{what}: the server runs")
    print(f"{what}: others waited {waits[0]:.2f} s at most, the machine stalled {stalls.longest:.2f} s; {before:.0f} MB became {peak[0]:.0f} MB",
          flush=True)
    check(waits[0] <= stalls.allowed(seconds), f"{what}: others waited {waits[0]:.2f} s")
    if not os.environ.get("MAKAR_SANITIZE"):
        check(peak[0] <= before + megabytes, f"{what}: {before:.0f} MB became {peak[0]:.0f} MB, more than {megabytes} added")


def many_keys(makar):
    """Objects of 100,000 keys, wherever a request takes an object. The processor time is linear in the number of keys."""
    chat = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}

    def bodies(count):
        keys = {f"key{i}": 1 for i in range(count)}
        return [("/tokenize", dict(keys, content="a")), ("/v1/chat/completions", dict(chat, chat_template_kwargs=keys)),
                ("/v1/chat/completions", dict(chat, chat_template_kwargs={"inner": keys})),
                ("/v1/responses", dict(keys, input="a")), ("/api/chat", dict(chat, stream=False, options=keys)),
                ("/v1/chat/completions", dict(chat, tools=[{"type": "function", "function": {"name": "f", "parameters": keys}}])),
                ("/v1/responses", {"input": "a", "metadata": keys, "max_output_tokens": 1}),
                ("/v1/completions", {"prompt": "a", "max_tokens": 1, "logit_bias": {str(i): 1 for i in range(count)}})]

    def processor_time(count):
        before = processor_seconds(s.process.pid)
        with concurrent.futures.ThreadPoolExecutor(4) as many:
            codes = list(many.map(lambda b: s.post(*b)[0], bodies(count)))
        check(set(codes) <= {200, 400} and codes[0] == codes[1] == 400, f"too many keys are refused: {codes}")
        quiet(s)
        return processor_seconds(s.process.pid) - before

    with Server(makar, "-t", "1") as s, watched(s, "many keys", 600):
        tenth, full = processor_time(10_000), processor_time(100_000)
        print(f"many keys: {tenth:.2f} s of processor time, {full:.2f} s for ten times as many", flush=True)
        check(full < 3 * PATIENCE + 30 * tenth, f"{tenth:.2f} s became {full:.2f} s: not linear in the number of keys")


def token_pieces(makar):
    """The piece of each token of a long text: the answer is produced while it is sent, and within --mem-budget."""
    size = 7_900_000 if SLOW else 1_500_000
    body = json.dumps({"content": "a" * size, "with_pieces": True})
    with Server(makar, "-t", "1") as s:
        with watched(s, f"pieces of {size / 1e6} MB", 50e-6 * size):
            for _ in range(2):
                status, _, text = s.request("POST", "/tokenize", body)
                # Not parsed: that would delay the other client, which runs in this process.
                complete = text.startswith('{"tokens":[{"id":') and f'],"count":{size},' in text[-200:] and text.count('"piece":"a"') == size
                check(status == 200 and complete, f"pieces: {status} {text[:100]} ... {text[-100:]}")
        quiet(s)
        check(os.environ.get("MAKAR_SANITIZE") or wait_until(lambda: resident(s) < 250), f"memory is returned: {resident(s):.0f} MB")
    with Server(makar, "-t", "1", "--mem-budget", "300") as s, watched(s, "within a budget of 300 MB", 300):
        body = json.dumps({"content": "a" * 7_900_000, "with_pieces": True})
        with concurrent.futures.ThreadPoolExecutor(8) as many:
            codes = {code for code, _, _ in many.map(lambda _: s.request("POST", "/tokenize", body), range(8))}
        check(codes <= {400, 503}, f"what does not fit is refused: {codes}")
        status, _, text = s.request("POST", "/tokenize", body)
        check(status == 400 and "--mem-budget" in text, f"the error names the option: {status} {text[:200]}")
        small = json.dumps({"content": "a" * 500_000, "with_pieces": True})
        codes = {s.request("POST", "/tokenize", small)[0] for _ in range(3)}
        check(codes == {200}, f"what fits is answered: {codes}")
        if not os.environ.get("MAKAR_SANITIZE"):
            check(resident(s) <= 300, f"the budget holds: {resident(s):.0f} MB")


def answers(makar):
    """Answers that are many times as large as their request are refused before memory is allocated."""
    with Server(makar, "-t", "1", "--mem-budget", "200", model=None) as s, watched(s, "answers", 200):
        large = {"prompt": "a" * 1500, "max_tokens": 400, "n": 128, "logprobs": 20, "echo": True}
        status, body = s.post("/v1/completions", large)
        check(status == 400 and "MB" in body["error"]["message"], f"a large answer is refused: {status} {str(body)[:200]}")
        status, body = s.post("/v1/completions", dict(large, n=1, max_tokens=2, logprobs=1))
        check(status == 200, f"a small answer is not refused: {status} {str(body)[:200]}")
        status, body = s.post("/detokenize", {"tokens": [256] * 1_000_000})
        check(status in (200, 400, 503), f"many tokens: {status}")


def rerank(makar):
    """Long texts, and a long query with many documents: linear in the input."""
    with tempfile.TemporaryDirectory() as folder:
        model = golden("bert-sequence-classification", pathlib.Path(folder))
        with Server(makar, "-t", "1", model=model) as s, watched(s, "rerank", 700):
            before = processor_seconds(s.process.pid)
            status, body = s.post("/v1/rerank", {"query": "q " * 1_900_000, "documents": ["d " * 1_900_000]})
            check(status in (200, 400), f"7.6 MB: {status} {str(body)[:200]}")
            status, body = s.post("/v1/rerank", {"query": "q" * 400_000, "documents": ["d"] * 1000})
            check(status in (200, 400), f"a query of 400 kB with 1,000 documents: {status} {str(body)[:200]}")
            used = processor_seconds(s.process.pid) - before
            print(f"rerank: {used:.1f} s of processor time", flush=True)
            check(used < 20 * PATIENCE, f"rerank took {used:.1f} s of processor time")


def preferences(makar):
    """Preference data is many times as large as the conversations: each line repeats all earlier messages."""
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "makar.db"
        with Server(makar, "-t", "1", "--store", str(store)) as s:
            conversation = s.post("/makar/conversations", {"title": "long"})[1]["id"]
            first = s.post(f"/makar/conversations/{conversation}/messages", {"parent": 0, "role": "user", "content": "q"})[1]["id"]
            check(isinstance(first, int), "the id of a new message")
        text, turns = "x" * 20_000, 400 if SLOW else 120
        with sqlite3.connect(store) as db:  # many turns, without one request for each
            parent = first
            for i in range(turns):
                rows = [(conversation, parent, "assistant", text, "{}", rating, 0) for rating in (1, -1)]
                ids = [db.execute("INSERT INTO messages(conversation,parent,role,content,meta,rating,created) VALUES(?,?,?,?,?,?,?)", r).lastrowid for r in rows]
                parent = db.execute("INSERT INTO messages(conversation,parent,role,content,meta,rating,created) VALUES(?,?,?,?,?,?,?)",
                                    (conversation, ids[0], "user", "next", "{}", 0, 0)).lastrowid
        with Server(makar, "-t", "1", "--store", str(store)) as s, watched(s, "preferences", 200):
            link = socket.create_connection((s.host, s.port), timeout=60 * PATIENCE)
            link.sendall(b"GET /makar/preferences.jsonl HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            received, lines = 0, 0
            time.sleep(0.5)
            # This client has not read its answer, so a store that is locked until then would never answer the other.
            check(s.request("GET", "/makar/conversations")[0] == 200, "the store is not locked during an export")
            while piece := link.recv(1 << 20):
                received, lines = received + len(piece), lines + piece.count(b"}]}\n")
            link.close()
            expected = sum(range(1, turns + 1)) * 20_000
            check(received > expected and lines == turns, f"all lines arrive: {received} bytes of {expected}, {lines} lines of {turns}")


def bodies(makar):
    """Unfinished uploads fill the memory for bodies; short requests, and those of other keys, are still read."""
    with Server(makar, "-t", "1", "--mem-budget", "400") as s, watched(s, "bodies", 200):
        links = []
        for _ in range(40):
            link = socket.create_connection((s.host, s.port), timeout=120 * PATIENCE)
            link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 7000000\r\n\r\n" + b" " * 2_000_000)
            links.append(link)
        time.sleep(1.2)  # uploads that take longer than one second may be evicted
        for size in (10, 50_000, 1_000_000):
            status, _, text = s.request("POST", "/tokenize", {"content": "a" * size})
            check(status == 200, f"a body of {size} bytes is read: {status} {text[:200]}")
        status, body = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1})
        check(status == 200, f"a chat is answered: {status} {body}")
        for link in links:
            link.close()
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder) / "keys"
        keys.write_text(KEYS)
        with Server(makar, "-t", "1", "--mem-budget", "400", "--api-key-file", str(keys)) as s:
            links = []
            for _ in range(40):
                link = socket.create_connection((s.host, s.port), timeout=120 * PATIENCE)
                link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alpha-key\r\nContent-Length: 7000000\r\n\r\n" + b" " * 2_000_000)
                links.append(link)
            for _ in range(3):  # at once: uploads of another caller need not be evicted
                status, _, text = s.request("POST", "/tokenize", {"content": "a" * 1_000_000}, as_key("beta"))
                check(status == 200, f"another key's body is read: {status} {text[:200]}")
            for link in links:
                link.close()


def log(makar):
    """The log goes to a pipe that is not read, a closed pipe, a closed descriptor or a full disk: the server answers and stops."""
    def serve(stderr, prepare=None):
        with tempfile.TemporaryDirectory() as folder:
            model = make_model(pathlib.Path(folder) / "tiny")
            process = subprocess.Popen([makar, "serve", "-m", str(model), "--port", "0", "--log", "--store", "none", "--files", "none"],
                                       stdout=subprocess.PIPE, stderr=stderr, text=True, preexec_fn=prepare)
            s = Server.__new__(Server)
            s.process, s.host, s.port = process, "127.0.0.1", int(process.stdout.readline().strip().rsplit(":", 1)[1])
            codes = {s.request("POST", "/tokenize", {"content": "a"}, {"x-request-id": "r" * 60})[0] for _ in range(1500)}
            check(codes == {200}, f"every request is answered: {codes}")
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(120 * PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            process.stdout.close()
            check(code == 0, f"SIGTERM ends it with {code}")

    unread, full = os.pipe()
    serve(full)
    os.close(unread)
    serve(full)
    os.close(full)
    serve(subprocess.DEVNULL, lambda: os.close(2))
    with open("/dev/full", "w") as disk:
        serve(disk)


def moderations(makar):
    """Batches of /v1/moderations, which use the classifier if a line names no model."""
    with tempfile.TemporaryDirectory() as folder:
        model = golden("bert-sequence-classification", pathlib.Path(folder))
        with Server(makar, "-t", "1", model=model) as s:
            lines = "\n".join(line(str(i), {"input": "hello"}, "/v1/moderations") for i in range(3))
            _, file = upload(s, lines)
            _, batch = s.post("/v1/batches", {"input_file_id": file["id"], "endpoint": "/v1/moderations"})
            wait_until(lambda: get(s, "/v1/batches/" + batch["id"])[1]["status"] in ("completed", "failed"))
            batch = get(s, "/v1/batches/" + batch["id"])[1]
            check(batch["status"] == "completed" and batch["request_counts"]["completed"] == 3, f"a batch of moderations: {batch}")
            check("src/" not in json.dumps(batch), f"no source path in an answer: {batch}")


def host(makar):
    """HTTP/1.1 without a Host header, or with two, is refused."""
    with Server(makar, "-t", "1") as s:
        for head, code in ((b"GET /health HTTP/1.1\r\n", b"400"), (b"GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n", b"400"),
                           (b"GET /health HTTP/1.1\r\nHost: localhost\r\nhOST: a.example\r\n", b"400"),
                           (b"GET /health HTTP/1.0\r\n", b"200"), (b"GET /health HTTP/1.1\r\nHost: localhost\r\n", b"200")):
            answer = s.raw(head + b"Connection: close\r\n\r\n")
            check(answer.startswith(b"HTTP/1.1 " + code), f"{head!r}: {answer[:300]!r}")


def truncated(makar):
    """The file of a model is truncated while it is mapped: errors, no crash, and the model is loaded again."""
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(pathlib.Path(folder) / "tiny")
        weights = model / "model.safetensors"
        original = weights.read_bytes()
        ask = {"prompt": "hello", "max_tokens": 8, "temperature": 0}
        with Server(makar, "-t", "2", model=model) as s:
            first = s.post("/v1/completions", ask)[1]["choices"][0]["text"]
            with concurrent.futures.ThreadPoolExecutor(8) as many:
                streams = [many.submit(s.request, "POST", "/v1/completions", dict(ask, prompt="hello" * i, max_tokens=1500, stream=True)) for i in range(4)]
                time.sleep(0.3)
                os.truncate(weights, 4096)
                codes = [s.request("POST", route, body)[0] for i in range(5) for route, body in
                         (("/v1/completions", dict(ask, prompt=chr(65 + i) * 50)), ("/v1/embeddings", {"input": "hello" * i + "x"}))]
                for stream in streams:
                    stream.result()
            check(set(codes) <= {400, 404, 500, 503}, f"requests get errors: {codes}")
            check(s.process.poll() is None and s.request("GET", "/health")[0] == 200, "the server runs")
            replaced = model / "replaced"
            replaced.write_bytes(original)
            os.rename(replaced, weights)
            wait_until(lambda: s.post("/v1/completions", ask)[0] == 200)
            status, body = s.post("/v1/completions", ask)
            check(status == 200 and body["choices"][0]["text"] == first, f"the restored file is served again: {status} {str(body)[:300]}")


def tenants(makar):
    """With several keys, only those marked admin see the sequences and training runs of others."""
    with tempfile.TemporaryDirectory() as folder:
        keys, runs = pathlib.Path(folder) / "keys", pathlib.Path(folder) / "runs"
        keys.write_text(KEYS)
        (runs / "secret").mkdir(parents=True)
        (runs / "secret" / "log.jsonl").write_text('{"step":1,"loss":2.0}\n')
        with Server(makar, "-t", "1", "--api-key-file", str(keys), "--runs", str(runs)) as s:
            with concurrent.futures.ThreadPoolExecutor(1) as one:
                body = {"prompt": "a", "max_tokens": 1500, "logit_bias": {"256": -1000}}
                running = one.submit(s.request, "POST", "/v1/completions", body, as_key("alpha"))
                seen = {"beta": 0, "root": 0}
                while not running.done():
                    for name in seen:
                        engine = json.loads(s.request("GET", "/makar/engine", headers=as_key(name))[2])
                        seen[name] = max(seen[name], len(engine["engine"]["sequences"]))
            check(seen == {"beta": 0, "root": 1}, f"sequences that others see: {seen}")
            for path in ("/makar/runs", "/makar/runs/secret"):
                codes = [s.request("GET", path, headers=as_key(name))[0] for name in ("alpha", "beta", "root")]
                check(codes == [403, 403, 200], f"{path}: {codes}")


def descriptors(makar):
    """More connections than the process may have descriptors: it does not end, does not spin, serves the connections that it
    has, and accepts again when some are closed."""
    with Server(makar, "-t", "1", "--client-time", str(600 * PATIENCE)) as s:
        for _ in range(2):
            check(s.request("GET", "/health")[0] == 200, "the server answers before the limit is set")
            free = 8
            limit = s.descriptors() + free
            old_limits = resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, (limit, old_limits[1]))
            links = [socket.create_connection((s.host, s.port), timeout=120 * PATIENCE) for _ in range(40)]
            check(wait_until(lambda: s.descriptors() >= limit), f"all descriptors are in use: {s.descriptors()} of {limit}")
            before = processor_seconds(s.process.pid)
            time.sleep(2)
            used = processor_seconds(s.process.pid) - before
            check(used < 0.5 * PATIENCE, f"{used:.2f} s of processor time in 2 s without a descriptor")
            links[0].sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            check(links[0].recv(1000).startswith(b"HTTP/1.1 200"), "a connection that was accepted is served")
            check(s.process.poll() is None, "the server runs")
            for link in links:
                link.close()
            check(s.request("GET", "/health")[0] == 200, "connections are accepted again")
            resource.prlimit(s.process.pid, resource.RLIMIT_NOFILE, old_limits)
            check(wait_until(lambda: s.descriptors() <= limit - free + 1), f"the closed connections are released: {s.descriptors()}")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")


CASES = {f.__name__: f for f in (many_keys, token_pieces, answers, rerank, preferences, bodies, log, moderations, host,
                                 truncated, tenants, descriptors)}


if __name__ == "__main__":
    sys.exit(run_cases(CASES))
