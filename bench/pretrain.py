#!/usr/bin/env python3
"""recipes/shakespeare_char.yaml with `makar pretrain`, against the same setting in PyTorch (Debian's python3-torch), in
alternating rounds: 4 layers, 4 heads, width 128, context 64, batch 12. makar's time includes reading data, logging and
checkpoints.

usage: ./dev bench pretrain [--json] [--threads N] [--rounds N] [--steps N] [--data FILE]
"""
# builds: makar
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402

CASE, TOKENS = "shakespeare-char", 64 * 12
train.CASES[CASE] = (4, 128, 4, 64, 12, 65)


def run_makar(a, folder):
    command = [a.makar, "pretrain", os.path.join(HERE, "../recipes/shakespeare_char.yaml"), f"datasets={a.data}", f"output_dir={folder}",
               f"max_steps={a.steps}", "warmup_steps=10", "eval_steps=0", f"threads={a.threads}", "--overwrite", "-q"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(folder, "log.jsonl")) as log:
        return [line["seconds"] for line in map(json.loads, log) if "seconds" in line][2:]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--makar", default=os.path.join(HERE, "../build/makar"))
    p.add_argument("--data", default=os.path.join(os.environ.get("MAKAR_ASSETS", os.path.join(HERE, "../../shared/assets")), "train/tinyshakespeare.txt.gz"))
    p.add_argument("--pytorch", action="store_true", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.pytorch:
        return train.pytorch(CASE, a.threads, a.steps)
    python = train.python_with_torch("pretrain.py")
    rates = {"makar": [], "peer": []}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(a.rounds):
            rates["makar"] += [TOKENS / s for s in run_makar(a, folder)]
            command = [python, os.path.abspath(__file__), "--pytorch", "--threads", str(a.threads), "--steps", str(a.steps)]
            done = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS=str(a.threads)), check=True, capture_output=True, text=True)
            rates["peer"] += [TOKENS / s for s in json.loads(done.stdout)["seconds"]]
    makar_rate, torch_rate = statistics.median(rates["makar"]), statistics.median(rates["peer"])
    q = statistics.quantiles(rates["makar"], n=4)
    line = {"bench": "pretrain", "case": CASE, "threads": a.threads, "makar_value": round(makar_rate, 1), "peer": "pytorch", "peer_value": round(torch_rate, 1),
            "unit": "tok/s", "ratio": round(makar_rate / torch_rate, 3), "spread": round((q[2] - q[0]) / 2 / makar_rate, 3)}
    print(json.dumps(line) if a.json else f"{CASE}: makar {makar_rate:.0f} tok/s, PyTorch {torch_rate:.0f} tok/s, {makar_rate / torch_rate:.2f} times")


if __name__ == "__main__":
    sys.exit(main())
