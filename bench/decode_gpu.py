#!/usr/bin/env python3
"""Decoding on a GPU in bf16: makar against PyTorch compiled (CUDA graphs, static cache), in the same run.

usage: ./dev bench decode_gpu [--shape NAME] [--batches 1,8,64] [--tokens N] [--depth N] [--program FILE] [--no-peer]

The model has random weights and the shapes of TinyLlama 1.1B (--shape llama), or of OLMoE 1B-7B (--shape olmoe: 64 experts, 8 per
token; without PyTorch).
"""
# builds: makar
import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, WIDTH, HEADS, KV_HEADS, DIM, INNER, VOCAB = 22, 2048, 32, 4, 64, 5632, 32000


def shapes():
    out = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (VOCAB, WIDTH)}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        out.update({at + "input_layernorm.weight": (WIDTH,), at + "post_attention_layernorm.weight": (WIDTH,),
                    at + "self_attn.q_proj.weight": (HEADS * DIM, WIDTH), at + "self_attn.k_proj.weight": (KV_HEADS * DIM, WIDTH),
                    at + "self_attn.v_proj.weight": (KV_HEADS * DIM, WIDTH), at + "self_attn.o_proj.weight": (WIDTH, HEADS * DIM),
                    at + "mlp.gate_proj.weight": (INNER, WIDTH), at + "mlp.up_proj.weight": (INNER, WIDTH),
                    at + "mlp.down_proj.weight": (WIDTH, INNER)})
    return out


EXPERTS, EXPERTS_PER_TOKEN, EXPERT_INNER, EXPERT_LAYERS, EXPERT_HEADS, EXPERT_VOCAB = 64, 8, 1024, 16, 16, 50304


def shapes_of_experts():
    out = {"model.embed_tokens.weight": (EXPERT_VOCAB, WIDTH), "model.norm.weight": (WIDTH,), "lm_head.weight": (EXPERT_VOCAB, WIDTH)}
    for i in range(EXPERT_LAYERS):
        at = f"model.layers.{i}."
        out.update({at + name + ".weight": (WIDTH,) for name in ("input_layernorm", "post_attention_layernorm", "self_attn.q_norm", "self_attn.k_norm")})
        out.update({at + f"self_attn.{name}_proj.weight": (WIDTH, WIDTH) for name in "qkvo"})
        out[at + "mlp.gate.weight"] = (EXPERTS, WIDTH)
        for e in range(EXPERTS):
            out.update({at + f"mlp.experts.{e}.{name}_proj.weight": (EXPERT_INNER, WIDTH) for name in ("gate", "up")})
            out[at + f"mlp.experts.{e}.down_proj.weight"] = (WIDTH, EXPERT_INNER)
    return out


CONFIG_OF_EXPERTS = {"architectures": ["OlmoeForCausalLM"], "model_type": "olmoe", "hidden_size": WIDTH, "intermediate_size": EXPERT_INNER,
                     "num_hidden_layers": EXPERT_LAYERS, "num_attention_heads": EXPERT_HEADS, "num_key_value_heads": EXPERT_HEADS,
                     "vocab_size": EXPERT_VOCAB, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
                     "tie_word_embeddings": False, "num_experts": EXPERTS, "num_experts_per_tok": EXPERTS_PER_TOKEN, "norm_topk_prob": False,
                     "attention_bias": False, "clip_qkv": None, "bos_token_id": 1, "eos_token_id": 50279, "torch_dtype": "bfloat16"}


def write_model(folder, experts):
    """A folder with config.json and model.safetensors in bf16: random weights of about 0.01, norms of 1."""
    config = CONFIG_OF_EXPERTS if experts else {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH, "intermediate_size": INNER,
              "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "bfloat16"}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    header, at = {}, 0
    all_shapes = shapes_of_experts() if experts else shapes()
    for name, shape in all_shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    # bf16 values of either sign with exponents of -7 and -6: random bytes with most exponent bits fixed.
    block = 1 << 23
    clear = int.from_bytes(b"\xff\x80" * (block // 2), "little")
    fixed = int.from_bytes(b"\x00\x3c" * (block // 2), "little")
    blocks = [(int.from_bytes(os.urandom(block), "little") & clear | fixed).to_bytes(block, "little") for _ in range(61)]
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        one, at = b"\x80\x3f", 0
        for name, shape in all_shapes.items():
            size = header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
            if len(shape) == 1:
                f.write(one * shape[0])
                continue
            for begin in range(0, size, block):
                f.write(blocks[at % len(blocks)][:size - begin])
                at += 1


def makar(program, folder, args):
    command = [program, "bench", folder, "--device", "cuda", "--bf16", "-p", "512", "-n", str(args.tokens), "-d", str(args.depth), "-r", "3", "--json"]
    for batch in args.batches.split(","):
        command += ["-b", batch]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"makar failed: {done.stderr[-800:]}")
    out = {}
    for line in done.stdout.splitlines():
        result = json.loads(line)
        out[result["case"]] = result
        print(f"makar {result['case']}: {result['tokens_per_second']:.0f} tok/s ({100 * result['spread']:.1f} %)", flush=True)
    return out


def pytorch(args):
    """Tokens per second by batch: a compiled decode step in CUDA graphs, greedy, on a static cache."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(1)
    torch.set_grad_enabled(False)
    w = {name: torch.randn(shape, device="cuda", dtype=torch.bfloat16) * 0.02 if len(shape) > 1 else torch.ones(shape, device="cuda", dtype=torch.bfloat16)
         for name, shape in shapes().items()}
    for i in range(LAYERS):
        at = f"model.layers.{i}."
        w[at + "qkv"] = torch.cat([w.pop(at + f"self_attn.{x}_proj.weight") for x in "qkv"])
        w[at + "gate_up"] = torch.cat([w.pop(at + f"mlp.{x}_proj.weight") for x in ("gate", "up")])
    length = args.depth + args.tokens
    angle = torch.arange(length, device="cuda")[:, None] * 10000.0 ** (-torch.arange(0, DIM, 2, device="cuda") / DIM)
    cos, sin = angle.cos().bfloat16(), angle.sin().bfloat16()

    def rope(x, at):
        a, b = x.chunk(2, -1)
        c, s = cos[at], sin[at]
        return torch.cat([a * c - b * s, b * c + a * s], -1)

    def step(ids, at, keys, values, mask):
        x = w["model.embed_tokens.weight"][ids]
        n = ids.shape[0]
        for i in range(LAYERS):
            p = f"model.layers.{i}."
            h = F.rms_norm(x, (WIDTH,), w[p + "input_layernorm.weight"], 1e-5)
            q, k, v = F.linear(h, w[p + "qkv"]).split([HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
            q, k = rope(q.view(n, HEADS, DIM), at), rope(k.view(n, KV_HEADS, DIM), at)
            keys[i].index_copy_(2, at, k[:, :, None])
            values[i].index_copy_(2, at, v.view(n, KV_HEADS, 1, DIM))
            y = F.scaled_dot_product_attention(q[:, :, None], keys[i], values[i], attn_mask=mask[at][None, None], enable_gqa=True)
            x = x + F.linear(y.reshape(n, HEADS * DIM), w[p + "self_attn.o_proj.weight"])
            h = F.rms_norm(x, (WIDTH,), w[p + "post_attention_layernorm.weight"], 1e-5)
            gate, up = F.linear(h, w[p + "gate_up"]).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, w[p + "mlp.down_proj.weight"])
        return F.linear(F.rms_norm(x, (WIDTH,), w["model.norm.weight"], 1e-5), w["lm_head.weight"]).argmax(-1)

    mask = torch.ones(length, length, device="cuda", dtype=torch.bool).tril()
    out = {}
    for batch in map(int, args.batches.split(",")):
        torch._dynamo.reset()
        run = torch.compile(step, mode="reduce-overhead", fullgraph=True)
        cache = [[torch.zeros(batch, KV_HEADS, length, DIM, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)] for _ in range(2)]
        ids = torch.zeros(batch, device="cuda", dtype=torch.long)
        at = torch.full((1,), args.depth, device="cuda")
        for _ in range(4):
            run(ids, at, *cache, mask)
        best = 0.0
        for _ in range(3):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for i in range(args.tokens):
                at.fill_(args.depth + i)
                ids = run(ids, at, *cache, mask).clone()
            torch.cuda.synchronize()
            best = max(best, batch * args.tokens / (time.perf_counter() - begin))
        out[batch] = best
        print(f"pytorch batch {batch}: {best:.0f} tok/s", flush=True)
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--shape", choices=("llama", "olmoe"), default="llama")
    p.add_argument("--batches", default="1,8,64")
    p.add_argument("--tokens", type=int, default=128)
    p.add_argument("--depth", type=int, default=128)
    p.add_argument("--program", default=os.path.join(HERE, "../build/makar"))
    p.add_argument("--no-peer", action="store_true")
    p.add_argument("--model", help="write the model here and keep it")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = args.model or folder
        os.makedirs(folder, exist_ok=True)
        if not os.path.exists(os.path.join(folder, "model.safetensors")):
            write_model(folder, args.shape == "olmoe")
        makar(args.program, folder, args)
    if not args.no_peer and args.shape == "llama":
        pytorch(args)


if __name__ == "__main__":
    main()
