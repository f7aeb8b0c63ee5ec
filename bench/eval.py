#!/usr/bin/env python3
"""MMLU with five shots: the shared prefix computed once, against every context computed from its beginning, and against one request per
question over HTTP.

usage: eval.py MAKAR MODEL DATA [--subject anatomy] [--limit 40] [--repeat 3] [--http-repeat 1] [--json]      (DATA: the folder that has mmlu/)
"""
import argparse
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
options = argparse.ArgumentParser()
for word in ("makar", "model", "data"):
    options.add_argument(word)
options.add_argument("--subject", default="anatomy")
options.add_argument("--limit", default="40")
options.add_argument("--repeat", type=int, default=3)
options.add_argument("--http-repeat", type=int, default=1)  # slow: every request computes its whole context
options.add_argument("--json", action="store_true")
o = options.parse_args()


def timed(command, server=None):
    """Wall and CPU seconds, including the server's CPU time; on a busy machine only CPU seconds are comparable."""
    def cpu():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        ticks = 0
        if server:  # utime and stime follow the name in parentheses
            fields = pathlib.Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks = int(fields[11]) + int(fields[12])
        return used.ru_utime + used.ru_stime + ticks / os.sysconf("SC_CLK_TCK")
    before, begin = cpu(), time.time()
    subprocess.run(command, check=True, capture_output=True)
    return time.time() - begin, cpu() - before


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
    server, url = start_server()
    runs = {"shared prefix": [], "whole contexts": [], "one by one over HTTP": []}
    samples = set()
    try:
        for turn in range(o.repeat):  # alternating, so that other load affects all of them equally
            for name, times in runs.items():
                if "HTTP" in name and turn >= o.http_repeat:
                    continue
                out = pathlib.Path(scratch) / f"{name} {turn}"
                flags = {"shared prefix": ["-m", o.model], "whole contexts": ["-m", o.model, "--no-prefix-cache"],
                        "one by one over HTTP": ["-m", url, "--requests", "1"]}[name]
                times.append(timed(base + flags + ["--output", str(out)], server if "HTTP" in name else None))
                if "HTTP" not in name:
                    samples.add((out / f"samples_mmlu_{o.subject}.jsonl").read_bytes())
    finally:
        server.terminate()
        server.wait()

for peer in [name for name, times in runs.items() if times][1:]:
    for i, case in enumerate(("wall", "cpu")):
        ratios = sorted(peer_value[i] / makar_value[i] for makar_value, peer_value in zip(runs["shared prefix"], runs[peer]))
        makar_value, peer_value = (statistics.median(t[i] for t in runs[name]) for name in ("shared prefix", peer))
        row = {"bench": "eval", "case": f"mmlu_{o.subject} 5-shot, {o.limit} questions, {case}", "makar_value": round(makar_value, 2), "peer": peer,
               "peer_value": round(peer_value, 2), "unit": "s", "ratio": round(statistics.median(ratios), 2),
               "spread": [round(ratios[0], 2), round(ratios[-1], 2)]}
        print(json.dumps(row) if o.json else f"{row['case']}: {row['makar_value']} s against {row['peer_value']} s ({peer}), "
              f"{row['ratio']} times ({row['spread'][0]} to {row['spread'][1]})")
print("the samples are bit-identical" if len(samples) == 1 else "SAMPLES DIFFER")
raise SystemExit(0 if len(samples) == 1 else 1)
