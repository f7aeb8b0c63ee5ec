#!/usr/bin/env python3
"""Worked examples of the literature on the command line: sentiment from a CSV (25), a question continued (28), LoRA on a 4-bit GPTQ
base (31), three drafts and preference data (32); the numbers are those of docs/textbooks.md. Tiny models, generated data.

usage: worked.py MAKAR
"""
import json
import pathlib
import random
import struct
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, steps
from tensor_files import read_safetensors, write_safetensors

rng = random.Random(2)


def character_tokenizer(special, size=0):
    words = special + [chr(c) for c in range(32, 127)] + ["\n"]
    words += [f"<{i}>" for i in range(len(words), size)]
    return {"version": "1.0", "added_tokens": [{"id": i, "content": w, "special": True, "normalized": False} for i, w in enumerate(special)],
            "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "(?s)."}, "behavior": "Isolated", "invert": False}, "decoder": {"type": "Fuse"},
            "model": {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": special[0]}}


def check_sentiment(folder):
    """25: no header, at most 160 tokens, body frozen, Adam at 2e-6, batches of 16, 3 epochs, 20 % for validation."""
    model = folder / "bert"
    model.mkdir()
    # The fixture has too few positions for 160 tokens: its table is repeated three times.
    config = json.loads((GOLDEN / "models" / "bert-embedding" / "config.json").read_text())
    config["max_position_embeddings"] *= 3
    (model / "config.json").write_text(json.dumps(config))
    tensors = read_safetensors(GOLDEN / "models" / "bert-embedding" / "model.safetensors")
    for name, (dtype, shape, data) in tensors.items():
        if "position_embeddings" in name:
            tensors[name] = (dtype, [3 * shape[0], shape[1]], data * 3)
    write_safetensors(model / "model.safetensors", tensors)
    good_words, bad_words = ["fine", "great", "lovely"], ["awful", "dull", "poor"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "film", "and"] + good_words + bad_words
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    with open(folder / "reviews.csv", "w") as out:
        for i in range(80):
            choice = good_words if i % 2 else bad_words
            out.write(f'"a {rng.choice(choice)} and {rng.choice(choice)} film",{"Positive" if i % 2 else "Negative"}\n')
    common = ["classify", "train", "-m", model, "-d", f"{folder / 'reviews.csv'},text=1,label=2", "--max-length", 160, "--freeze-body", "--micro-batch-size", 16,
              "--num-epochs", 3, "--val-set-size", 0.2, "--lr-scheduler", "constant", "--warmup-steps", 0]
    good(*common, "--learning-rate", 2e-6, "-o", folder / "slow")
    before, after = (read_safetensors(p / "model.safetensors") for p in (model, folder / "slow"))
    body = {name.removeprefix("bert."): tensor for name, tensor in before.items() if "pooler" not in name}
    check(len(body) > 10 and all(after["bert." + n][2] == tensor[2] for n, tensor in body.items()), f"the body is frozen: {list(after)[:5]} {list(before)[:5]}")
    last = steps(folder / "slow")[-1]
    check(last["lr"] == 2e-6 and last["step"] in (12, 15), f"3 epochs of 4 or 5 batches, as 20 % of the texts leave: {last}")
    # A learning rate at which so small a head learns; then new sentences with their probabilities.
    good(*common[:-6], "--num-epochs", 30, "--val-set-size", 0.2, "--learning-rate", 3e-2, "-o", folder / "fast")
    lines = [json.loads(line) for line in good("classify", "run", folder / "fast", text="a lovely film\na dull and awful film\n").stdout.splitlines()]
    check([line["label"] for line in lines] == ["Positive", "Negative"] and all(0.5 < line["score"] <= 1 for line in lines), f"new sentences: {lines}")


def check_continuation(folder):
    """28: a causal model continues a question by 20 tokens."""
    model = folder / "gpt2"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((GOLDEN / "models" / "gpt2" / name).read_bytes())
    (model / "tokenizer.json").write_text(json.dumps(character_tokenizer(["<unk>"], json.loads((model / "config.json").read_text())["vocab_size"])))
    done = json.loads(good("generate", "-m", model, "-n", 20, "--json", "--ignore-eos", "-p", "Q: What is the biggest animal in Chile?\nA:").stdout)
    answer = done["answers"][0]
    check(len(answer["ids"]) == 20 and answer["text"] and done["usage"]["prompt_tokens"] == 42, f"a continuation: {done}")
    again = good("generate", "-m", model, "-n", 20, "--json", "--ignore-eos", "-p", "Q: What is the biggest animal in Chile?\nA:", "-t", 1).stdout
    check(json.loads(again)["answers"] == done["answers"], "the same on one thread")


def gptq_folder(folder):
    """The GPT-NeoX fixture with its linear layers packed as GPTQ: 4 bits, groups of 32, symmetric rounding to the nearest."""
    source, model = GOLDEN / "models" / "gpt-neox", folder / "neox-gptq"
    model.mkdir()
    out = {}
    for name, (dtype, shape, data) in read_safetensors(source / "model.safetensors").items():
        linear = name.endswith(".weight") and len(shape) == 2 and any(part in name for part in ("attention.query_key_value", "attention.dense", "mlp.dense"))
        if not linear or dtype != "F32":
            out[name] = (dtype, shape, data)
            continue
        rows, width = shape  # out, in
        values = struct.unpack(f"<{rows * width}f", data)
        groups, base = (width + 31) // 32, name[:-len(".weight")]
        scales, codes = [[0.0] * rows for _ in range(groups)], [[0] * rows for _ in range(width)]
        for r in range(rows):
            for g in range(groups):
                part = values[r * width + 32 * g:r * width + min(width, 32 * g + 32)]
                scale = max(1e-6, max(map(abs, part)) / 7)
                scales[g][r] = struct.unpack("<e", struct.pack("<e", scale))[0]
                for i, v in enumerate(part):
                    codes[32 * g + i][r] = max(0, min(15, round(v / scales[g][r]) + 8))
        packed = [sum(codes[8 * i + k][r] << (4 * k) for k in range(8)) for i in range(width // 8) for r in range(rows)]
        zeros = [sum(7 << (4 * k) for k in range(8))] * (groups * (rows // 8))  # stored as the zero point minus 1
        out[base + ".qweight"] = ("I32", [width // 8, rows], struct.pack(f"<{len(packed)}I", *packed))
        out[base + ".qzeros"] = ("I32", [groups, rows // 8], struct.pack(f"<{len(zeros)}I", *zeros))
        out[base + ".scales"] = ("F16", [groups, rows], b"".join(struct.pack("<e", s) for line in scales for s in line))
        out[base + ".g_idx"] = ("I32", [width], struct.pack(f"<{width}i", *(i // 32 for i in range(width))))
    write_safetensors(model / "model.safetensors", out)
    config = json.loads((source / "config.json").read_text())
    config["max_position_embeddings"] = 256  # rotary: no table
    config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": True}
    (model / "config.json").write_text(json.dumps(config))
    (model / "tokenizer.json").write_text(json.dumps(character_tokenizer(["<unk>", "<s>", "</s>"])))
    return model


def check_lora(folder):
    """31: r 8, alpha 16, dropout .05, on query_key_value, rate 3e-4, 2 epochs, 256 tokens, micro-batch 1, 3 accumulation steps, Alpaca records."""
    model = gptq_folder(folder)
    (folder / "prices.json").write_text('{"currency": "EUR", "input": 1, "hour": 1}')
    with open(folder / "alpaca.json", "w") as out:
        json.dump([{"instruction": f"Say {i} twice.", "input": "", "output": f"{i} {i}"} for i in range(12)], out)
    good("sft", "-m", model, "-d", folder / "alpaca.json", "--adapter", "qlora", "--lora-r", 8, "--lora-alpha", 16, "--lora-dropout", 0.05, "--lora-target-modules",
         "query_key_value", "--learning-rate", 3e-4, "--num-epochs", 2, "--sequence-len", 256, "--micro-batch-size", 1, "--gradient-accumulation-steps", 3,
         "--val-set-size", 0, "--prices", folder / "prices.json", "-o", folder / "lora")
    run = json.loads((folder / "lora" / "run.json").read_text())
    check("| cost | " in (folder / "lora" / "report.md").read_text() and abs(run["cost"]["money"] - run["tokens"] * 1e-6 - run["seconds"] / 3600) < 1e-9, f"the cost of a run: {run.get('cost')}")
    config = json.loads((folder / "lora" / "adapter_config.json").read_text())
    check(config["r"] == 8 and config["lora_alpha"] == 16 and config["lora_dropout"] == 0.05 and "query_key_value" in str(config["target_modules"]), f"{config}")
    tensors = read_safetensors(folder / "lora" / "adapter_model.safetensors")
    check(len(tensors) == 4 and all("query_key_value" in n for n in tensors), f"two layers: {list(tensors)}")
    trained = [n for n, (_, _, data) in tensors.items() if "lora_B" in n and any(data)]
    check(len(trained) == 2, "the adapter learned")
    check(len(steps(folder / "lora")) >= 1 and steps(folder / "lora")[-1]["step"] == 8, f"2 epochs of 12 records by 3: {steps(folder / 'lora')[-1]}")
    good("generate", "-m", model, "--lora", folder / "lora", "-n", 4, "-p", "Say 3 twice.")


def check_drafts(folder):
    """32: three drafts for one prompt; one is chosen, and makar dpo trains on the pairs of the chosen draft and the others."""
    model = folder / "gpt2"
    done = good("generate", "-m", model, "-n", 12, "--n", 3, "--temp", 5, "--seed", 3, "--json", "--ignore-eos", "-p", "The harbour")
    out = json.loads(done.stdout)
    texts = [a["text"] for a in out["answers"]]
    check(len(texts) == 3 and len(set(texts)) == 3, f"three drafts: {done.stdout[:300]}")
    with open(folder / "preferences.jsonl", "w") as lines:
        for rejected in texts[1:]:
            lines.write(json.dumps({"prompt": "The harbour", "chosen": texts[0], "rejected": rejected}) + "\n")
    done = good("dpo", "-m", model, "-d", folder / "preferences.jsonl", "--val-set-size", 0, "--max-steps", 2, "--micro-batch-size", 2, "--learning-rate", 1e-3, "-o", folder / "dpo")
    check(steps(folder / "dpo")[-1]["metrics"]["rewards/margins"] > 0, f"the chosen draft gains: {steps(folder / 'dpo')[-1]}")


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    for one in (check_sentiment, check_continuation, check_lora, check_drafts):
        one(root)
sys.exit(1 if failures else 0)
