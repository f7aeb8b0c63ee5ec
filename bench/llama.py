#!/usr/bin/env python3
"""makar against llama.cpp on the same GGUF files, in alternating rounds: Llama shapes with random weights.

usage: LLAMA_CPP=FOLDER ./dev bench llama [--json] [--quick] [--rounds N] [--threads 1,2] [--only TEXT] [--models FOLDER]

LLAMA_CPP is the folder with llama.cpp's programs (llama-bench, llama-batched-bench, llama-completion), built natively on
this machine: cmake -B build -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON && cmake --build build.
Cases: prefill of 512 tokens (pp), decoding of 128 tokens in one sequence (tg), and of 64 tokens in batches of 8 and 16
sequences after 128 tokens each (@ d128); start: seconds from the call to the first token; memory: peak resident size. A
ratio above 1 means that makar is better. Each uses its default type for keys and values: f32 here, f16 in llama.cpp.
--quick: prefill of 128, decoding of 32 (16 in batches, after 32). --only keeps the cases that contain TEXT ("1.1b q8_0 t1").
The models are created once, in --models (build/bench-llama).
"""
# builds: makar bench_llama_random_model
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(HERE, "..", "build")
SHAPES, TYPES = ("110m", "1.1b"), ("f16", "bf16", "q8_0", "q4_0", "q4_k_m")
PEER_PROGRAMS = ("llama-bench", "llama-batched-bench", "llama-completion")
BATCHES = (8, 16)
PROMPT = "once upon a time there was a small machine that could read"


def fail(message):
    sys.exit(f"llama.py: {message}")


def peer():
    folder = os.environ.get("LLAMA_CPP", "")
    if not folder:
        fail("LLAMA_CPP is not set; it names the folder with llama.cpp's programs (--help explains how to build them)")
    missing = [p for p in PEER_PROGRAMS if not os.access(os.path.join(folder, p), os.X_OK)]
    if missing:
        fail(f"LLAMA_CPP={folder} has no {', '.join(missing)}; build them with cmake --build build --target {' '.join(missing)}")
    return folder


def run(command):
    """The output of a program, its run time in seconds and its peak resident size in MB."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True, errors="replace")
        text = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if child.returncode != 0:
            fail(f"{' '.join(command)} failed with {child.returncode}:\n{errors.read()[-2000:]}")
    return text, seconds, usage.ru_maxrss / 1024


def make_models(folder, cases):
    """The file of each (shape, type): F16 with random weights, the other types by makar quantize."""
    os.makedirs(folder, exist_ok=True)
    paths = {(s, t): os.path.join(folder, f"{s}-{t}.gguf") for s in SHAPES for t in TYPES}
    for shape, kind in cases:
        plain, path = paths[shape, "f16"], paths[shape, kind]
        if not os.path.exists(plain):
            print(f"creating {plain}", file=sys.stderr)
            run([os.path.join(BUILD, "bench_llama_random_model"), shape, plain])
        if not os.path.exists(path):
            print(f"creating {path}", file=sys.stderr)
            run([os.path.join(BUILD, "makar"), "quantize", plain, path, "--type", kind])
    return paths


class Makar:
    def __init__(self):
        self.program = os.path.join(BUILD, "makar")

    def rates(self, path, threads, sizes):
        def bench(*arguments):
            text, _, _ = run([self.program, "bench", "-m", path, "-t", str(threads), "-r", "1", "--json", *map(str, arguments)])
            return [json.loads(line)["tokens_per_second"] for line in text.splitlines()]

        pp, tg = bench("-p", sizes.prefill, "-n", sizes.decode + 1, "-b", 1)
        together = bench("-p", 0, "-n", sizes.batched + 1, "-d", sizes.depth, *(x for n in BATCHES for x in ("-b", n)))
        return dict(zip(sizes.names(), [pp, tg, *together]))

    def start(self, path, threads):
        return run([self.program, "generate", "-m", path, "-t", str(threads), "-n", "1", "--temp", "0", PROMPT])[1:]


class LlamaCpp:
    def __init__(self, folder):
        self.program = lambda name: os.path.join(folder, name)

    def rates(self, path, threads, sizes):
        text, _, _ = run([self.program("llama-bench"), "-m", path, "-t", str(threads), "-p", str(sizes.prefill), "-n", str(sizes.decode),
                          "-r", "1", "-o", "json"])
        pp, tg = (case["avg_ts"] for case in json.loads(text))
        text, _, _ = run([self.program("llama-batched-bench"), "-m", path, "-t", str(threads), "-npp", str(sizes.depth), "-ntg", str(sizes.batched),
                          "-npl", ",".join(map(str, BATCHES)), "-c", str(max(BATCHES) * (sizes.depth + sizes.batched + 16)),
                          "--output-format", "jsonl"])
        together = [json.loads(line)["speed_tg"] for line in text.splitlines() if line.startswith("{")]
        return dict(zip(sizes.names(), [pp, tg, *together]))

    def start(self, path, threads):
        return run([self.program("llama-completion"), "-m", path, "-t", str(threads), "-n", "1", "--temp", "0", "--no-warmup", "-no-cnv",
                    "-p", PROMPT])[1:]


class Sizes:
    def __init__(self, quick):
        self.prefill, self.decode, self.batched, self.depth = (128, 32, 16, 32) if quick else (512, 128, 64, 128)

    def names(self):
        return [f"pp{self.prefill}", f"tg{self.decode}", *(f"tg{self.batched} @ d{self.depth} x {n}" for n in BATCHES)]


def spread(values):
    if len(values) < 2:
        return 0.0
    q = statistics.quantiles(values, n=4, method="inclusive")
    return (q[2] - q[0]) / 2 / statistics.median(values)


def compare(name, threads, path, sides, sizes, rounds):
    """Alternating rounds of both; one line per case."""
    results = {}
    for _ in range(rounds):
        for who, side in sides.items():
            for case, rate in side.rates(path, threads, sizes).items():
                results.setdefault((case, "tok/s"), {}).setdefault(who, []).append(rate)
            seconds, resident = side.start(path, threads)
            results.setdefault(("start", "s"), {}).setdefault(who, []).append(seconds)
            results.setdefault(("memory", "MB"), {}).setdefault(who, []).append(resident)
    for (case, unit), values in results.items():
        makar_value, peer_value = (statistics.median(values[who]) for who in sides)
        yield {"bench": "llama", "case": f"{name} {case}", "threads": threads, "makar_value": round(makar_value, 3), "peer": "llama.cpp",
               "peer_value": round(peer_value, 3), "unit": unit, "ratio": round(makar_value / peer_value if unit == "tok/s" else peer_value / makar_value, 3),
               "spread": round(spread(values["makar"]) + spread(values["peer"]), 3)}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object per line")
    p.add_argument("--quick", action="store_true", help="shorter texts")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", default=",".join(str(t) for t in sorted({1, os.cpu_count() or 1})))
    p.add_argument("--only", default="")
    p.add_argument("--models", default=os.path.join(BUILD, "bench-llama"))
    a = p.parse_args()
    sides = {"makar": Makar(), "peer": LlamaCpp(peer())}
    cases = [(s, t, int(n)) for s in SHAPES for t in TYPES for n in a.threads.split(",") if a.only in f"{s} {t} t{n}"]
    if not cases:
        fail(f"no case contains '{a.only}'")
    paths = make_models(a.models, sorted({c[:2] for c in cases}))
    sizes = Sizes(a.quick)
    for shape, kind, threads in cases:
        for line in compare(f"{shape} {kind}", threads, paths[shape, kind], sides, sizes, a.rounds):
            if a.json:
                print(json.dumps(line), flush=True)
            else:
                print(f"{line['case']:<30} {threads} threads  makar {line['makar_value']:>9.2f}  llama.cpp {line['peer_value']:>9.2f} {line['unit']:<5}"
                      f"  {line['ratio']:>5.2f} times  +-{line['spread'] * 100:.0f} %", flush=True)


if __name__ == "__main__":
    sys.exit(main())
