#!/usr/bin/env python3
"""makar reward through the program: the golden fixtures, a tiny model learns the world's preferences and rankings, scores
in any batch, resume after a kill, forms of published data, and bad records with file and line.

usage: reward.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, kill_after, refused, steps


def clear_pairs(path, count, split):
    """Pairs whose worse answer is rude, too long or off the topic: differences that a model of this size can learn."""
    records = good("data", "world", "--form", "preferences", "-n", count, "--events", 3, "--split", split).stdout.splitlines()
    path.write_text("".join(line + "\n" for line in records if json.loads(line)["kind"] != "wrong"))


def golden(folder):
    """The loss of transformers on three pairs; the same through makar dpo."""
    for command, model, data, key, words in (
            ("reward", "llama-reward", "models/llama-reward/golden", "loss", []),
            ("dpo", "dpo-policy", "preference/dpo", "loss", ["--ref-model", GOLDEN / "models/dpo-reference"]),
            ("dpo", "dpo-policy", "preference/dpo", "label_smoothing_0.1_loss", ["--ref-model", GOLDEN / "models/dpo-reference", "--label-smoothing", 0.1]),
            ("dpo", "dpo-policy", "preference/dpo", "ipo_loss", ["--ref-model", GOLDEN / "models/dpo-reference", "--loss-type", "ipo"])):
        figures = json.loads((GOLDEN / f"{data}.json").read_text())
        out = folder / f"golden-{command}-{key}"
        good(command, "-m", GOLDEN / "models" / model, "-d", GOLDEN / f"{data}.safetensors", "--micro-batch-size", 3, "--max-steps", 1,
             "--val-set-size", 0, *words, "-o", out)
        first = steps(out)[0] if (out / "log.jsonl").is_file() else {"loss": 0}
        check(abs(first["loss"] - figures[key]) < 1e-5 * max(1, figures[key]), f"{command} {key}: {first['loss']} is not {figures[key]}")
        if command == "reward":
            norm = sum(g["l2"] ** 2 for g in figures["grads"].values()) ** 0.5
            check(abs(first["norm"] - norm) < 1e-4 * norm, f"gradient norm {first['norm']} is not {norm}")


def learns(folder, base, pairs, held_out, common):
    out = folder / "learnt"
    done = good("reward", "-m", base, "-d", pairs, "--val-datasets", held_out, *common, "--max-steps", 160, "--json", "-o", out)
    found = json.loads(done.stdout)["validation"] if done.returncode == 0 else {}
    check(found.get("accuracy", 0) > 0.9 and found.get("margin", 0) > 1 and found.get("loss", 1) < 0.4, f"held-out pairs: {found}")
    check(set(steps(out)[0]["metrics"]) == {"accuracy", "margin", "score"}, f"the step line: {steps(out)[0]}")
    check("<polyline" in (out / "calibration.svg").read_text(), "a picture of the calibration")
    config = json.loads((out / "config.json").read_text())
    check(config["architectures"][0].endswith("ForSequenceClassification") and config["id2label"] == {"0": "reward"}, f"{config}")
    # A second run with swapped answers learns the opposite.
    swapped = folder / "swapped.jsonl"
    swapped.write_text("".join(json.dumps({**r, "chosen": r["rejected"], "rejected": r["chosen"]}) + "\n"
                               for r in map(json.loads, pairs.read_text().splitlines())))
    good("reward", "-m", base, "-d", swapped, "--val-set-size", 0, *common, "--max-steps", 160, "-o", folder / "contrary")
    other = json.loads(good("reward", "score", "-m", folder / "contrary", held_out, "--json").stdout)
    check(other["accuracy"] < 0.1, f"swapped answers reverse the preference: {other}")
    return found


def scores(folder, held_out, found):
    """The command's scores agree with the training's validation, in any batch, for all forms of records."""
    model = folder / "learnt"
    total = json.loads(good("reward", "score", "-m", model, held_out, "--json").stdout)
    check(total["bad_records"] == 0 and abs(total["accuracy"] - found["accuracy"]) < 1e-9 and abs(total["margin"] - found["margin"]) < 1e-6,
          f"{total} is not {found}")
    lines = held_out.read_text().splitlines()[:40]
    together = good("reward", "score", "-m", model, text="\n".join(lines) + "\n").stdout.splitlines()
    check(len(together) == 40, "one line per record")
    for i in (0, 17, 39):
        record, want = json.loads(lines[i]), json.loads(together[i])["scores"]
        alone = good("reward", "score", "-m", model, "-t", 1, text=lines[i] + "\n").stdout
        check(json.loads(alone)["scores"] == want, f"line {i} has another score alone than in a batch")
        turns = [{"role": "user", "content": record["prompt"]}, {"role": "assistant", "content": record["rejected"]}]
        forms = [{"prompt": record["prompt"], "completion": record["chosen"]}, {"messages": turns},
                 {"prompt": record["prompt"], "answers": [record["chosen"], record["rejected"]], "ranks": [0, 1]}]
        got = [json.loads(line) for line in good("reward", "score", "-m", model, text="".join(json.dumps(f) + "\n" for f in forms)).stdout.splitlines()]
        check(got == [{"score": want[0]}, {"score": want[1]}, {"scores": want}], f"forms of line {i}: {got} {want}")
    bad = good("reward", "score", "-m", model, text='{"prompt":"a"}\n[]\n{\n').stdout.splitlines()
    check(len(bad) == 3 and all("error" in json.loads(line) for line in bad), f"bad lines have errors: {bad}")
    refused("is not a reward model", "reward", "score", "-m", folder / "base", held_out)


def ranked(folder, base, common):
    """All pairs of a ranking in one example. Rankings contain wrong answers too, so a lower accuracy is required."""
    for split, count in (("train", 400), ("test", 100)):
        good("data", "world", "--form", "ranked", "-n", count, "--events", 3, "--split", split, "-o", folder / f"ranked-{split}.jsonl")
    done = good("reward", "-m", base, "-d", folder / "ranked-train.jsonl", "--val-datasets", folder / "ranked-test.jsonl", *common,
                "--margin", 0.1, "--center-rewards-coefficient", 0.01, "--max-steps", 120, "--json", "-o", folder / "ranked")
    found = json.loads(done.stdout)["validation"] if done.returncode == 0 else {}
    check(found.get("accuracy", 0) > 0.68 and abs(found.get("score", 9)) < 1, f"rankings: {found}")
    check("100 for validation" in done.stderr, f"all rankings are read: {done.stderr[:500]}")


def resumes(folder, base, pairs, common):
    words = ["reward", "-m", base, "-d", pairs, *common, "--val-set-size", 0, "--max-steps", 30, "--save-steps", 5]
    good(*words, "-o", folder / "whole")
    out = folder / "killed"
    kill_after("checkpoint-5", words, out)
    check(not (out / "model.safetensors").exists(), "the run was killed before its end")
    check("resuming at step" in good(*words, "-o", out).stderr, "the run resumes")
    check((out / "model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "a resumed run has different bytes")


def adapter(folder, base, pairs, held_out, common):
    """An adapter and the head: the body is frozen in training, and the saved model has all weights. A killed run continues."""
    words = ["reward", "-m", base, "-d", pairs, "--val-datasets", held_out, *common, "--adapter", "lora", "--lora-r", 8, "--max-steps", 120, "--save-steps", 20, "--json"]
    done = good(*words, "-o", folder / "adapter")
    found = json.loads(done.stdout)["validation"] if done.returncode == 0 else {}
    check(found.get("accuracy", 0) > 0.7, f"held-out pairs with an adapter: {found}")
    check("training" in done.stderr and "(100 %)" not in done.stderr, f"a part of the parameters is trained: {done.stderr[:300]}")
    total = json.loads(good("reward", "score", "-m", folder / "adapter", held_out, "--json").stdout)
    check(abs(total["accuracy"] - found.get("accuracy", 0)) < 0.01 and abs(total["margin"] - found.get("margin", 0)) < 1e-3, f"merged: {total} is not {found}")
    kill_after("checkpoint-20", words, folder / "adapter-killed")
    good(*words, "-o", folder / "adapter-killed")
    check((folder / "adapter-killed/model.safetensors").read_bytes() == (folder / "adapter/model.safetensors").read_bytes(), "a resumed run has different bytes")
    refused("cannot be trained with qlora", "reward", "-m", base, "-d", pairs, "--adapter", "qlora", "-o", folder / "no")
    refused("without an adapter", "reward", "-m", base, "-d", pairs, "--lora-r", 4, "-o", folder / "no")


def data(folder, base, common):
    lines = [{"prompt": "Where?", "answers": ["Here.", "There.", "No."], "ranks": [0, 1, 1]}, {"prompt": "Where?", "answers": ["Here.", "There."]},
             {"prompt": "Where?", "chosen": "Here.", "rejected": "No.", "margin": 0.5},
             {"chosen": "\n\nHuman: Who?\n\nAssistant: Anna.", "rejected": "\n\nHuman: Who?\n\nAssistant: Nobody."}]
    bad = [({"prompt": "a", "answers": ["b"]}, "2 to 64 answers"), ({"prompt": "a", "answers": ["b", "c"], "ranks": [1]}, "one integer per answer"),
           ({"prompt": "a", "answers": ["b", "c"], "ranks": [2, 2]}, "nothing to compare"), ({"answers": ["b", "c"], "ranks": [0, 1]}, "there is no prompt"),
           ({"prompt": "a", "answers": ["b", "b"], "ranks": [0, 1]}, "the same tokens"), ({"prompt": "a", "chosen": "b", "rejected": "c", "margin": "x"}, "'margin' must be"),
           ({"text": "a"}, "match no schema")]
    path = folder / "mixed.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *(b for b, _ in bad)]))
    done = good("reward", "-m", base, "-d", path, *common, "--val-set-size", 0, "--max-steps", 1, "-o", folder / "mixed")
    check("4 prompts with answers for training" in done.stderr, f"four forms: {done.stderr}")
    for number, (_, part) in enumerate(bad, 5):
        check(any(f"mixed.jsonl:{number}: " in line and part in line for line in done.stderr.splitlines()), f"line {number} with '{part}': {done.stderr}")
    for words, part in ((["--margin", -1], "margin"), (["--center-rewards-coefficient", "nan"], "center_rewards_coefficient"), (["--label-smoothing", 0.1], "has no effect")):
        refused(part, "reward", "-m", base, "-d", path, *words, "-o", folder / "no")
    refused("cannot become a reward model", "reward", "-m", GOLDEN / "models/roberta-mlm", "-d", path, "-o", folder / "no")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, pairs, held_out, base = folder / "text.jsonl", folder / "pairs.jsonl", folder / "held-out.jsonl", folder / "base"
    good("data", "world", "--form", "text", "-n", 300, "-o", text)
    clear_pairs(pairs, 1200, "train")
    clear_pairs(held_out, 400, "test")
    good("pretrain", "-d", text, "layers=1", "width=32", "heads=2", "vocab_size=600", "sequence_len=256", "max_steps=40", "micro_batch_size=8", "lr=3e-3", "-t", 2, "-o", base)
    common = ["--micro-batch-size", 8, "--lr", 3e-3, "-t", 2]
    golden(folder)
    scores(folder, held_out, learns(folder, base, pairs, held_out, common))
    ranked(folder, base, common)
    resumes(folder, base, pairs, common)
    adapter(folder, base, pairs, held_out, common)
    data(folder, base, common)
sys.exit(f"reward: {len(failures)} failures" if failures else 0)
