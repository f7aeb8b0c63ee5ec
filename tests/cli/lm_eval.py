#!/usr/bin/env python3
"""makar eval compared with the records of lm-eval: tests/testdata of EleutherAI/lm-evaluation-harness (version 0.3) has a hash of all requests of a
task, and its scores when a model answers them with -random() from the seed 42, in lm-eval's order of documents.

usage: lm_eval.py MAKAR        (data: MAKAR_ASSETS, default ../shared/assets; skipped without it)
"""
import csv
import hashlib
import http.server
import json
import os
import pathlib
import random
import re
import sys
import tarfile
import tempfile
import threading

from checks import check, failures
from program import good

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", ROOT.parent / "shared" / "assets")) / "eval"
# SHA-256 of the requests; acc, acc_stderr, acc_norm, acc_norm_stderr. The scores of PIQA are those of its 1,838 documents.
RECORDED = {
    "openbookqa": ("78a49a0ca1a47373adb33463b1d092e6bc0d8f4b01bcb380ada48065037849d7",
                   (0.214, 0.018359797502387046, 0.276, 0.020011219298073517)),
    "anatomy": ("bf05e04ed8cf61cf3aad294ed3f5a16137775ffdd20f1b129022ddffc1251768",
                (0.2222222222222222, 0.0359144408419697, 0.23703703703703705, 0.03673731683969506)),
    "piqa": ("6048a3a2bb3ad1e6a3d98139618e06b4d7de766edd685bd38837596199c3f69f", None),
}
TASK = """
task: {name}
dataset_kwargs: {{data_files: {{test: {name}.jsonl}}}}
output_type: multiple_choice
doc_to_text: query
doc_to_choice: choices
doc_to_target: gold
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
metadata: {{version: 0}}
"""


class Server(http.server.BaseHTTPRequestHandler):
    """Log-probabilities of continuations from a table."""
    protocol_version = "HTTP/1.1"
    answers = {}  # prompt and continuation: (length of the prompt, log-probability)

    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["prompt"]
        length, value = Server.answers[text]
        scored = {"tokens": [text[:length], text[length:]], "token_logprobs": [None, value], "text_offset": [0, length],
                  "top_logprobs": [None, {text[length:]: value}]}
        data = json.dumps({"choices": [{"text": text, "logprobs": scored}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def documents(data):
    out = {"openbookqa": [], "anatomy": [], "piqa": []}
    for one in json.loads((data / "commonsense_llm_adapters/openbookqa/test.json").read_text()):
        found = re.match(r".*?question: (.*)\n\nAnswer1: (.*) Answer2: (.*) Answer3: (.*) Answer4: (.*)\n\nAnswer format",
                         one["instruction"], re.S)
        out["openbookqa"].append({"query": found[1], "choices": found.groups()[1:], "gold": int(one["answer"][-1]) - 1})
    for question, *choices, answer in csv.reader(open(data / "mmlu/test/anatomy_test.csv", encoding="utf-8")):
        listed = "".join(f"{key}. {choice}\n" for key, choice in zip("ABCD", choices))
        out["anatomy"].append({"query": f"Question: {question}\nChoices:\n{listed}Answer:", "choices": choices,
                               "gold": "ABCD".index(answer)})
    labels = (data / "piqa/valid-labels.lst").read_text().split()
    for line, label in zip((data / "piqa/valid.jsonl").read_text().splitlines(), labels):
        one = json.loads(line)
        out["piqa"].append({"query": f"Question: {one['goal']}\nAnswer:", "choices": [one["sol1"], one["sol2"]], "gold": int(label)})
    return out


def record(docs):
    """The answers of lm-eval's test model, the hash of its requests, and the accuracy by log-probability and by
    log-probability per character."""
    order = list(docs)
    random.Random(42).shuffle(order)
    requests = [(d["query"], f" {c}") for d in order for c in d["choices"]]
    numbers = random.Random(42)
    answers = {query + choice: (len(query), -numbers.random()) for query, choice in requests}
    right = [0, 0]
    for d in docs:
        values = [answers[f"{d['query']} {c}"][1] for c in d["choices"]]
        for i, scores in enumerate((values, [v / len(c) for v, c in zip(values, d["choices"])])):
            right[i] += scores.index(max(scores)) == d["gold"]
    return answers, hashlib.sha256(json.dumps(requests).encode()).hexdigest(), [r / len(docs) for r in right]


def request_hash(samples, docs):
    """The hash of the requests in makar's samples file, in lm-eval's order."""
    by_number = {s["doc_id"]: [s["arguments"][f"gen_args_{i}"] for i in range(len(s["arguments"]))]
                 for s in map(json.loads, samples.read_text().splitlines())}
    order = list(range(len(docs)))
    random.Random(42).shuffle(order)
    return hashlib.sha256(json.dumps([(r["arg_0"], r["arg_1"]) for i in order for r in by_number[i]]).encode()).hexdigest()


def main(folder):
    data = folder / "data"
    for name in ("commonsense_llm_adapters", "mmlu", "piqa"):
        with tarfile.open(ASSETS / f"{name}.tgz") as archive:
            archive.extractall(data)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name, docs in documents(data).items():
        Server.answers, sha, shares = record(docs)
        recorded, scores = RECORDED[name]
        check(sha == recorded, f"{name}: the data here are not those of lm-eval")
        task = ROOT / "tasks/piqa.yaml"
        if name != "piqa":
            task = folder / f"{name}.yaml"
            task.write_text(TASK.format(name=name))
            (data / f"{name}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in docs))
        done = good("eval", "-m", f"http://127.0.0.1:{server.server_port}", "--tasks", task, "--data", data, "--json", "--output",
                    folder / name, "--log-samples")
        if done.returncode:
            continue
        results = json.loads(done.stdout)["results"][name]
        for key, want in zip(("acc,none", "acc_norm,none"), shares):
            check(abs(results[key] - want) < 1e-12, f"{name}: {key} {results[key]}, computed here {want}")
        if scores:
            for key, want in zip(("acc,none", "acc_stderr,none", "acc_norm,none", "acc_norm_stderr,none"), scores):
                check(abs(results[key] - want) < 1e-12, f"{name}: {key} {results[key]}, lm-eval {want}")
        check(request_hash(folder / name / f"samples_{name}.jsonl", docs) == recorded, f"{name}: the requests are those of lm-eval")
    server.shutdown()


if not all((ASSETS / f"{name}.tgz").exists() for name in ("commonsense_llm_adapters", "mmlu", "piqa")):
    print("skipped: no data")
    sys.exit(77)
with tempfile.TemporaryDirectory() as scratch:
    main(pathlib.Path(scratch))
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
