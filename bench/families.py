#!/usr/bin/env python3
"""Layers that differ: a mixture of 8 experts against a dense model of its active size in prefill, and Mamba's decoding against the
memory bandwidth and against a dense model of the same bytes. Random weights in f16 and q8_0; makar on both sides, in alternating rounds.

usage: ./dev bench families [--json] [--rounds N] [--threads N] [--width N] [--layers N] [--models FOLDER] [--makar PROGRAM] [--only NAME]

mixture: prefill of 512 tokens; 2 of 8 experts of width F per token, against a dense feed-forward of width 2 F. The ratio is dense
time over mixture time: 0.77 means that the mixture takes 1.3 times as long.
mamba, mamba2, decoder: decoding of one sequence; "peer_value" is the measured memory bandwidth, the ratio is the share of it that decoding
reaches (bytes of weights, states, and cached keys and values per token, divided by the time per token; a state is read and written).
"of the decoder": the share of mamba divided by the share of a Llama with about the same number of bytes; the median over the rounds.
"""
# builds: makar
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB, HEAD = 4096, 64


def fail(message):
    sys.exit(f"families.py: {message}")


def write_model(folder, config, tensors):
    """A folder with random f16 weights: one block of random numbers, repeated."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config | {"vocab_size": VOCAB, "torch_dtype": "float16"}, f)
    header, at = {}, 0
    for name, shape in tensors.items():
        size = 2
        for n in shape:
            size *= n
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    draw = random.Random(1)
    block = struct.pack("<65536e", *(draw.uniform(-0.035, 0.035) for _ in range(65536)))
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        left = at
        while left > 0:
            f.write(block[:left])
            left -= len(block)


def decoder(folder, layers, width, ffn, experts):
    heads = width // HEAD
    config = {"model_type": "mixtral" if experts else "llama", "architectures": ["MixtralForCausalLM" if experts else "LlamaForCausalLM"],
              "hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads,
              "intermediate_size": ffn, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
              "num_local_experts": experts, "num_experts_per_tok": 2, "sliding_window": None}
    t = {"model.embed_tokens.weight": (VOCAB, width), "model.norm.weight": (width,)}
    for i in range(layers):
        at = f"model.layers.{i}."
        t |= {at + "input_layernorm.weight": (width,), at + "post_attention_layernorm.weight": (width,)}
        t |= {at + f"self_attn.{p}_proj.weight": (width, width) for p in "qkvo"}
        if experts:
            t[at + "block_sparse_moe.gate.weight"] = (experts, width)
        for e in range(experts):
            w = at + f"block_sparse_moe.experts.{e}.w"
            t |= {w + "1.weight": (ffn, width), w + "2.weight": (width, ffn), w + "3.weight": (ffn, width)}
        if not experts:
            t |= {at + "mlp.gate_proj.weight": (ffn, width), at + "mlp.up_proj.weight": (ffn, width), at + "mlp.down_proj.weight": (width, ffn)}
    write_model(folder, config, t)


def mamba(folder, layers, width, is_mamba2):
    inner, states, taps, rank = 2 * width, 64 if is_mamba2 else 16, 4, width // 16
    heads, groups = inner // HEAD, 1
    config = {"model_type": "mamba2" if is_mamba2 else "mamba", "architectures": ["Mamba2ForCausalLM" if is_mamba2 else "MambaForCausalLM"],
              "hidden_size": width, "num_hidden_layers": layers, "state_size": states, "conv_kernel": taps, "expand": 2,
              "time_step_rank": rank, "num_heads": heads, "head_dim": HEAD, "n_groups": groups, "tie_word_embeddings": True}
    t = {"backbone.embeddings.weight": (VOCAB, width), "backbone.norm_f.weight": (width,)}
    channels = inner + 2 * groups * states if is_mamba2 else inner
    for i in range(layers):
        at = f"backbone.layers.{i}.mixer."
        t |= {f"backbone.layers.{i}.norm.weight": (width,), at + "conv1d.weight": (channels, 1, taps), at + "conv1d.bias": (channels,),
              at + "out_proj.weight": (width, inner)}
        if is_mamba2:
            t |= {at + "in_proj.weight": (inner + channels + heads, width), at + "dt_bias": (heads,), at + "A_log": (heads,),
                  at + "D": (heads,), at + "norm.weight": (inner,)}
        else:
            t |= {at + "in_proj.weight": (2 * inner, width), at + "x_proj.weight": (rank + 2 * states, inner),
                  at + "dt_proj.weight": (inner, rank), at + "dt_proj.bias": (inner,), at + "A_log": (inner, states), at + "D": (inner,)}
    write_model(folder, config, t)


def bench(makar, model, threads, *words):
    done = subprocess.run([makar, "bench", "-m", model, "-t", str(threads), "-r", "1", "-b", "1", "--json", *map(str, words)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        fail(f"makar bench {model}: {done.stderr[-1000:]}")
    return json.loads(done.stdout.splitlines()[0])


def spread(values):
    return (max(values) - min(values)) / 2 / statistics.median(values) if len(values) > 1 else 0.0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="one JSON object per line")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--width", type=int, default=1024)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--models", default=os.path.join(HERE, "../build/bench-families"))
    p.add_argument("--makar", default=os.path.join(HERE, "../build/makar"))
    p.add_argument("--only", default="", help="mixture, or decode")
    a = p.parse_args()
    prefill = ["mixture", "dense"] if a.only in ("", "mixture") else []
    decode = ["mamba", "mamba2", "decoder"] if a.only in ("", "decode") else []
    ffn = a.width * 7 // 4
    makers = {"mixture": lambda f: decoder(f, a.layers, a.width, ffn, 8), "dense": lambda f: decoder(f, a.layers, a.width, 2 * ffn, 0),
              "mamba": lambda f: mamba(f, 4 * a.layers, a.width, False), "mamba2": lambda f: mamba(f, 4 * a.layers, a.width, True),
              "decoder": lambda f: decoder(f, a.layers * 7 // 4, a.width, 2 * ffn, 0)}
    paths = {}
    for name in prefill + decode:
        paths[name] = os.path.join(a.models, f"{name}-{a.width}-{a.layers}")
        if not os.path.exists(os.path.join(paths[name], "model.safetensors")):
            makers[name](paths[name])
    for name in decode:
        paths[name + " q8_0"] = paths[name] + "-q8_0.gguf"
        if not os.path.exists(paths[name + " q8_0"]):
            subprocess.run([a.makar, "quantize", paths[name], paths[name + " q8_0"], "--type", "q8_0"], check=True, stdout=subprocess.DEVNULL)
    decode += [name + " q8_0" for name in decode]
    results = {name: [] for name in paths}
    for _ in range(a.rounds):
        for name in prefill:
            results[name].append(bench(a.makar, paths[name], a.threads, "-p", 512, "-n", 0))
        for name in decode:
            results[name].append(bench(a.makar, paths[name], a.threads, "-p", 0, "-n", 65))
    lines = []
    rate = {name: [line["tokens_per_second"] for line in results[name]] for name in results}
    if prefill:
        makar_value, peer_value = statistics.median(rate["mixture"]), statistics.median(rate["dense"])
        lines.append(("mixture of 8, 2 used, pp512", makar_value, "its active size, dense", peer_value, "tok/s", makar_value / peer_value,
                      spread(rate["mixture"]) + spread(rate["dense"])))
    for name in decode:
        speed = statistics.median(line["bytes_per_s"] for line in results[name])
        share = statistics.median(line["of_limit"] for line in results[name])
        lines.append((f"{name} tg64", speed / 1e9, "memory", speed / share / 1e9, "GB/s", share, spread(rate[name])))
    for name in [name for name in decode if not name.startswith("decoder")]:
        peer = "decoder" + name[len(name.split()[0]):]
        makar_value, peer_value = ([line["bytes_per_s"] / 1e9 for line in results[each]] for each in (name, peer))
        ratios = [x / y for x, y in zip(makar_value, peer_value)]
        lines.append((f"{name} of the decoder", statistics.median(makar_value), peer, statistics.median(peer_value), "GB/s", statistics.median(ratios), spread(ratios)))
    for case, makar_value, peer, peer_value, unit, ratio, noise in lines:
        if a.json:
            print(json.dumps({"bench": "families", "case": case, "threads": a.threads, "makar_value": round(makar_value, 3), "peer": peer,
                              "peer_value": round(peer_value, 3), "unit": unit, "ratio": round(ratio, 3), "spread": round(noise, 3)}), flush=True)
        else:
            print(f"{case:<30} {a.threads} threads  makar {makar_value:>9.2f}  {peer} {peer_value:>9.2f} {unit:<5}  {ratio:>5.2f} times  +-{noise * 100:.0f} %")


if __name__ == "__main__":
    sys.exit(main())
