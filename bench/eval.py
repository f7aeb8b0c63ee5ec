#!/usr/bin/env python3
"""MMLU with five shots: the shared prefix computed once, every context from its beginning, and the same questions one by one over HTTP.

usage: eval.py MAKAR MODEL DATA [--subject anatomy] [--limit 40] [--json]      (DATA: the folder that has mmlu/)
"""
import argparse
import json
import pathlib
import re
import resource
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
options = argparse.ArgumentParser()
for word in ("makar", "model", "data"):
    options.add_argument(word)
options.add_argument("--subject", default="anatomy")
options.add_argument("--limit", default="40")
options.add_argument("--json", action="store_true")
o = options.parse_args()


def timed(command):
    """Wall and CPU seconds: on a busy machine the second one is comparable."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.time() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_server():
    server = subprocess.Popen([o.makar, "serve", "-m", o.model, "--port", "0", "-c", "4096"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    for line in server.stdout:
        if found := re.search(r"http://[\w.]+:\d+", line):
            return server, found.group()
    raise SystemExit("the server did not start")


with tempfile.TemporaryDirectory() as scratch:
    task = re.sub(r"dataset_name:\n(?:  .*\n)+", f"dataset_name: [{o.subject}]\n", (ROOT / "tasks/mmlu.yaml").read_text())
    path = pathlib.Path(scratch) / "mmlu.yaml"
    path.write_text(task)
    base = [o.makar, "eval", "--tasks", str(path), "--data", o.data, "--num-fewshot", "5", "--limit", o.limit, "--log-samples"]
    here = base + ["-m", o.model]
    runs = {"shared prefix": timed(here + ["--output", f"{scratch}/shared"]),
            "whole contexts": timed(here + ["--output", f"{scratch}/whole", "--no-prefix-cache"])}
    samples = [(pathlib.Path(scratch) / name / f"samples_mmlu_{o.subject}.jsonl").read_bytes() for name in ("shared", "whole")]
    same = samples[0] == samples[1]
    server, url = start_server()
    try:
        began = time.time()
        subprocess.run(base + ["-m", url, "--requests", "1", "--output", f"{scratch}/http"], check=True, capture_output=True)
        http = time.time() - began
    finally:
        server.terminate()
        server.wait()

shared, whole = runs["shared prefix"], runs["whole contexts"]
for case, ours, theirs, unit in (("cpu", shared[1], whole[1], "s"), ("wall", shared[0], whole[0], "s"), ("wall", shared[0], http, "s")):
    peer = "one by one over HTTP" if theirs is http else "whole contexts"
    row = {"bench": "eval", "case": f"mmlu_{o.subject} 5-shot, {o.limit} questions, {case}", "ours": round(ours, 2), "peer": peer,
           "theirs": round(theirs, 2), "unit": unit, "ratio": round(theirs / ours, 2)}
    print(json.dumps(row) if o.json else f"{row['case']}: {row['ours']} {unit} beside {row['theirs']} {unit} ({peer}), {row['ratio']} times")
print("the same samples to the bit" if same else "SAMPLES DIFFER")
raise SystemExit(0 if same else 1)
