#!/usr/bin/env python3
"""One model on every task whose data is present: the score, the number of documents, the chance level of multiple choice, and the seconds.

usage: eval_tasks.py MAKAR MODEL DATA [--limit 20] [--tasks a,b] [--chat]      (DATA: the unpacked datasets)
Tasks with subtasks use at most 3 documents of each. Tasks without data are listed at the end.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
options = argparse.ArgumentParser()
for word in ("makar", "model", "data"):
    options.add_argument(word)
options.add_argument("--limit", type=int, default=20)
options.add_argument("--tasks", default="")
options.add_argument("--chat", action="store_true")
o = options.parse_args()


def chance_of(folder):
    """The mean over documents of 1 / choices; NaN for answers that are generated."""
    shares = []
    for file in pathlib.Path(folder).glob("samples_*.jsonl"):
        for line in file.read_text().splitlines():
            sample = json.loads(line)
            choices = len(sample["arguments"])
            shares.append(1 / choices if "arg_1" in sample["arguments"]["gen_args_0"] and choices > 1 else float("nan"))
    return sum(shares) / len(shares) if shares else float("nan")


print(f"{'task':<26} {'metric':<22} {'value':>9} {'stderr':>8} {'chance':>7} {'documents':>9} {'seconds':>8}")
missing = []
with tempfile.TemporaryDirectory() as scratch:
    for path in sorted((ROOT / "tasks").glob("*.yaml")):
        if o.tasks and path.stem not in o.tasks.split(","):
            continue
        has_subtasks = "dataset_name:" in path.read_text()
        command = [o.makar, "eval", "-m", o.model, "--tasks", str(path), "--data", o.data, "--limit", str(min(3, o.limit) if has_subtasks else o.limit),
                   "--confirm-run-unsafe-code", "--json", "--log-samples", "--output", f"{scratch}/{path.stem}"] + (["--apply-chat-template"] if o.chat else [])
        begin = time.time()
        done = subprocess.run(command, capture_output=True, text=True)
        seconds = time.time() - begin
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1]
            missing.append(f"{path.stem}: {reason}")
            continue
        results = json.loads(done.stdout)
        scores = results["groups"].get(path.stem) or results["results"].get(path.stem) or next(iter(results["results"].values()))
        documents = sum(n["effective"] for n in results["n-samples"].values())
        key = next(k for k in scores if "," in k and "_stderr," not in k)
        error = scores[key.replace(",", "_stderr,", 1)]
        value = scores[key]
        chance = chance_of(f"{scratch}/{path.stem}") if key.startswith(("acc,", "pct_")) else float("nan")
        print(f"{path.stem:<26} {key:<22} {value if value is not None else float('nan'):>9.4f} "
              f"{error if isinstance(error, float) else float('nan'):>8.4f} {chance:>7.2f} {documents:>9} {seconds:>8.1f}",
              flush=True)
for line in missing:
    print("not run:", line)
