#!/usr/bin/env python3
"""All attacks for an hour, together with good clients: broken requests, slow clients, clients that do not read, clients that
disconnect. Memory and descriptors must not grow, and good clients must always get the same answers.

usage: soak.py MAKAR [--minutes 60] [--growth 48] [-- OPTIONS OF makar serve]
"""
import argparse
import random
import sys
import time

import attacks
from serving import Server, check, failures, metric, resident


def hostile(s, end):
    """One attack after the other; runs in its own process."""
    rng = random.Random(int(end))
    while time.time() < end:
        kind, seed = rng.randrange(4), rng.randrange(1 << 30)
        if kind == 0:
            attacks.malformed(s, 300, seed, 0.002)
        elif kind == 1:
            attacks.slow(s, 5, headers=200, bodies=20)
        elif kind == 2:
            attacks.disconnects(s, 100, seed, 0.01)
        else:
            for link in attacks.unread(s, 8):
                time.sleep(0.3)
                link.close()


def send_good(s, seed, texts):
    """Sends one of 20 requests; each must always get the same text."""
    rng = random.Random(seed)
    number = rng.randrange(20)
    ask = {"prompt": f"request {number} " * 6, "max_tokens": 8 + number * 4, "seed": number, **attacks.NO_END}
    if number % 3 == 0:
        _, events = s.stream(attacks.TEXT, ask)
        check(events and events[-1] == "[DONE]", f"a stream ended with {str(events[-1:])[:200]}")
        text = "".join(e["choices"][0]["text"] for e in events[:-1] if e["choices"])
    else:
        status, answer = s.post(attacks.TEXT, ask)
        check(status == 200, f"a good client got {status}")
        text = answer["choices"][0]["text"] if status == 200 else None
    check(texts.setdefault(number, text) == text, f"request {number} gave another text")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("makar")
    p.add_argument("--minutes", type=float, default=60)
    p.add_argument("--growth", type=float, default=48, help="MB that the resident size may grow after a tenth of the time")
    cut = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    a, options = p.parse_args(sys.argv[1:cut]), sys.argv[cut + 1:]
    # Cache pages of earlier prompts stay in memory until the budget is reached; a small budget is reached soon.
    with Server(a.makar, "--client-time", "4", "--queue", "400", "--mem-budget", "64", *options) as s:
        begin, end, texts, count = time.time(), time.time() + a.minutes * 60, {}, 0
        files, base, next_line = s.descriptors(), None, 0.0
        with attacks.in_background(hostile, s, end) as first, attacks.in_background(hostile, s, end - 0.5) as second:
            while time.time() < end and s.process.poll() is None:
                send_good(s, count, texts)
                count += 1
                if base is None and time.time() - begin > a.minutes * 6:
                    base = resident(s)
                if time.time() >= next_line:
                    next_line = time.time() + max(10, a.minutes)
                    print(f"{(time.time() - begin) / 60:6.1f} min: {count} good requests, {resident(s):.1f} MB, {s.descriptors()} descriptors, "
                          f"{metric(s, 'kv_cache_pages'):.0f} pages, {len(failures)} failures", flush=True)
            first.join(120), second.join(120)
            check((first.exitcode, second.exitcode) == (0, 0), f"attacks ended with {first.exitcode}, {second.exitcode}")
        check(s.process.poll() is None, "the server runs")
        time.sleep(6)
        grown = resident(s) - (base or 0)
        print(f"after {a.minutes:g} minutes: {count} good requests, {resident(s):.1f} MB ({grown:+.1f} since a tenth of the time), "
              f"{s.descriptors()} descriptors (at first {files}), {metric(s, 'kv_cache_pages'):.0f} pages, "
              f"{metric(s, 'prefix_cache_pages'):.0f} of them kept for prefixes")
        check(grown <= a.growth, f"memory grew by {grown:.1f} MB")
        check(s.descriptors() <= files + 2, f"descriptors: {files} became {s.descriptors()}")
        check(metric(s, "num_requests_in_flight") == 0, "no request is left")
        check(metric(s, "kv_cache_pages") <= metric(s, "prefix_cache_pages"), "cache pages are released")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
