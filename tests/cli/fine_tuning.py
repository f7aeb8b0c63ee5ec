#!/usr/bin/env python3
"""Fine-tuning through the program, on generated data: adapters on quantized bases, several adapters at once, regression and
next-sentence heads, a teacher, the learning-rate finder, decay schedules and background saves.

usage: fine_tuning.py MAKAR
"""
import gzip
import json
import pathlib
import random
import re
import shutil
import struct
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, refused
from tensor_files import read_safetensors

rng = random.Random(5)
THINGS = ["river", "stone", "garden", "window", "letter", "morning", "forest", "silver", "music", "winter"]


def log(folder, key="loss"):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line[key] for line in lines if key in line and "lr" in line]


def write_texts(folder):
    texts = folder / "texts.jsonl"
    with open(texts, "w") as f:
        for i in range(240):
            a = THINGS[i % len(THINGS)]
            words = [f"the {a} {rng.choice(['and', 'or', 'by'])} the {a} are {rng.choice(['near', 'not'])} the {a}" for _ in range(6)]
            f.write(json.dumps({"text": " ".join(words)}) + "\n")
    chats = folder / "chats.jsonl"
    with open(chats, "w") as f:
        for i in range(40):
            a = THINGS[i % len(THINGS)]
            f.write(json.dumps({"messages": [{"role": "user", "content": f"the {a}"}, {"role": "assistant", "content": f"near the {a}"}]}) + "\n")
    return texts, chats


def adapters(folder, base, chats):
    gguf = folder / "base.gguf"
    done = good("quantize", base, gguf, "--type", "q8_0")
    check("grows" not in done.stderr, f"fewer bits: {done.stderr}")
    good("quantize", base, folder / "small.gguf", "--type", "q4_0")
    done = good("quantize", folder / "small.gguf", folder / "larger.gguf", "--type", "q8_0")
    check("warning: the file grows" in done.stderr and "bits per weight, q8_0 takes 8.5" in done.stderr, f"more bits than before: {done.stderr}")
    common = ["-d", chats, "--val-set-size", 0, "--max-steps", 12, "--lr", 1e-2, "--save-steps", 4, "--sequence-len", 48, "--lora-r", 4, "-t", 2]
    runs = {}
    for name, model, words in (("gguf", gguf, ["--adapter", "qlora"]), ("q4_0", base, ["--adapter", "lora", "--quantize-base", "q4_0"]),
                               ("q8_0", base, ["--adapter", "qlora", "--quantize-base", "q8_0", "--use-dora"]), ("plain", base, ["--adapter", "lora"])):
        out = runs[name] = folder / f"adapter-{name}"
        good("sft", "-m", model, *common, *words, "-o", out)
        if (out / "log.jsonl").is_file():
            losses = log(out)
            check(losses[-1] < 0.93 * losses[0], f"{name}: the loss falls: {losses}")
        check((out / "adapter_model.safetensors").is_file() and not (out / "model.safetensors").exists(), f"{name}: an adapter is saved")
        check(json.loads((out / "adapter_config.json").read_text())["peft_type"] == "LORA", f"{name}: in PEFT's form")
    # Resumed from the middle: the same bytes.
    before = (runs["gguf"] / "adapter_model.safetensors").read_bytes()
    for file in (runs["gguf"] / "checkpoint-12").iterdir():
        file.unlink()
    (runs["gguf"] / "run.json").unlink()  # as if it had been killed after step 8
    (runs["gguf"] / "adapter_model.safetensors").unlink()
    done = good("sft", "-m", gguf, *common, "--adapter", "qlora", "-o", runs["gguf"])
    check("resuming at step 8" in done.stderr, f"an adapter's run resumes: {done.stderr}")
    check((runs["gguf"] / "adapter_model.safetensors").read_bytes() == before, "a resumed adapter has different bytes")
    refused("quantize_base", "sft", "-m", base, *common, "--quantize-base", "q4_0", "-o", folder / "no")
    refused("q4_0", "sft", "-m", base, *common, "--adapter", "qlora", "--quantize-base", "q4_9", "-o", folder / "no")
    refused("lora or qlora", "sft", "-m", base, *common, "--adapter", "qlore", "-o", folder / "no")

    def logprob(*words):
        request = json.dumps({"prompt": "the river", "completion": " and the river is near"}) + "\n"
        done = good("score", *words, "--jsonl", text=request)
        return json.loads(done.stdout)["logprob"] if done.returncode == 0 else float("nan")

    plain, a, b = logprob("-m", base), runs["plain"], runs["q4_0"]
    check(abs(logprob("-m", base, "--lora", a) - plain) > 0.1, "an adapter changes the probabilities")
    check(logprob("-m", base, "--lora", f"{a}:0") == plain, "an adapter of weight 0 changes nothing")
    good("merge", "-m", base, "--lora", a, "--lora", f"{b}:0.5", "-o", folder / "merged")
    separate, merged = logprob("-m", base, "--lora", a, "--lora", f"{b}:0.5"), logprob("-m", folder / "merged")
    check(abs(separate - merged) < 1e-3 and abs(separate - plain) > 0.1, f"separate adapters {separate}, merged {merged}")
    good("merge", "-m", gguf, "--lora", runs["gguf"], "-o", folder / "merged-gguf")
    separate, merged = logprob("-m", gguf, "--lora", runs["gguf"]), logprob("-m", folder / "merged-gguf")
    # With the GGUF base, activations are rounded to int8.
    check(abs(separate - merged) < 0.05 * abs(merged), f"a GGUF base: separate adapter {separate}, merged {merged}")
    refused("alone", "merge", "-m", base, "--lora", a, "--lora", runs["q8_0"], "-o", folder / "no")
    refused("not a number", "generate", "-m", base, "--lora", f"{a}:x", "hello")
    print("adapters: on quantized bases, resumed, several at once, merged")


def adapter_names(folder):
    """target_modules as PEFT reads them: a module is adapted when its name is one of them, or ends with "." and one."""
    tasks = {"t5-relu-tied": "SEQ_2_SEQ_LM", "bart-clean": "SEQ_2_SEQ_LM", "bert-sequence-classification": "SEQ_CLS"}
    for name in ("gpt2", "llama", "qwen2", "qwen3", "gemma2", "mixtral", "gpt-neox", "falcon-mqa", "bloom-alibi", "opt-clean", "t5-relu-tied", "t5-gated-gelu-untied",
                 "bart-clean", "bert-sequence-classification", "roberta-mlm"):
        model, out = GOLDEN / "models" / name, folder / f"names-{name}"
        if not good("sft", "-m", model, "-d", model / "golden.safetensors", "--adapter", "lora", "--max-steps", 1, "-q", "-o", out).returncode == 0:
            continue
        config = json.loads((out / "adapter_config.json").read_text())
        adapted = {n[len("base_model.model."):].rsplit(".lora_", 1)[0] for n in read_safetensors(out / "adapter_model.safetensors")}
        parameters = list(read_safetensors(model / "model.safetensors"))
        modules = {".".join(n.split(".")[:i]) for n in parameters for i in range(1, n.count(".") + 1)}  # as named_modules() lists them
        targets = config["target_modules"]
        matched = {m for m in modules if m in targets or any(m.endswith(f".{t}") for t in targets)}
        check(matched == adapted and len(adapted) >= 4, f"{name}: the modules that {targets} match and the adapted ones differ in {sorted(matched ^ adapted)[:6]}")
        check("all-linear" not in targets and len(targets) <= 12, f"{name}: target_modules {targets}")
        check(not any(m.split(".")[-1] in ("lm_head", "score", "classifier", "embed_out") for m in adapted), f"{name}: the head has an adapter")
        check(config["task_type"] == tasks.get(name, config["task_type"]), f"{name}: {config['task_type']}")
    llama = json.loads((folder / "names-llama/adapter_config.json").read_text())
    check(sorted(llama["target_modules"]) == ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"], f"llama: {llama['target_modules']}")
    check(llama["task_type"] == "CAUSAL_LM" and llama["lora_alpha"] == 16 and isinstance(llama["lora_alpha"], int), f"llama: {llama}")
    # The written adapter can be loaded.
    model = GOLDEN / "models/llama"
    done = good("sft", "-m", model, "-d", model / "golden.safetensors", "--lora-model-dir", folder / "names-llama", "--max-steps", 1, "-o", folder / "names-again")
    check("training " in done.stderr, done.stderr)
    print("adapters: target_modules as PEFT matches them")


def adapter_options(folder, base, chats):
    """Adapter options are refused without an adapter; the default learning rate of adapters is higher."""
    common = ["sft", "-m", base, "-d", chats, "--val-set-size", 0, "--max-steps", 2, "--lr-scheduler", "constant", "-t", 2]
    refused("lora_r: has no effect without an adapter: add --adapter lora", *common, "--lora-r", 4, "-o", folder / "no")
    refused("lora_alpha, use_dora have no effect", *common, "lora_alpha=4", "--use-dora", "-o", folder / "no")
    refused("use --lora-model-dir", *common, "--adapter", folder / "adapter-plain", "-o", folder / "no")
    refused("made with 4", *common, "--lora-model-dir", folder / "adapter-plain", "--lora-r", 16, "-o", folder / "no")
    refused("is an adapter, not a model", "generate", "-m", folder / "adapter-plain", "hello")
    refused(f"-m {base} --lora {folder / 'adapter-plain'}", "sft", "-m", folder / "adapter-plain", "-d", chats, "-o", folder / "no")
    rates = {}
    for name, more in (("lora", ["--adapter", "lora"]), ("given", ["--adapter", "lora", "learning_rate=3e-5"]), ("all", [])):
        done = good(*common, *more, "-o", folder / f"rate-{name}")
        rates[name] = log(folder / f"rate-{name}", "lr")[0]
        trained, total = map(int, re.search(r"training (\d+) of (\d+) parameters", done.stderr).groups())
        check((trained == total) == (name == "all") and 0 < trained <= total, f"{name}: {trained} of {total} parameters")
    check(rates == {"lora": 2e-4, "given": 3e-5, "all": 2e-5}, f"learning rates: {rates}")
    print("adapters: options that have no effect are refused; the rate is 2e-4")


def packing(folder, base):
    """--sample-packing: several conversations in one example of up to sequence_len tokens; the same tokens are trained."""
    chats, runs = folder / "short-chats.jsonl", {}
    with open(chats, "w") as f:
        for i in range(60):
            f.write(json.dumps({"messages": [{"role": "user", "content": "the river"}, {"role": "assistant", "content": " ".join(["near"] * (1 + i % 5))}]}) + "\n")
    (folder / "plain.jinja").write_text("{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}")
    words = ["sft", "-m", base, "-d", chats, "--chat-template", folder / "plain.jinja", "--val-set-size", 0, "--sequence-len", 64, "--micro-batch-size", 1, "--num-epochs", 1, "-t", 2]
    for name, more in (("single", []), ("packed", ["--sample-packing"])):
        done = good(*words, *more, "-o", folder / f"pack-{name}")
        lines = [json.loads(line) for line in (folder / f"pack-{name}/log.jsonl").read_text().splitlines()]
        runs[name] = [line["tokens"] for line in lines if "tokens" in line]
    check(len(runs["single"]) == 60 and len(runs["packed"]) <= 45, f"steps of an epoch: {len(runs['single'])} and {len(runs['packed'])}")
    check(sum(runs["single"]) == sum(runs["packed"]), f"tokens of an epoch: {sum(runs['single'])} and {sum(runs['packed'])}")
    check(max(runs["packed"]) <= 64 and sorted(runs["packed"])[len(runs["packed"]) // 2] > max(runs["single"]), f"packs: {runs['packed']}")
    check("packs of up to 64 tokens" in done.stderr, done.stderr)
    refused("sample_packing", "sft", "-m", folder / "bert", "-d", chats, "--sample-packing", "-o", folder / "no")
    print(f"packing: {len(runs['packed'])} packs of 60 conversations")


def rates(folder, base, texts):
    out = folder / "search"
    search = ["pretrain", "--config", base, "--tokenizer", base, "-d", texts, "--sequence-len", 32, "--lr-find", "--lr-find-steps", 60, "-o", out, "-t", 2]
    done = good(*search)
    check("suggested: learning_rate" in done.stdout and (out / "lr_find.svg").read_text().startswith("<svg"), f"a rate is suggested: {done.stdout}")
    left = sorted(p.name for p in out.iterdir())
    check(set(left) <= {"lr_find.svg", "data", "tokenizer"}, f"the search writes only a plot: {left}")
    found = json.loads(good(*search, "--json").stdout)
    check(1e-7 < found["suggestion"] <= found["lowest"] <= 1, f"the rate is in range: {found['suggestion']}")
    down = folder / "cooled"
    words = ["-m", base, "-d", texts, "--sequence-len", 32, "--max-steps", 20, "--lr", 1e-3, "--warmup-steps", 4, "--lr-scheduler", "warmup_stable_decay"]
    good("pretrain", *words, "--decay-steps", 8, "--decay-type", "linear", "-o", down)
    lr = log(down, "lr")
    check(lr[0] == 0 and lr[4:13] == [1e-3] * 9 and abs(lr[16] - 5e-4) < 1e-12 and lr[19] < 2e-4, f"warm-up, stable, decay: {lr}")
    refused("decay_steps", "pretrain", *words, "--decay-steps", 18, "-o", folder / "no")
    # Saves in the background: the same checkpoints.
    for name, more in (("foreground", []), ("background", ["--save-in-background"])):
        good("pretrain", *words, "--decay-steps", 8, "--save-steps", 5, "-o", folder / name, *more)
    for step in (15, 20):
        for file in ("state.safetensors", "trainer_state.json", "complete.json"):
            a, b = (folder / n / f"checkpoint-{step}" / file for n in ("foreground", "background"))
            check(a.read_bytes() == b.read_bytes(), f"{b} differs from the file of a save in the foreground")
    print("rates: found, decayed; saves in the background")


def encoders(folder):
    texts, bert = folder / "two.jsonl", folder / "bert"
    with open(texts, "w") as f:
        for i in range(300):
            a = THINGS[i % 2]
            f.write(json.dumps({"text": " ".join(rng.choice([a, a, a, "and", "near"]) for _ in range(rng.randrange(20, 30)))}) + "\n")
    done = good("pretrain", "-d", texts, "--model-type", "bert", "--next-sentence", "--layers", 2, "--width", 32, "--heads", 2, "--vocab-size", 60,
                "--sequence-len", 32, "--micro-batch-size", 16, "--max-steps", 300, "--warmup-steps", 30, "--lr", 3e-3, "--val-set-size", 0.1, "-o", bert,
                "--json", "-q")
    config = json.loads((bert / "config.json").read_text())
    check(config["architectures"] == ["BertForPreTraining"], f"both heads: {config['architectures']}")
    share = json.loads(done.stdout)["validation"]["next_sentence_accuracy"]
    # There are two kinds of texts, and half of the exchanged ones are of the same kind: the best accuracy is 0.75.
    check(share > 0.65, f"next sentences are distinguished from others: {share}")
    numbers = folder / "numbers.jsonl"
    with open(numbers, "w") as f:
        for _ in range(200):
            words = [rng.choice(THINGS[:2]) for _ in range(6)]  # the label follows from the share of the second word
            f.write(json.dumps({"text": " ".join(words), "label": words.count(THINGS[1]) / 3 - 1}) + "\n")
    out = folder / "regression"
    done = good("classify", "train", "-m", bert, "-d", numbers, "--val-set-size", 0.2, "--num-epochs", 12, "--lr", 2e-3, "--micro-batch-size", 16, "--regression", "--max-length", 32,
                "-o", out, "--json", "-q")
    config = json.loads((out / "config.json").read_text())
    check(config.get("problem_type") == "regression", f"a regression head: {config.get('problem_type')}")
    figures = json.loads(done.stdout)["validation"]
    check(figures["pearson"] > 0.8, f"numbers are learnt: {figures}")
    output = [json.loads(line)["score"] for line in good("classify", "run", "-m", out, text="river river river\nstone stone stone\n").stdout.splitlines()]
    check(len(output) == 2 and output[1] > output[0] + 1, f"a number for each line: {output}")
    print(f"encoders: next sentences {share:.2f}, regression with a correlation of {figures['pearson']:.2f}")


def answers(folder):
    """Answers in a context, with a tokenizer that gives both texts the same type, as RoBERTa's does."""
    base = folder / "one-type"
    shutil.copytree(folder / "bert", base)
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    text = json.dumps(tokenizer["post_processor"])
    tokenizer["post_processor"] = json.loads(text.replace('"type_id": 1', '"type_id": 0'))
    check(text != json.dumps(tokenizer["post_processor"]), "the pairs had two types")
    (base / "tokenizer.json").write_text(json.dumps(tokenizer))
    asked = folder / "asked.jsonl"
    with open(asked, "w") as f:
        for _ in range(400):
            words = [rng.choice(["and", "near"]) for _ in range(8)]
            at = rng.randrange(8)
            words[at] = rng.choice(THINGS[:2])
            start = len(" ".join(words[:at])) + (at > 0)
            f.write(json.dumps({"question": "and", "context": " ".join(words), "answers": {"text": [words[at]], "answer_start": [start]}}) + "\n")
    out = folder / "answering"
    done = good("classify", "train", "-m", base, "-d", asked, "--val-set-size", 0.2, "--num-epochs", 6, "--lr", 2e-3, "--micro-batch-size", 16, "--max-length", 32, "--stride", 8,
                "-o", out, "--json", "-q")
    f1 = json.loads(done.stdout)["validation"]["f1"]
    check(f1 > 0.9, f"answers are found: {f1}")
    line = json.dumps({"question": "and", "context": f"near and near {THINGS[1]} and"}) + "\n"
    output = good("classify", "run", "-m", out, "--jsonl", text=line).stdout
    check(json.loads(output)["answer"] == THINGS[1], f"the answer of classify run: {output}")
    print(f"answers: F1 {f1:.2f}")


def write_images(path, count):
    """Images of 8 x 8 whose upper (class 0) or lower half (class 1) is bright."""
    pixels, labels = bytearray(), bytearray()
    for i in range(count):
        labels.append(i % 2)
        for y in range(8):
            pixels += bytes(rng.randrange(150, 255) if (y >= 4) == (i % 2 == 1) else rng.randrange(0, 100) for _ in range(8))
    with gzip.open(path, "wb") as f:
        f.write(struct.pack(">IIII", 0x803, count, 8, 8) + pixels)
    with gzip.open(str(path).replace("images-idx3", "labels-idx1"), "wb") as f:
        f.write(struct.pack(">II", 0x801, count) + labels)


def teacher(folder):
    images = folder / "some-images-idx3-ubyte.gz"
    write_images(images, 400)
    config = {"architectures": ["ViTForImageClassification"], "model_type": "vit", "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
              "intermediate_size": 64, "hidden_act": "gelu", "image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_dropout_prob": 0.0,
              "attention_probs_dropout_prob": 0.0, "qkv_bias": True, "id2label": {"0": "up", "1": "down"}}
    (folder / "vit.json").write_text(json.dumps(config))
    (folder / "other.json").write_text(json.dumps({**config, "id2label": {"0": "a", "1": "b", "2": "c"}}))
    student = {**config, "architectures": ["DeiTForImageClassificationWithTeacher"], "model_type": "deit"}
    (folder / "deit.json").write_text(json.dumps(student))
    words = ["classify", "train", "-d", images, "--val-datasets", images, "--micro-batch-size", 16, "--max-steps", 60, "--lr", 2e-3, "-q", "--json"]
    for name, config, more in (("vit", "vit", []), ("deit", "deit", ["--teacher", folder / "run-vit"]), ("three-labels", "other", [])):
        done = good(*words, "--config", folder / f"{config}.json", "-o", folder / f"run-{name}", *more)
        check(done.stdout and json.loads(done.stdout)["validation"]["accuracy"] > 0.95, f"{name}: {done.stdout}")
    refused("classes", *words, "--config", folder / "deit.json", "--teacher", folder / "run-three-labels", "-o", folder / "no")
    refused("distillation token", *words, "--config", folder / "vit.json", "--teacher", folder / "run-vit", "-o", folder / "no")
    print("images: a DeiT taught by a ViT")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        texts, chats = write_texts(folder)
        base = folder / "base"
        good("pretrain", "-d", texts, "--model-type", "llama", "--layers", 2, "--width", 64, "--heads", 2, "--tokenizer", "bpe", "--vocab-size", 320,
             "--sequence-len", 64, "--max-steps", 30, "--lr", 3e-3, "-o", base, "-q")
        adapters(folder, base, chats)
        adapter_names(folder)
        adapter_options(folder, base, chats)
        rates(folder, base, texts)
        encoders(folder)
        packing(folder, base)
        answers(folder)
        teacher(folder)
    if failures:
        sys.exit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
