#!/usr/bin/env python3
"""A server under attack: it gives the expected answers, releases everything afterwards, and serves other clients during the attack.

usage: abuse.py MAKAR [CASE...]      MAKAR_SLOW=1: the full sizes (10,000 broken requests, 1,000 clients that disconnect)
"""
import concurrent.futures
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile
import time

import attacks
from attacks import CHAT, NO_END, TEXT, USER
from serving import PATIENCE, SPECIAL, Server, check, make_model, metric, processor_seconds, quiet, resident, run_cases, wait_until

SLOW = bool(os.environ.get("MAKAR_SLOW"))
if "address" in os.environ.get("MAKAR_SANITIZE", ""):  # these tests measure memory; by default 256 MB of freed memory are kept
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=16"
MIN_RATE_SHARE = 0.8 if SLOW else 0.6  # the share of their request rate that good clients must keep; short windows are less exact


class Watched:
    """After an attack the server holds no more requests, descriptors, cache pages and memory than before."""

    def __init__(self, s, what, growth=64):
        self.s, self.what, self.growth = s, what, growth

    def __enter__(self):
        attacks.good_rate(self.s, 0.5)
        self.files, self.memory = self.s.descriptors(), resident(self.s)
        return self

    def __exit__(self, *_):
        s = self.s
        check(s.process.poll() is None, f"{self.what}: the server runs")
        if s.process.poll() is not None:
            return
        check(quiet(s), f"{self.what}: no request is left")
        check(wait_until(lambda: s.descriptors() <= self.files + 2), f"{self.what}: descriptors {self.files} became {s.descriptors()}")
        check(metric(s, "kv_cache_pages") <= metric(s, "prefix_cache_pages"), f"{self.what}: cache pages are released")
        check(resident(s) <= self.memory + self.growth, f"{self.what}: {self.memory:.0f} MB became {resident(s):.0f}")
        check(s.request("GET", "/health")[0] == 200, f"{self.what}: health")
        check(s.post(TEXT, {"prompt": "a", "max_tokens": 2})[0] == 200, f"{self.what}: other clients are answered")


def check_rate_during(s, what, attack):
    """Checks the share of their rate that good clients keep during `attack(seed)`. Windows with and without the attack alternate, and
    each is compared with its two neighbours, since other load on the machine slows all three. The load may change between
    windows, so there are five trials; an attack that costs too much fails all of them."""
    windows, seconds = (5, 2.0) if SLOW else (3, 0.8)
    for trial in range(5):
        shares, rates = [], [attacks.good_rate(s, seconds)]
        for i in range(windows):
            with attacks.in_background(attacks.repeat, attack, seconds + 0.5, 100 * (windows * trial + i)) as process:
                time.sleep(0.5)
                during = attacks.good_rate(s, seconds)
                process.join(300 * PATIENCE)
                check(process.exitcode == 0, f"{what}: the attack ended with {process.exitcode}")
            rates += [during, attacks.good_rate(s, seconds)]
            shares.append(2 * during / (rates[-3] + rates[-1]))
        share = statistics.median(shares)
        print(f"{what}: good clients kept {share * 100:.0f} % of their rate ({', '.join(f'{r:.0f}' for r in rates)} per second, "
              "with the attack in every second window)", flush=True)
        if share >= MIN_RATE_SHARE:
            return
    check(False, f"{what}: good clients kept {share:.2f} of their rate, less than {MIN_RATE_SHARE}")


def malformed(makar):
    with Server(makar, "-t", "1") as s, Watched(s, "malformed"):
        count = 10000 if SLOW else 600
        counts = attacks.malformed(s, count, 1)
        print(f"malformed: {count} requests, by code {counts}", flush=True)
        check(500 not in counts and counts.get(400, 0) > count / 3, f"{counts}")
        check_rate_during(s, "malformed", lambda seed: attacks.malformed(s, 30, seed, 0.005 * PATIENCE))


def slow(makar):
    """More connections than the server allows, each for less than --client-time."""
    with Server(makar, "-t", "1", "--client-time", "4") as s, Watched(s, "slow"):
        check_rate_during(s, "slow", lambda seed: attacks.slow(s, 1))


def unread(makar):
    with Server(makar, "-t", "1", "--client-time", "2") as s, Watched(s, "unread", 128) as before:
        links = attacks.unread(s, 32 if SLOW else 8)
        check(quiet(s, 300 * PATIENCE), "clients that never read are disconnected")
        wait_until(lambda: s.descriptors() <= before.files + 2)
        for link in links:
            link.close()


def disconnects(makar):
    with Server(makar, "-t", "1", "-np", "4", "--queue", "200") as s, Watched(s, "disconnects"):
        attacks.disconnects(s, 1000 if SLOW else 100, 1)
        before = processor_seconds(s.process.pid)
        check(quiet(s), "requests of clients that disconnected end")
        used = processor_seconds(s.process.pid) - before
        print(f"disconnects: {used:.2f} s of processor time after the last client disconnected", flush=True)
        check(used < 5 * PATIENCE, f"requests of clients that disconnected took {used:.1f} s of processor time")
        check_rate_during(s, "disconnects", lambda seed: attacks.disconnects(s, 10, seed, 0.02 * PATIENCE))


def too_many(makar):
    """Ten times as many requests as the server admits."""
    with Server(makar, "-t", "1", "-np", "4", "--queue", "12") as s, Watched(s, "too_many"):
        ask = {"prompt": "a" * 50, "max_tokens": 200, "temperature": 0, **NO_END}
        with concurrent.futures.ThreadPoolExecutor(176) as many:
            admitted = [many.submit(s.stream, TEXT, dict(ask, max_tokens=1500, n=3, temperature=1)) for _ in range(16)]
            wait_until(lambda: metric(s, "num_requests_in_flight") == 16)
            answers = list(many.map(lambda _: s.request("POST", TEXT, ask), range(160)))
            check(metric(s, "num_requests_in_flight") == 16, "the admitted requests are all still in flight")
            check({code for code, _, _ in answers} == {429}, f"further requests are refused: { {c for c, _, _ in answers} }")
            check(all(int(h["retry-after"]) > 0 and json.loads(t)["error"]["code"] == "queue_full" for _, h, t in answers),
                  "refusals have Retry-After")
            check([h.result()[1][-1] for h in admitted] == ["[DONE]"] * 16, "the admitted requests are answered")
            answers = list(many.map(lambda _: s.request("POST", TEXT, ask), range(160)))
        texts = [t for code, _, t in answers if code == 200]
        check({code for code, _, _ in answers} == {200, 429} and len(texts) >= 16,
              f"status codes { {c for c, _, _ in answers} }, {len(texts)} answers")
        check(len({json.loads(t)["choices"][0]["text"] for t in texts}) == 1, "all answers are equal")


def drain(makar):
    """SIGTERM during 32 streams: they are finished within --drain-time, and cut after it."""
    with tempfile.TemporaryDirectory() as folder:
        endless = make_model(pathlib.Path(folder) / "long", positions=100_000)  # 90,000 tokens each take minutes
        for seconds, tokens, model in ((600 * PATIENCE, 300, None), (1, 90_000, endless)):
            with Server(makar, "-t", "1", "--drain-time", str(seconds), "-np", "32", model=model) as s:
                ask = {"prompt": "a", "max_tokens": tokens, "temperature": 0, **NO_END}
                with concurrent.futures.ThreadPoolExecutor(32) as many:
                    streams = [many.submit(s.stream, TEXT, ask) for _ in range(32)]
                    wait_until(lambda: metric(s, "num_requests_in_flight") == 32)
                    start = time.monotonic()
                    s.process.send_signal(signal.SIGTERM)
                    ends = []
                    for stream in streams:
                        try:
                            ends.append(stream.result()[1][-1])
                        except Exception as e:  # cut off
                            ends.append(type(e).__name__)
                code = s.process.wait(600 * PATIENCE)
                took = time.monotonic() - start
                print(f"drain: 32 streams, {ends.count('[DONE]')} finished, {took:.1f} s of {seconds} allowed", flush=True)
                check(code == 0, f"the server exits with {code}")
                check(model or ends == ["[DONE]"] * 32, f"streams are finished: {set(map(str, ends))}")
                check(not model or "[DONE]" not in ends and took < 60 * PATIENCE, f"streams are cut: {set(map(str, ends))} after {took:.1f} s")


def names(makar):
    """Paths and other unusual texts as names of models: all are unknown."""
    with Server(makar, "-t", "1") as s, Watched(s, "names"):
        for name in ("../../../etc/passwd", "/etc/passwd", "..", ".", "tiny/../tiny", "%2e%2e%2f", "tiny\x00.gguf", "a" * 100000, "\\\\host\\share",
                     "file:///etc/passwd", "tiny ", "TINY", "con", "${HOME}", "$(id)", "tiny\n", "\u202etiny", "-m", "--model"):
            for route, good in attacks.VALID_BODIES.items():
                status, body = s.post(route, dict(good, model=name))
                check(status == 404, f"{route} of {name[:30]!r}: {status} {str(body)[:200]}")
        for path in ("../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%00", "tiny/..", "a" * 5000, "tiny%20"):
            check(s.request("GET", "/v1/models/" + path)[0] == 404, f"/v1/models/{path[:30]}")
        for path in ("/%2e%2e/etc/passwd", "/..", "//etc/passwd", "/.git/config", "/v1/../health", "/health/", "/health%20", "/v1/models?x=../.."):
            status = s.request("GET", path)[0]
            check(status == (200 if "?" in path else 404), f"{path}: {status}")


def injection(makar):
    """Names of control tokens in any text are text: they take as many tokens as other text of the same length."""
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


CASES = {f.__name__: f for f in (malformed, slow, unread, disconnects, too_many, drain, names, injection)}


if __name__ == "__main__":
    sys.exit(run_cases(CASES))
