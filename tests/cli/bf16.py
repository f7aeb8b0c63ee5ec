#!/usr/bin/env python3
"""--bf16: training in mixed precision is near training in f32, and repeatable bit for bit: run again, on other threads, with
recomputed activations, resumed from a checkpoint, behind the fence. On a GPU the same, with its own bits.

usage: bf16.py MAKAR
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAKAR = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
failures = []


def run(*args):
    return subprocess.run([MAKAR, *map(str, args)], capture_output=True, text=True)


def check(ok, what):
    if not ok:
        failures.append(what)


def pretrain(folder, *more):
    """-> (loss, validation loss, bytes of the model)"""
    done = run("pretrain", "-d", ROOT / "docs/design.md", "--tokenizer", "char", "--max-steps", 6, "--micro-batch-size", 3, "--sequence-len", 70, "--layers",
               2, "--width", 64, "--heads", 2, "--learning-rate", "3e-3", "-o", folder, "--json", "-q", *more)
    if done.returncode != 0:
        failures.append(f"{folder.name}: {done.stderr[-400:]}")
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
        refused = run("dpo", "-m", top / "f32-llama", "-d", chat, "--bf16", "-o", top / "no")
        check(refused.returncode == 1 and "dpo trains in f32 only" in refused.stderr, f"dpo --bf16: {refused.stderr}")
    for line in failures:
        print("FAIL", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
