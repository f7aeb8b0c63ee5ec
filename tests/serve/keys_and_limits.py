#!/usr/bin/env python3
"""Several keys: their rate limits, their shares of the queue, their caches; and pages of other origins.

usage: keys_and_limits.py MAKAR
"""
import concurrent.futures
import json
import pathlib
import re
import select
import socket
import subprocess
import sys
import tempfile

from serving import PATIENCE, Server, check, failures, make_model, wait_until

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
ASK = {"prompt": "abcd", "max_tokens": 4, "temperature": 0, "logit_bias": {"256": -1000}}


def bearer(key):
    return {"Authorization": "Bearer " + key}


def several_keys(makar, folder):
    key_file = folder / "keys"
    key_file.write_text("# keys\nsecret-of-anna anna\n\nsecret-of-ben\n")
    with Server(makar, "-t", "1", "--api-key", "secret-one,secret-two", "--api-key", "secret-three", "--api-key-file", str(key_file)) as s:
        for key in ("secret-one", "secret-two", "secret-three", "secret-of-anna", "secret-of-ben"):
            check(s.request("POST", TEXT, ASK, bearer(key))[0] == 200, f"{key} is known")
        for key in ("secret-one,secret-two", "secret-on", "secret-onee", "anna", "#", "", "secret-of-anna anna"):
            check(s.request("GET", "/v1/models", headers=bearer(key))[0] == 401, f"{key} is unknown")
        s.stop()
        s.log.seek(0)
        text = s.log.read()
        check("secret" not in text, "no key is logged")
        callers = [line["caller"] for line in s.lines() if line["status"] == 200]
        check("anna" in callers and sum(c.startswith("key-") and len(c) == 12 for c in callers) == 4, f"callers: {callers}")
    for content, word in (("a b c\n", ":1"), ("", "no key"), ("x\nx\n", "already"), ("x" * 2000 + "\n", "1024"), ("\xe4\n", ":1")):
        key_file.write_text(content)
        done = subprocess.run([makar, "serve", "-m", str(folder), "--api-key-file", str(key_file)],
                              capture_output=True, text=True, timeout=300 * PATIENCE)
        check(done.returncode == 2 and word in done.stderr, f"key file {content[:10]!r}: {done.returncode} {done.stderr}")


def number(s, key, name):
    text = s.request("GET", "/metrics", headers=bearer(key))[2]
    return int(re.search(rf"^makar:{name} (\d+)$", text, re.M)[1])


def queue_share(makar, folder):
    """One key fills its part of the queue: the other key is admitted, and is next in the engine."""
    model = make_model(folder / "long", positions=100_000)  # answers that do not end during the test
    body = json.dumps(dict(ASK, max_tokens=90_000, stream=True)).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Length: %d\r\n\r\n" % len(body)
    with Server(makar, "-t", "1", "-np", "2", "--queue", "6", "--api-key", "one,two", model=model) as s, concurrent.futures.ThreadPoolExecutor(1) as other:
        links = [socket.create_connection((s.host, s.port), timeout=300 * PATIENCE) for _ in range(8)]
        for link in links:
            link.sendall(head + body)
        check(wait_until(lambda: number(s, "one", "num_requests_in_flight") == 8), "one key occupies all of its places")
        status, headers, text = s.request("POST", TEXT, ASK, bearer("one"))
        check(status == 429 and json.loads(text)["error"]["code"] == "queue_full" and "8 of them yours" in text and "retry-after" in headers,
              f"a key without free places is refused: {status} {text}")
        answer = other.submit(s.request, "POST", TEXT, ASK, bearer("two"))
        check(wait_until(lambda: number(s, "one", "num_requests_in_flight") == 9), "the other key is admitted")
        def streaming():  # more than the events that begin a stream
            return next((link for link in select.select(links, [], [], 1)[0] if link.recv(100_000).count(b"data: ") > 5), None)
        wait_until(streaming).close()  # six requests of the first key wait for this slot
        check(wait_until(answer.done) and answer.result()[0] == 200, "the other key gets the next free slot")
        for link in links:
            link.close()


def separate_caches(makar):
    with Server(makar, "-t", "1", "--api-key", "one,two") as s:

        def reused(key):
            return number(s, key, "prefix_cache_tokens_total")

        ask = dict(ASK, prompt="a prompt of some length " * 20)
        counts, reported = [], []
        for key in ("one", "one", "two", "two"):
            status, _, text = s.request("POST", TEXT, ask, bearer(key))
            check(status == 200, f"a request is answered: {status}")
            counts.append(reused(key)), reported.append(json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"])
        check(counts[0] == 0 and counts[1] > 0 and counts[2] == counts[1] and counts[3] > counts[2],
              f"a key reuses only its own prompts: {counts}")
        check(reported == [0, counts[1], 0, counts[1]], f"the usage reports the reused tokens: {reported}")
        echo = json.loads(s.request("POST", TEXT, dict(ask, echo=True, logprobs=0), bearer("one"))[2])["usage"]
        check(echo["prompt_tokens_details"]["cached_tokens"] == 0, f"a prompt that is scored is not reused: {echo}")


def request_limit(makar):
    with Server(makar, "-t", "1", "--api-key", "one,two", "--rate-limit", "6") as s:
        remaining = []
        for _ in range(6):
            status, headers, _ = s.request("POST", TEXT, ASK, bearer("one"))
            check(status == 200 and headers["x-ratelimit-limit-requests"] == "6", f"within the limit: {status}")
            remaining.append(int(headers["x-ratelimit-remaining-requests"]))
        check(remaining == [5, 4, 3, 2, 1, 0], f"remaining requests: {remaining}")
        status, headers, text = s.request("POST", TEXT, ASK, bearer("one"))
        check(status == 429 and json.loads(text)["error"]["code"] == "rate_limit_exceeded", f"beyond the limit: {status} {text}")
        check(1 <= int(headers["retry-after"]) <= 10 and headers["x-ratelimit-reset-requests"].endswith("s"), f"{headers}")
        big = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer one\r\nContent-Length: 8000000\r\n\r\n"
        check(s.raw(big).startswith(b"HTTP/1.1 429"), "a request beyond the limit is refused before its body is read")
        check(s.request("POST", "/v1/messages", {}, bearer("one"))[0] == 429, "the limit applies to every route")
        check(s.request("GET", "/v1/models", headers=bearer("one"))[0] == 200, "a request that needs no model is not counted")
        check(s.request("POST", TEXT, ASK, bearer("two"))[0] == 200, "another key has its own limit")
        check(s.request("POST", TEXT, ASK, bearer("no"))[0] == 401, "a request with an unknown key is refused")


def token_limit(makar):
    with Server(makar, "-t", "1", "--token-rate-limit", "20") as s:
        status, headers, _ = s.request("POST", TEXT, ASK)
        check(status == 200 and headers["x-ratelimit-limit-tokens"] == "20", f"{status} {headers}")
        codes = [s.request("POST", TEXT, ASK)[0] for _ in range(4)]  # 8 tokens each
        check(codes[:1] == [200] and codes[-1] == 429, f"tokens are counted: {codes}")
        status, headers, text = s.request("POST", CHAT, {"messages": [{"role": "user", "content": "a"}]})
        check(status == 429 and json.loads(text)["error"]["type"] == "tokens" and headers["x-ratelimit-remaining-tokens"] == "0", text)
        check(int(headers["retry-after"]) >= 1, "a refusal has Retry-After")


def origins(makar):
    page = {"Origin": "https://page.example"}
    ask = dict(page, **{"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"})
    with Server(makar, "-t", "1", "--api-key", "k", "--cors", "https://page.example") as s:
        status, headers, _ = s.request("OPTIONS", CHAT, headers=ask)
        check(status == 200 and headers["access-control-allow-origin"] == "https://page.example", f"{status} {headers}")
        check("authorization" in headers["access-control-allow-headers"] and "POST" in headers["access-control-allow-methods"], f"{headers}")
        status, headers, _ = s.request("POST", TEXT, ASK, dict(page, **bearer("k")))
        check(status == 200 and headers["access-control-allow-origin"] == "https://page.example", "an answer has the CORS header")
        status, headers, _ = s.request("POST", TEXT, ASK, page)
        check(status == 401 and "access-control-allow-origin" in headers, "an error has the CORS header too")
        other = dict(ask, Origin="https://other.example")
        status, headers, _ = s.request("OPTIONS", CHAT, headers=other)
        check(status == 401 and "access-control-allow-origin" not in headers, "another origin gets no access")
    with Server(makar, "-t", "1") as s:
        status, headers, _ = s.request("OPTIONS", CHAT, headers=ask)
        check(status == 403 and "access-control-allow-origin" not in headers, f"off by default: {status}")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as name:
        several_keys(makar, pathlib.Path(name))
        queue_share(makar, pathlib.Path(name))
    separate_caches(makar)
    request_limit(makar)
    token_limit(makar)
    origins(makar)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
