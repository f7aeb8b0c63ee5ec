"""Attacks on a server, for abuse.py, overload.py and soak.py. Each reports unexpected answers with check()."""
import contextlib
import http.client
import json
import multiprocessing
import os
import random
import select
import socket
import threading
import time

from serving import PATIENCE, check, failures

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "hello"}]
NO_END = {"logit_bias": {"256": -1000}}
# By route: a valid body.
VALID_BODIES = {CHAT: {"messages": USER, "max_tokens": 1}, TEXT: {"prompt": "a", "max_tokens": 1},
        "/v1/responses": {"input": "a", "max_output_tokens": 1}, "/v1/embeddings": {"input": "a"},
        "/v1/messages": {"messages": USER, "max_tokens": 1}, "/v1/messages/count_tokens": {"messages": USER},
        "/v1/rerank": {"query": "a", "documents": ["b"]}, "/tokenize": {"content": "a"}, "/detokenize": {"tokens": [1]},
        "/score": {"prompt": "a", "completion": "b"}, "/api/chat": {"messages": USER, "stream": False, "options": {"num_predict": 1}},
        "/api/generate": {"prompt": "a", "stream": False, "options": {"num_predict": 1}}, "/api/embed": {"input": "a"}}
NUMBER_FIELDS = ["temperature", "top_p", "top_k", "min_p", "typical_p", "max_tokens", "max_completion_tokens", "max_output_tokens", "n",
           "best_of", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "logprobs", "top_logprobs", "top",
           "top_n", "dimensions", "mirostat", "mirostat_tau", "dry_base", "dry_multiplier", "xtc_threshold", "xtc_probability",
           "no_repeat_ngram_size", "num_predict", "num_ctx", "beams", "penalty_alpha", "stop_below", "max_time"]
OTHER_FIELDS = ["model", "messages", "prompt", "input", "tools", "tool_choice", "response_format", "stream", "stream_options", "stop",
                "suffix", "echo", "logit_bias", "grammar", "guided_regex", "guided_json", "options", "format", "system", "query",
                "documents", "content", "tokens", "completion", "encoding_format", "instructions", "chat_template_kwargs",
                "use_beam_search", "metadata", "user"]
EXTREME_NUMBERS = ["0", "-0", "-1", "1e308", "-1e308", "1e-320", "1" + "0" * 400, "-" + "9" * 300, "9223372036854775807",
                   "9223372036854775808", "-9223372036854775809", "18446744073709551616", "0.1", "2147483648", "1e400", "NaN",
                   "Infinity", "1.0000000000000000000001"]
WRONG_TYPES = ["null", "true", '""', '"x"', "[]", "{}", "[[]]", "[null]", '[{"a":[]}]', '"' + "9" * 1000 + '"', "[" * 70 + "]" * 70,
               '{"a":' * 30 + "1" + "}" * 30]


def body_with(route, key, raw):
    """The valid body of a route with one key set to raw JSON; for Ollama's routes, inside its options."""
    good = dict(VALID_BODIES[route])
    options = dict(good.get("options", {}), **{key: "@"}) if "options" in good and key in NUMBER_FIELDS else None
    text = json.dumps(dict(good, options=options) if options else dict(good, **{key: "@"}))
    return text.replace('"@"', raw)


def bad_body(rng):
    """-> (route, bytes): JSON with an unusual value, or invalid JSON."""
    route = rng.choice(list(VALID_BODIES))
    kind = rng.randrange(10)
    if kind < 4:
        return route, body_with(route, rng.choice(NUMBER_FIELDS), rng.choice(EXTREME_NUMBERS)).encode()
    if kind < 7:
        return route, body_with(route, rng.choice(NUMBER_FIELDS + OTHER_FIELDS), rng.choice(WRONG_TYPES)).encode()
    good = json.dumps(VALID_BODIES[route]).encode()
    if kind == 7:
        depth = rng.choice((64, 100, 10000))
        return route, rng.choice((b"[" * depth, b'{"a":' * depth, b"{" * depth, good[:-1] + b',"x":' + b"[" * depth + b"]" * depth + b"}"))
    at = rng.randrange(len(good))
    if kind == 8:
        return route, good[:at] + rng.choice((b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x00", b"\xf4\x90\x80\x80", b"\\ud800")) + good[at:]
    return route, rng.choice((good[:at], good[at:], good + good, b"", good[:at] + bytes([rng.randrange(256)]) + good[at + 1:]))


def bad_framing(rng):
    """-> (bytes, allowed status codes; None: closed without an answer)"""
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    body = b'{"prompt":"a","max_tokens":1}'
    content_length, chunked = b"Content-Length: %d\r\n" % len(body), b"Transfer-Encoding: chunked\r\n"
    kind = rng.randrange(9)
    if kind == 0:
        order = rng.choice((content_length + chunked, chunked + content_length, b"Content-Length: 4\r\n" + content_length,
                            content_length + b"Content-Length: +1\r\n"))
        return head + order + b"\r\n" + body, {400}
    if kind == 1:
        size = rng.choice((b"-1", b"0x1d", b"1e3", b"99999999999999999999", b"", b"29,30", b"29 29", b"\xd9\xa2"))
        return head + b"Content-Length: " + size + b"\r\n\r\n" + body, {400}
    if kind == 2:
        chunk = rng.choice((b"zz\r\n", b"-1\r\nabc\r\n", b"ffffffffffffffffff\r\n", b"1d;" + b"x" * 40000 + b"\r\n", b"1d\n" + body,
                            b"3\r\nabcdef\r\n0\r\n\r\n", b"1 d\r\n" + body + b"\r\n0\r\n\r\n"))
        return head + chunked + b"\r\n" + chunk, {400, None}
    if kind == 3:
        return head + rng.choice((b"X: " + b"a" * 40000, b"X: y\r\n" * 7000, b"a" * 40000 + b": b")) + b"\r\n\r\n", {431, 400}
    if kind == 4:
        line = rng.choice((b"Bad Header: x", b": x", b"X\x00: y", b"X : y", b"\x80: y", b"X: a\x01b", b"no colon"))
        return head + line + b"\r\n" + content_length + b"\r\n" + body, {400}
    if kind == 5:
        line = rng.choice((b"GET", b"GET /", b"GET / HTTP/9.9", b"GET / HTTP/1.1 x", b" / HTTP/1.1", b"G\x00T / HTTP/1.1",
                           b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0"))
        return line + b"\r\n\r\n", {400}
    if kind == 6:
        return head + b"Content-Length: %d\r\n\r\n" % rng.choice((8 * 2**20 + 1, 10**12)), {413}
    if kind == 7:
        method = rng.choice((b"PUT", b"TRACE", b"CONNECT", b"OPTIONS", b"BREW", b"PATCH"))
        return method + b" /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", {405, 400}
    good = bytearray(head + content_length + b"\r\n" + body)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(good))
        rng.choice((lambda: good.__setitem__(at, rng.randrange(256)), lambda: good.insert(at, rng.randrange(256)), lambda: good.pop(at)))()
    return bytes(good), {200, 400, 403, 404, 405, 413, None}


def code_of(answer):
    return int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None


def malformed(s, count, seed, pause=0.0):
    """Sends `count` broken requests; returns the number of answers by status code."""
    rng, counts = random.Random(seed), {}
    link = http.client.HTTPConnection(s.host, s.port, timeout=300 * PATIENCE)
    for i in range(count):
        time.sleep(pause)
        if i % 3 == 0:
            data, codes = bad_framing(rng)
            code = code_of(s.raw(data, timeout=300 * PATIENCE, half_close=True))
            check(code in codes | {429}, f"framing {data[:200]!r} gave {code}, not {codes}")
        else:
            route, body = bad_body(rng)
            try:
                link.request("POST", route, body)
                answer = link.getresponse()
            except (http.client.HTTPException, ConnectionError) as e:
                check(False, f"{route} {body[:200]!r}: {e!r}")
                link.close()
                continue
            text, code = answer.read(), answer.status
            check(code in (200, 400, 404, 429), f"{route} {body[:200]!r}: {code} {text[:200]!r}")
            if code != 200 and not route.startswith("/api"):
                check("message" in json.loads(text)["error"], f"error form: {text[:200]!r}")
        counts[code] = counts.get(code, 0) + 1
    link.close()
    return counts


def slow(s, seconds, headers=540, bodies=40):
    """Clients that send one byte at a time: headers that do not end, bodies of 8 MiB that do not arrive."""
    links, end = [], time.monotonic() + seconds
    def open_one(i):
        link = socket.create_connection((s.host, s.port), timeout=5)
        link.setblocking(False)
        start = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
        link.send(start if i < headers else start + b"Content-Length: 8000000\r\n\r\n{")
        return link
    dropped = 0
    while time.monotonic() < end:
        while len(links) < headers + bodies:
            with contextlib.suppress(OSError):
                links.append(open_one(len(links)))
        time.sleep(0.2)
        for link in list(links):
            try:
                link.send(b"X")
                if select.select([link], [], [], 0)[0] and not link.recv(1000):
                    raise ConnectionError
            except OSError:
                links.remove(link)
                link.close()
                dropped += 1
    for link in links:
        link.close()
    return dropped


def unread(s, count):
    """Streams that are never read; returns their connections, still open."""
    body = json.dumps({"prompt": "a", "max_tokens": 1500, "stream": True, "logprobs": 5, **NO_END}).encode()
    links = []
    for _ in range(count):
        link = socket.socket()
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        link.connect((s.host, s.port))
        link.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        links.append(link)
    return links


def disconnects(s, count, seed, pause=0.0):
    """Clients that disconnect: during their headers, their body, in the queue, during prefill, during the answer."""
    rng = random.Random(seed)
    for i in range(count):
        time.sleep(pause)
        stage = i % 5
        prompt = "x" * (1900 if stage == 3 else 50)
        body = json.dumps({"prompt": prompt, "max_tokens": 100 if stage == 3 else 1500, "stream": stage != 2, "n": 1 + i % 2, "seed": i, **NO_END}).encode()
        head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        data = {0: head[:rng.randrange(len(head))], 1: head + body[:rng.randrange(len(body))]}.get(stage, head + body)
        with socket.create_connection((s.host, s.port), timeout=300 * PATIENCE) as link:
            link.sendall(data)
            if stage == 4:
                with contextlib.suppress(ConnectionError):
                    link.recv(rng.choice((1, 100, 5000)))
            elif stage == 3:
                time.sleep(rng.random() * 0.01)
            if rng.random() < 0.5:
                link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


@contextlib.contextmanager
def in_background(attack, *args):
    """Runs an attack in another process at a lower priority; ends it with the block."""
    def run():
        os.nice(10)
        failures.clear()
        attack(*args)
        os._exit(1 if failures else 0)
    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    try:
        yield process
    finally:
        process.terminate() if process.is_alive() else None
        process.join()


def repeat(attack, seconds, seed):
    """Repeats an attack for `seconds`, each time with the next seed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        attack(seed)
        seed += 1


def good_rate(s, seconds, clients=2):
    """Requests per second of well-behaved clients, each of which sends one after the other; all must be answered."""
    done, start = [], time.monotonic()
    end = start + seconds
    def client():
        count = 0
        while time.monotonic() < end:
            status, _, text = s.request("POST", TEXT, {"prompt": "good", "max_tokens": 24, "temperature": 0, **NO_END})
            check(status == 200, f"a good client got {status}: {text[:200]}")
            count += 1
        done.append(count)
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(done) / (time.monotonic() - start)
