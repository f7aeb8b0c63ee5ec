#!/usr/bin/env python3
"""Cranfield reranked: a cross-encoder trained on SQuAD alone, and a language model by likelihood, compared with the search alone.

usage: rerank.py MAKAR ENCODER [LLM] [--top N] [--threads N] [--device NAME] [--work DIR]   (data: MAKAR_ASSETS, default ../shared/assets)
ENCODER: all-MiniLM-L6-v2, for the vectors and as the initial weights of the cross-encoder. Weights other than 1 are computed from the
scores of one run; this script computes nDCG.
"""
import argparse
import collections
import json
import math
import os
import pathlib
import random
import subprocess
import tarfile
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("makar")
parser.add_argument("encoder")
parser.add_argument("llm", nargs="?")
parser.add_argument("--top", type=int, default=10)
parser.add_argument("--threads", default="1")
parser.add_argument("--device", default="cpu")
parser.add_argument("--work")
args = parser.parse_args()
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", pathlib.Path(__file__).resolve().parents[2] / "shared" / "assets"))
folder = pathlib.Path(args.work or tempfile.mkdtemp())
folder.mkdir(exist_ok=True)
COMMON = ["-t", args.threads, "--device", args.device]
random.seed(2)


def makar(*arguments):
    return subprocess.run([args.makar, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


def read_run(path):
    found = collections.defaultdict(list)
    for line in open(path):
        query, _, document, _, score, _ = line.split()
        found[query].append((document, float(score)))
    return found


def make_pairs():
    """SQuAD's questions with their own paragraph, a wrong one that BM25 ranks high, and a random one."""
    tarfile.open(ASSETS / "eval" / "squad_xquad.tgz").extractall(folder)
    beir = folder / "squad"
    (beir / "qrels").mkdir(parents=True, exist_ok=True)
    texts, questions, answer = [], [], []
    for article in json.loads((folder / "squad_xquad" / "xquad.en.json").read_text())["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                questions.append(qa["question"])
                answer.append(len(texts))
            texts.append(paragraph["context"])
    (beir / "corpus.jsonl").write_text("".join(json.dumps({"_id": f"p{i}", "text": t}) + "\n" for i, t in enumerate(texts)))
    (beir / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": t}) + "\n" for i, t in enumerate(questions)))
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\tp{a}\t1\n" for i, a in enumerate(answer)))
    makar("index", "add", folder / "squad.db", beir, "--chunk", "whole")
    makar("search", folder / "squad.db", "--eval", beir, "--mode", "sparse", "--depth", 30, "--trec", folder / "squad.trec")
    found = read_run(folder / "squad.trec")
    order = random.sample(range(len(questions)), len(questions))
    rows = {"train": [], "val": []}
    for n, i in enumerate(order):
        others = [int(d[1:]) for d, _ in found[f"q{i}"] if d != f"p{answer[i]}"][:5]
        wrong = ([random.choice(others)] if others else []) + [random.choice([t for t in range(len(texts)) if t != answer[i]])]
        for passage, label in [(answer[i], 1)] + [(w, 0) for w in wrong]:
            rows["val" if n >= len(order) - 100 else "train"].append({"query": questions[i], "passage": texts[passage], "label": label})
    random.shuffle(rows["train"])
    for name, records in rows.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))


def ndcg(run, qrels):
    gain = lambda grades: sum(g / math.log2(i + 2) for i, g in enumerate(grades))
    total = 0
    for query, grades in qrels.items():
        ideal = gain(sorted(grades.values(), reverse=True)[:10])
        total += gain([grades.get(d, 0) for d, _ in run.get(query, [])[:10]]) / ideal if ideal else 0
    return total / len(qrels)


def blend_scores(first, reranked, weight):
    """The reordering of --rerank-weight: both scores scaled to 0..1 over the first chunks."""
    scaled = lambda x, low, high: (x - low) / (high - low) if high > low else 1
    out = {}
    for query, found in first.items():
        scores = dict(reranked[query][:args.top])
        top = [x for x in found[:args.top] if x[0] in scores]
        low, high = min(scores.values()), max(scores.values())
        order = [(d, weight * scaled(scores[d], low, high) + (1 - weight) * scaled(s, top[-1][1], top[0][1])) for d, s in top]
        out[query] = sorted(order, key=lambda x: -x[1]) + found[args.top:]
    return out


if not (folder / "cross" / "model.safetensors").is_file():
    make_pairs()
    makar("classify", "train", "-m", args.encoder, "-d", folder / "train.jsonl", "--val-datasets", folder / "val.jsonl", "-o", folder / "cross", "--num-epochs", 1,
          "--max-length", 192, "--micro-batch-size", 16, "--learning-rate", 1e-4, "--warmup-ratio", 0.1, *COMMON)
print("cross-encoder on held-out SQuAD:", makar("classify", "run", "-m", folder / "cross", "--eval", folder / "val.jsonl", "--json", *COMMON).strip()[:200], flush=True)
tarfile.open(ASSETS / "retrieval" / "cranfield.tgz").extractall(folder)
makar("index", "add", folder / "cran.db", folder / "cranfield", "--chunk", "whole", "-m", args.encoder, *COMMON)
qrels = collections.defaultdict(dict)
for line in open(folder / "cranfield" / "cranqrel"):
    query, _, document, grade = line.split()
    qrels[query][document] = max(0.0, float(grade))
search = ["search", folder / "cran.db", "--eval", folder / "cranfield", "--mode", "hybrid", "--fusion", "weighted", "--candidates", 100, "--depth", 100, *COMMON]
makar(*search, "--trec", folder / "first.trec")
first = read_run(folder / "first.trec")
print(f"search alone  nDCG@10 {ndcg(first, qrels):.4f}", flush=True)
for name, model in (("cross-encoder", folder / "cross"), ("likelihood", args.llm)):
    if model:
        makar(*search, "--rerank", model, "--rerank-top", args.top, "--trec", folder / f"{name}.trec")
        found = read_run(folder / f"{name}.trec")
        print(name, f"top {args.top}", ", ".join(f"weight {w}: {ndcg(blend_scores(first, found, w), qrels):.4f}" for w in (0, 0.1, 0.2, 0.3, 0.5, 1)), flush=True)
