#!/usr/bin/env python3
"""makar search --eval: a BEIR folder with scores computed here, and Cranfield.

usage: retrieval_eval.py MAKAR   (real data: MAKAR_ASSETS, default ../shared/assets; that part is skipped without it)
"""
import json
import math
import os
import pathlib
import random
import re
import tarfile

from checks import check
from retrieval_checks import run, run_all

ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", pathlib.Path(__file__).resolve().parents[3] / "shared" / "assets"))


def check_collection(folder):
    """A BEIR folder with string ids, titles, graded judgements, missing and empty fields, judged documents that do not exist,
    and unjudged queries. The scores are computed here from the run."""
    random.seed(12)
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    vocabulary = [f"term{i}" for i in range(60)]
    ids = [f"doc:{i}/x-{i * 7 % 13}" for i in range(80)]
    with open(beir / "corpus.jsonl", "w") as out:
        for i, name in enumerate(ids):
            record = {"_id": name, "title": f"Title {random.choice(vocabulary)}", "text": " ".join(random.choices(vocabulary, k=random.randrange(5, 60))), "metadata": {}}
            if i % 9 == 0:
                del record["title"]
            if i == 40:
                record["text"] = ""  # only a title
            if i == 41:
                record["title"] = record["text"] = ""
            out.write(json.dumps(record) + "\n")
    queries = {f"q-{i}": " ".join(random.sample(vocabulary, 4)) for i in range(25)}
    with open(beir / "queries.jsonl", "w") as out:
        for name, text in queries.items():
            out.write(json.dumps({"_id": name, "text": text, "metadata": {"url": "x"}}) + "\n")
    judged = {}
    with open(beir / "qrels" / "test.tsv", "w") as out:
        out.write("query-id\tcorpus-id\tscore\n")
        for i, name in enumerate(queries):
            if i == 24:
                continue  # not judged
            judged[name] = {d: random.choice([0, 1, 1, 2, 3]) for d in random.sample(ids, 12)}
            if i == 3:
                judged[name]["not-in-the-corpus"] = 2
            for document, grade in judged[name].items():
                out.write(f"{name}\t{document}\t{grade}\n")
    code, out, err = run("index", "add", folder / "c.db", beir, "--chunk", "sentences", "--chunk-size", 120)
    check(code == 0 and "79 added" in out, f"a collection: {out} {err[-300:]}")
    code, out, err = run("search", folder / "c.db", "--eval", beir, "--depth", 100, "--trec", folder / "run.trec", "--json")
    check(code == 0, f"evaluation: {err[-300:]}")
    if code != 0:
        return
    scores = json.loads(out)
    ranked = {}
    for line in (folder / "run.trec").read_text().splitlines():
        query, _, document, rank, score, _ = line.split(" ")
        ranked.setdefault(query, []).append((float(score), document))
        check(int(rank) == len(ranked[query]), "ranks count up")
    # By score; equal scores by id in descending order, as trec_eval does.
    ranked = {query: [d for _, d in sorted(found, reverse=True)] for query, found in ranked.items()}
    gain = lambda grades: sum(g / math.log2(i + 2) for i, g in enumerate(grades))
    totals = {"ndcg@10": 0, "map": 0, "mrr@10": 0, "recall@10": 0, "precision@10": 0}
    for query, grades in judged.items():
        found = [grades.get(d, 0) for d in ranked.get(query, [])]
        relevant = sum(g > 0 for g in grades.values())
        totals["ndcg@10"] += gain(found[:10]) / gain(sorted(grades.values(), reverse=True)[:10])
        hits = [i for i, g in enumerate(found) if g > 0]
        totals["map"] += sum((n + 1) / (i + 1) for n, i in enumerate(hits)) / relevant
        totals["mrr@10"] += 1 / (hits[0] + 1) if hits and hits[0] < 10 else 0
        totals["recall@10"] += sum(i < 10 for i in hits) / relevant
        totals["precision@10"] += sum(i < 10 for i in hits) / 10
    for name, total in totals.items():
        check(abs(scores[name] - total / len(judged)) < 1e-9, f"{name}: {scores[name]}, computed {total / len(judged)}")
    check(scores["queries"] == len(judged), f"only judged queries count: {scores['queries']}")
    # As in ArguAna: queries that are documents themselves.
    with open(beir / "queries.jsonl", "w") as out:
        for name in ids[:5]:
            out.write(json.dumps({"_id": name, "text": "term1 term2 term3"}) + "\n")
    with open(beir / "qrels" / "own.tsv", "w") as out:
        out.write("query-id\tcorpus-id\tscore\n" + "".join(f"{name}\t{ids[20 + i]}\t1\n" for i, name in enumerate(ids[:5])))
    for flags, left in (([], False), (["--ignore-identical-ids"], True)):
        code, out, err = run("search", folder / "c.db", "--eval", beir, "--split", "own", "--depth", 40, "--trec", folder / "own.trec", *flags)
        lines = [line.split(" ") for line in (folder / "own.trec").read_text().splitlines()]
        check(code == 0 and any(x[0] == x[2] for x in lines) != left, f"identical ids {flags}: {err[-200:]}")
        check(max(int(x[3]) for x in lines) == 40, f"depth {flags}")
    code, out, err = run("search", folder / "c.db", "--eval", beir, "--split", "dev")
    check(code == 1 and "dev.tsv" in err, f"a missing split: {err}")


def check_assets(folder):
    if not (ASSETS / "retrieval" / "cranfield.tgz").is_file():
        print("skipped: Cranfield (no assets)")
        return
    tarfile.open(ASSETS / "retrieval" / "cranfield.tgz").extractall(folder)
    code, out, err = run("index", "add", folder / "cran.db", folder / "cranfield", "--chunk", "whole")
    check(code == 0 and any(f"{n} added" in out for n in (1398, 1399, 1400)), f"Cranfield: {out} {err[-300:]}")
    code, out, err = run("search", folder / "cran.db", "--eval", folder / "cranfield", "--trec", folder / "run.trec", "--json")
    check(code == 0, f"evaluation: {err[-300:]}")
    scores = json.loads(out)
    check(scores["queries"] == 225 and scores["ndcg@10"] > 0.35, f"Cranfield: {scores}")
    code, out, err = run("metrics", "ndcg", "--run", folder / "run.trec", "--qrels", folder / "cranfield" / "cranqrel", "-k", 10, "--json")
    check(code == 0 and abs(json.loads(out)["score"] - scores["ndcg@10"]) < 1e-9, f"the same as makar metrics: {out[:200]}")
    # As a BEIR folder; two documents have two texts, of which the first is taken here.
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    entries = re.split(r"^\.I ", (folder / "cranfield" / "cran.all.1400").read_text(), flags=re.M)[1:]
    with open(beir / "corpus.jsonl", "w") as out_file:
        for entry in entries:
            text = entry.split("\n.W\n")[1]
            title = " ".join(entry.split("\n.T\n")[1].split("\n.A\n")[0].split("\n"))
            out_file.write(json.dumps({"_id": entry.split("\n")[0].strip(), "text": text if text.strip() else title}) + "\n")
    queries = re.split(r"^\.I ", (folder / "cranfield" / "cran.qry").read_text(), flags=re.M)[1:]
    with open(beir / "queries.jsonl", "w") as out_file:
        for i, entry in enumerate(queries):
            out_file.write(json.dumps({"_id": str(i + 1), "text": entry.split(".W\n")[1]}) + "\n")
    with open(beir / "qrels" / "test.tsv", "w") as out_file:
        out_file.write("query-id\tcorpus-id\tscore\n")
        for line in (folder / "cranfield" / "cranqrel").read_text().splitlines():
            query, _, document, score = line.split()
            out_file.write(f"{query}\t{document}\t{score}\n")
    code, out, err = run("index", "add", folder / "beir.db", beir, "--chunk", "whole")
    check(code == 0, f"BEIR: {err[-300:]}")
    code, out, err = run("search", folder / "beir.db", "--eval", beir, "--json")
    check(code == 0 and abs(json.loads(out)["ndcg@10"] - scores["ndcg@10"]) < 1e-3, f"about the same as a BEIR folder: {out} {err[-300:]}")
    print("Cranfield, BM25:", scores)


run_all(check_collection, check_assets)
