#!/usr/bin/env python3
"""makar prune through the program: zeros by every method, 2:4, smaller models that load, recovery training that keeps the
zeros, 2:4 weights in a GGUF file, families without attention, replaced folders, refused options.

usage: prune.py MAKAR
"""
import json
import pathlib
import shutil
import struct
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, refused
from tensor_files import read_safetensors


def matrices(folder):
    """The f32 matrices of the layers, by name."""
    return {name: struct.unpack(f"<{len(data) // 4}f", data)
            for name, (_, shape, data) in read_safetensors(folder / "model.safetensors").items() if ".layers." in name and len(shape) == 2}


def check_q8_24(folder, base):
    """A 2:4 model, also after recovery training, as q8_24: smaller than q8_0, with the same bits."""
    for name in ("24", "kept"):
        files = {kind: folder / f"{name}-{kind}.gguf" for kind in ("q8_0", "q8_24")}
        report = {kind: json.loads(good("quantize", folder / name, path, "--type", kind, "--json").stdout or "{}") for kind, path in files.items()}
        # 7 matrices in each of 4 layers; embedding, output and norms are as in q8_0.
        check(report["q8_24"].get("tensors", {}).get("q8_24") == 28, f"tensors: {report}")
        check(report["q8_24"].get("bytes", 9) < 0.8 * report["q8_0"].get("bytes", 1), f"the file is smaller: {report}")
        for words in (["generate", "-p", "Anna is", "-n", 12, "--temp", 0, "--json", "--logprobs", 3], ["perplexity", "-f", folder / "plain.txt", "-c", 64, "--json"]):
            got = {kind: good(words[0], "-m", path, *words[1:]).stdout.replace(str(path), "") for kind, path in files.items()}
            check(got["q8_24"] == got["q8_0"] != "", f"{words[0]} differs between q8_24 and q8_0: {got}")
        for kind, path in files.items():
            good("convert", path, folder / f"{name}-{kind}", "--outtype", "f32")
        dense = [(folder / f"{name}-{kind}/model.safetensors").read_bytes() for kind in files]
        check(dense[0] == dense[1], "the dense export has the same weights")
    refused("no matrix has 2 zeros in every 4", "quantize", base, folder / "no.gguf", "--type", "q8_24")
    refused("q8_24 needs to be zero", "quantize", folder / "24", folder / "no.gguf", "--type", "q8_24", "--gptq")
    refused("unknown type", "sft", "-m", base, "-d", folder / "text.jsonl", "--adapter", "qlora", "--quantize-base", "q8_24", "-o", folder / "no")


def check_folders(folder, base):
    """What a pruned folder has, replaced folders, and configs and models that are special."""
    mine = folder / "mine"
    shutil.copytree(base, mine)
    (mine / "tokenizer.model").write_bytes(b"a vocabulary for other programs")
    config = json.loads((mine / "config.json").read_text())
    (mine / "config.json").write_text(json.dumps({**config, "dtype": None}))
    half = folder / "half"
    good("prune", mine, half, "--ffn", 64)
    check(json.loads((half / "config.json").read_text())["dtype"] == "float32", "without a dtype in config.json, that of the weights")
    for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model"):
        check((half / name).is_file() and (half / name).read_bytes() == (mine / name).read_bytes(), f"{name} is copied")
    refused("no such model", "prune", folder / "absent", folder / "nothing", "--ffn", 64)
    refused("is the folder of the model", "prune", mine, mine, "--ffn", 64, "--overwrite")
    (mine / "tokenizer.model").unlink()
    (half / "generation_config.json").write_text("{}")
    good("prune", mine, half, "--ffn", 32, "--overwrite")
    check(json.loads((half / "config.json").read_text())["intermediate_size"] == 32, "a pruned model is replaced")
    for name in ("tokenizer.model", "generation_config.json"):
        check((half / name).exists() == (mine / name).exists(), f"{name} of the replaced model is removed")
    models = GOLDEN / "models"
    good("prune", models / "lfm2", folder / "narrow", "--kv-heads", 1, "--ffn", 64)
    config = json.loads((folder / "narrow/config.json").read_text())
    check((config["num_key_value_heads"], config["intermediate_size"]) == (1, 64), f"{config}")
    good("prune", models / "lfm2", folder / "shallow", "--layers", 2)
    config = json.loads((folder / "shallow/config.json").read_text())
    check(config["layer_types"] == ["conv", "conv"], f"{config}")
    refused("none of the layers that are kept has attention", "prune", models / "lfm2", folder / "nothing", "--layers", 2, "--kv-heads", 1)
    for name in ("mamba", "mamba2"):
        good("prune", models / name, folder / name, "--layers", 1)
        refused("has no attention", "prune", models / name, folder / "nothing", "--kv-heads", 1)
        refused("has no feed-forward layers", "prune", models / name, folder / "nothing", "--ffn", 8)
    refused("share their weights", "prune", models / "albert-mlm", folder / "nothing", "--kv-heads", 1)
    encoder = folder / "encoder"
    shutil.copytree(models / "roberta-mlm", encoder)
    shutil.copy(base / "tokenizer.json", encoder)
    refused("does not predict next tokens", "prune", encoder, folder / "nothing", "--method", "magnitude", "--report", folder / "plain.txt")
    refused("the tokenizer gives id", "prune", encoder, folder / "nothing", "--calibrate", folder / "plain.txt")
    (folder / "empty.txt").write_text("")
    for flag in ("--report", "--calibrate"):
        refused("a text of some thousands is needed", "quantize", base, folder / "nothing.gguf", "--type", "q8_0", flag, folder / "empty.txt")
    check(not (folder / "nothing.gguf").exists(), "quantize refuses a text before it writes")
    check(not (folder / "nothing").exists(), "a refused command writes nothing")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        text, base, plain = folder / "text.jsonl", folder / "base", folder / "plain.txt"
        text.write_text(good("data", "world", "--form", "text", "-n", 150, "--events", 3).stdout)
        plain.write_text("\n".join(json.loads(line)["text"] for line in text.read_text().splitlines()))
        good("pretrain", "-d", text, "--model-type", "llama", "--layers", 4, "--width", 64, "--heads", 4, "--kv-heads", 2, "--vocab-size", 400,
             "--sequence-len", 128, "--max-steps", 150, "--learning-rate", 3e-3, "-q", "-o", base)
        words = ["--calibrate", plain, "--calibrate-tokens", 1024, "--report", plain, "--report-tokens", 1024, "-c", 128, "--json"]
        loss = {}
        for method in ("magnitude", "wanda", "sparsegpt"):
            got = json.loads(good("prune", base, folder / method, "--method", method, *words).stdout or "{}")
            check(abs(got.get("sparsity", 0) - 0.5) < 0.01, f"{method}: half of the weights are zero: {got}")
            loss[method] = got.get("perplexity", 0)
        check(loss["sparsegpt"] < loss["magnitude"], f"SparseGPT has a lower perplexity than magnitude pruning: {loss}")
        again = folder / "again"
        good("prune", base, again, "--method", "sparsegpt", *words, "-t", 1)
        check((again / "model.safetensors").read_bytes() == (folder / "sparsegpt/model.safetensors").read_bytes(), "one thread gives the same bytes")
        good("prune", base, folder / "24", "--pattern", "2:4", *words)
        for matrix, values in matrices(folder / "24").items():
            check(all(values[i:i + 4].count(0.0) == 2 for i in range(0, len(values), 4)), f"2:4 in {matrix}")

        small = folder / "small"
        got = json.loads(good("prune", base, small, "--layers", 3, "--kv-heads", 1, "--ffn", 64, *words).stdout or "{}")
        config = json.loads((small / "config.json").read_text())
        check((config["num_hidden_layers"], config["num_attention_heads"], config["num_key_value_heads"], config["intermediate_size"]) == (3, 2, 1, 64), f"{config}")
        check(got.get("bytes", 1) < got.get("bytes_before", 0) * 0.8, f"the file is smaller: {got}")
        check(good("generate", "-m", small, "-p", "Anna", "-n", 4, "--temp", 0).stdout, "the smaller model generates")
        recovered = folder / "recovered"
        before = json.loads(good("prune", small, folder / "same", "--layers", 3, *words).stdout or "{}").get("perplexity", 0)
        good("pretrain", "-m", small, "-d", text, "--sequence-len", 128, "--max-steps", 20, "--learning-rate", 1e-3, "-q", "-o", recovered)
        after = json.loads(good("prune", recovered, folder / "same2", "--layers", 3, *words).stdout or "{}").get("perplexity", 1e9)
        check(after < before, f"training recovers: {before} {after}")

        # Zeros stay zero during training.
        common = ["pretrain", "-m", folder / "24", "-d", text, "--sequence-len", 128, "--learning-rate", 1e-3, "--keep-zeros", "-q", "--save-steps", 3,
                  "--lr-scheduler", "constant", "--weight-decay", 0.1]
        good(*common, "--max-steps", 6, "-o", folder / "kept")
        for matrix, values in matrices(folder / "kept").items():
            check(all(values[i:i + 4].count(0.0) == 2 for i in range(0, len(values), 4)), f"2:4 after training in {matrix}")
        check(matrices(folder / "kept") != matrices(folder / "24"), "the other weights are trained")

        check_q8_24(folder, base)
        check_folders(folder, base)
        refused("needs a sample text", "prune", base, folder / "no")
        refused("did you mean 'wanda'", "prune", base, folder / "no", "--method", "wnda")
        refused("such as 2:4", "prune", base, folder / "no", "--pattern", "4:4", *words)
        refused("run makar prune again", "prune", base, folder / "no", "--layers", 2, "--pattern", "2:4")
        refused("above 0 and below 1", "prune", base, folder / "no", "--sparsity", 1, *words)
        refused("the model's 4", "prune", base, folder / "no", "--layers", 9)
        refused("holds a model", "prune", base, small, "--layers", 2)
        refused("share their weights", "prune", GOLDEN / "models/albert-mlm", folder / "no", "--layers", 1)
    print("prune: " + ("ok" if not failures else f"{len(failures)} failures"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
