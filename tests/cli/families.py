#!/usr/bin/env python3
"""Shapes and objectives of families through the program: GPT-1, PaLM and LaMDA from configs, ELECTRA and XLNet with their own
objectives, a config with Infinity as Python writes it, adapters on packed weights.

usage: families.py MAKAR
"""
import json
import pathlib
import shutil
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, refused, run, steps

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
FABLES = REPOSITORY / "recipes/data/fables.txt"
CONFIGS = REPOSITORY / "recipes/configs"
SMALLER_SIZES = {"hidden_size": 32, "n_embd": 32, "d_model": 32, "intermediate_size": 64, "d_inner": 64, "num_hidden_layers": 2, "n_layer": 2,
        "num_attention_heads": 4, "n_head": 4, "embedding_size": 32, "vocab_size": 400}


def smaller(name, folder):
    """A config of recipes/configs with smaller sizes, without dropout."""
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    config |= {key: value for key, value in SMALLER_SIZES.items() if key in config}
    config |= {key: 0.0 for key in config if "dropout" in key or "pdrop" in key}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    return path


def pretrain(config, out, count, *words):
    return good("pretrain", "--config", config, "-d", FABLES, "-o", out, "--max-steps", count, "--sequence-len", 32, "--micro-batch-size", 8,
                "--learning-rate", "5e-3", "--warmup-steps", 5, "--val-split", "tail", "-t", 1, "-q", *words)


def learns(name, scratch, count, share, *words):
    out = scratch / name
    pretrain(smaller(name, scratch), out, count, *words)
    losses = [s["loss"] for s in steps(out)]
    first, last = sum(losses[:3]) / 3, sum(losses[-3:]) / 3
    check(last < share * first, f"{name}: the loss went from {first:.3f} to {last:.3f}")
    return out


def shapes(scratch):
    for name in ("gpt1", "palm", "lamda"):
        out = learns(name, scratch, 40, 0.85)
        text = good("generate", "-m", out, "--temp", 0, "-n", 8, "-t", 1, "The").stdout
        check(len(text) > 3, f"{name} generated {text!r}")


def objectives(scratch):
    out = learns("electra", scratch, 60, 0.9, "--generator-size", "0.5")
    for folder, kind in ((out, "ElectraForPreTraining"), (out / "generator", "ElectraForMaskedLM")):
        config = json.loads((folder / "config.json").read_text())
        check(config["architectures"] == [kind], f"{folder} has {config['architectures']}")
        good("inspect", folder)
    refused("generator_size", "pretrain", "--config", scratch / "electra.json", "-d", FABLES, "-o", scratch / "none", "--generator-size", 3,
            "--sequence-len", 32, "--max-steps", 1, "-q")
    learns("xlnet", scratch, 60, 0.9)


def resumed(scratch):
    """Two steps and a resume give the bits of three steps, for a run with a second model."""
    config = scratch / "electra.json"
    pretrain(config, scratch / "whole", 3, "--save-steps", 2)
    pretrain(config, scratch / "part", 3, "--save-steps", 2)
    for name in ("model.safetensors", "generator/model.safetensors"):
        check((scratch / "whole" / name).read_bytes() == (scratch / "part" / name).read_bytes(), f"{name} differs in an equal run")
    for path in (scratch / "part").iterdir():  # what a kill after the checkpoint leaves
        if path.name in {"model.safetensors", "run.json", "checkpoint-3", "generator"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    pretrain(config, scratch / "part", 3, "--save-steps", 2)
    for name in ("model.safetensors", "generator/model.safetensors"):
        check((scratch / "whole" / name).read_bytes() == (scratch / "part" / name).read_bytes(), f"{name} differs after a resume")


def infinity(scratch):
    config = {"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 32, "num_hidden_layers": 1, "state_size": 8,
              "num_heads": 4, "head_dim": 16, "n_groups": 2, "expand": 2, "vocab_size": 400, "time_step_limit": [0.0, float("inf")]}
    path = scratch / "mamba2.json"
    path.write_text(json.dumps(config))
    check("Infinity" in path.read_text(), "Python no longer writes Infinity")
    pretrain(path, scratch / "mamba2", 2)
    saved = json.loads((scratch / "mamba2/config.json").read_text())["time_step_limit"]
    check(saved == [0.0, {"__float__": "Infinity"}], f"time_step_limit was saved as {saved}")
    good("inspect", scratch / "mamba2")
    config["time_step_limit"] = [0.001, float("inf")]
    path.write_text(json.dumps(config))
    refused("time_step_limit", "pretrain", "--config", path, "-d", FABLES, "-o", scratch / "limited", "--sequence-len", 32, "--max-steps", 1, "-q")


def packed(scratch):
    """An adapter on packed weights (GPTQ, AWQ, fp8): trained, saved, loaded."""
    for name in ("gptq", "awq", "fp8"):
        base = scratch / name
        shutil.copytree(GOLDEN / "packed" / name, base)
        vocab = json.loads((base / "config.json").read_text())["vocab_size"]
        text = scratch / "letters.txt"
        text.write_text("the cat sat on the mat and the dog sat on the cat. " * 40)
        good("tokenizer", "train", text, "-o", scratch / f"{name}-tokenizer", "--model-type", "char", "--vocab-size", vocab)
        for file in (scratch / f"{name}-tokenizer").iterdir():
            shutil.copy(file, base)
        data = scratch / "chat.jsonl"
        data.write_text('{"prompt": "the cat", "completion": " sat on the mat."}\n' * 8)
        out = scratch / f"{name}-adapter"
        good("sft", "-m", base, "-d", data, "-o", out, "--adapter", "lora", "--max-steps", 12, "--learning-rate", "2e-2", "-t", 1, "-q")
        losses = [s["loss"] for s in steps(out)]
        check(losses[-1] < 0.7 * losses[0], f"{name}: the loss of an adapter went from {losses[0]:.3f} to {losses[-1]:.3f}")
        plain = run("score", "-m", base, "--jsonl", text='{"prompt": "the cat", "completion": " sat on the mat."}\n').stdout
        tuned = run("score", "-m", base, "--lora", out, "--jsonl", text='{"prompt": "the cat", "completion": " sat on the mat."}\n').stdout
        check(json.loads(tuned)["logprob"] > json.loads(plain)["logprob"] + 1, f"{name}: {plain} and with the adapter {tuned}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        shapes(scratch)
        objectives(scratch)
        resumed(scratch)
        infinity(scratch)
        packed(scratch)
    print("families: shapes, objectives, Infinity and adapters on packed weights" if not failures else f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
