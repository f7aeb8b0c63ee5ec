#!/usr/bin/env python3
"""Questions to a database with a model: execution accuracy on GeoQuery, schema match on the schemas of Spider's development set.

usage: sql.py MAKAR MODEL [--geo N] [--spider N] [--shots N]   (N questions, every k-th of the set; data: MAKAR_ASSETS, default ../shared/assets)
--shots N: the prompt has the N most similar other questions of the set with their statements. MODEL "-": the reference statements are
evaluated instead of a model's.
"""
import collections
import gzip
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

MAKAR, MODEL = sys.argv[1:3]
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", pathlib.Path(__file__).resolve().parents[2] / "shared" / "assets"))


def count(flag, default):
    return int(sys.argv[sys.argv.index(flag) + 1]) if flag in sys.argv else default


def every_kth(items, limit):
    return items[::max(1, len(items) // limit)][:limit] if limit else []


def evaluate(database, examples, others, folder):
    (folder / "asked.jsonl").write_text("".join(json.dumps(e) + "\n" for e in examples))
    words = [MAKAR, "sql", database, "--eval", folder / "asked.jsonl", "--json"]
    if MODEL == "-":
        (folder / "references.sql").write_text("".join(e["sql"].replace("\n", " ") + "\n" for e in examples))
        words += ["--predictions", folder / "references.sql"]
    else:
        words += ["-m", MODEL, "-n", "128", "--attempts", "2", "-t", "1"]
        if count("--shots", 0):
            questions = {e["question"] for e in examples}
            (folder / "others.jsonl").write_text("".join(json.dumps(e) + "\n" for e in others if e["question"] not in questions))
            words += ["--examples", folder / "others.jsonl", "--shots", str(count("--shots", 0))]
    done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def geoquery(folder, limit):
    tarfile.open(ASSETS / "eval" / "text2sql_geoquery.tgz").extractall(folder)
    examples = []
    for entry in json.loads((folder / "text2sql_geoquery" / "geography.json").read_text()):
        for sentence in entry["sentences"]:
            question, sql = sentence["text"], entry["sql"][0]
            for variable, value in sentence["variables"].items():
                question, sql = question.replace(variable, value), sql.replace(variable, value)
            examples.append({"question": question, "sql": sql})
    return evaluate(folder / "text2sql_geoquery" / "geography-db.added-in-2020.sqlite", every_kth(examples, limit), examples, folder)


def spider(folder, limit):
    tarfile.open(ASSETS / "eval" / "spider.tgz").extractall(folder)
    schemas = {t["db_id"]: t for t in json.loads((folder / "spider" / "tables.json").read_text())}
    by_database, others = collections.defaultdict(list), collections.defaultdict(list)
    entries = json.loads(gzip.open(folder / "spider" / "dev.json.gz").read())
    for entry in entries:
        others[entry["db_id"]].append({"question": entry["question"], "sql": entry["query"]})
    for entry in every_kth(entries, limit):
        by_database[entry["db_id"]].append({"question": entry["question"], "sql": entry["query"]})
    total = collections.Counter()
    for name, examples in by_database.items():
        with sqlite3.connect(folder / f"{name}.db") as base:
            for i, table in enumerate(schemas[name]["table_names_original"]):
                if table != "sqlite_sequence":
                    columns = ", ".join(f'"{c}"' for at, c in schemas[name]["column_names_original"] if at == i)
                    base.execute(f'CREATE TABLE "{table}" ({columns})')
        result = evaluate(folder / f"{name}.db", examples, others[name], folder)
        total["questions"] += result["questions"]
        for key in ("schema_match", "valid"):
            total[key] += result[key] * result["questions"]
    return {"questions": total["questions"], **{k: total[k] / max(1, total["questions"]) for k in ("schema_match", "valid")}}


with tempfile.TemporaryDirectory() as scratch:
    if count("--geo", 50):
        print("GeoQuery", json.dumps(geoquery(pathlib.Path(scratch), count("--geo", 50))), flush=True)
    if count("--spider", 50):
        print("Spider", json.dumps(spider(pathlib.Path(scratch), count("--spider", 50))), flush=True)
