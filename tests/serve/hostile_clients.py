#!/usr/bin/env python3
"""Malicious and faulty clients: broken framing, every field with every wrong type, deep and huge bodies, clients that
disconnect, too many clients, wrong keys. The server gives the expected answer, leaks nothing and continues.

usage: hostile_clients.py MAKAR [ROUNDS]
"""
import concurrent.futures
import json
import signal
import socket
import subprocess
import sys

from serving import PATIENCE, Server, check, failures, metric, quiet, wait_until

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = [{"role": "user", "content": "hello"}]
HUGE = 10**400


def framing():
    """Yields (bytes, allowed status codes); None: closed without an answer."""
    good = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
    body = b'{"prompt":"a","max_tokens":1}'
    yield b"\r\n\r\n", {400, None}
    yield b"GET\r\n\r\n", {400}
    yield b"GET / HTTP/9.9\r\n\r\n", {400}
    yield b"GET /health HTTP/1.1\r\nBad Header: x\r\n\r\n", {400}
    yield b"GET /health HTTP/1.1\r\n: x\r\n\r\n", {400}
    yield b"\x00\x01\x02\x03\r\n\r\n", {400}
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200 + b"\r\n\r\n", {400}
    yield b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\n\r\n", {431, 400}
    yield b"GET /health HTTP/1.1\r\nX: " + b"a" * 40000 + b"\r\n\r\n", {431}
    yield b"GET /health HTTP/1.1\r\n" + b"X: y\r\n" * 8000 + b"\r\n", {431}
    yield good + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}
    yield good + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", {400}
    yield good + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", {400}
    yield good + b"Content-Length: -5\r\n\r\n", {400}
    yield good + b"Content-Length: 0x10\r\n\r\n", {400}
    yield good + b"Content-Length: 99999999999999999999\r\n\r\n", {400}
    yield good + b"Content-Length: 9000000\r\n\r\n", {413}
    yield good + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n", {400}
    yield good + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nabc\r\n0\r\n\r\n", {400}
    yield good + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc\r\n0\r\n\r\n", {400}
    yield good + b"Transfer-Encoding: chunked\r\n\r\n900000\r\n" + b"a" * 0x900000 + b"\r\n0\r\n\r\n", {413}
    yield good + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n0\r\n\r\n", {400}
    yield good + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body, {200}
    chunked = b"".join(b"1\r\n%c\r\n" % c for c in body)
    yield good + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked + b"0\r\n\r\n", {200}
    yield b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body, {200}
    yield good + b"Connection: close\r\nContent-Length: 0\r\n\r\n", {400}
    yield good + b"Connection: close\r\n\r\n", {400}
    yield b"POST /v1/completions HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", {403}
    yield good + b"Origin: http://evil.example\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", {403}
    for path in (b"/../../etc/passwd", b"/v1/models/../../x", b"/v1/models/%2e%2e%2f", b"//", b"*", b"http://x/health"):
        yield b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", {400, 404}


def bad_bodies():
    """Yields (route, body, field): most are refused with 400 and a JSON error, which names the field if it is not None."""
    wrong = [None, True, "x", -1, 0.5, HUGE, [], {}, [[]], 1e308, -1e308, "9" * 100]
    base = {CHAT: {"messages": USER, "max_tokens": 1}, TEXT: {"prompt": "a", "max_tokens": 1}}
    fields = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "max_completion_tokens", "n", "best_of",
              "presence_penalty", "frequency_penalty", "repetition_penalty", "logit_bias", "stop", "stream", "seed",
              "stream_options", "response_format", "use_beam_search", "logprobs", "model", "guided_regex", "grammar",
              "typical_p", "mirostat", "dry_base", "xtc_threshold", "no_repeat_ngram_size"]
    route_fields = {CHAT: ["messages", "tools", "tool_choice", "top_logprobs", "chat_template_kwargs", "continue_final_message",
                           "parallel_tool_calls"], TEXT: ["prompt", "echo", "suffix"]}
    for route, good in base.items():
        for field in fields + route_fields[route]:
            for value in wrong:
                yield route, json.dumps(dict(good, **{field: value})), field
        for text in ("", "{", "[]", "null", "1", '"x"', "{]", '{"a":}', '{"messages":[}', "\x00", "{" * 100000,
                     "[" * 100000, '{"a":' * 60000, '{"prompt":"a","prompt":"b"}', '{"prompt":"\ud800"}'):
            yield route, text.encode("utf-8", "surrogatepass"), None
        yield route, b'{"prompt":"\xff\xfe","messages":[{"role":"user","content":"\xff"}]}', None
    for messages in ([{}], [{"role": "user"}], [{"role": "god", "content": "x"}], [{"role": 1, "content": "x"}], [1],
                     [{"role": "user", "content": 1}], [{"role": "user", "content": [{"type": "image_url"}]}],
                     [{"role": "user", "content": [{"type": "text"}]}], [{"role": "assistant", "tool_calls": 1}],
                     [{"role": "assistant", "tool_calls": [{}]}], [{"role": "user", "content": "x" * 5000}]):
        yield CHAT, json.dumps({"messages": messages}), "messages"
    for n in (129, 1024, 10**18):
        yield TEXT, json.dumps({"prompt": "a", "n": n}), "n"
    yield TEXT, json.dumps({"prompt": ["a"] * 129}), "prompt"
    yield TEXT, json.dumps({"prompt": [999999]}), "prompt"
    yield TEXT, json.dumps({"prompt": [[-1]]}), "prompt"
    yield TEXT, json.dumps({"prompt": "x" * 3000}), "prompt"


def check_framing(s):
    for i, (data, codes) in enumerate(framing()):
        answer = s.raw(data)
        code = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else None
        check(code in codes, f"framing {i}: {data[:60]!r} gave {code}, not {codes}: {answer[-200:]!r}")


def check_bodies(s):
    counts = {}
    for route, body, field in bad_bodies():
        status, _, text = s.request("POST", route, body)
        counts[status] = counts.get(status, 0) + 1
        check(status in (200, 400, 404), f"{route} {body[:80]!r}: {status} {text[:200]}")
        if status != 200:
            error = json.loads(text).get("error", {})
            check(set(error) == {"message", "type", "param", "code"}, f"error form: {text[:200]}")
            if field and status == 400:
                param = str(error["param"])
                check(field in param or param in ("body", "n", "options", "stream_options", "best_of", "logprobs",
                                                  "max_tokens"), f"{body[:90]!r}: {text[:200]}")
    check(counts.get(400, 0) > 300, f"most bodies are refused: {counts}")


def check_disconnects(s, rounds):
    """Clients that disconnect at every stage: everything they used is released."""
    body = json.dumps({"prompt": "x" * 300, "max_tokens": 1500, "stream": True, "ignore": 1, "logit_bias": {"256": -1000}})
    request = ("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)).encode()
    before = s.descriptors()
    for i in range(rounds):
        link = socket.create_connection((s.host, s.port), timeout=120 * PATIENCE)
        cut = len(request) * (i % 12) // 8
        link.sendall(request[:cut])
        if cut >= len(request) and i % 3:
            link.recv(10 if i % 3 == 1 else 4000)
        if i % 2:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        link.close()
    check(quiet(s), "requests of disconnected clients end")
    check(wait_until(lambda: s.descriptors() <= before + 3), f"descriptors: {before} became {s.descriptors()}")
    pages, prefix_pages = metric(s, "kv_cache_pages"), metric(s, "prefix_cache_pages")
    check(pages <= prefix_pages, f"cache pages are released: {pages} in use, {prefix_pages} of them for prefixes")
    check(s.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200, "other clients are answered")


def check_overload(makar):
    """More requests than the server admits: 429 with Retry-After; the admitted ones are answered."""
    with Server(makar, "-t", "1", "-np", "2", "--queue", "6") as s:
        ask = {"prompt": "a" * 50, "max_tokens": 400, "temperature": 0, "logit_bias": {"256": -1000}}
        def send(_):
            status, headers, text = s.request("POST", TEXT, ask)
            return status, headers.get("retry-after"), text
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            answers = list(pool.map(send, range(80)))
        codes = {code for code, _, _ in answers}
        check(codes == {200, 429}, f"an overloaded server answers {codes}")
        check(all(retry for code, retry, _ in answers if code == 429), "refusals have Retry-After")
        check(len({json.loads(t)["choices"][0]["text"] for code, _, t in answers if code == 200}) == 1, "all answers are equal")


def check_drain(makar):
    """SIGTERM during streams: they are finished, new requests are refused, the exit code is 0."""
    with Server(makar, "-t", "1", "--drain-time", "600") as s:
        ask = {"prompt": "a", "max_tokens": 300, "temperature": 0, "logit_bias": {"256": -1000}}
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            streams = [pool.submit(s.stream, TEXT, ask) for _ in range(8)]
            wait_until(lambda: metric(s, "num_requests_in_flight") == 8)
            s.process.send_signal(signal.SIGTERM)
            ends = [g.result()[1][-1] for g in streams]
        check(ends == ["[DONE]"] * 8, "streams are finished")
        check(s.process.wait(120 * PATIENCE) == 0, "the server exits with 0")


def check_keys(makar):
    with Server(makar, "-t", "1", "--api-key", "s3cret-key") as s:
        for headers, status in (({}, 401), ({"Authorization": "Bearer wrong"}, 401), ({"x-api-key": "s3cret-ke"}, 401),
                                ({"Authorization": "s3cret-key"}, 401), ({"Authorization": "Bearer s3cret-key"}, 200),
                                ({"x-api-key": "s3cret-key"}, 200)):
            check(s.request("GET", "/v1/models", headers=headers)[0] == status, f"key {headers}")
        check(s.request("GET", "/health")[0] == 200 and s.request("GET", "/metrics")[0] == 401, "/health needs no key, /metrics does")
        check(s.raw(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n").startswith(
            b"HTTP/1.1 401"), "a request without a key is refused before its body is read")
        s.stop()
        s.log.seek(0)
        check("s3cret" not in s.log.read(), "the key is not logged")


def check_start(makar, folder):
    for flags, code, word in ((["--host", "0.0.0.0"], 2, "--api-key"), (["--port", "70000"], 2, "--port"),
                              (["--host", "no.such"], 2, "--host"), (["--timeout", "0"], 2, "--timeout")):
        done = subprocess.run([makar, "serve", "-m", folder, *flags], capture_output=True, text=True, timeout=120 * PATIENCE)
        check(done.returncode == code and word in done.stderr, f"serve {flags}: {done.returncode} {done.stderr}")
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", 0))
        occupied.listen()
        port = str(occupied.getsockname()[1])
        done = subprocess.run([makar, "serve", "-m", folder, "--port", port], capture_output=True, text=True, timeout=120 * PATIENCE)
        check(done.returncode == 1 and "cannot listen" in done.stderr, "a port that is taken")


def main():
    makar = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 60
    with Server(makar, "-t", "1") as s:
        check_framing(s)
        check_bodies(s)
        check_disconnects(s, rounds)
        check_start(makar, str(s.model))
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    check_overload(makar)
    check_drain(makar)
    check_keys(makar)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
