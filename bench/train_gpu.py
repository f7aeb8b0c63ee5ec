#!/usr/bin/env python3
"""Training step on a GPU in bf16: makar against PyTorch compiled (autocast, flash attention, fused AdamW), in the same run.

usage: ./dev bench train_gpu [--cases gpt2-124m-32x1024,gpt2-350m-16x1024] [--steps N] [--program FILE] [--no-peer]
"""
# builds: bench_train_step
import argparse
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = {"gpt2-124m-32x1024": (12, 768, 12, 1024, 32, 50257), "gpt2-350m-16x1024": (24, 1024, 16, 1024, 16, 50257)}


def pytorch(case, steps):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    layers, width, heads, context, sequences, vocab = CASES[case]
    padded = (vocab + 63) // 64 * 64

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (y.view(b, t, heads, c // heads).transpose(1, 2) for y in self.qkv(self.n1(x)).split(width, 2))
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.o(a.transpose(1, 2).reshape(b, t, c))
            return x + self.down(F.gelu(self.up(self.n2(x)), approximate="tanh"))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(padded, width), nn.Embedding(context, width)
            self.blocks, self.norm = nn.ModuleList(Block() for _ in range(layers)), nn.LayerNorm(width)
            self.apply(lambda m: nn.init.normal_(m.weight, std=0.02) if isinstance(m, (nn.Linear, nn.Embedding)) else None)

        def forward(self, ids, targets):
            x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
            for block in self.blocks:
                x = block(x)
            logits = F.linear(self.norm(x), self.tokens.weight)
            return F.cross_entropy(logits.view(-1, padded).float(), targets.reshape(-1))

    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    model = Gpt().cuda()
    run = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    ids = torch.randint(0, vocab, (sequences, context + 1), device="cuda")
    times, losses = [], []
    for step in range(steps + 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = run(ids[:, :-1], ids[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        torch.cuda.synchronize()
        if step >= 5:
            times.append(time.perf_counter() - start)
        losses.append(loss.item())
    print(json.dumps({"case": case, "seconds": times, "first_loss": losses[0], "device_mb": torch.cuda.max_memory_reserved() >> 20}))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--cases", default=",".join(CASES))
    p.add_argument("--program", default=os.path.join(HERE, "..", "build", "bench_train_step"))
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--pytorch", help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.pytorch:
        return pytorch(a.pytorch, a.steps)
    for case in a.cases.split(","):
        _, _, _, context, sequences, _ = CASES[case]
        makar_command = [*a.program.split(), "--case", case, "--steps", str(a.steps), "--device", "cuda", "--activations", "bf16"]
        peer_command = [sys.executable, os.path.abspath(__file__), "--pytorch", case, "--steps", str(a.steps)]
        rates = {}
        for who, command in [("makar", makar_command)] + ([] if a.no_peer else [("pytorch", peer_command)]):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"{case}: {who} failed: {done.stderr[-600:]}", flush=True)
                continue
            result = json.loads(done.stdout.splitlines()[-1])
            seconds = statistics.median(result["seconds"])
            rates[who] = context * sequences / seconds
            print(f"{case}: {who} {rates[who]:.0f} tok/s, {1e3 * seconds:.2f} ms (fastest {1e3 * min(result['seconds']):.2f}), "
                  f"loss {result['first_loss']:.4f}" + (f", GPU memory {result['device_mb']} MB" if "device_mb" in result else ""), flush=True)
        if len(rates) == 2:
            print(f"{case}: {rates['makar'] / rates['pytorch']:.3f} times PyTorch", flush=True)


if __name__ == "__main__":
    sys.exit(main())
