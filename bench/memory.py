#!/usr/bin/env python3
"""The largest batch that trains within a memory budget: `makar pretrain` with checkpointed blocks against a plain GPT in PyTorch
(Debian's python3-torch). 6 layers, width 384, 6 heads, context 512, the vocabulary of GPT-2. The number of sequences is
doubled until the peak resident size of the process exceeds the budget, for makar up to `--max-multiple` times PyTorch's number.

usage: ./dev bench memory [--json] [--threads N] [--budget MB] [--max-multiple N] [--data FILE] [--tokenizer FILE]
"""
# builds: makar
import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import train  # noqa: E402

CASE, SHAPE, VOCAB = "memory", (6, 384, 6, 512), 50257


def peak_mb(command, env):
    """Peak resident size of a command that must succeed."""
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    message = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"memory.py: {' '.join(command)} failed:\n{message.decode()[-2000:]}")
    return usage.ru_maxrss // 1024


def largest(peak, budget, most):
    """The largest fitting power of two up to `most`, its peak, and the first peak over the budget (None: none was)."""
    fits, used, sequences = 0, 0, 1
    while sequences <= most:
        peak_now = peak(sequences)
        if peak_now > budget:
            return fits, used, peak_now
        fits, used, sequences = sequences, peak_now, 2 * sequences
    return fits, used, None


def main():
    assets = os.environ.get("MAKAR_ASSETS", os.path.join(HERE, "../../shared/assets"))
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--budget", type=int, default=3000, help="MB")
    p.add_argument("--max-multiple", "--most", type=int, default=16, help="largest multiple of the peer's batch")
    p.add_argument("--makar", default=os.path.join(HERE, "../build/makar"))
    p.add_argument("--data", default=os.path.join(assets, "train/tinyshakespeare.txt.gz"))
    p.add_argument("--tokenizer", default=os.path.join(assets, "tokenizers/hf/gpt2/tokenizer.json.gz"), help="may be .gz")
    p.add_argument("--pytorch", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    layers, width, heads, context = SHAPE
    if a.pytorch:
        train.CASES[CASE] = (*SHAPE, a.pytorch, VOCAB)
        return train.pytorch(CASE, a.threads, 0)
    python = train.python_with_torch("memory.py")
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    peer_batch = largest(lambda n: peak_mb([python, os.path.abspath(__file__), "--pytorch", str(n), "--threads", str(a.threads)], env),
                     a.budget, 1 << 20)
    with tempfile.TemporaryDirectory() as folder, (gzip.open if a.tokenizer.endswith(".gz") else open)(a.tokenizer, "rb") as tokenizer:
        with open(folder + "/tokenizer.json", "wb") as plain:
            plain.write(tokenizer.read())

        def makar_peak(sequences):
            return peak_mb([a.makar, "pretrain", "--datasets", a.data, "--tokenizer", folder + "/tokenizer.json", "--output-dir", folder + "/run",
                            "--layers", str(layers), "--width", str(width), "--heads", str(heads), "--sequence-len", str(context),
                            "--micro-batch-size", str(sequences), "--max-steps", "2", "--gradient-checkpointing", "--overwrite",
                            "--val-set-size", "0", "--threads", str(a.threads), "-q"], env)
        makar_batch = largest(makar_peak, a.budget, max(1, peer_batch[0]) * a.max_multiple)
    line = {"bench": "memory", "threads": a.threads, "budget_mb": a.budget, "context": context, "makar_value": makar_batch[0], "peer": "pytorch", "peer_value": peer_batch[0],
            "unit": "sequences", "ratio": makar_batch[0] / max(1, peer_batch[0]), "makar_peak_mb": makar_batch[1], "peer_peak_mb": peer_batch[1],
            "peer_next_mb": peer_batch[2]}
    print(json.dumps(line) if a.json else
          f"within {a.budget} MB: makar {makar_batch[0]} sequences of {context} ({makar_batch[1]} MB{'' if makar_batch[2] else ', more was not tried'}), "
          f"PyTorch {peer_batch[0]} ({peer_batch[1]} MB; {2 * peer_batch[0]} take {peer_batch[2]} MB)")


if __name__ == "__main__":
    sys.exit(main())
