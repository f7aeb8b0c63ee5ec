#!/usr/bin/env python3
"""Quantization-aware training through the program: the validation loss of the run is that of its quantized file, the file loses
less quality than that of a model trained without it, resume after a kill, errors.

usage: qat.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import good, kill_after, refused

with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, sample = folder / "text.jsonl", folder / "text.txt"
    good("data", "world", "--form", "text", "-n", 24, "-o", text)
    sample.write_text("\n\n".join(json.loads(line)["text"] for line in text.read_text().splitlines()))
    # Measured on the training text: the subject is the error of rounding, not generalisation.
    data = ["-d", text, "--val-datasets", text, "sequence_len=128", "micro_batch_size=8", "-t", 1, "--json"]
    base = folder / "base"
    good("pretrain", *data, "layers=2", "width=64", "heads=2", "ffn=128", "vocab_size=400", "max_steps=400", "lr=2e-3", "warmup_steps=20", "-o", base)
    more = ["pretrain", "-m", base, *data, "max_steps=60", "lr=5e-4"]
    perplexity, validation = {}, {}
    for name, options in (("plain", []), ("aware", ["--qat", "q4_0"])):
        validation[name] = json.loads(good(*more, *options, "-o", folder / name).stdout)["validation"]["loss"]
        file = folder / f"{name}.gguf"
        found = json.loads(good("quantize", folder / name, file, "--type", "q4_0", "--report", sample, "-c", 128, "--json", "-t", 1).stdout)
        perplexity[name] = (found["perplexity_before"], found["perplexity"])
    print("perplexity of f32 and Q4_0:", perplexity)
    check(perplexity["aware"][1] < perplexity["plain"][1], f"the quantized file is better after training for it: {perplexity}")
    ratio = {name: after / before for name, (before, after) in perplexity.items()}
    check(ratio["aware"] - 1 < 0.5 * (ratio["plain"] - 1), f"it loses less than half as much: {ratio}")
    # The loss that the run reports is that of the file: its weights are the rounded ones.
    unchanged = ["pretrain", "-m", folder / "aware", *data, "max_steps=1", "lr=0"]
    again = json.loads(good(*unchanged, "--qat", "q4_0", "-o", folder / "again").stdout)["validation"]["loss"]
    check(again == validation["aware"], f"{again} is not {validation['aware']}")
    exact = json.loads(good(*unchanged, "-o", folder / "exact").stdout)["validation"]["loss"]
    check(exact != again, "without the option, the weights are exact")
    command = [*more, "max_steps=12", "--qat", "q8_0", "--save-steps", 4]
    good(*command, "-o", folder / "whole")
    kill_after("checkpoint-4", command, folder / "killed")
    good(*command, "-o", folder / "killed")
    check((folder / "killed/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "a resumed run has different bytes")
    threads = [w if w != 1 else 2 for w in command]
    good(*threads, "-o", folder / "threads")
    check((folder / "threads/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "the number of threads changes bits")
    refused("did you mean 'q4_0'", *more, "--qat", "q4_00", "-o", folder / "no")
    chats = folder / "chats.jsonl"
    chats.write_text(json.dumps({"prompt": "Where is Anna?", "completion": "At home."}) + "\n")
    refused("an adapter leaves its base unchanged", "sft", "-m", base, "-d", chats, "--val-set-size", 0, "--adapter", "lora", "--qat", "q4_0", "-o", folder / "no")
    good("sft", "-m", base, "-d", chats, "--val-set-size", 0, "--max-steps", 2, "--qat", "q4_0", "-t", 1, "-o", folder / "sft")
sys.exit(f"qat: {len(failures)} failures" if failures else 0)
