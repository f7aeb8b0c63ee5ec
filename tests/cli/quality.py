#!/usr/bin/env python3
"""Quality heads through the program: ratings of a study become data, a tiny model learns them, candidates are ranked by
them, resume after a kill, bad records with file and line.

usage: quality.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, kill_after, refused


def write_rated(path, count, split):
    """Answers of the world with ratings: a rude answer is not safe, one off the topic is not sensible."""
    records = map(json.loads, good("data", "world", "--form", "preferences", "-n", count, "--events", 3, "--split", split).stdout.splitlines())
    lines = []
    for r in records:
        if r["kind"] not in ("rude", "off_topic"):
            continue
        lines.append({"prompt": r["prompt"], "completion": r["chosen"], "ratings": {"sensible": True, "safe": 1}})
        bad = {"safe": 0} if r["kind"] == "rude" else {"sensible": 0, "safe": 1.0}
        lines.append({"prompt": r["prompt"], "completion": r["rejected"], "ratings": bad})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def learns(folder, base, train, held_out, common):
    out = folder / "quality"
    done = good("reward", "quality", "-m", base, "-d", train, "--val-datasets", held_out, *common, "--max-steps", 600, "--json", "-o", out)
    found = json.loads(done.stdout)["validation"] if done.returncode == 0 else {}
    check(found.get("sensible", 0) > 0.9 and found.get("safe", 0) > 0.84 and found.get("auc", 0) > 0.92, f"held-out answers: {found}")
    check("interesting" not in found, f"only rated qualities: {found}")
    config = json.loads((out / "config.json").read_text())
    check(config["problem_type"] == "multi_label_classification" and config["id2label"] == {"0": "sensible", "1": "safe"}, f"{config}")
    return out


def ranks(folder, base, model, held_out):
    """The answer that generate keeps is the best of all by `reward score`; reward best accepts the same rule."""
    prompt = json.loads(held_out.read_text().splitlines()[0])["prompt"]
    words = ["generate", "-m", base, "-p", prompt, "--temperature", 1, "-n", 12, "--seed", 3, "--json"]
    samples = [a["text"] for a in json.loads(good(*words, "--answers", 6).stdout)["answers"]]
    check(len(set(samples)) > 3, f"different answers: {samples}")
    lines = "".join(json.dumps({"prompt": prompt, "completion": text}) + "\n" for text in samples)
    scores = [json.loads(line) for line in good("reward", "score", "-m", model, text=lines).stdout.splitlines()]
    check(all(set(s["ratings"]) == {"sensible", "safe"} for s in scores), f"ratings: {scores}")
    for s in scores:
        want = 3 * s["ratings"]["sensible"] - (100 if s["ratings"]["safe"] < 0.5 else 0)
        check(abs(s["score"] - want) < 1e-4, f"the score of {s}")
    best = max(range(6), key=lambda i: scores[i]["score"])
    best_answers = json.loads(good(*words, "--best-of", 6, "--rank-by", f"quality={model}").stdout)["answers"]
    check([a["text"] for a in best_answers] == [samples[best]], f"{best_answers} is not the best of {list(zip(samples, scores))}")
    worst = json.loads(good(*words, "--best-of", 6, "--rank-by", f"quality={model},weight=-1").stdout)["answers"][0]["text"]
    check(worst == samples[min(range(6), key=lambda i: scores[i]["score"])], "a negative weight keeps the worst")
    requests = json.dumps({"prompt": prompt, "best_of": 6, "temperature": 1, "max_tokens": 12, "seed": 3}) + "\n"
    line = good("generate", "-m", base, "--jsonl", "--best-of", 6, "--temperature", 1, "--rank-by", f"quality={model}", text=requests).stdout
    check(json.loads(line)["answers"][0]["text"] == samples[best], f"jsonl: {line}")
    prompts = folder / "prompts.jsonl"
    prompts.write_text(json.dumps({"prompt": prompt}) + "\n")
    good("reward", "best", "-m", base, prompts, "--reward", f"quality={model}", "-n", 4, "--max-completion-length", 12, "--form", "ranked", "-o", folder / "best.jsonl")
    refused("set --best-of", *words, "--rank-by", f"quality={model}")
    refused("is not a quality model", *words, "--best-of", 2, "--rank-by", f"quality={base}")
    refused("is not a reward model", *words, "--best-of", 2, "--rank-by", f"model={model}")
    refused("did you mean 'quality'", *words, "--best-of", 2, "--rank-by", "qualty=x")
    refused("--allow-programs", *words, "--best-of", 2, "--rank-by", "program=true")
    refused("with the record of a prompt, and here is none", *words, "--best-of", 2, "--rank-by", "exact")
    refused("with the record of a prompt, and here is none", *words, "--best-of", 2, "--rank-by", "tests")


def study(folder):
    """The scales of a study, as its items name them, become ratings from 0 to 1."""
    names = ["sensible", "specific", "interesting", "safe", "grounded"]
    path = folder / "study.jsonl"
    path.write_text(json.dumps({"prompt": "Where?", "answers": ["Here.", "No."], "kind": "scale", "scales": names}) + "\n")
    (folder / "study.ratings.jsonl").write_text("".join(json.dumps({"rater": who, "item": 0, "scales": [{"sensible": value, "safe": 5}, {"sensible": 1}]}) + "\n"
                                                        for who, value in (("ann", 5), ("bob", 2))))
    done = good("judge", "people", path, "--ratings", folder / "ratings.jsonl")
    check("sensible 3.50" in done.stdout, done.stdout)
    lines = [json.loads(line) for line in (folder / "ratings.jsonl").read_text().splitlines()]
    check(lines == [{"prompt": "Where?", "completion": "Here.", "ratings": {"safe": 1.0, "sensible": 0.625}},
                    {"prompt": "Where?", "completion": "No.", "ratings": {"sensible": 0.0}}], f"{lines}")
    path.write_text(json.dumps({"prompt": "a", "answers": ["b"], "scales": ["x", "x"]}) + "\n")
    refused("different names", "judge", "people", path)
    return folder / "ratings.jsonl"


def bad_records(folder, base, common):
    path = folder / "mixed.jsonl"
    bad = [({"prompt": "a", "completion": "b"}, "'ratings' must be"), ({"prompt": "a", "completion": "b", "ratings": {"safe": 2}}, "from 0 to 1"),
           ({"prompt": "a", "completion": "b", "ratings": {"sensibel": 1}}, "did you mean 'sensible'"), ({"completion": "b", "ratings": {"safe": 1}}, "there is no prompt")]
    path.write_text(json.dumps({"prompt": "a", "completion": "b", "ratings": {"safe": 1}}) + "\n" + "".join(json.dumps(b) + "\n" for b, _ in bad))
    done = good("reward", "quality", "-m", base, "-d", path, *common, "--val-set-size", 0, "--max-steps", 1, "-o", folder / "mixed")
    check("1 rated answers for training" in done.stderr, done.stderr)
    for number, (_, part) in enumerate(bad, 2):
        check(any(f"mixed.jsonl:{number}: " in line and part in line for line in done.stderr.splitlines()), f"line {number} with '{part}': {done.stderr}")
    refused("no training record rates 'witty'", "reward", "quality", "-m", base, "-d", path, "--qualities", "safe", "--qualities", "witty", "--val-set-size", 0, "-o", folder / "no")
    refused("has no tokenizer", "reward", "quality", "-m", GOLDEN / "models/roberta-mlm", "-d", path, "--val-set-size", 0, "-o", folder / "no")


def resumes(folder, base, train, common):
    words = ["reward", "quality", "-m", base, "-d", train, *common, "--val-set-size", 0, "--max-steps", 30, "--save-steps", 5]
    good(*words, "-o", folder / "whole")
    kill_after("checkpoint-5", words, folder / "killed")
    good(*words, "-o", folder / "killed")
    check((folder / "killed/model.safetensors").read_bytes() == (folder / "whole/model.safetensors").read_bytes(), "a resumed run has different bytes")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, train, held_out, base = folder / "text.jsonl", folder / "train.jsonl", folder / "held-out.jsonl", folder / "base"
    good("data", "world", "--form", "text", "-n", 300, "-o", text)
    write_rated(train, 1200, "train")
    write_rated(held_out, 300, "test")
    good("pretrain", "-d", text, "layers=1", "width=32", "heads=2", "vocab_size=600", "sequence_len=256", "max_steps=120", "micro_batch_size=8", "lr=3e-3", "-t", 2, "-o", base)
    common = ["--micro-batch-size", 16, "--lr", 2e-3, "-t", 2]
    model = learns(folder, base, train, held_out, common)
    ranks(folder, base, model, held_out)
    good("reward", "quality", "-m", base, "-d", study(folder), *common, "--val-set-size", 0, "--max-steps", 2, "-o", folder / "from-people")
    bad_records(folder, base, common)
    resumes(folder, base, train, common)
sys.exit(f"quality: {len(failures)} failures" if failures else 0)
