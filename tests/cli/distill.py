#!/usr/bin/env python3
"""makar distill through the program: students made of the teacher's layers and new ones, encoders, texts, conversations and
sampled answers, teachers in other formats and with other weights, resuming with the same bytes after a kill, refused options.

usage: distill.py MAKAR
"""
import json
import pathlib
import shutil
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, kill_after, refused, run, steps
from tensor_files import read_safetensors, write_safetensors


def result(done):
    return json.loads(done.stdout)["validation"] if done.returncode == 0 else {}


def learns(folder, teacher, text, common):
    """A student of half the layers comes closer to its teacher, with every divergence and with layers compared."""
    words = ["distill", "--teacher", teacher, "--student-layers", 2, "-d", text, *common, "--json"]
    start = result(good(*words, "--max-steps", 1, "--learning-rate", 1e-9, "-o", folder / "start"))
    for name, extra in (("forward", []), ("reverse", []), ("jensen_shannon", ["--beta", 0.3]), ("forward", ["--temperature", 2, "--alpha", 1])):
        got = result(good(*words, "--max-steps", 30, "--loss-type", name, *extra, "-o", folder / f"{name}-{len(extra)}"))
        check(got["teacher_kl"] < 0.85 * start["teacher_kl"], f"{name} {extra}: KL {start['teacher_kl']} to {got['teacher_kl']}")
        check(got["teacher_agreement"] > start["teacher_agreement"], f"{name}: {start} {got}")
    both = folder / "layers"
    good(*words, "--max-steps", 8, "--hidden-weight", 1, "--attention-weight", 1, "--layer-map", "1:2,2:4", "-o", both)
    for key in ("teacher", "hidden", "attention"):
        values = [s["metrics"][key] for s in steps(both)]
        check(values[0] > 0 and values[-1] < values[0], f"{key} falls: {values}")
    config = json.loads((both / "config.json").read_text())
    check(config["num_hidden_layers"] == 2, f"the student has two layers: {config}")
    done = good("generate", "-m", both, "-p", "Anna", "-n", 4, "--temp", 0)
    check(len(done.stdout) > 0, "the student generates")


def new_student(folder, teacher, text, common):
    config = json.loads((teacher / "config.json").read_text())
    config.update(hidden_size=32, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, intermediate_size=64)
    config.pop("head_dim", None)
    path = folder / "small.json"
    path.write_text(json.dumps(config))
    out = folder / "new"
    good("distill", "--teacher", teacher, "--student-config", path, "-d", text, *common, "--max-steps", 6, "--hidden-weight", 0.5,
         "--hidden-loss", "cosine", "--learning-rate", 3e-3, "-o", out)
    check((out / "tokenizer.json").is_file() and steps(out)[-1]["metrics"]["hidden"] < steps(out)[0]["metrics"]["hidden"], "a new student learns")
    again = folder / "again"
    good("distill", "--teacher", teacher, "--student", out, "-d", text, *common, "--max-steps", 2, "-o", again)
    check((again / "model.safetensors").is_file(), "a given student is trained")


def answers(folder, teacher, chats, common):
    words = ["distill", "--teacher", teacher, "--student-layers", 2, "-d", chats, *common, "--max-completion-length", 8]
    data = folder / "chats"
    good(*words[:-2], "--max-steps", 2, "-o", data)
    taught = folder / "taught"
    good(*words, "--answers", "teacher", "--num-generations", 2, "--system-prompt", "Explain.", "--max-steps", 3, "-o", taught)
    sampled = json.loads((taught / "data/sampled/manifest.json").read_text())
    check(sampled["splits"]["train"]["shards"], f"the teacher's answers are stored: {sampled}")
    own = folder / "own"
    on_policy = [*words, "--answers", "student", "--alpha", 1, "--val-set-size", 0.2, "--json"]
    start = result(good(*on_policy, "--max-steps", 1, "--learning-rate", 1e-9, "-o", folder / "own-start"))
    got = result(good(*on_policy, "--max-steps", 25, "-o", own))
    check(all(s["metrics"]["sampled"] == 4 for s in steps(own)), f"the student samples every step: {steps(own)[0]}")
    check(0 < got["teacher_kl"] < start["teacher_kl"] and 0 < got["teacher_agreement"] <= 1, f"answers to held-out prompts: {start} {got}")
    check("loss" not in got and 0 < got["sampled"] <= 64 and 0 < got["length"] <= 8, f"validation on sampled answers: {got}")
    mixed = folder / "mixed"
    good(*words, "--answers", "student", "--student-share", 0.5, "--max-steps", 12, "-o", mixed)
    kinds = {s["metrics"]["sampled"] for s in steps(mixed)}
    check(kinds == {0, 4}, f"half of the steps use the data: {kinds}")


def teacher_changes(folder, teacher, chats, common):
    """The teacher is known by its files: with other weights it answers again, and a run does not resume."""
    mine, out = folder / "changing", folder / "changed"
    shutil.copytree(teacher, mine)
    words = ["distill", "--student-layers", 2, "-d", chats, *common, "--answers", "teacher", "--max-completion-length", 8, "--max-steps", 2, "-o", out]
    good(*words, "--teacher", mine)
    key = out / "data/sampled/sampled.json"
    first, answers_of = key.read_bytes(), lambda: [p.read_bytes() for p in sorted(key.parent.iterdir()) if p != key]
    before = answers_of()
    good(*words, "--teacher", teacher)  # the same weights in another folder
    check(key.read_bytes() == first, "the same weights are the same teacher")
    tensors = read_safetensors(mine / "model.safetensors")
    dtype, shape, data = tensors["model.norm.weight"]
    tensors["model.norm.weight"] = (dtype, shape, bytes(len(data)))  # all tokens have the same probability
    write_safetensors(mine / "model.safetensors", tensors)
    refused("the content of 'teacher' has changed", *words, "--teacher", mine)
    check(key.read_bytes() != first and answers_of() != before, "another teacher answers again")


def teacher_in_gguf(folder, teacher, text, common):
    """A GGUF teacher of a student in a folder: the same tokens in two formats."""
    gguf = folder / "teacher.gguf"
    good("convert", teacher, gguf)
    good("distill", "--teacher", gguf, "--student", folder / "layers", "-d", text, *common, "--max-steps", 2, "-o", folder / "from-gguf")
    other_text, other = folder / "other.jsonl", folder / "other"
    other_text.write_text("".join(json.dumps({"text": f"Zwölf Boxkämpfer jagen {i} Viktor quer über den großen Sylter Deich."}) + "\n" for i in range(60)))
    good("pretrain", "-d", other_text, "--model-type", "llama", "--layers", 1, "--width", 16, "--heads", 2, "--vocab-size", 300, "--max-steps", 1, "-q", "-o", other)
    config = json.loads((other / "config.json").read_text())
    done = run("distill", "--teacher", teacher, "--student", other, "-d", text, *common, "--max-steps", 1, "-o", folder / "no")
    check(done.returncode in (1, 2) and "has a different tokenizer" in done.stderr, f"{config['vocab_size']}: {done.stderr}")


def encoder(folder, text):
    """TinyBERT: an encoder with half the width and half the layers learns masked tokens, hidden states and attention."""
    teacher, out, config = folder / "bert", folder / "tiny-bert", folder / "tiny-bert.json"
    common = ["-d", text, "--sequence-len", 64, "--seed", 3, "-q"]
    good("pretrain", "--model-type", "bert", "--layers", 2, "--width", 32, "--heads", 4, "--vocab-size", 400, "--max-steps", 20, "--learning-rate", 3e-3, *common,
         "-o", teacher)
    shape = json.loads((teacher / "config.json").read_text())
    shape.update(hidden_size=16, num_hidden_layers=1, intermediate_size=64)
    config.write_text(json.dumps(shape))
    done = good("distill", "--teacher", teacher, "--student-config", config, *common, "--micro-batch-size", 4, "--max-steps", 40, "--learning-rate", 5e-3, "--alpha", 1,
                "--hidden-weight", 1, "--attention-weight", 1, "--json", "-o", out)
    for key in ("teacher", "hidden", "attention"):
        values = [s["metrics"][key] for s in steps(out)]
        check(sum(values[-5:]) < 0.8 * sum(values[:5]), f"{key} of an encoder falls: {values}")
    check(result(done).get("teacher_kl", 9) < 1, f"validation of an encoder: {result(done)}")


def packing(folder, teacher, common):
    """--sample-packing: the same tokens of an epoch in fewer steps."""
    chats, runs = folder / "short.jsonl", {}
    chats.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"How old is Anna? {i}"}, {"role": "assistant", "content": "two " * (1 + i % 5)}]}) + "\n"
                             for i in range(60)))
    for name, more in (("single", []), ("packed", ["--sample-packing"])):
        good("distill", "--teacher", teacher, "--student-layers", 2, "-d", chats, *common[2:], "--val-set-size", 0, "--num-epochs", 1, "--micro-batch-size", 1,
             *more, "-o", folder / f"pack-{name}")
        runs[name] = [s["tokens"] for s in steps(folder / f"pack-{name}")]
    check(len(runs["packed"]) <= 50 and len(runs["single"]) == 60, f"steps: {len(runs['packed'])} and {len(runs['single'])}")
    check(sum(runs["packed"]) == sum(runs["single"]), f"tokens: {sum(runs['packed'])} and {sum(runs['single'])}")


def resumes(folder, teacher, chats, common):
    for extra in (["--hidden-weight", 1], ["--hidden-weight", 1, "--sample-packing"], ["--answers", "student", "--student-share", 0.7, "--max-completion-length", 8]):
        words = ["distill", "--teacher", teacher, "--student-layers", 2, "-d", chats, *common, "--val-set-size", 0, "--max-steps", 14, "--save-steps", 3,
                 *extra]
        whole, out = folder / f"whole-{len(extra)}", folder / f"killed-{len(extra)}"
        good(*words, "-o", whole)
        kill_after("checkpoint-3", words, out)
        good(*words, "-o", out)
        check((out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes(), f"a resumed run has different bytes: {extra}")


def refusals(folder, teacher, text, common):
    words = ["distill", "--teacher", teacher, "-d", text, *common, "--max-steps", 1, "-o", folder / "no"]
    layers = ["--student-layers", 2]
    refused("give one of", *words)
    refused("give one of", *words, *layers, "--student", teacher)
    refused("the teacher's 4", *words, "--student-layers", 9)
    refused("the teacher's 4", *words, "--student-layers", "1,5")
    refused("ascending order", *words, "--student-layers", "3,1")
    refused("did you mean 'reverse'", *words, *layers, "--loss-type", "revers")
    refused("has no effect", *words, *layers, "--beta", 0.5)
    refused("has no effect", *words, *layers, "--layer-map", "1:1")
    refused("1:2,2:4", *words, *layers, "--hidden-weight", 1, "--layer-map", "1-1")
    refused("expected 0 to 1", *words, *layers, "--alpha", 2)
    refused("has no effect", *words, *layers, "--student-share", 0.5)
    refused("packs conversations", *words, *layers, "--sample-packing")
    refused("has no effect", *words, *layers, "--sample-packing", "--answers", "student")
    refused("--bf16", *words, *layers, "--bf16")
    refused("a vocabulary of 400", *words, "--student", GOLDEN / "models/llama")
    refused("no two of the compared layers have attention", *words, *layers, "--attention-weight", 1, "--layer-map", "0:0")
    refused("tokens with the system prompt", *words[:4], folder / "short.jsonl", *words[5:], *layers, "--answers", "teacher", "--system-prompt", "Explain each step. " * 100,
            "--max-completion-length", 8)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, chats, teacher = folder / "text.jsonl", folder / "chats.jsonl", folder / "teacher"
        text.write_text(good("data", "world", "--form", "text", "-n", 150, "--events", 3).stdout)
        chats.write_text(good("data", "world", "--form", "instructions", "-n", 60, "--events", 3).stdout)
        good("pretrain", "-d", text, "--model-type", "llama", "--layers", 4, "--width", 64, "--heads", 4, "--vocab-size", 400, "--sequence-len", 256,
             "--max-steps", 120, "--learning-rate", 3e-3, "-q", "-o", teacher)
        common = ["--micro-batch-size", 4, "--sequence-len", 128, "--learning-rate", 1e-3, "--seed", 3, "-q"]
        learns(folder, teacher, text, common)
        new_student(folder, teacher, text, common)
        answers(folder, teacher, chats, common)
        teacher_changes(folder, teacher, chats, common)
        teacher_in_gguf(folder, teacher, text, common)
        encoder(folder, text)
        packing(folder, teacher, common)
        resumes(folder, teacher, chats, common)
        refusals(folder, teacher, text, common)
    print("distill: " + ("ok" if not failures else f"{len(failures)} failures"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
