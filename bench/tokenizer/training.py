"""makar's trainers against those of Hugging Face and spm_train: seconds, and peak memory compared with its limit.

The npm package of the Hugging Face library always trains 30,000 tokens. The time for 8,000 tokens is that of the
last report of its progress bar below 8,000, slightly less than the true time.

A separate program, because the measured peak of a process includes the memory that its parent had when it forked.
"""
import argparse
import fcntl
import importlib.util
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time

import texts
from report import report

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build")
PEERS, DATA = os.path.join(BUILD, "peers"), os.path.join(BUILD, "bench-texts")


def spm_train(kind, text, prefix, threads, vocab=8000):
    return ["spm_train", f"--input={text}", f"--model_prefix={prefix}", f"--vocab_size={vocab}", f"--model_type={kind}",
            f"--num_threads={threads}", "--minloglevel=2"]


def environment(threads):
    return dict(os.environ, RAYON_NUM_THREADS=str(threads), PEERS=PEERS)


def timed(command, threads):
    """Seconds and peak megabytes of a whole program: CPU time with one thread, wall time with more."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(threads))
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = status
    if status:
        return None
    return (usage.ru_utime + usage.ru_stime if threads == 1 else wall), usage.ru_maxrss / 1024


def timed_until(command, threads, tokens):
    """timed() for the Hugging Face trainer, up to its last progress report below `tokens` tokens."""
    controller, terminal = pty.openpty()  # it reports to terminals only
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    start = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, env=environment(threads))
    os.close(terminal)
    output, seconds = "", None
    while True:
        try:
            data = os.read(controller, 65536)
        except OSError:
            break
        if not data:
            break
        output = (output + data.decode("utf-8", "replace"))[-4000:]
        reports = re.findall(r"Compute merges[^\d]*(\d+)\s*/\s*\d+", output)
        if reports and int(reports[-1]) <= tokens:
            with open(f"/proc/{process.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
            seconds = cpu if threads == 1 else time.perf_counter() - start
    os.close(controller)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    return None if status or seconds is None else (seconds, usage.ru_maxrss / 1024)


def compare(args, threads, npm):
    text = texts.text("english", DATA)
    with tempfile.TemporaryDirectory() as folder:
        def train_makar(kind, vocab, pipeline, memory_mb):
            return [f"{BUILD}/makar", "tokenizer", "train", text, "-o", f"{folder}/makar", "--model-type", kind, "--vocab-size", str(vocab),
                    "--pipeline", pipeline, "--max-memory", f"{memory_mb}M", "--threads", str(threads), "--quiet"]
        whole = lambda c: timed(c, threads)
        hf = {8000: None, 30000: None}
        if npm:
            hf = {size: ["node", f"{HERE}/peers.cjs", "train", f"{folder}/hf", text] for size in hf}
        elif importlib.util.find_spec("tokenizers"):
            hf = {size: [sys.executable, f"{HERE}/peers.py", "train", f"{folder}/hf.json", text, str(size)] for size in hf}
        rows = [("train bpe 8k", "hf", ("bpe", 8000, "byte-level", 64), hf[8000], (lambda c: timed_until(c, threads, 8000)) if npm else whole),
                ("train bpe 30k", "hf", ("bpe", 30000, "byte-level", 64), hf[30000], whole),
                ("train bpe 8k", "spm_train", ("bpe", 8000, "byte-level", 64), spm_train("bpe", text, f"{folder}/spm", threads), whole),
                ("train unigram 8k", "spm_train", ("unigram", 8000, "metaspace", 512), spm_train("unigram", text, f"{folder}/spm", threads), whole)]
        for case, peer, options, train_peer, clock in rows:
            if not train_peer or not shutil.which(train_peer[0]):
                print(f"tokenize: {peer} is not installed: {case} is skipped", file=sys.stderr)
                continue
            rounds = [(timed(train_makar(*options), threads), clock(train_peer)) for _ in range(args.rounds)]
            if any(a is None or b is None for a, b in rounds):
                print(f"tokenize: {case} failed", file=sys.stderr)
                continue
            extra = {"peak_mb": round(max(a[1] for a, _ in rounds)), "bound_mb": options[3], "peer_peak_mb": round(max(b[1] for _, b in rounds))}
            report(args, case, threads, [a[0] for a, _ in rounds], peer, [b[0] for _, b in rounds], "s", -1, extra)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--npm", action="store_true")
    args = p.parse_args()
    compare(args, args.threads, args.npm)


if __name__ == "__main__":
    main()
