#!/usr/bin/env python3
"""An index in PostgreSQL and makar sql on it: Debian's PostgreSQL for terms, transactions and hostile statements, PGlite with the real
pgvector for vectors. Each is compared with an index file.

usage: postgres.py MAKAR TEST_APPS [--kills N]   (a part whose server is not installed is skipped with a message)
"""
import glob
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from checks import check, failures  # noqa: E402
from program import MAKAR, GOLDEN, good, refused, run  # noqa: E402

TEST_APPS = sys.argv[2]
KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 3
random.seed(3)


class Server:
    """Debian's PostgreSQL in a folder, on a socket there. The superuser is postgres; no connection needs a password."""

    def __init__(self, folder):
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]
        self.folder = folder
        self.as_user = {}
        if os.geteuid() == 0:  # initdb refuses root
            shutil.chown(folder, "postgres", "postgres")
            self.as_user = {"user": "postgres", "group": "postgres", "extra_groups": []}
        self.call("initdb", "-D", folder / "data", "-A", "trust", "-U", "postgres", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        self.process = subprocess.Popen([f"{self.programs}/postgres", "-D", str(folder / "data"), "-k", str(folder), "-h", "", "-F"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **self.as_user)
        for _ in range(600):
            if subprocess.run([f"{self.programs}/pg_isready", "-h", str(folder)], stdout=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)

    def call(self, program, *words):
        result = subprocess.run([f"{self.programs}/{program}", *map(str, words)], capture_output=True, text=True, cwd=self.folder, **self.as_user)
        check(result.returncode == 0, f"{program}: {result.stderr[-500:]}")
        return result.stdout

    def address(self, user="postgres", database="postgres"):
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, statement, database="postgres"):
        return self.call("psql", self.address(database=database), "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statement)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)


def search_hits(index, query, *flags):
    """The hits of a search. PostgreSQL's texts cannot hold zero bytes: b.txt has a blank instead, and its chunks have other ids."""
    result = good("search", index, query, "--json", *flags)
    hits = json.loads(result.stdout)["hits"] if result.returncode == 0 else []
    return [(h["document"], h["begin"], h["end"], h["text"].replace("\0", " "), "" if "b.txt" in h["document"] else h["id"], h["score"]) for h in hits]


def write_documents(folder):
    docs = folder / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Harbour\n\nThe keeper counts ships. The café is closed.\n\n# Tower\n\nThe lamp of the tower is lit at night.\n")
    (docs / "b.txt").write_text("A ship left the harbour. Its captain's name is O'Neil; \"quoted\" \\ back\x00slash.\n")
    words = ["ship", "harbour", "lamp", "keeper", "rope", "tide", "gull", "net"]
    with open(docs / "rows.jsonl", "w") as out:
        for i in range(60):
            text = " ".join(random.choice(words) for _ in range(random.randrange(4, 30)))
            out.write(json.dumps({"_id": f"r{i}", "text": text, "year": 1990 + i % 3, "kind": "odd" if i % 2 else "even"}) + "\n")
    return docs


def check_store(server, folder):
    """The same results as an index file, to the last bit."""
    docs, address, file = write_documents(folder), server.address(), folder / "same.db"
    refused("has no index", "search", address, "ship")
    for index in (address, file):
        result = good("index", "add", index, docs, "--chunk", "headings", "--commit-every", 7)
        check("62 added" in result.stdout, f"add: {result.stdout}")
    queries = ["ship", "keeper of the lamp", "café", "O'Neil", "gull net tide", "nothing like this zeppelin"]
    for query in queries:
        for flags in ((), ("--sparse", "bm25-robertson", "-k", 50), ("--where", "year=1991", "-k", 50), ("--where", "kind=odd", "--where", "year=1990")):
            postgres_hits, file_hits = search_hits(address, query, *flags), search_hits(file, query, *flags)
            check(postgres_hits == file_hits, f"{query} {flags}: {postgres_hits[:2]} {file_hits[:2]}")
    check("62 documents" in good("index", "check", address).stdout, "check")
    result = good("index", "add", address, docs)
    check("0 added, 0 updated, 62 unchanged" in result.stdout, f"unchanged: {result.stdout}")
    (docs / "a.md").write_text("# Harbour\n\nThe beacon is dark.\n")
    for index in (address, file):
        check("1 updated" in good("index", "add", index, docs).stdout, "updated")
        check("removed 2" in good("index", "rm", index, "r1", "r2").stdout, "removed")
    for query in ("beacon", "ship", "lamp"):
        check(search_hits(address, query, "-k", 100) == search_hits(file, query, "-k", 100), f"after changes: {query}")
    good("index", "check", address)
    check(good("index", "ls", address, "--documents").stdout == good("index", "ls", file, "--documents").stdout, "ls --documents")
    check(good("index", "show", address, "r5").stdout == good("index", "show", file, "r5").stdout, "show")
    refused("has no document", "index", "rm", address, "r1", "r5")
    check("r5" in good("index", "ls", address, "--documents").stdout, "a refused removal removes nothing")
    # Another collection, then removed.
    good("index", "add", address, docs / "b.txt", "--collection", "other")
    check(len(search_hits(address, "ship", "--collection", "other")) == 1, "a collection")
    good("index", "rm", address, "--collection", "other", "--all")
    refused("collection 'other'", "search", address, "ship", "--collection", "other")
    # Errors do not contain the password.
    for bad in ("postgresql://me:secret@127.0.0.1:1/x", f"postgresql://me:secret@/none?host={server.folder}", "postgresql://me:sec%ret@x/y"):
        result = run("search", bad, "x")
        check(result.returncode == 1 and "secret" not in result.stderr and "sec%ret" not in result.stderr and "postgres" in result.stderr.lower(), f"{bad}: {result.stderr}")
    server.sql("CREATE DATABASE taken"), server.sql("CREATE SCHEMA makar_index", "taken")
    result = run("search", server.address(database="taken"), "x")
    check(result.returncode == 1 and "makar_index" in result.stderr, f"a schema that makar did not create: {result.stderr}")
    if not server.sql("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").strip():
        refused("pgvector", "index", "add", address, docs / "b.txt", "--collection", "dense", "-m", make_encoder(folder))


def check_writers(server, folder):
    """Two concurrent writers, and writers killed by SIGKILL: exactly the committed documents are in the index, complete."""
    server.sql("CREATE DATABASE many")
    address = server.address(database="many")
    for part in range(2):
        with open(folder / f"part{part}.jsonl", "w") as out:
            for i in range(200):
                out.write(json.dumps({"_id": f"p{part}-{i}", "text": " ".join(f"w{random.randrange(300)}" for _ in range(20))}) + "\n")
    writers = [subprocess.Popen([MAKAR, "index", "add", address, str(folder / f"part{part}.jsonl"), "--commit-every", "20"],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for part in range(2)]
    for process in writers:
        err = process.communicate()[1]
        check(process.returncode == 0, f"two writers: {err[-300:]}")
    check("400 documents" in good("index", "check", address).stdout, "two writers")
    for kill in range(KILLS):
        name = f"killed{kill}"
        process = subprocess.Popen([MAKAR, "index", "add", address, str(folder / "part0.jsonl"), "--collection", name, "--commit-every", "10", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        committed, commits = [], random.randrange(1, 19)
        for line in process.stdout:
            committed += json.loads(line).get("committed", [])
            if len(committed) >= commits * 10:
                break
        time.sleep(random.random() * 0.05)
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().splitlines():
            try:
                committed += json.loads(line).get("committed", [])
            except ValueError:
                pass  # the last line may be truncated
        process.wait()
        time.sleep(0.2)  # until the server notices the end of the connection
        present = [json.loads(line)["document"] for line in
                   good("index", "ls", address, "--collection", name, "--documents", "--json").stdout.splitlines()]
        check(set(committed) <= set(present) and len(present) % 10 == 0 and len(present) - len(committed) in (0, 10),
              f"kill {kill}: {len(present)} present, {len(committed)} reported")
    good("index", "check", address)


def check_sql(server):
    server.sql("CREATE DATABASE shop"), server.sql("CREATE ROLE reader LOGIN; GRANT pg_read_all_data TO reader")
    server.sql("""CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y'); CREATE SEQUENCE q;
        CREATE TABLE "Odd Name" ("Col umn" real); INSERT INTO "Odd Name" VALUES (0.5); CREATE VIEW v AS SELECT a FROM t""", "shop")

    def dump():  # the lines with \\restrict have a random word
        lines = server.call("pg_dump", server.address(database="shop")).splitlines()
        return hashlib.sha256("\n".join(line for line in lines if "restrict" not in line).encode()).hexdigest()

    before, address = dump(), server.address("reader", "shop")
    result = subprocess.run([TEST_APPS, "--gtest_filter=PostgresSql.*"], capture_output=True, text=True, env={**os.environ, "MAKAR_TEST_POSTGRES": address})
    check(result.returncode == 0 and "[  PASSED  ] 5 tests" in result.stdout, f"test_apps: {result.stdout[-3000:]}")
    check(dump() == before and not os.path.exists("/tmp/makar_hostile"), "the database is unchanged")
    result = good("sql", address, "--query", "SELECT b, a * 2 AS twice FROM t ORDER BY a", "--json")
    check(json.loads(result.stdout) == {"columns": ["b", "twice"], "rows": [["x", "2"], ["y", "4"]], "truncated": False}, f"a query: {result.stdout}")
    check("x | 2" in good("sql", address, "--query", "SELECT b, a * 2 FROM t ORDER BY a").stdout, "a table")
    refused("GRANT pg_read_all_data", "sql", server.address(database="shop"), "--query", "SELECT 1")
    refused("missing", "sql", address, "--query", "SELECT missing FROM t")
    refused("cannot connect", "sql", server.address("nobody_here", "shop"), "--query", "SELECT 1")


def make_encoder(folder):
    """A tiny encoder with random weights and a vocabulary of the test's words."""
    model = folder / "encoder"
    if not model.exists():
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            (model / name).write_bytes((GOLDEN / "models" / "bert-embedding" / name).read_bytes())
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "ship", "harbour", "lamp", "keeper", "rope", "tide", "gull", "net", "tower"]
        (model / "vocab.txt").write_text("\n".join(words) + "\n")
        (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    return model


def check_vectors(folder):
    if not shutil.which("node") or subprocess.run([ROOT / "scripts/npm-ci", ROOT / "tests/postgres"]).returncode:
        print("skipped: pgvector (no node, or no npm packages)")
        return
    server = subprocess.Popen(["node", str(ROOT / "tests/postgres/server.mjs")], stdout=subprocess.PIPE, text=True)
    try:
        port = server.stdout.readline().strip()
        address = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        docs, model = write_documents(folder), make_encoder(folder)
        for similarity, flags in (("cosine", ()), ("cosine", ("--hnsw",)), ("dot", ("--hnsw",)), ("l2", ()), ("l2", ("--hnsw",))):
            name = f"{similarity}{len(flags)}"
            for index in (address, folder / "vectors.db"):
                good("index", "add", index, docs / "rows.jsonl", "-m", model, "--collection", name, "--similarity", similarity, *flags)
                good("index", "rm", index, "r3", "r4", "--collection", name)
            for query in ("the ship of the harbour",):
                for search in (("--mode", "dense", "--exact"), ("--mode", "dense"), ("--mode", "dense", "--where", "kind=odd"), ("--mode", "hybrid")):
                    postgres_hits = search_hits(address, query, "--collection", name, "-k", 8, *search)
                    file_hits = search_hits(folder / "vectors.db", query, "--collection", name, "-k", 8, *search)
                    same = [h[:5] for h in postgres_hits] == [h[:5] for h in file_hits] and len(postgres_hits) == 8
                    close = all(abs(a[5] - b[5]) < 1e-4 * max(1, abs(b[5])) for a, b in zip(postgres_hits, file_hits))
                    check(same and close, f"{name} {search} {query}: {[(h[0], h[5]) for h in postgres_hits]} {[(h[0], h[5]) for h in file_hits]}")
        check("are complete" in good("index", "check", address).stdout, "check with vectors")
        good("index", "rm", address, "--collection", "l21", "--all")
        refused("int8", "index", "add", address, docs / "rows.jsonl", "-m", model, "--collection", "small", "--vector", "int8")
        line = json.loads(good("index", "ls", address, "--collection", "cosine0", "--json").stdout)
        check(line["vector_width"] > 0 and line["documents"] == 58, f"ls: {line}")
    finally:
        server.terminate()
        server.wait(60)


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    os.chmod(root, 0o755)
    if glob.glob("/usr/lib/postgresql/*/bin/initdb"):
        (root / "server").mkdir(), (root / "terms").mkdir()
        debian = Server(root / "server")
        try:
            check_store(debian, root / "terms")
            check_writers(debian, root / "terms")
            check_sql(debian)
        finally:
            debian.stop()
    else:
        print("skipped: PostgreSQL (Debian: package postgresql)")
    (root / "vectors").mkdir()
    check_vectors(root / "vectors")
sys.exit(1 if failures else 0)
