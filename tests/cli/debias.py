#!/usr/bin/env python3
"""Fair classifiers through the program, on data with a planted bias: reweighting and an adversary lower the difference of
the groups' rates that `makar metrics fairness` finds; resume after a kill; errors.

usage: debias.py MAKAR
"""
import json
import pathlib
import random
import sys
import tempfile

from checks import check, failures
from program import good, kill_after, refused

GOOD, BAD = ["kind", "calm", "skilled", "exact", "fair"], ["rude", "late", "careless", "loud", "vague"]
NAMES = {"north": ["ada", "bea", "cleo", "dora"], "south": ["egon", "fritz", "gero", "hans"]}


def records(count, seed, biased):
    """The label follows from the adjectives: 70 % of them agree with it. In biased data the name, which shows the group, predicts it too."""
    rng = random.Random(seed)
    out = []
    for _ in range(count):
        label = rng.random() < 0.5
        favoured = rng.random() < 0.9 if biased else rng.random() < 0.5
        group = "north" if label == favoured else "south"
        words = [rng.choice(GOOD if (rng.random() < 0.7) == label else BAD) for _ in range(3)]
        name = rng.choice(NAMES[group])
        out.append({"text": f"{name} is {' and '.join(words)} , says {name}", "label": "yes" if label else "no", "group": group})
    return out


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def fairness(folder, model, test):
    """(accuracy, difference of the selection rates, difference of the error rates) on unbiased texts."""
    got = good("classify", "run", "-m", model, "--jsonl", text="".join(json.dumps({"text": r["text"]}) + "\n" for r in test)).stdout.splitlines()
    labels = [json.loads(line)["label"] for line in got]
    for name, values in (("hyp", labels), ("ref", [r["label"] for r in test]), ("group", [r["group"] for r in test])):
        (folder / name).write_text("".join(v + "\n" for v in values))
    words = ["metrics", "fairness", "--hyp", folder / "hyp", "--ref", folder / "ref", "--group", folder / "group", "--positive", "yes", "--json"]
    found = [json.loads(good(*words, "--metric", f"{name}_difference").stdout)["score"] for name in ("demographic_parity", "equalized_odds")]
    return sum(a == r["label"] for a, r in zip(labels, test)) / len(test), *found


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    train, test = folder / "train.jsonl", records(600, 2, False)
    write(train, records(1500, 1, True))
    common = ["classify", "train", "--model-type", "gru", "--width", 32, "--tokenizer", "bpe", "--vocab-size", 300, "-d", train, "--val-set-size", 0, "--num-epochs", 5,
              "--lr", 5e-3, "-t", 1]
    settings = {"plain": [], "reweigh": ["--group-field", "group", "--reweigh"],
            "adversary": ["--group-field", "group", "--adversary", 2, "--adversary-sees-label"]}
    found = {}
    for name, words in settings.items():
        good(*common, *words, "-o", folder / name)
        found[name] = fairness(folder, folder / name, test)
    print("accuracy, demographic parity difference, equalized odds difference:", {k: [round(x, 3) for x in v] for k, v in found.items()})
    plain = found["plain"]
    check(plain[1] > 0.3, f"the bias of the data is learnt: {found}")
    for name in ("reweigh", "adversary"):
        accuracy, parity, odds = found[name]
        check(parity < 0.65 * plain[1] and odds < 0.7 * plain[2], f"{name} lowers the differences: {found}")
        check(accuracy > plain[0], f"{name} is better on unbiased texts: {found}")
    saved = (folder / "adversary/model.safetensors").read_bytes()
    check(b"adversary" not in saved[:int.from_bytes(saved[:8], "little") + 8], "the adversary is not part of the model")
    words = [*common, *settings["adversary"], "--save-steps", 20]
    good(*words, "-o", folder / "whole")
    kill_after("checkpoint-20", words, folder / "killed")
    good(*words, "-o", folder / "killed")
    check((folder / "killed/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "a resumed run has different bytes")
    for words, part in ((["--reweigh"], "group_field"), (["--group-field", "group"], "has no effect"), (["--group-field", "tribe", "--reweigh"], "'tribe' with the group is missing"),
                        (["--group-field", "group", "--adversary", -1], "adversary"), (["--group-field", "group", "--reweigh", "--regression"], "")):
        refused(part, *common, *words, "-o", folder / "no")
    one = folder / "one.jsonl"
    write(one, [r for r in records(50, 3, True) if r["group"] == "north"])
    refused("at least 2 are needed", *[one if w == train else w for w in common], "--group-field", "group", "--reweigh", "-o", folder / "no")
sys.exit(f"debias: {len(failures)} failures" if failures else 0)
