#!/usr/bin/env python3
"""Concurrent streams: makar serve against llama.cpp's server, on the same GGUF file with random weights.

usage: LLAMA_CPP=FOLDER ./dev bench serve [--json] [--quick] [--rounds N] [--streams 1,8,32,64] [--threads N] [--no-start] [--models FOLDER]

LLAMA_CPP is the folder with llama.cpp's llama-server, built natively on this machine (bench/llama.py says how). Each
stream has its own prompt of 32 tokens and generates 64 tokens greedily; all streams of a case start together, and each
case is measured in alternating rounds of both servers. Both servers run all the time; the one not measured is idle.
  tok/s     all generated tokens divided by the time from the first request to the last byte
  p50, p95  seconds from a request to its last byte; first: to its first token (p50)
Then: 1,000 equal requests, half greedy and half sampled with a seed, under other load: each half must give one text.
Last, on the 1.1B shape: seconds from the call until /health returns ok, and the peak resident size (not with --no-start).
A ratio above 1 means that makar is better. Failed requests end the run.
"""
# builds: makar bench_llama_random_model
import argparse
import http.client
import json
import os
import random
import re
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import llama
from llama import BUILD, fail, make_models, spread

PROMPT_TOKENS, NEW_TOKENS, FIRST_WORD, VOCABULARY = 32, 64, 259, 32000
NO_SPECIAL_OR_BYTES = {str(i): -100 for i in range(FIRST_WORD)}


class Server:
    """A server process, its address and its responses."""

    def __init__(self, name, command, port=0):
        self.name, self.log = name, tempfile.TemporaryFile("w+", errors="replace")
        self.began = time.perf_counter()
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE if port == 0 else self.log, stderr=self.log, text=True)
        if port == 0:
            found = re.search(r"http://([\d.]+):(\d+)", self.process.stdout.readline())
            port = int(found[2]) if found else self.fail_to_start()
        self.address = ("127.0.0.1", port)
        while not self.healthy():
            time.sleep(0.01)
        self.start = time.perf_counter() - self.began

    def fail_to_start(self):
        self.log.seek(0)
        fail(f"{self.name} does not start:\n{self.log.read()[-2000:]}")

    def healthy(self):
        if self.process.poll() is not None:
            self.fail_to_start()
        try:
            connection = http.client.HTTPConnection(*self.address, timeout=10)
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def resident(self):
        """The peak resident size in MB."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"VmHWM:\s+(\d+)", f.read())[1]) / 1024

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start_makar(path, threads, streams):
    return Server("makar", [os.path.join(BUILD, "makar"), "serve", "-m", path, "-t", str(threads), "--port", "0", "-np", str(streams)])


def start_llama(path, threads, streams):
    port = free_port()
    return Server("llama-server", [os.path.join(os.environ["LLAMA_CPP"], "llama-server"), "-m", path, "-t", str(threads), "--host",
                                   "127.0.0.1", "--port", str(port), "-np", str(streams), "-c", str(streams * 2 * (PROMPT_TOKENS + NEW_TOKENS)),
                                   "--cache-ram", "0", "--no-webui"], port)


class Stream:
    """One streamed request; the client only scans bytes, so that it costs little."""

    def __init__(self, server, body, poll):
        data = json.dumps(dict(body, stream=True))
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
        self.socket = socket.create_connection(server.address)
        self.socket.sendall((head + data).encode())
        self.socket.setblocking(False)
        self.begin, self.first, self.end, self.bytes = time.perf_counter(), 0.0, 0.0, b""
        poll.register(self.socket, selectors.EVENT_READ, self)

    def receive(self, poll):
        data = self.socket.recv(1 << 16)
        if not self.first and b"data: " in data:
            self.first = time.perf_counter()
        self.bytes += data
        if data and not self.bytes.endswith(b"\r\n0\r\n\r\n"):
            return False
        self.end = time.perf_counter()
        poll.unregister(self.socket)
        self.socket.close()
        return True

    def events(self):
        parts = re.findall(rb"data: (\{.*\})\n", self.bytes)
        return [json.loads(p) for p in parts]

    def generated_tokens(self):
        last = (self.events() or [{}])[-1]
        return last["usage"]["completion_tokens"] if last.get("usage") else 0

    def text(self):
        return "".join(e["choices"][0]["text"] for e in self.events() if e["choices"])


def run_streams(server, bodies):
    """Runs streams that start together; returns the streams and the seconds they took."""
    poll = selectors.DefaultSelector()
    begin = time.perf_counter()
    streams = [Stream(server, body, poll) for body in bodies]
    left = len(streams)
    while left:
        for key, _ in poll.select():
            left -= key.data.receive(poll)
    seconds = time.perf_counter() - begin
    for s in streams:
        if not s.bytes.startswith(b"HTTP/1.1 200") or s.generated_tokens() != NEW_TOKENS:
            fail(f"{server.name}: a stream failed: {s.bytes[:300]!r} ... {s.bytes[-300:]!r}")
    return streams, seconds


def body_of(rng, **more):
    """A unique prompt. The end token and single-byte tokens are excluded: llama-server fails on invalid text."""
    ids = [rng.randrange(FIRST_WORD, VOCABULARY) for _ in range(PROMPT_TOKENS)]
    return {"prompt": ids, "max_tokens": NEW_TOKENS, "temperature": 0, "logit_bias": NO_SPECIAL_OR_BYTES, "stream_options": {"include_usage": True}, **more}


def measure(server, streams, rng, seconds):
    """One round: as many waves of streams as fit into the time, at least one."""
    rates, latencies, first, end = [], [], [], time.perf_counter() + seconds
    while not rates or time.perf_counter() < end:
        done, wave_seconds = run_streams(server, [body_of(rng) for _ in range(streams)])
        rates.append(streams * NEW_TOKENS / wave_seconds)
        latencies += [s.end - s.begin for s in done]
        first += [s.first - s.begin for s in done]
    percentile = lambda values, p: statistics.quantiles(values, n=100, method="inclusive")[p - 1] if len(values) > 1 else values[0]
    return {"tok/s": statistics.median(rates), "p50": percentile(latencies, 50), "p95": percentile(latencies, 95), "first": percentile(first, 50)}


def lines(case, threads, results):
    for what, values in results.items():
        a, b = (statistics.median(values[who]) for who in ("makar", "peer"))
        unit = {"tok/s": "tok/s", "memory": "MB"}.get(what, "s")
        yield {"bench": "serve", "case": f"{case} {what}".replace(" tok/s", ""), "threads": threads, "makar_value": round(a, 3),
               "peer": "llama-server", "peer_value": round(b, 3), "unit": unit, "ratio": round(a / b if unit == "tok/s" else b / a, 3),
               "spread": round(spread(values["makar"]) + spread(values["peer"]), 3)}


def equal_requests(server, count, rng):
    """Equal requests under other load: the texts of each kind."""
    kinds = [body_of(random.Random(7), max_tokens=NEW_TOKENS),
             body_of(random.Random(7), temperature=0.9, top_k=50, top_p=0.95, seed=11)]
    texts = [set(), set()]
    for wave in range(0, count, 50):
        bodies = [kinds[(wave + i) % 2] for i in range(min(50, count - wave))]
        bodies += [body_of(rng, temperature=1) for _ in range(rng.randrange(0, 15))]
        done, _ = run_streams(server, bodies)
        for i in range(min(50, count - wave)):
            texts[(wave + i) % 2].add(done[i].text())
    return [len(t) for t in texts]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object per line")
    p.add_argument("--quick", action="store_true", help="shorter rounds, 100 equal requests")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--streams", default="1,8,32,64")
    p.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    p.add_argument("--no-start", action="store_true", help="do not measure the start on the 1.1B shape")
    p.add_argument("--models", default=os.path.join(BUILD, "bench-llama"))
    a = p.parse_args()
    llama.PEER_PROGRAMS = ("llama-server",)
    llama.peer()
    counts = [int(n) for n in a.streams.split(",")]
    paths = make_models(a.models, [("110m", "q8_0"), *[("1.1b", "q8_0")] * (not a.no_start)])
    rng = random.Random(1)

    def print_line(line):
        if a.json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{line['case']:<30} {line['threads']} threads  makar {line['makar_value']:>9.3f}  {line['peer']} {line['peer_value']:>9.3f} "
                  f"{line['unit']:<5}  {line['ratio']:>5.2f} times  +-{line['spread'] * 100:.0f} %", flush=True)

    sides = {"makar": start_makar(paths["110m", "q8_0"], a.threads, max(counts)), "peer": start_llama(paths["110m", "q8_0"], a.threads, max(counts))}
    try:
        for side in sides.values():
            measure(side, min(counts), rng, 0)  # warm-up
        for count in counts:
            results = {}
            for _ in range(a.rounds):
                for who, side in sides.items():
                    for what, value in measure(side, count, rng, 0 if a.quick else 3).items():
                        results.setdefault(what, {}).setdefault(who, []).append(value)
            for line in lines(f"110m q8_0 {count} streams", a.threads, results):
                print_line(line)
        peak = {"memory": {who: [side.resident()] for who, side in sides.items()}}
        for line in lines(f"110m q8_0 {max(counts)} streams", a.threads, peak):
            print_line(line)
        distinct = equal_requests(sides["makar"], 100 if a.quick else 1000, rng)
        if distinct != [1, 1]:
            fail(f"equal requests gave {distinct[0]} different greedy and {distinct[1]} different sampled texts; expected one of each")
        print("equal requests: one greedy and one sampled text", file=sys.stderr)
    finally:
        for side in sides.values():
            side.stop()
    if a.no_start:
        return
    results = {"start": {}, "memory": {}}
    for _ in range(a.rounds):
        for who, begin in (("makar", start_makar), ("peer", start_llama)):
            side = begin(paths["1.1b", "q8_0"], a.threads, 4)
            run_streams(side, [body_of(rng)])
            results["start"].setdefault(who, []).append(side.start)
            results["memory"].setdefault(who, []).append(side.resident())
            side.stop()
    for line in lines("1.1b q8_0 serve", a.threads, results):
        print_line(line)


if __name__ == "__main__":
    sys.exit(main())
