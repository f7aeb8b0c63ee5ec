#!/usr/bin/env python3
"""--bf16: training in mixed precision is near training in f32, and repeatable bit for bit: run again, on other threads, with
recomputed activations, resumed from a checkpoint, on the fence device. A GPU repeats its own bits, which differ from the CPU's.

usage: bf16.py MAKAR
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*args):
    return subprocess.run([MAKAR, *map(str, args)], capture_output=True, text=True)


def pretrain(folder, *more):
    """-> (loss, validation loss, bytes of the model)"""
    done = run("pretrain", "-d", ROOT / "docs/design.md", "--tokenizer", "char", "--max-steps", 6, "--micro-batch-size", 3, "--sequence-len", 70, "--layers",
               2, "--width", 64, "--heads", 2, "--learning-rate", "3e-3", "-o", folder, "--json", "-q", *more)
    if done.returncode != 0:
        check(False, f"{folder.name}: {done.stderr[-400:]}")
        return 0.0, 0.0, b""
    got = json.loads(done.stdout.splitlines()[-1])
    return got["loss"], got["validation"]["loss"], (folder / "model.safetensors").read_bytes()


def repeatable(folder, device, model_type):
    base = ("--bf16", "--device", device, "--model-type", model_type)
    first = pretrain(folder / "first", *base, "--save-steps", 3, "--save-total-limit", 9)
    check(first[2] == pretrain(folder / "again", *base)[2], f"{device} {model_type}: another run differs")
    check(first[2] == pretrain(folder / "threads", *base, "-t", 1)[2], f"{device} {model_type}: one thread differs")
    check(first[2] == pretrain(folder / "recomputed", *base, "--gradient-checkpointing")[2],
          f"{device} {model_type}: recomputed activations differ")
    (folder / "resumed").mkdir()
    shutil.copytree(folder / "first/checkpoint-3", folder / "resumed/checkpoint-3")
    check(first[2] == pretrain(folder / "resumed", *base)[2], f"{device} {model_type}: a resumed run differs")
    return first


def infer(top, gpu):
    """Inference: near f32, and the same on every device with these kernels, with any threads, batch and chunks."""
    model = top / "f32-llama"
    text = top / "text.txt"
    text.write_text("The tree of modules is the tree of folders, and each folder has one page that says what it is for. " * 3)

    def results(*more):
        out = []
        for args in (("generate", "-m", model, "the tree", "-n", 20), ("generate", "-m", model, "the tree", "-n", 12, "--beams", 3),
                     ("perplexity", "-m", model, text, "--json")):
            done = run(*args, *more)
            check(done.returncode == 0, f"{args[0]} {more}: {done.stderr[-300:]}")
            out.append(done.stdout)
        return out

    exact = results()
    for device in ["cpu"] + (["cuda"] if gpu else []):
        base = ("--bf16", "--device", device)
        got = results(*base)
        check(got == results(*base), f"{device}: inference differs when repeated")
        check(got == results(*base, "-t", 1), f"{device}: inference on one thread differs")
        if device == "cpu":
            check(got == results("--bf16", "--device", "fence"), "inference: the fence differs from the CPU")
        near = [json.loads(r[2])["perplexity"] for r in (exact, got)]
        check(near[0] != near[1] and abs(near[0] - near[1]) < 0.01 * near[0], f"{device}: perplexity {near}")


def align(top, gpu):
    """DPO starts at exactly ln 2: policy and reference agree bit for bit. GRPO ends with an error where the log-probabilities of
    sampler and trainer differ in a bit."""
    pairs, prompts = top / "pairs.jsonl", top / "prompts.jsonl"
    pairs.write_text("".join(json.dumps({"prompt": "the tree" + i * "s", "chosen": "near" + i * "e", "rejected": "far" + i * "r"}) + "\n" for i in range(8)))
    prompts.write_text("".join(json.dumps({"prompt": "the tree" + i * "s"}) + "\n" for i in range(8)))
    model = top / "with-eos"
    shutil.copytree(top / "f32-llama", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "eos_token_id": 0}))
    base = ("-m", model, "--micro-batch-size", 4, "--val-set-size", 0, "--bf16", "-q", "--json")
    for device in ["cpu", "fence"] + (["cuda"] if gpu else []):
        for more in ((), ("--adapter", "lora")):
            folder = top / f"align-{device}-{len(more)}"
            done = run("dpo", *base, "-d", pairs, "--max-steps", 2, "--logging-steps", 1, "--device", device, "-o", folder / "dpo", *more)
            check(done.returncode == 0, f"dpo {device} {more}: {done.stderr[-400:]}")
            if done.returncode == 0:
                first = json.loads((folder / "dpo/log.jsonl").read_text().splitlines()[0])
                check(abs(first["loss"] - 0.6931472) < 1e-7, f"dpo {device} {more}: the first loss is {first['loss']}")
            done = run("grpo", *base, "-d", prompts, "--reward", "length=20", "--num-generations", 4, "--max-new-tokens", 12, "--max-steps", 3,
                       "--device", device, "-o", folder / "grpo", *more)
            check(done.returncode == 0, f"grpo {device} {more}: {done.stderr[-400:]}")


def main():
    gpu = run("generate", "-m", ROOT / "tests/golden/models/llama", "--ids", "5", "-n", "1", "--device", "cuda").returncode == 0
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        for model_type in ("gpt2", "llama"):
            exact = pretrain(top / f"f32-{model_type}", "--model-type", model_type)
            results = {}
            for device in ["cpu", "fence"] + (["cuda"] if gpu else []):
                folder = top / f"{device}-{model_type}"
                folder.mkdir()
                if device == "fence" or (device == "cpu" and model_type == "llama"):
                    results[device] = pretrain(folder / "first", "--bf16", "--device", device, "--model-type", model_type)
                else:
                    results[device] = repeatable(folder, device, model_type)
                for i, what in enumerate(("loss", "validation loss")):
                    got = results[device][i]
                    check(abs(got - exact[i]) < 0.01 * exact[i], f"{device} {model_type}: {what} {got}, in f32 {exact[i]}")
            check(results["cpu"][2] == results["fence"][2], f"{model_type}: the fence differs from the CPU")
            check(results["cpu"][2] != exact[2], f"{model_type}: --bf16 changed nothing")
            print(f"{model_type}: f32 {exact[0]:.4f}, " + ", ".join(f"{d} {r[0]:.4f}" for d, r in results.items()))
        other = run("pretrain", "-d", ROOT / "docs/design.md", "--tokenizer", "char", "--max-steps", 6, "--micro-batch-size", 3, "--sequence-len", 70, "--layers", 2,
                    "--width", 64, "--heads", 2, "--learning-rate", "3e-3", "-o", top / "cpu-gpt2/first", "-q")
        check(other.returncode == 1 and "bf16" in other.stderr, f"f32 in the folder of a bf16 run: {other.stderr}")
        chat = top / "chat.jsonl"
        chat.write_text("".join(json.dumps({"messages": [{"role": "user", "content": "the tree" + i * "s"}, {"role": "assistant", "content": "near the tree" + i * "s"}]})
                                + "\n" for i in range(12)))
        for device in ["cpu"] + (["cuda"] if gpu else []):
            for more in ((), ("--adapter", "lora")):
                done = run("sft", "-m", top / "f32-llama", "-d", chat, "--max-steps", 3, "--sequence-len", 48, "--val-set-size", 0, "--bf16", "--device", device,
                           "-o", top / f"sft-{device}-{len(more)}", "-q", *more)
                check(done.returncode == 0, f"sft {device} {more}: {done.stderr[-400:]}")
        infer(top, gpu)
        align(top, gpu)
        refused = run("reward", "-m", top / "f32-llama", "-d", chat, "--bf16", "-o", top / "no")
        check(refused.returncode == 1 and "reward trains in f32 only" in refused.stderr, f"reward --bf16: {refused.stderr}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
