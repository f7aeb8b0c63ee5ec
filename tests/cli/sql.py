#!/usr/bin/env python3
"""makar sql on the command line: tables, CSV, refusals, a model restricted to the grammar, evaluation.

usage: sql.py MAKAR   (real data: MAKAR_ASSETS, default ../shared/assets; that part is skipped without it)
"""
import collections
import gzip
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

from checks import check, failures

MAKAR = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", ROOT.parent / "shared" / "assets"))


def run(*arguments, timeout=300):
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def check_queries(folder):
    path = folder / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE sales (product TEXT, sold INTEGER)")
        database.executemany("INSERT INTO sales VALUES (?, ?)", [("tea", 3), ("milk", 9), ("tea", 4)])
    database.close()
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    query = "SELECT product, SUM(sold) AS total FROM sales GROUP BY product ORDER BY total DESC"
    code, out, err = run("sql", path, "--query", query, "--json")
    check(code == 0 and json.loads(out)["rows"] == [["milk", "9"], ["tea", "7"]], f"a query: {out} {err}")
    code, out, _ = run("sql", path, "--query", query)
    check(code == 0 and "milk    | 9" in out and "2 rows" in out, f"a table: {out}")
    for attack in ("DROP TABLE sales", "SELECT 1; DELETE FROM sales", "ATTACH 'x.db' AS x", "PRAGMA user_version = 3"):
        code, _, err = run("sql", path, "--query", attack)
        check(code == 1 and "SQL" in err, f"{attack}: {err}")
    check(hashlib.sha256(path.read_bytes()).hexdigest() == before, "the database is unchanged")
    (folder / "price.csv").write_bytes("name,price\ncafé,2.5\nbar,10\n".encode("latin-1"))
    code, out, err = run("sql", folder / "price.csv", "--query", "SELECT name FROM price ORDER BY price", "--json")
    check(code == 0 and json.loads(out)["rows"] == [["café"], ["bar"]], f"CSV: {out} {err}")
    return path


def check_usage(folder, path):
    code, _, err = run("sql", folder / "none.db", "--query", "SELECT 1")
    check(code == 1 and "no such database" in err, f"a missing file: {err}")
    code, _, err = run("sql", path)
    check(code == 2 and "--query" in err, f"no question: {err}")
    code, _, err = run("sql", path, "--query", "SELECT missing FROM sales")
    check(code == 1 and "no such column" in err, f"a wrong column: {err}")


def check_model(folder, path):
    """A model with almost random weights: its statement follows the grammar, and a failure is reported."""
    page = folder / "page.txt"
    page.write_text("".join(chr(c) for c in range(32, 127)) + "\nSELECT product FROM sales\n" * 60)
    code, _, err = run("pretrain", "--datasets", page, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 700,
                       "-o", folder / "model")
    check(code == 0, f"a model: {err[-300:]}")
    code, out, err = run("sql", path, "-m", folder / "model", "which product sold the most?", "-n", 60, "--attempts", 1, "--json")
    check(code in (0, 1) and out, f"a question: {err[-300:]}")
    if out:
        answer = json.loads(out)
        check(len(answer["attempts"]) == 1 and answer["attempts"][0]["sql"].startswith("SELECT "), f"the grammar: {out[:300]}")
        check(answer["answered"] == (code == 0) and (answer["answered"] or answer["attempts"][0]["error"]), f"answered agrees with the exit code: {out[:300]}")


def check_evaluation(folder, path):
    """Execution accuracy and schema match of pairs of statements with known results."""
    cases = [("SELECT product FROM sales ORDER BY product", "select product as p from sales order by 1", (1, 1)),
             ("SELECT product FROM sales ORDER BY product", "SELECT product FROM sales ORDER BY product DESC", (0, 1)),
             ("SELECT product FROM sales", "SELECT product FROM sales ORDER BY product DESC", (1, 1)),
             ("SELECT count(*) FROM sales", f"SELECT {len(sqlite3.connect(path).execute('SELECT * FROM sales').fetchall())}.0", (1, 0)),
             ("SELECT count(*) FROM sales", "SELECT missing FROM sales", (0, 0)),
             ("SELECT count(*) FROM sales", "DROP TABLE sales", (0, 0))]
    for reference, predicted, (execution, schema) in cases:
        (folder / "e.jsonl").write_text(json.dumps({"question": "?", "sql": reference}) + "\n")
        (folder / "p.sql").write_text(predicted + "\n")
        code, out, err = run("sql", path, "--eval", folder / "e.jsonl", "--predictions", folder / "p.sql", "--json")
        got = json.loads(out) if code == 0 else {}
        check((got.get("execution_accuracy"), got.get("schema_match")) == (execution, schema), f"{predicted}: {out} {err}")
    (folder / "e.jsonl").write_text('{"question": "?", "sql": "SELECT 1 FROM nothing"}\n')
    code, out, _ = run("sql", path, "--eval", folder / "e.jsonl", "--predictions", folder / "p.sql")
    check(code == 0 and "1 references do not run" in out, f"a broken reference: {out}")
    code, _, err = run("sql", path, "--predictions", folder / "p.sql")
    check(code == 2 and "--eval" in err, f"--predictions alone: {err}")


def check_assets(folder):
    """GeoQuery on its database, and Spider's schemas: references compared with themselves; for GeoQuery also with those of other questions."""
    if not (ASSETS / "eval" / "spider.tgz").is_file():
        print("skipped: GeoQuery and Spider (no assets)")
        return
    for name in ("text2sql_geoquery", "spider"):
        tarfile.open(ASSETS / "eval" / f"{name}.tgz").extractall(folder)
    lines, sqls = [], []
    for entry in json.loads((folder / "text2sql_geoquery" / "geography.json").read_text()):
        for sentence in entry["sentences"]:
            question, sql = sentence["text"], entry["sql"][0]
            for variable, value in sentence["variables"].items():
                question, sql = question.replace(variable, value), sql.replace(variable, value)
            lines.append(json.dumps({"question": question, "sql": sql}))
            sqls.append(sql)
    (folder / "geo.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "same.sql").write_text("\n".join(sqls) + "\n")
    (folder / "shifted.sql").write_text("\n".join(sqls[-1:] + sqls[:-1]) + "\n")
    database = folder / "text2sql_geoquery" / "geography-db.added-in-2020.sqlite"
    code, out, err = run("sql", database, "--eval", folder / "geo.jsonl", "--predictions", folder / "same.sql", "--json")
    same = json.loads(out)
    check(code == 0 and same["questions"] > 850 and same["execution_accuracy"] == 1 and same["schema_match"] == 1, f"GeoQuery: {out} {err[-200:]}")
    code, out, _ = run("sql", database, "--eval", folder / "geo.jsonl", "--predictions", folder / "shifted.sql", "--json")
    check(json.loads(out)["execution_accuracy"] < 0.9, f"GeoQuery, statements of other questions: {out}")
    print("GeoQuery:", same)
    schemas = {t["db_id"]: t for t in json.loads((folder / "spider" / "tables.json").read_text())}
    questions = collections.defaultdict(list)
    for entry in json.loads(gzip.open(folder / "spider" / "dev.json.gz").read()):
        questions[entry["db_id"]].append(entry)
    counted = 0
    for name, entries in questions.items():
        t = schemas[name]
        base = sqlite3.connect(folder / f"{name}.db")
        for i, table in enumerate(t["table_names_original"]):
            if table == "sqlite_sequence":
                continue
            columns = ", ".join(f'"{c}"' for at, c in t["column_names_original"] if at == i)
            base.execute(f'CREATE TABLE "{table}" ({columns})')
        base.commit()
        base.close()
        (folder / "s.jsonl").write_text("".join(json.dumps({"question": e["question"], "sql": e["query"]}) + "\n" for e in entries))
        (folder / "s.sql").write_text("".join(" ".join(e["query"].split()) + "\n" for e in entries))
        code, out, err = run("sql", folder / f"{name}.db", "--eval", folder / "s.jsonl", "--predictions", folder / "s.sql", "--json")
        got = json.loads(out)
        check(code == 0 and got["schema_match"] == 1 and got["broken_references"] <= len(entries) // 10, f"Spider {name}: {out} {err[-200:]}")
        counted += got["questions"]
    check(counted > 950, f"Spider: {counted} questions")
    print("Spider:", counted, "questions with matching schemas")


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    database_path = check_queries(root)
    check_usage(root, database_path)
    check_model(root, database_path)
    check_evaluation(root, database_path)
    check_assets(root)
sys.exit(1 if failures else 0)
