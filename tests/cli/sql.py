#!/usr/bin/env python3
"""makar sql as a user types it: tables, CSV, refusals, a model restricted to the grammar.

usage: sql.py MAKAR
"""
import hashlib
import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = os.path.abspath(sys.argv[1])


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
    """A model with almost random weights: what it writes follows the grammar, and a failure is reported."""
    page = folder / "page.txt"
    page.write_text("".join(chr(c) for c in range(32, 127)) + "\nSELECT product FROM sales\n" * 60)
    code, _, err = run("pretrain", "--datasets", page, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 700,
                       "-o", folder / "model")
    check(code == 0, f"a model: {err[-300:]}")
    code, out, err = run("sql", path, "-m", folder / "model", "which product sold the most?", "-n", 60, "--attempts", 1, "--json")
    check(code in (0, 1) and out, f"asking: {err[-300:]}")
    if out:
        answer = json.loads(out)
        check(len(answer["attempts"]) == 1 and answer["attempts"][0]["sql"].startswith("SELECT "), f"the grammar: {out[:300]}")
        check(answer["answered"] == (code == 0) and (answer["answered"] or answer["attempts"][0]["error"]), f"honest: {out[:300]}")


with tempfile.TemporaryDirectory() as scratch:
    place = pathlib.Path(scratch)
    database_path = check_queries(place)
    check_usage(place, database_path)
    check_model(place, database_path)
sys.exit(1 if failures else 0)
