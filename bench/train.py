#!/usr/bin/env python3
"""Training step: makar against PyTorch (Debian's python3-torch) on the same machine, in alternating rounds.

usage: ./dev bench train [--json] [--bf16] [--threads N] [--rounds N] [--cases char-gpt,gpt2-124m]

--bf16: mixed precision, in PyTorch by autocast.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {"char-gpt": (6, 384, 6, 256, 12, 65), "gpt2-124m": (12, 768, 12, 64, 4, 50257)}


def python_with_torch(script):
    """An interpreter with PyTorch: this one or Debian's."""
    check = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"  # importing it takes seconds
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", check], capture_output=True).returncode == 0:
            return python
    sys.exit(f"{script}: neither this Python nor /usr/bin/python3 has torch; install python3-torch")


def pytorch(case, threads, steps, bf16):
    """GPT-2 in the usual form: nn.Linear, LayerNorm, GELU, AdamW (foreach where it exists), clipping."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    layers, width, heads, context, sequences, vocab = CASES[case]

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("mask", torch.tril(torch.ones(context, context)).view(1, 1, context, context))

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in self.qkv(self.n1(x)).split(width, 2))
            a = (q @ k.transpose(-2, -1)) * (c // heads) ** -0.5
            a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
            x = x + self.o((a @ v).transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab, width), nn.Embedding(max(context, 256), width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
            self.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, (nn.Linear, nn.Embedding)) else None)

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.view(-1, vocab), targets.reshape(-1))

    torch.manual_seed(1)
    model = Gpt()
    try:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)
    except TypeError:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    ids = torch.randint(0, vocab, (sequences, context + 1))
    times, losses = [], []
    for step in range(steps + 2):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
            loss = model(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step >= 2:
            times.append(time.perf_counter() - start)
        losses.append(loss.item())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps({"case": case, "seconds": times, "first_loss": losses[0], "last_loss": losses[-1], "peak_mb": peak}))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--json", action="store_true")
    p.add_argument("--bf16", action="store_true")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=3)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--program", default=os.path.join(HERE, "..", "build", "bench_train_step"))
    p.add_argument("--pytorch", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.pytorch:
        return pytorch(a.pytorch, a.threads, a.steps, a.bf16)
    ours, theirs = (["--activations", "bf16"], ["--bf16"]) if a.bf16 else ([], [])
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads))
    python = python_with_torch("train.py")
    for case in a.cases.split(","):
        _, _, _, context, sequences, _ = CASES[case]
        tokens = context * sequences
        rates = {"makar": [], "peer": []}
        peak = {}
        for _ in range(a.rounds):  # alternating, so that noise affects both alike
            for who, command in (("makar", [a.program, "--case", case, "--threads", str(a.threads), "--steps", str(a.steps), *ours]),
                                 ("peer", [python, os.path.abspath(__file__), "--pytorch", case, "--threads", str(a.threads), "--steps", str(a.steps),
                                           *theirs])):
                result = json.loads(subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout)
                rates[who] += [tokens / s for s in result["seconds"]]
                peak[who] = result["peak_mb"]
        makar_value, peer_value = statistics.median(rates["makar"]), statistics.median(rates["peer"])
        q = statistics.quantiles(rates["makar"], n=4) if len(rates["makar"]) > 1 else [makar_value] * 3
        line = {"bench": "train", "case": case + (" bf16" if a.bf16 else ""), "threads": a.threads, "makar_value": round(makar_value, 1), "peer": "pytorch", "peer_value": round(peer_value, 1),
                "unit": "tok/s", "ratio": round(makar_value / peer_value, 3), "spread": round((q[2] - q[0]) / 2 / makar_value, 3),
                "makar_peak_mb": peak["makar"], "peer_peak_mb": peak["peer"]}
        if a.json:
            print(json.dumps(line), flush=True)
        else:
            print(f"{line['case']}: makar {makar_value:.0f} tok/s, PyTorch {peer_value:.0f} tok/s, {makar_value / peer_value:.2f} times; "
                  f"peak memory {peak['makar']} MB against {peak['peer']} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
