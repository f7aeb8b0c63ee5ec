#!/usr/bin/env python3
"""makar index and search on the command line: formats, updates, kill -9 during ingest, scores, bad usage.

usage: retrieval.py MAKAR [--kills N]
"""
import gzip
import json
import math
import os
import random
import signal
import subprocess
import sys
import time

from checks import check
from program import MAKAR
from retrieval_checks import make_model, run, run_all, search

KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 4


def check_formats(folder):
    docs = folder / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "a.txt").write_text("The lighthouse keeper counted ships. Fog came in the evening.\n")
    (docs / "b.md").write_text("# Boats\n\nA trawler catches fish.\n\n## Engines\n\nDiesel engines are loud.\n")
    (docs / "sub" / "c.html").write_text("<title>Harbour</title><script>trawler()</script><p>The harbour opens at six &amp; closes.</p>")
    (docs / "latin.csv").write_bytes("name,note\ncafé,crème brûlée\nbar,beer\n".encode("latin-1"))
    (docs / "rows.jsonl").write_text('{"id": "r1", "text": "Anchors hold ships.", "year": 1999}\nnot json\n')
    (docs / "picture.png").write_bytes(b"\x89PNG\0\0")
    index = folder / "i.db"
    code, out, err = run("index", "add", index, docs, "--chunk", "headings")
    check(code == 0 and "6 added" in out and "2 skipped" in out, f"add: {out} {err[-500:]}")
    check("rows.jsonl#2" in err and "picture.png" in err, f"skipped files are named: {err}")
    hits = search(index, "diesel engine")
    check(hits and hits[0]["heading"] == "Boats > Engines", f"headings: {hits}")
    text = (docs / "b.md").read_text()
    check(hits and text.encode()[hits[0]["begin"]:hits[0]["end"]].decode() == hits[0]["text"], "offsets point at the text")
    check(search(index, "crème")[0]["document"].endswith("latin.csv#2"), "Latin-1")
    check(search(index, "harbour")[0]["title"] == "Harbour" and not search(index, "trawler()")[0]["text"].startswith("trawler()"), "HTML")
    check([h["document"] for h in search(index, "ships", "--where", "year=1999")] == ["r1"], "a filter")
    check(search(index, "zeppelin") == [], "nothing found")

    # The same again changes nothing; a changed file replaces its document.
    code, out, _ = run("index", "add", index, docs)
    check(code == 0 and "0 added, 0 updated, 6 unchanged" in out, f"unchanged: {out}")
    (docs / "a.txt").write_text("The beacon is dark.\n")
    code, out, _ = run("index", "add", index, docs)
    check("0 added, 1 updated" in out and not search(index, "lighthouse") and search(index, "beacon"), f"updated: {out}")
    code, out, err = run("index", "rm", index, "r1")
    check(code == 0 and not search(index, "anchors"), f"removed: {out} {err}")
    code, out, _ = run("index", "check", index)
    check(code == 0 and "5 documents" in out, f"check: {out}")
    code, out, _ = run("index", "ls", index, "--documents", "--json")
    check(len(out.splitlines()) == 5, "ls --documents")
    code, out, _ = run("index", "show", index, hits[0]["id"])
    check(code == 0 and out.strip() == hits[0]["text"].strip(), "show a chunk")


def check_hostile_files(folder):
    """A folder with files that cannot be read: the others are added, each of these is reported, and nothing blocks."""
    docs = folder / "docs"
    (docs / "sub").mkdir(parents=True)
    with gzip.open(docs / "bomb.txt.gz", "wb", 1) as out:
        for _ in range(70):
            out.write(bytes(1 << 20))
    (docs / "cut.txt.gz").write_bytes(gzip.compress(b"words " * 10000)[:60])
    os.mkfifo(docs / "pipe.txt")
    os.symlink("/dev/zero", docs / "zero.txt")
    os.symlink("..", docs / "sub" / "loop")
    (docs / "good.txt").write_text("good words\n")
    (docs / "bad.pdf").write_text("%PDF-1.4 broken")
    (docs / "deep.html").write_text("<div>" * 50000 + "deep words" + "</div>" * 50000)
    (docs / "deep.jsonl").write_text('{"text":' + "[" * 100000 + "\n")
    (docs / "same.jsonl").write_text('{"_id": "a", "text": "first"}\n{"_id": "a", "text": "second words"}\n{"_id": 5, "text": "five"}\n{"text": null}\n')
    code, out, err = run("index", "add", folder / "h.db", docs)
    check(code == 0, f"a hostile folder: {code} {out} {err[-500:]}")
    for name in ("bomb.txt.gz", "cut.txt.gz", "bad.pdf", "deep.jsonl"):
        check(name in err, f"{name} is reported: {err[-800:]}")
    names = {h["document"].split("/")[-1] for h in search(folder / "h.db", "words", "-k", 50)}
    check({"good.txt", "deep.html", "a"} <= names and "zero.txt" not in names, f"the others are there: {names}")
    code, _, err = run("index", "add", folder / "h.db", docs / "cut.txt.gz")
    check(code == 1 and "cut.txt.gz" in err, f"a named file that cannot be read is an error: {code} {err}")
    check(run("index", "check", folder / "h.db")[0] == 0, "the index is complete")


def check_bm25(folder):
    """Scores equal the formula, computed here from the counts of terms."""
    random.seed(5)
    words = [f"w{min(random.randrange(60), random.randrange(60))}" for _ in range(4000)]
    texts, at = {}, 0
    while at < len(words) - 30:
        n = random.randrange(3, 30)
        texts[f"d{len(texts)}"] = words[at:at + n]
        at += n
    (folder / "bm25.jsonl").write_text("".join(json.dumps({"_id": k, "text": " ".join(v)}) + "\n" for k, v in texts.items()))
    index = folder / "bm25.db"
    run("index", "add", index, folder / "bm25.jsonl", "--language", "none", "--chunk", "whole")
    count, mean = len(texts), sum(map(len, texts.values())) / len(texts)
    for form in ("bm25", "bm25-robertson", "tfidf"):
        hits = search(index, "w1 w7 w50", "-k", 1000, "--sparse", form, "--k1", 0.9, "--b", 0.4)
        check(len(hits) == sum(any(q in t for q in ("w1", "w7", "w50")) for t in texts.values()), "every match")
        worst = 0
        for hit in hits:
            terms, score = texts[hit["document"]], 0
            for q in ("w1", "w7", "w50"):
                df, tf = sum(q in t for t in texts.values()), terms.count(q)
                odds = (count - df + 0.5) / (df + 0.5)
                if form == "tfidf":
                    score += tf / len(terms) * math.log(count / df)
                    continue
                idf = math.log(1 + odds) if form == "bm25" else math.log(odds)
                score += idf * tf / (tf + 0.9 * (1 - 0.4 + 0.4 * len(terms) / mean))
            worst = max(worst, abs(score - hit["score"]))
        check(worst < 1e-6, f"{form}: difference {worst}")


def check_kills(folder):
    """kill -9 during ingest: all documents that were reported as committed are there, and every document is complete."""
    random.seed(9)
    lines = [json.dumps({"_id": f"k{i}", "text": " ".join(f"term{random.randrange(3000)}" for _ in range(120))}) for i in range(1500)]
    (folder / "many.jsonl").write_text("\n".join(lines) + "\n")
    begin = time.time()
    code, out, _ = run("index", "add", folder / "whole.db", folder / "many.jsonl", "--commit-every", 20, "--json")
    took = time.time() - begin
    check(code == 0 and json.loads(out.splitlines()[-1])["added"] == 1500, "the whole ingest")
    partial = 0
    for kill in range(KILLS):
        index = folder / f"killed{kill}.db"
        process = subprocess.Popen([MAKAR, "index", "add", str(index), str(folder / "many.jsonl"), "--commit-every", "20", "--json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        transactions = random.randrange(1, 70)
        committed = []
        for line in process.stdout:
            committed += json.loads(line).get("committed", [])
            if len(committed) >= transactions * 20:
                break
        time.sleep(random.random() * took / 75)
        process.send_signal(signal.SIGKILL)
        for line in process.stdout.read().splitlines():
            try:
                committed += json.loads(line).get("committed", [])
            except ValueError:
                pass  # the last line may be cut off
        process.wait()
        code, out, err = run("index", "check", index)
        check(code == 0, f"kill {kill}: the index is complete: {err[-300:]}")
        code, out, _ = run("index", "ls", index, "--documents", "--json")
        present = {json.loads(line)["document"] for line in out.splitlines()}
        check(set(committed) <= present, f"kill {kill}: nothing committed is lost")
        # Transactions are in order, 20 documents each: at most one was committed and not reported.
        check(present == {f"k{i}" for i in range(len(present))} and len(present) - len(committed) in (0, 20) and
              len(present) % 20 == 0, f"kill {kill}: {len(present)} present, {len(committed)} reported")
        partial += 0 < len(present) < 1500
        if kill == 0:
            code, out, _ = run("index", "add", index, folder / "many.jsonl")
            check(code == 0 and f"{1500 - len(present)} added" in out, f"resumed after a kill: {out}")
            a, b = search(index, "term7 term19"), search(folder / "whole.db", "term7 term19")
            check([(h["id"], h["score"]) for h in a] == [(h["id"], h["score"]) for h in b], "the same results as without a kill")
    check(partial >= KILLS // 2, f"{partial} of {KILLS} kills came during ingest")
    print(f"{KILLS} kills, {partial} of them during ingest")


def check_dense(folder):
    """Flat, graph and int8 vectors of a tiny model agree with makar embed."""
    model = make_model(folder)
    (folder / "dense.jsonl").write_text("".join(json.dumps({"_id": f"e{i}", "text": f"text number {i * i}"}) + "\n" for i in range(30)))
    for name, flags in (("flat", []), ("graph", ["--hnsw"]), ("small", ["--vector", "int8"])):
        code, _, err = run("index", "add", folder / "dense.db", folder / "dense.jsonl", "--collection", name, "-m", model, *flags)
        check(code == 0, f"dense {name}: {err[-300:]}")
    found = {n: search(folder / "dense.db", "number 49", "--mode", "dense", "--collection", n) for n in ("flat", "graph", "small")}
    check([h["id"] for h in found["flat"]] == [h["id"] for h in found["graph"]], "the graph finds the same")
    check(abs(found["flat"][0]["score"] - found["small"][0]["score"]) < 0.02, "int8 is close")
    _, out, _ = run("embed", "-m", model, "--json", "number 49", found["flat"][0]["text"])
    a, b = (json.loads(line)["embedding"] for line in out.splitlines())
    check(abs(sum(x * y for x, y in zip(a, b)) - found["flat"][0]["score"]) < 1e-5, "the cosine of makar embed")
    hybrid = search(folder / "dense.db", "number 49", "--collection", "flat")
    sparse = search(folder / "dense.db", "number 49", "--collection", "flat", "--mode", "sparse", "-k", 100)
    dense = search(folder / "dense.db", "number 49", "--collection", "flat", "--mode", "dense", "-k", 100)
    rank = lambda hits, i: next((1 / (60 + h["rank"]) for h in hits if h["id"] == i), 0)
    check(abs(hybrid[0]["score"] - rank(sparse, hybrid[0]["id"]) - rank(dense, hybrid[0]["id"])) < 1e-12, "reciprocal rank fusion")
    # By likelihood: the mean log-probability of the query after the passage, as makar score computes it.
    hits = search(folder / "dense.db", "number 49", "--collection", "flat", "--rerank", model)
    check(len(hits) == 10 and [h["score"] for h in hits] == sorted((h["score"] for h in hits), reverse=True), "reranked in order")
    lines = "".join(json.dumps({"prompt": h["text"] + "\nQuestion:", "completion": " number 49"}) + "\n" for h in hits)
    _, out, _ = run("score", "-m", model, "--jsonl", text=lines)
    for hit, line in zip(hits, out.splitlines()):
        scored = json.loads(line)
        check(abs(hit["score"] - scored["logprob"] / scored["tokens"]) < 1e-6, f"rerank by likelihood: {hit['score']} {line[:80]}")


def check_usage(folder):
    index = folder / "u.db"
    (folder / "u.txt").write_text("some text\n")
    code, _, err = run("search", folder / "none.db", "x")
    check(code == 1 and "no such index" in err and "makar index add" in err, f"a missing index: {err}")
    code, _, err = run("index", "add", index, folder / "missing.txt")
    check(code == 1 and "missing.txt" in err, f"a missing file: {err}")
    code, _, err = run("index", "add", index, folder / "u.txt", "--chunk", "sentence")
    check(code == 2 and "did you mean 'sentences'" in err, f"a wrong chunk: {err}")
    code, _, err = run("index", "add", index, folder / "u.txt", "--chunk-overlap", 1000)
    check(code == 2 and "--chunk-overlap" in err, f"overlap: {err}")
    run("index", "add", index, folder / "u.txt")
    code, _, err = run("index", "add", index, folder / "u.txt", "--language", "german")
    check(code == 2 and "english" in err and "--collection" in err, f"another setting: {err}")
    code, _, err = run("search", index, "x", "--mode", "dense")
    check(code == 1 and "no vectors" in err, f"dense without vectors: {err}")
    code, _, err = run("search", index, "x", "--collection", "defalt")
    check(code == 1 and "did you mean 'default'" in err, f"a wrong collection: {err}")
    code, _, err = run("search", folder / "u.txt", "x")
    check(code == 1 and "u.txt" in err, f"no database: {err}")
    code, _, err = run("search", index, "x", "--where", "novalue")
    check(code == 2 and "KEY=VALUE" in err, f"--where: {err}")
    code, out, _ = run("ask", index, "-m", folder / "no-model", "Where is the zeppelin?", "--json")
    check(code == 0 and json.loads(out)["answered"] is False, "without relevant passages the model is not loaded")


run_all(check_formats, check_hostile_files, check_bm25, check_kills, check_dense, check_usage)
