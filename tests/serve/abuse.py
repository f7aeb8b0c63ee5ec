#!/usr/bin/env python3
"""A server under attack: it answers exactly, gives everything back, and good clients are served meanwhile.

usage: abuse.py MAKAR [CASE...]      MAKAR_SLOW=1: the full sizes (10,000 broken requests, 1,000 who leave)
"""
import concurrent.futures
import json
import os
import re
import signal
import statistics
import sys
import time

import attacks
from attacks import CHAT, NO_END, TEXT, USER
from serving import PATIENCE, SPECIAL, Server, check, failures, metric

SLOW = bool(os.environ.get("MAKAR_SLOW"))
if "address" in os.environ.get("MAKAR_SANITIZE", ""):  # which keeps 256 MB of what was given back: here memory is measured
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
KEPT = 0.8 if SLOW else 0.7  # of their rate; short windows say less


def resident(s):
    with open(f"/proc/{s.process.pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read())[1]) / 1024


class Watched:
    """What a server held before an attack; afterwards it holds no more."""

    def __init__(self, s, what, growth=64):
        self.s, self.what, self.growth = s, what, growth

    def __enter__(self):
        attacks.good_rate(self.s, 0.5)
        self.files, self.memory = self.s.descriptors(), resident(self.s)
        return self

    def __exit__(self, *_):
        s, end = self.s, time.time() + 15 * PATIENCE
        check(s.process.poll() is None, f"{self.what}: the server is there")
        if s.process.poll() is not None:
            return
        while time.time() < end and (metric(s, "num_requests_inside") or s.descriptors() > self.files + 2):
            time.sleep(0.05)
        check(metric(s, "num_requests_inside") == 0, f"{self.what}: nobody is inside any more")
        check(s.descriptors() <= self.files + 2, f"{self.what}: descriptors {self.files} became {s.descriptors()}")
        check(metric(s, "kv_cache_pages") <= metric(s, "prefix_cache_pages"), f"{self.what}: pages went back")
        check(resident(s) <= self.memory + self.growth, f"{self.what}: {self.memory:.0f} MB became {resident(s):.0f}")
        check(s.request("GET", "/health")[0] == 200, f"{self.what}: health")
        check(s.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200, f"{self.what}: others are served")


def beside(s, what, attack):
    """What good clients keep of their rate while `attack(seed)` goes on. Windows with and without it take turns, and each
    is held against the two beside it: other work on the machine slows all three. It may come and go just as the windows
    do, so there are three trials; an attack that costs too much spoils all of them."""
    windows, seconds = (5, 2.0) if SLOW else (3, 0.8)
    for trial in range(3):
        shares, rates = [], [attacks.good_rate(s, seconds)]
        for i in range(windows):
            with attacks.elsewhere(attacks.again, attack, seconds + 0.5, 100 * (windows * trial + i)) as process:
                time.sleep(0.5)
                during = attacks.good_rate(s, seconds)
                process.join(60 * PATIENCE)
                check(process.exitcode == 0, f"{what}: the attack ended with {process.exitcode}")
            rates += [during, attacks.good_rate(s, seconds)]
            shares.append(2 * during / (rates[-3] + rates[-1]))
        kept = statistics.median(shares)
        print(f"{what}: good clients kept {kept * 100:.0f} % of their rate ({', '.join(f'{r:.0f}' for r in rates)} a second, "
              "with the attack in every second window)", flush=True)
        if kept >= KEPT:
            return
    check(False, f"{what}: good clients kept {kept:.2f} of their rate, less than {KEPT}")


def malformed(makar):
    with Server(makar, "-t", "1") as s, Watched(s, "malformed"):
        count = 10000 if SLOW else 600
        counts = attacks.malformed(s, count, 1)
        print(f"malformed: {count} requests, by code {counts}", flush=True)
        check(500 not in counts and counts.get(400, 0) > count / 3, f"{counts}")
        beside(s, "malformed", lambda seed: attacks.malformed(s, 30, seed, 0.005 * PATIENCE))


def slow(makar):
    """More connections than there are places, for less than the time they may take."""
    with Server(makar, "-t", "1", "--client-time", "4") as s, Watched(s, "slow"):
        beside(s, "slow", lambda seed: attacks.slow(s, 1))


def deaf(makar):
    with Server(makar, "-t", "1", "--client-time", "2") as s, Watched(s, "deaf", 128) as before:
        links = attacks.deaf(s, 32 if SLOW else 8)
        end = time.time() + 180 * PATIENCE
        while time.time() < end and (metric(s, "num_requests_inside") or s.descriptors() > before.files + 2):
            time.sleep(0.1)
        check(metric(s, "num_requests_inside") == 0, "who never reads is let go")
        for link in links:
            link.close()


def leaving(makar):
    with Server(makar, "-t", "1", "-np", "4", "--queue", "200") as s, Watched(s, "leaving"):
        attacks.leaving(s, 1000 if SLOW else 100, 1)
        start = time.time()
        while metric(s, "num_requests_inside") and time.time() < start + 10 * PATIENCE:
            time.sleep(0.01)
        print(f"leaving: the last one's place was free after {time.time() - start:.2f} s", flush=True)
        check(time.time() - start < 5 * PATIENCE, "who left is out at once")
        beside(s, "leaving", lambda seed: attacks.leaving(s, 10, seed, 0.02 * PATIENCE))


def crowd(makar):
    """Ten times as many as there is room for."""
    with Server(makar, "-t", "1", "-np", "4", "--queue", "12") as s, Watched(s, "crowd"):
        ask = {"prompt": "a" * 50, "max_tokens": 200, "temperature": 0, **NO_END}
        with concurrent.futures.ThreadPoolExecutor(176) as many:
            held = [many.submit(s.stream, TEXT, dict(ask, max_tokens=1500)) for _ in range(16)]
            while metric(s, "num_requests_inside") < 16:
                time.sleep(0.01)
            got = list(many.map(lambda _: s.request("POST", TEXT, ask), range(160)))
            check(metric(s, "num_requests_inside") == 16, "the house stayed full")
            check({code for code, _, _ in got} == {429}, f"all of them are refused: { {c for c, _, _ in got} }")
            check(all(int(h["retry-after"]) > 0 and json.loads(t)["error"]["code"] == "queue_full" for _, h, t in got), "with Retry-After")
            check([h.result()[1][-1] for h in held] == ["[DONE]"] * 16, "those inside are answered")
            got = list(many.map(lambda _: s.request("POST", TEXT, ask), range(160)))
        fine = [t for code, _, t in got if code == 200]
        check({code for code, _, _ in got} == {200, 429} and len(fine) >= 16, f"a crowd gets { {c for c, _, _ in got} }, {len(fine)} are served")
        check(len({json.loads(t)["choices"][0]["text"] for t in fine}) == 1, "and all the same")


def drain(makar):
    for patience, whole in ((60 * PATIENCE, True), (1, False)):
        with Server(makar, "-t", "1", "--drain-time", str(patience), "-np", "32") as s:
            ask = {"prompt": "a", "max_tokens": 300 if whole else 1900, "temperature": 0, **NO_END}
            with concurrent.futures.ThreadPoolExecutor(32) as many:
                going = [many.submit(s.stream, TEXT, ask) for _ in range(32)]
                while metric(s, "num_requests_inside") < 32:
                    time.sleep(0.01)
                start = time.monotonic()
                s.process.send_signal(signal.SIGTERM)
                ends = []
                for g in going:
                    try:
                        ends.append(g.result()[1][-1])
                    except Exception as e:  # cut off
                        ends.append(type(e).__name__)
            code = s.process.wait(60 * PATIENCE)
            check(code == 0, f"the server ends well, not with {code}")
            took = time.monotonic() - start
            print(f"drain: 32 streams, {ends.count('[DONE]')} finished, {took:.1f} s of {patience} allowed", flush=True)
            check(took < patience + 4 * PATIENCE, f"within its time: {took:.1f} s")
            check(not whole or ends == ["[DONE]"] * 32, f"all are finished: {set(map(str, ends))}")


def names(makar):
    """Paths and worse as names of models: unknown, whatever they are."""
    with Server(makar, "-t", "1") as s, Watched(s, "names"):
        for name in ("../../../etc/passwd", "/etc/passwd", "..", ".", "tiny/../tiny", "%2e%2e%2f", "tiny\x00.gguf", "a" * 100000, "\\\\host\\share",
                     "file:///etc/passwd", "tiny ", "TINY", "con", "${HOME}", "$(id)", "tiny\n", "\u202etiny", "-m", "--model"):
            for route, good in attacks.GOOD.items():
                status, body = s.post(route, dict(good, model=name))
                check(status == 404, f"{route} of {name[:30]!r}: {status} {str(body)[:200]}")
        for path in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "tiny/..", "a" * 5000, "tiny%20"):
            check(s.request("GET", "/v1/models/" + path)[0] == 404, f"/v1/models/{path[:30]}")
        for path in ("/%2e%2e/etc/passwd", "/..", "//etc/passwd", "/.git/config", "/v1/../health", "/health/", "/health%20", "/v1/models?x=../.."):
            status = s.request("GET", path)[0]
            check(status == (200 if "?" in path else 404), f"{path}: {status}")


def injection(makar):
    """Names of control tokens in any text cost as many tokens as other text of their length: they are text."""
    with Server(makar, "-t", "1") as s, Watched(s, "injection"):
        def tokens(route, body):
            status, answer = s.post(route, body)
            usage = answer.get("usage", answer)
            found = [usage[k] for k in ("prompt_tokens", "input_tokens", "prompt_eval_count", "count") if k in usage]
            check(status == 200 and found, f"{route}: {status} {str(answer)[:200]}")
            return found[0] + usage.get("cache_read_input_tokens", 0) if found else 0
        def tool(text):
            return [{"type": "function", "function": {"name": "f", "description": text, "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": text}}}}}]
        fields = [
            (CHAT, lambda t: {"messages": [{"role": "user", "content": t}], "max_tokens": 1}),
            (CHAT, lambda t: {"messages": [{"role": "system", "content": t}, *USER], "max_tokens": 1}),
            (CHAT, lambda t: {"messages": [{"role": "user", "content": [{"type": "text", "text": t}]}], "max_tokens": 1}),
            (CHAT, lambda t: {"messages": [*USER, {"role": "assistant", "content": t}, *USER], "max_tokens": 1}),
            (CHAT, lambda t: {"messages": [*USER, {"role": "tool", "tool_call_id": "1", "content": t}], "max_tokens": 1}),
            (CHAT, lambda t: {"messages": USER, "tools": tool(t), "max_tokens": 1}),
            (TEXT, lambda t: {"prompt": t, "max_tokens": 1}),
            ("/v1/embeddings", lambda t: {"input": t}),
            ("/v1/messages", lambda t: {"system": t, "messages": [{"role": "user", "content": t}], "max_tokens": 1}),
            ("/v1/messages/count_tokens", lambda t: {"messages": [{"role": "user", "content": t}]}),
            ("/v1/responses", lambda t: {"instructions": t, "input": t, "max_output_tokens": 1}),
            ("/api/chat", lambda t: {"messages": [{"role": "user", "content": t}], "stream": False, "options": {"num_predict": 1}}),
            ("/api/generate", lambda t: {"system": t, "prompt": t, "stream": False, "options": {"num_predict": 1}}),
            ("/tokenize", lambda t: {"content": t}),
        ]
        for special in SPECIAL:
            for i, (route, body) in enumerate(fields):
                plain = tokens(route, body("x" * len(special)))
                spelt = tokens(route, body(special))
                check(spelt == plain, f"field {i} of {route}: {special} is {spelt} tokens, other text {plain}")


CASES = {f.__name__: f for f in (malformed, slow, deaf, leaving, crowd, drain, names, injection)}


def main():
    makar = sys.argv[1]
    for name in sys.argv[2:] or CASES:
        start = time.monotonic()
        CASES[name](makar)
        print(f"{name}: {time.monotonic() - start:.1f} s, {len(failures)} failures so far", flush=True)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
