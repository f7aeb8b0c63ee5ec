#!/usr/bin/env python3
"""makar dpo through the program: a tiny model learns the world's preferences, resumes with the same bytes after a kill,
references and losses, forms of published data, and bad records with file and line.

usage: dpo.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, kill_after, refused, steps

REWARDS = {"rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"}


def result(done):
    return json.loads(done.stdout)["validation"] if done.returncode == 0 else {}


def preferences(path, count, split):
    """Pairs whose answers differ in style; a model of this size cannot learn which answer is right."""
    records = good("data", "world", "--form", "preferences", "-n", count, "--events", 3, "--split", split).stdout
    path.write_text("".join(line + "\n" for line in records.splitlines() if json.loads(line)["kind"] != "wrong"))


def learns(folder, base, pairs, held_out, common):
    swapped = folder / "swapped.jsonl"
    with open(swapped, "w") as f:
        for line in pairs.read_text().splitlines():
            record = json.loads(line)
            record["chosen"], record["rejected"] = record["rejected"], record["chosen"]
            f.write(json.dumps(record) + "\n")
    words = ["--val-datasets", held_out, "--max-steps", 40, "--eval-steps", 20, "--json"]
    learnt = result(good("dpo", "-m", base, "-d", pairs, *common, *words, "-o", folder / "learnt"))
    check(learnt.get("rewards/accuracies", 0) > 0.8 and learnt.get("rewards/margins", 0) > 0.1 and learnt["loss"] < 0.6, f"held-out pairs after training: {learnt}")
    check((folder / "learnt/rewards-margins.svg").exists() and "rewards-margins.svg" in (folder / "learnt/report.md").read_text(), "a chart per validation metric")
    first = steps(folder / "learnt")[0]
    check(abs(first["loss"] - 0.693147) < 1e-5 and set(first["metrics"]) == REWARDS, f"the first step starts at log 2: {first}")
    check(all(first["metrics"][name] == 0 for name in REWARDS), f"the model is its own reference at the start: {first}")
    contrary = result(good("dpo", "-m", base, "-d", swapped, *common, *words, "-o", folder / "contrary"))
    check(contrary.get("rewards/accuracies", 1) < 0.15, f"swapped answers reverse the preference: {contrary}")
    for loss, extra in (("ipo", []), ("hinge", []), ("simpo", ["--beta", 2]), ("sigmoid", ["--label-smoothing", 0.1]), ("kto_pair", []), ("orpo", ["--beta", 1])):
        out = folder / f"loss-{loss}"
        got = result(good("dpo", "-m", base, "-d", pairs, *common, *words, "--loss-type", loss, *extra, "-o", out))
        check(got.get("rewards/accuracies", 0) > 0.8, f"{loss}: {got}")
        losses = [s["loss"] for s in steps(out)] if out.is_dir() else [0, 1]
        check(losses[-1] < losses[0], f"{loss}: the loss falls: {losses[0]} {losses[-1]}")


def single_answers(folder, base, pairs, held_out, common):
    """KTO on single answers with a label, in two forms; also on pairs."""
    for path in (pairs, held_out):
        with open(folder / f"single-{path.name}", "w") as f:
            for line in path.read_text().splitlines():
                r = json.loads(line)
                f.write(json.dumps({"prompt": r["prompt"], "completion": r["chosen"], "label": True}) + "\n")
                turns = [{"role": "user", "content": r["prompt"]}, {"role": "assistant", "content": r["rejected"]}]
                f.write(json.dumps({"messages": turns, "label": False}) + "\n")
    words = ["--loss-type", "kto", "--max-steps", 40, "--json"]
    single = result(good("dpo", "-m", base, "-d", folder / "single-pairs.jsonl", "--val-datasets", folder / "single-held-out.jsonl", *common, *words,
                         "--undesirable-weight", 1.2, "-o", folder / "kto"))
    check(single.get("rewards/margins", 0) > 0.1 and single.get("kl", -1) >= 0, f"KTO on single answers: {single}")
    first = steps(folder / "kto")[0]
    check(abs(first["loss"] - 0.5 * (1 + 1.2) / 2) < 0.06 and first["metrics"]["kl"] == 0, f"KTO starts at half the mean weight: {first}")
    two = folder / "two.jsonl"
    two.write_text("".join(json.dumps({"prompt": f"Who is {n}?", "chosen": "A friend.", "rejected": "Go."}) + "\n" for n in ("Anna", "Ben")))
    done = good("dpo", "-m", base, "-d", two, *common, *words[:2], "--max-steps", 1, "--val-set-size", 0, "-o", folder / "kto-pairs")
    check("4 rated answers for training" in done.stderr, f"a pair is two answers: {done.stderr[:300]}")
    refused("match no schema", "dpo", "-m", base, "-d", folder / "text.jsonl", *common, *words[:2], "--max-steps", 1, "-o", folder / "no")


def references(folder, base, pairs, common):
    """References: the model before training, the same weights as a second model, another model; and adapters."""
    words = [*common, "-d", pairs, "--val-set-size", 0, "--max-steps", 4]
    for name, extra in (("own", []), ("same", ["--ref-model", base]), ("other", ["--ref-model", folder / "learnt"])):
        good("dpo", "-m", base, *words, *extra, "-o", folder / f"ref-{name}")
    own, same, other = ((folder / f"ref-{name}/model.safetensors").read_bytes() for name in ("own", "same", "other"))
    check(own == same, "the same weights as --ref-model give the same bytes")
    check(own != other and steps(folder / "ref-other")[0]["metrics"]["rewards/margins"] < -0.05, "another reference counts")
    lora = folder / "lora"
    good("dpo", "-m", base, *words, "--adapter", "lora", "--max-steps", 16, "-o", lora)
    check((lora / "adapter_model.safetensors").is_file() and steps(lora)[0]["metrics"]["rewards/margins"] == 0, "an adapter starts at its base")
    margins = [s["metrics"]["rewards/margins"] for s in steps(lora)]
    check(sum(margins[-4:]) > 0, f"an adapter learns: {margins}")
    refused("different vocabulary", "dpo", "-m", base, *words, "--ref-model", GOLDEN / "models/llama", "-o", folder / "no")


def resumes(folder, base, pairs, common):
    words = ["dpo", "-m", base, "-d", pairs, *common, "--val-set-size", 0, "--max-steps", 30, "--save-steps", 5]
    good(*words, "-o", folder / "whole")
    out = folder / "killed"
    kill_after("checkpoint-5", words, out)
    check(not (out / "model.safetensors").exists(), "the run was killed before its end")
    done = good(*words, "-o", out)
    check("resuming at step" in done.stderr, f"the run resumes: {done.stderr[-300:]}")
    check((out / "model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "a resumed run has different bytes")
    check(steps(out)[-1]["metrics"] == steps(folder / "whole")[-1]["metrics"], "a resumed run logs the same rewards")
    (out / "run.json").unlink()
    refused("beta", *words, "--beta", 0.2, "-o", out)


def data(folder, base, common):
    turns = [{"role": "user", "content": "Where is Anna?"}]
    lines = [{"prompt": "Where is Anna?", "chosen": "In the barn.", "rejected": "On the lawn."},
             {"chosen": turns + [{"role": "assistant", "content": "In the barn."}], "rejected": turns + [{"role": "assistant", "content": "Go."}]},
             {"chosen": "\n\nHuman: Who?\n\nAssistant: Anna.", "rejected": "\n\nHuman: Who?\n\nAssistant: Nobody."},
             {"instruction": "Who?", "input": "", "output": "Anna.", "chosen": "Anna.", "rejected": "Ben."}]
    bad = [({"prompt": "a", "chosen": "b", "rejected": "b"}, "are the same"), ({"prompt": "a", "chosen": {}, "rejected": "b"}, "turn 0 of 'chosen'"),
           ({"chosen": "b", "rejected": "c"}, "there is no prompt"), ({"prompt": "word " * 2000, "chosen": "b", "rejected": "c"}, "no assistant turn"),
           ({"prompt": "a", "completion": "b"}, "match no schema"), ("{\"prompt\":", "")]
    path = folder / "mixed.jsonl"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in [*lines, *(b for b, _ in bad)]))
    done = good("dpo", "-m", base, "-d", path, *common, "--val-set-size", 0, "--max-steps", 1, "-o", folder / "mixed")
    check("4 pairs of answers for training" in done.stderr, f"four forms: {done.stderr}")
    for number, (_, part) in enumerate(bad, 5):
        check(any(f"mixed.jsonl:{number}: " in line and part in line for line in done.stderr.splitlines()), f"line {number} with '{part}': {done.stderr}")
    path.write_text("".join(json.dumps(b) + "\n" for b, _ in bad[:3]))
    refused("there are no pairs of answers", "dpo", "-m", base, "-d", path, *common, "--max-steps", 1, "-o", folder / "none")
    for words, part in ((["--loss-type", "ippo"], "did you mean 'ipo'"), (["--beta", 0], "above 0"), (["--label-smoothing", 0.5], "less than 0.5"),
                        (["--loss-type", "ipo", "--label-smoothing", 0.1], "has no effect"), (["--simpo-gamma", 1], "has no effect"),
                        (["--loss-type", "simpo", "--ref-model", base], "uses no reference"), (["--lora-r", 4], "without an adapter")):
        refused(part, "dpo", "-m", base, "-d", path, *words, "-o", folder / "no")
    refused("not a causal language model", "dpo", "-m", GOLDEN / "models/roberta-mlm", "-d", path, "-o", folder / "no")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, pairs, held_out, base = folder / "text.jsonl", folder / "pairs.jsonl", folder / "held-out.jsonl", folder / "base"
    good("data", "world", "--form", "text", "-n", 300, "-o", text)
    preferences(pairs, 800, "train")
    preferences(held_out, 400, "test")
    good("pretrain", "-d", text, "layers=1", "width=32", "heads=2", "vocab_size=600", "sequence_len=128", "max_steps=40", "micro_batch_size=8", "lr=3e-3", "-t", 2, "-o", base)
    common = ["--sequence-len", 128, "--micro-batch-size", 8, "--lr", 3e-3, "-t", 2]
    learns(folder, base, pairs, held_out, common)
    single_answers(folder, base, pairs, held_out, common)
    references(folder, base, pairs, common)
    resumes(folder, base, pairs, common)
    data(folder, base, common)
sys.exit(f"dpo: {len(failures)} failures" if failures else 0)
