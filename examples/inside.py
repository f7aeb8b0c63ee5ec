#!/usr/bin/env python3
"""Recomputes the formulas of docs/inside.md in plain Python and compares them with what makar computes.

Each part prints one line per formula: the largest difference between the two. The models are those of tests/golden/models, with random
weights, or tiny ones trained for a few steps.

usage: inside.py [--makar PROGRAM] PART...     PART: transformer, positions, losses, optimizers, sampling, lora, preferences, or all
"""
import argparse
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests/golden/models"
TOLERANCE = 1e-4
failed = []


def report(what, difference, tolerance=TOLERANCE):
    good = difference <= tolerance
    print(f"{what}: largest difference {difference:.1e}{'' if good else '  TOO LARGE'}")
    if not good:
        failed.append(what)


def makar(*words, text=None):
    done = subprocess.run([arguments.makar, *map(str, words)], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"makar {' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def read_tensors(path):
    """-> {name: flat list of numbers} of a safetensors file"""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    out = {}
    for name, about in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = about["data_offsets"]
            kind, width = {"F32": ("f", 4), "I64": ("q", 8)}[about["dtype"]]
            out[name] = list(struct.unpack(f"<{(end - begin) // width}{kind}", data[8 + size + begin:8 + size + end]))
    return out


def rows_of(flat, width):
    return [flat[i:i + width] for i in range(0, len(flat), width)]


def far(a, b):
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def flat(rows):
    return [v for row in rows for v in row]


# -- the formulas ------------------------------------------------------------------------------------------------
def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def linear(x, w, bias=None):
    """x W^T + b, with the rows of W as outputs"""
    return [[dot(row, out) + (bias[i] if bias else 0) for i, out in enumerate(w)] for row in x]


def softmax(scores):
    top = max(scores)
    powers = [math.exp(s - top) for s in scores]
    return [p / sum(powers) for p in powers]


def rms_norm(x, w, eps):
    return [[v / math.sqrt(dot(row, row) / len(row) + eps) * g for v, g in zip(row, w)] for row in x]


def layer_norm(x, w, b, eps):
    out = []
    for row in x:
        mean = sum(row) / len(row)
        scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + eps)
        out.append([(v - mean) * scale * g + c for v, g, c in zip(row, w, b)])
    return out


def rotated(head, position, theta):
    half = len(head) // 2
    angles = [position * theta ** (-2 * c / len(head)) for c in range(half)]
    return ([head[c] * math.cos(a) - head[c + half] * math.sin(a) for c, a in enumerate(angles)] +
            [head[c + half] * math.cos(a) + head[c] * math.sin(a) for c, a in enumerate(angles)])


def attention(q, k, v, heads, kv_heads, width):
    """-> outputs, and the weights of each head; a key after the query has the weight 0"""
    out, maps = [[] for _ in q], []
    for h in range(heads):
        at = h * kv_heads // heads * width
        keys, values = [row[at:at + width] for row in k], [row[at:at + width] for row in v]
        rows = []
        for i, row in enumerate(q):
            mine = row[h * width:(h + 1) * width]
            weights = softmax([dot(mine, key) / math.sqrt(width) for key in keys[:i + 1]])
            out[i] += [sum(w * value[c] for w, value in zip(weights, values)) for c in range(width)]
            rows.append(weights + [0] * (len(q) - i - 1))
        maps.append(rows)
    return out, maps


def plus(x, y):
    return [[a + b for a, b in zip(r, s)] for r, s in zip(x, y)]


# -- the parts ---------------------------------------------------------------------------------------------------
def forward(name):
    """-> config, weights, tokens of the first sequence, makar's outputs"""
    folder = GOLDEN / name
    config = json.loads((folder / "config.json").read_text())
    inputs = read_tensors(folder / "golden.safetensors")["in.input_ids"]
    makar("forward", folder, "-i", folder / "golden.safetensors", "-o", scratch / f"{name}.safetensors", "--attentions")
    return config, read_tensors(folder / "model.safetensors"), inputs[:17], read_tensors(scratch / f"{name}.safetensors")


def compare(name, outputs, hidden, maps, logits):
    report(f"{name}: attention weights of layer 0", far(flat(flat(maps)), outputs["out.attentions.0.0"]))
    for i, rows in enumerate(hidden):
        values = flat(rows)
        report(f"{name}: hidden state {i}", far(values, outputs[f"out.hidden_states.{i}"][:len(values)]))
    report(f"{name}: logits", far(flat(logits), outputs["out.logits"][:len(flat(logits))]))


def llama():
    config, w, tokens, outputs = forward("llama")
    width, heads, kv, size = (config[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "head_dim"))
    matrix = lambda key, columns=width: rows_of(w[key], columns)  # noqa: E731
    table = matrix("model.embed_tokens.weight")
    x, hidden, first = [table[t] for t in tokens], [], None
    for layer in range(config["num_hidden_layers"]):
        hidden.append(x)
        p = f"model.layers.{layer}."
        y = rms_norm(x, w[p + "input_layernorm.weight"], config["rms_norm_eps"])
        q, k, v = (linear(y, matrix(f"{p}self_attn.{n}_proj.weight")) for n in "qkv")
        q, k = ([flat(rotated(head, i, config["rope_theta"]) for head in rows_of(row, size)) for i, row in enumerate(z)] for z in (q, k))
        mixed, maps = attention(q, k, v, heads, kv, size)
        first = first or maps
        x = plus(x, linear(mixed, matrix(p + "self_attn.o_proj.weight")))
        y = rms_norm(x, w[p + "post_attention_layernorm.weight"], config["rms_norm_eps"])
        gate, up = linear(y, matrix(p + "mlp.gate_proj.weight")), linear(y, matrix(p + "mlp.up_proj.weight"))
        inner = [[g / (1 + math.exp(-g)) * u for g, u in zip(*both)] for both in zip(gate, up)]  # SwiGLU
        x = plus(x, linear(inner, matrix(p + "mlp.down_proj.weight", config["intermediate_size"])))
    x = rms_norm(x, w["model.norm.weight"], config["rms_norm_eps"])
    compare("Llama (RMSNorm, rotary positions, grouped queries, SwiGLU)", outputs, [*hidden, x], first, linear(x, matrix("lm_head.weight")))


def gpt2():
    config, w, tokens, outputs = forward("gpt2")
    width, heads, eps = config["n_embd"], config["n_head"], config["layer_norm_epsilon"]
    columns = lambda key, n: list(zip(*rows_of(w[key], n)))  # noqa: E731  GPT-2 stores W, not its transpose
    gelu = lambda v: 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))  # noqa: E731
    table, positions = rows_of(w["transformer.wte.weight"], width), rows_of(w["transformer.wpe.weight"], width)
    x, hidden, first = plus([table[t] for t in tokens], positions), [], None
    for layer in range(config["n_layer"]):
        hidden.append(x)
        p = f"transformer.h.{layer}."
        norm = lambda z, n: layer_norm(z, w[f"{p}{n}.weight"], w[f"{p}{n}.bias"], eps)  # noqa: E731
        product = lambda z, n, out: linear(z, columns(f"{p}{n}.weight", out), w[f"{p}{n}.bias"])  # noqa: E731
        qkv = product(norm(x, "ln_1"), "attn.c_attn", 3 * width)
        q, k, v = ([row[i * width:(i + 1) * width] for row in qkv] for i in range(3))
        mixed, maps = attention(q, k, v, heads, heads, width // heads)
        first = first or maps
        x = plus(x, product(mixed, "attn.c_proj", width))
        inner = [[gelu(v) for v in row] for row in product(norm(x, "ln_2"), "mlp.c_fc", 4 * width)]
        x = plus(x, product(inner, "mlp.c_proj", width))
    x = layer_norm(x, w["transformer.ln_f.weight"], w["transformer.ln_f.bias"], eps)
    compare("GPT-2 (LayerNorm, learned positions, GELU)", outputs, [*hidden, x], first, linear(x, table))


def transformer():
    llama(), gpt2()


def positions():
    def of(name, n=12):
        return json.loads(makar("inspect", GOLDEN / name, "--positions", n, "--json"))[0]
    for name, width in (("llama", 16), ("marian-sinusoidal", 64)):
        cosines = [sum(math.cos((i - j) * 10000 ** (-2 * c / width)) for c in range(width // 2)) for i in range(12) for j in range(12)]
        drawn = of(name)
        report(f"{drawn['kind']}: dot products of positions are sums of cosines of the distance", far(cosines, flat(drawn["dot_products"])))
    slope = 2 ** -2  # of the first of four heads: 2^(-8/4)
    report("alibi: the bias is -slope * distance", far([-slope * (i - j) if j <= i else 0 for i in range(12) for j in range(12)], flat(of("bloom-alibi")["bias"])))


def tiny_model():
    """Trained for a few steps on the fables, with characters as tokens."""
    folder = scratch / "tiny"
    if not folder.exists():
        makar("pretrain", "-d", ROOT / "recipes/data/fables.txt", "--tokenizer", "char", "--model-type", "llama", "--layers", 2, "--width", 32, "--heads", 2, "--sequence-len", 64,
              "--max-steps", 8, "-o", folder, "-q")
    return folder


def losses():
    text = "A fox saw some grapes."
    score = json.loads(makar("score", "-m", tiny_model(), "--completion", text, "--json"))
    logprobs = [t["logprob"] for t in score["token_logprobs"]]
    report("the loss of a text is the sum of -log p of its tokens", abs(sum(logprobs) - score["logprob"]))
    report("perplexity = exp(mean cross-entropy)", abs(math.exp(-sum(logprobs) / len(logprobs)) - score["perplexity"]))
    config, _, tokens, outputs = forward("llama")
    logits = rows_of(outputs["out.logits"], config["vocab_size"])
    entropy = [math.log(sum(math.exp(v) for v in row)) - row[t] for row, t in zip(logits, tokens[1:])]
    report("cross-entropy = log sum e^logit - logit[target]", far(entropy, [-math.log(softmax(row)[t]) for row, t in zip(logits, tokens[1:])]))


def weights_after(*words):
    folder = scratch / f"step-{'-'.join(words).replace('/', '_')}"
    makar("pretrain", "-d", ROOT / "recipes/data/fables.txt", "--tokenizer", "char", "--layers", 1, "--width", 16, "--heads", 2, "--sequence-len", 32, "--max-steps", 1,
           "--micro-batch-size", 2, "--lr-scheduler", "constant", "--warmup-steps", 0, "--weight-decay", 0, "-o", folder, "-q", *words)
    return flat(v for _, v in sorted(read_tensors(folder / "model.safetensors").items()))


def optimizers():
    before = weights_after("--optimizer", "sgd", "--learning-rate", "0")
    lr = 0.01
    plain = ["--optimizer", "sgd", "--max-grad-norm", "0"]
    once, ten = (weights_after(*plain, "--learning-rate", str(x)) for x in (lr, 10 * lr))
    gradient = [(b - a) / (10 * lr) for a, b in zip(ten, before)]
    report("SGD: w - lr g", far(once, [w - lr * g for w, g in zip(before, gradient)]), 1e-6)
    lion = weights_after("--optimizer", "lion", "--learning-rate", str(lr), "--max-grad-norm", "0")
    large = [i for i, g in enumerate(gradient) if abs(g) > 1e-4]  # smaller ones are lost in the difference of two weights
    sign = lambda g: (g > 0) - (g < 0)  # noqa: E731
    report(f"Lion, first step: w - lr sign(g), {len(large)} weights", max(abs(lion[i] - before[i] + lr * sign(gradient[i])) for i in large), 1e-6)
    adam = weights_after("--optimizer", "adamw", "--learning-rate", str(lr), "--max-grad-norm", "0")
    report("AdamW, first step: m / sqrt(s) = g / |g|, so also w - lr sign(g)", max(abs(adam[i] - before[i] + lr * sign(gradient[i])) for i in large), 1e-5)
    clipped = weights_after("--optimizer", "sgd", "--learning-rate", "1", "--max-grad-norm", "0.5")
    report("gradient clipped to the norm 0.5: the length of the step at lr 1", abs(math.dist(before, clipped) - 0.5), 1e-3)


def sampling():
    model, prompt, temperature = tiny_model(), "The fox", 0.7
    tokens = [int(i) for i in makar("tokenizer", "encode", model / "tokenizer.json", "--text", prompt).split()]
    head = json.dumps({"in.input_ids": {"dtype": "I64", "shape": [1, len(tokens)], "data_offsets": [0, 8 * len(tokens)]}}).encode()
    (scratch / "in.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + struct.pack(f"<{len(tokens)}q", *tokens))
    makar("forward", model, "-i", scratch / "in.safetensors", "-o", scratch / "out.safetensors")
    logits = read_tensors(scratch / "out.safetensors")["out.logits"]
    logits = logits[-(len(logits) // len(tokens)):]  # of the last token
    p = softmax(logits)
    top = json.loads(makar("generate", "-m", model, prompt, "-n", 1, "--logprobs", 5, "--json", "--temperature", 0))["answers"][0]["logprobs"][0]
    shown = [(t["id"], t["logprob"]) for t in top["top"]]
    best = sorted(range(len(p)), key=lambda i: -p[i])[:5]
    report("log p of the five best tokens = log softmax(logits)", max(abs(math.log(p[i]) - logprob) + (i != j) for i, (j, logprob) in zip(best, shown)))
    # How often each token is drawn at a temperature, beside softmax(logits / T).
    lines = "".join(json.dumps({"prompt": prompt, "seed": seed, "max_tokens": 1, "temperature": temperature, "top_k": 3}) + "\n" for seed in range(1000))
    drawn = [json.loads(line)["answers"][0]["ids"][0] for line in makar("generate", "-m", model, "--jsonl", text=lines).splitlines()]
    report("1000 samples with T = 0.7 and top-k 3: shares of the tokens and softmax(logits / T)",
           far([drawn.count(i) / len(drawn) for i in best[:3]], softmax([logits[i] / temperature for i in best[:3]])), 0.05)


def lora():
    base, r, alpha = tiny_model(), 4, 8
    (scratch / "chats.jsonl").write_text("".join(json.dumps({"prompt": f"Who is {n}?", "completion": n}) + "\n" for n in ("a fox", "a crow", "a lion", "a mouse")))
    makar("sft", "-m", base, "-d", scratch / "chats.jsonl", "--adapter", "lora", "--lora-r", r, "--lora-alpha", alpha, "--max-steps", 4, "--val-set-size", 0,
          "--learning-rate", "1e-2", "--micro-batch-size", 2, "-o", scratch / "lora", "-q")
    makar("merge", "-m", base, "--lora", scratch / "lora", "-o", scratch / "merged")
    before, after, adapter = (read_tensors(scratch / n / f) for n, f in (("tiny", "model.safetensors"), ("merged", "model.safetensors"), ("lora", "adapter_model.safetensors")))
    largest = 0
    for key in (k for k in adapter if k.endswith("lora_A.weight")):
        name = key.removeprefix("base_model.model.").replace("lora_A.weight", "weight")
        a, b = rows_of(adapter[key], len(adapter[key]) // r), rows_of(adapter[key.replace("lora_A", "lora_B")], r)
        product = [alpha / r * sum(row[i] * a[i][c] for i in range(r)) for row in b for c in range(len(a[0]))]
        largest = max(largest, far([w + d for w, d in zip(before[name], product)], after[name]))
    report("LoRA: W' = W + alpha / r B A", largest, 1e-6)


def preferences():
    pair = {"prompt": "Who is old?", "chosen": " the lion", "rejected": " the grapes"}
    (scratch / "pairs.jsonl").write_text((json.dumps(pair) + "\n") * 4)
    beta, losses_of = 0.3, {}
    for loss in ("sigmoid", "hinge"):
        makar("dpo", "-m", tiny_model(), "-d", scratch / "pairs.jsonl", "--val-set-size", 0, "--beta", beta, "--loss-type", loss, "--max-steps", 3, "--micro-batch-size", 1,
              "--gradient-accumulation-steps", 1, "--logging-steps", 1, "--learning-rate", "1e-2", "--warmup-steps", 0, "-o", scratch / loss, "-q")
        lines = [json.loads(line) for line in (scratch / loss / "log.jsonl").read_text().splitlines()]
        losses_of[loss] = [(line["loss"], line["metrics"]["rewards/margins"]) for line in lines if "metrics" in line and "loss" in line]
    report("DPO: -log sigmoid(beta m)", max(abs(math.log(1 + math.exp(-margin)) - loss) for loss, margin in losses_of["sigmoid"]))
    report("hinge: max(0, 1 - beta m)", max(abs(max(0, 1 - margin) - loss) for loss, margin in losses_of["hinge"]))
    report("DPO before the first step: log 2", abs(losses_of["sigmoid"][0][0] - math.log(2)), 1e-5)


PARTS = {f.__name__: f for f in (transformer, positions, losses, optimizers, sampling, lora, preferences)}
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--makar", default=str(ROOT / "build/makar"))
parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"])
arguments = parser.parse_args()
with tempfile.TemporaryDirectory() as folder:
    scratch = pathlib.Path(folder)
    for part in PARTS if "all" in arguments.parts else arguments.parts:
        PARTS[part]()
sys.exit(1 if failed else 0)
