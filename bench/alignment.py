#!/usr/bin/env python3
"""Rollouts and updates of GRPO: makar, which samples and trains on one copy of the weights, against PyTorch that generates with its
KV cache and then trains the same shape, in the same run. Prints tokens per second of whole steps (tokens of prompts and answers), sampled
tokens per second of the rollouts, tokens per second of the updates, and the peak memory.

usage: ./dev bench alignment [--layers N --width N --heads N] [--prompts N --group N --prompt-tokens N --new-tokens N] [--steps N]
                             [--device cpu|cuda] [--program FILE] [--no-peer] [--json]
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time


def arguments():
    p = argparse.ArgumentParser()
    for name, value in (("layers", 6), ("width", 256), ("heads", 4), ("prompts", 4), ("group", 8), ("prompt-tokens", 64), ("new-tokens", 48), ("steps", 8),
                        ("threads", 0)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--device", default="cpu")
    p.add_argument("--program", default=str(pathlib.Path(__file__).resolve().parents[1] / "build/makar"))
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--json", action="store_true")
    return p.parse_args()


def makar(a, folder):
    """Returns the steps of the log without the first one, and the peak memory in bytes. The model is untrained."""
    def run(*words):
        return subprocess.run([a.program, *map(str, words)], check=True, capture_output=True, text=True)

    text, prompts, base = folder / "text.jsonl", folder / "prompts.jsonl", folder / "base"
    run("data", "world", "--form", "text", "-n", 200, "-q", "-o", text)
    run("data", "world", "--form", "rewards", "-n", 400, "--events", 3, "-q", "-o", prompts)
    run("pretrain", "-d", text, "--model-type", "llama", "--layers", a.layers, "--width", a.width, "--heads", a.heads, "--vocab-size", 2000,
        "--sequence-len", 512, "--max-steps", 1, "-q", "-o", base)
    out = folder / "grpo"
    # The rule is never met, so all advantages are 0 and the policy does not learn to end answers early. Lengths are read from the log.
    words = [a.program, "grpo", "-m", base, "-d", prompts, "--reward", "exact", "--num-generations", a.group, "--micro-batch-size", a.prompts * a.group,
             "--max-completion-length", a.new_tokens, "--max-steps", a.steps, "--val-set-size", 0, "--no-reference", "--device", a.device, "-q", "-o", out]
    if a.threads:
        words += ["-t", a.threads]
    child = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    while child.poll() is None:
        try:
            found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{child.pid}/status").read_text())
            peak = max(peak, int(found[1]) * 1024 if found else 0)
        except OSError:
            break
        time.sleep(0.05)
    if child.wait() != 0:
        raise SystemExit(child.stderr.read())
    steps = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    steps = [s for s in steps if "lr" in s][1:]
    return steps, peak


def torch_steps(a, vocab=2000):
    """The usual alternative: generate with a KV cache in float32, then one policy-gradient step with the same optimiser."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    if a.threads:
        torch.set_num_threads(a.threads)
    device, head = torch.device(a.device), a.width // a.heads
    total = a.prompt_tokens + a.new_tokens
    ffn = (a.width * 8 // 3 + 63) // 64 * 64
    angle = torch.outer(torch.arange(total), 10000 ** (-torch.arange(0, head, 2) / head))
    cos, sin = angle.cos().to(device), angle.sin().to(device)

    def rotate(x, at):
        c, s = cos[at:at + x.shape[2]], sin[at:at + x.shape[2]]
        p, q = x.chunk(2, -1)
        return torch.cat((p * c - q * s, q * c + p * s), -1)

    class Norm(nn.Module):
        """nn.RMSNorm, which PyTorch before 2.4 does not have."""
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(a.width))

        def forward(self, x):
            return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * self.weight

    make_norm = (lambda: nn.RMSNorm(a.width)) if hasattr(nn, "RMSNorm") else Norm

    def attend(q, k, v):
        if hasattr(F, "scaled_dot_product_attention"):  # since PyTorch 2.0
            return F.scaled_dot_product_attention(q, k, v, is_causal=q.shape[2] > 1)
        scores = q @ k.transpose(2, 3) / head ** 0.5
        if q.shape[2] > 1:
            scores = scores + torch.full(scores.shape[2:], -torch.inf, device=device).triu(1)
        return F.softmax(scores, -1) @ v

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = make_norm(), make_norm()
            self.qkv, self.o = nn.Linear(a.width, 3 * a.width, bias=False), nn.Linear(a.width, a.width, bias=False)
            self.gate, self.up, self.down = nn.Linear(a.width, ffn, bias=False), nn.Linear(a.width, ffn, bias=False), nn.Linear(ffn, a.width, bias=False)

        def forward(self, x, cache):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, a.heads, head).transpose(1, 2) for y in self.qkv(self.n1(x)).split(a.width, 2))
            at = cache[0].shape[2] if cache else 0
            q, k = rotate(q, at), rotate(k, at)
            if cache:
                k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
            y = attend(q, k, v)
            x = x + self.o(y.transpose(1, 2).reshape(b, t, c))
            h = self.n2(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h)), (k, v)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.norm = nn.Embedding(vocab, a.width), make_norm()
            self.blocks = nn.ModuleList(Block() for _ in range(a.layers))

        def forward(self, ids, caches=None):
            x, new = self.tokens(ids), []
            for i, block in enumerate(self.blocks):
                x, cache = block(x, caches[i] if caches else None)
                new.append(cache)
            return F.linear(self.norm(x), self.tokens.weight), new

    torch.manual_seed(1)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6)
    rows, seconds, rollouts = a.prompts * a.group, [], []
    for _ in range(a.steps):
        start = time.perf_counter()
        ids = torch.randint(vocab, (a.prompts, a.prompt_tokens), device=device).repeat_interleave(a.group, 0)
        with torch.no_grad():
            logits, caches = model(ids)
            for _ in range(a.new_tokens):
                ids = torch.cat((ids, torch.multinomial(F.softmax(logits[:, -1], -1), 1)), 1)
                logits, caches = model(ids[:, -1:], caches)
        if device.type == "cuda":
            torch.cuda.synchronize()
        rollouts.append(time.perf_counter() - start)
        advantage = torch.randn(rows, 1, device=device)
        log_p = F.log_softmax(model(ids[:, :-1])[0][:, a.prompt_tokens - 1:], -1).gather(2, ids[:, a.prompt_tokens:, None])[..., 0]
        loss = -(advantage * (log_p - log_p.detach()).exp()).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    peak = torch.cuda.max_memory_allocated() if device.type == "cuda" else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return seconds[1:], rollouts[1:], peak


def rates(step_seconds, rollout_seconds, tokens, sampled):
    """Medians over the steps: tokens per second of the steps and of their updates, sampled tokens per second of their rollouts."""
    steps = list(zip(step_seconds, rollout_seconds, tokens, sampled))
    return {"step": statistics.median(t / s for s, _, t, _ in steps), "rollout": statistics.median(n / r for _, r, _, n in steps),
            "update": statistics.median(t / (s - r) for s, r, t, _ in steps)}


def main():
    a = arguments()
    rows = a.prompts * a.group
    with tempfile.TemporaryDirectory() as name:
        steps, peak = makar(a, pathlib.Path(name))
    seconds = [s["seconds"] for s in steps]
    makar_rates = rates(seconds, [s["prepare_seconds"] for s in steps], [s["tokens"] for s in steps], [s["metrics"]["length"] * rows for s in steps])
    shape = f"{a.layers}x{a.width}-{a.prompts}x{a.group}"
    peer_rates, memory = None, None
    if not a.no_peer:
        try:
            step_seconds, rollout_seconds, memory = torch_steps(a)
            n = len(step_seconds)
            peer_rates = rates(step_seconds, rollout_seconds, [rows * (a.prompt_tokens + a.new_tokens)] * n, [rows * a.new_tokens] * n)
        except ImportError:
            print("PyTorch is not installed: only makar is measured", file=sys.stderr)
    for part in ("step", "rollout", "update"):
        line = {"bench": "alignment", "case": f"grpo-{part}-{shape}", "threads": a.threads or os.cpu_count(), "device": a.device, "makar_value": makar_rates[part],
                "unit": "tokens/s", "spread": (max(seconds) - min(seconds)) / statistics.median(seconds), "makar_peak_bytes": peak}
        if peer_rates:
            line |= {"peer": "pytorch", "peer_value": peer_rates[part], "peer_peak_bytes": memory, "ratio": makar_rates[part] / peer_rates[part]}
        print(json.dumps(line))


if __name__ == "__main__":
    main()
