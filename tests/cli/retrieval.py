#!/usr/bin/env python3
"""makar index, search and ask as a user types them: formats, updates, kill -9 during ingest, bad usage, evaluation.

usage: retrieval.py MAKAR [--kills N]   (real data: MAKAR_ASSETS, default ../shared/assets; that part is skipped without it)
"""
import array
import gzip
import json
import math
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

from checks import check, failures

MAKAR = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 4
ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", ROOT.parent / "shared" / "assets"))


def run(*arguments, timeout=300, text=None):
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, input=text)
    return done.returncode, done.stdout, done.stderr


def search(index, query, *arguments):
    code, out, err = run("search", index, query, "--json", *arguments)
    check(code == 0, f"search {query}: {err[-300:]}")
    return json.loads(out)["hits"] if code == 0 else []


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
    check("rows.jsonl#2" in err and "picture.png" in err, f"skipped by name: {err}")
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
    """A folder with files that cannot be read: the others are added, each of these is reported, nothing waits."""
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
    """Scores by the formula, from counts made here."""
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
        wanted = random.randrange(1, 70)
        committed = []
        for line in process.stdout:
            committed += json.loads(line).get("committed", [])
            if len(committed) >= wanted * 20:
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
            check(code == 0 and f"{1500 - len(present)} added" in out, f"going on after a kill: {out}")
            a, b = search(index, "term7 term19"), search(folder / "whole.db", "term7 term19")
            check([(h["id"], h["score"]) for h in a] == [(h["id"], h["score"]) for h in b], "the same results as without a kill")
    check(partial >= KILLS // 2, f"{partial} of {KILLS} kills came during ingest")
    print(f"{KILLS} kills, {partial} of them during ingest")


def make_model(folder):
    """A few steps on a page of text: enough to embed and to answer something."""
    page = folder / "page.txt"
    page.write_text("".join(chr(c) for c in range(32, 127)) + "\nSources answer questions. [1] The keeper counts ships.\n" * 40)
    code, _, err = run("pretrain", "--datasets", page, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 400, "-o", folder / "model")
    check(code == 0, f"a model: {err[-300:]}")
    return folder / "model"


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


def read_tensors(path):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    return {name: array.array("f", data[8 + size + about["data_offsets"][0]:8 + size + about["data_offsets"][1]])
            for name, about in json.loads(data[8:8 + size]).items() if name != "__metadata__" and about["dtype"] == "F32"}


def check_cross_encoder(folder):
    """The score of a pair is the logits' difference of [CLS] query [SEP] passage [SEP] with token types, run by makar forward."""
    golden = ROOT / "tests" / "golden" / "models" / "bert-sequence-classification"
    model = folder / "cross"
    model.mkdir()
    config = json.loads((golden / "config.json").read_text())
    labels = len(config.get("id2label", {})) or config.get("num_labels", 2)
    if labels > 2:  # a cross-encoder has one or two labels: keep the first two
        config["id2label"], config["label2id"] = {"0": "a", "1": "b"}, {"a": 0, "b": 1}
    (model / "config.json").write_text(json.dumps(config))
    data = (golden / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    tensors, out = {}, b""
    for name, about in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = about["data_offsets"]
        shape = about["shape"]
        if name.startswith("classifier.") and shape[0] > 2:
            end = begin + (end - begin) // shape[0] * 2
            shape = [2] + shape[1:]
        piece = data[8 + size + begin:8 + size + end]
        tensors[name] = {"dtype": about["dtype"], "shape": shape, "data_offsets": [len(out), len(out) + len(piece)]}
        out += piece
    head = json.dumps(tensors).encode()
    (model / "model.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + out)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "blue", "fish", "bird", "sings", "swims", "the"]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    texts = ["the red fish swims", "the blue bird sings", "blue fish", "the bird"]
    (folder / "c.jsonl").write_text("".join(json.dumps({"_id": str(i), "text": t}) + "\n" for i, t in enumerate(texts)))
    run("index", "add", folder / "c.db", folder / "c.jsonl", "--language", "none")
    hits = search(folder / "c.db", "the blue fish", "--rerank", model)
    check(len(hits) == 4, f"cross-encoder: {hits}")
    for hit in hits:
        ids = [2] + [words.index(w) for w in "the blue fish".split()] + [3]
        types = [0] * len(ids)
        passage = [words.index(w) for w in hit["text"].split()] + [3]
        ids, types = ids + passage, types + [1] * len(passage)
        pack = lambda values: struct.pack(f"<{len(values)}q", *values)
        n = len(ids)
        head = json.dumps({"in.input_ids": {"dtype": "I64", "shape": [1, n], "data_offsets": [0, 8 * n]},
                           "in.token_type_ids": {"dtype": "I64", "shape": [1, n], "data_offsets": [8 * n, 16 * n]}}).encode()
        (folder / "in.safetensors").write_bytes(struct.pack("<Q", len(head)) + head + pack(ids) + pack(types))
        code, _, err = run("forward", model, "-i", folder / "in.safetensors", "-o", folder / "out.safetensors")
        check(code == 0, f"forward: {err}")
        logits = read_tensors(folder / "out.safetensors")["out.logits"]
        expected = logits[0] if len(logits) == 1 else logits[1] - logits[0]
        check(abs(hit["score"] - expected) < 1e-4, f"cross-encoder: {hit['score']} {expected}")


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
    check(code == 0 and json.loads(out)["answered"] is False, "nothing relevant: no model is needed to say so")


def check_ask(folder):
    """A model with random weights answers something; every citation points at its text."""
    model = make_model(folder)
    source = folder / "keeper.txt"
    source.write_text("Été. The keeper counts ships at night. A cook bakes bread.\n\n" * 3)
    run("index", "add", folder / "ask.db", source)
    code, out, err = run("ask", folder / "ask.db", "-m", model, "-n", 24, "--json", "Who counts ships?")
    check(code == 0, f"ask: {err[-300:]}")
    if code == 0:
        answer = json.loads(out)
        check(answer["answered"] and answer["sources"], "sources")
        data = source.read_bytes()
        for place in answer["sources"]:
            check(data[place["begin"]:place["end"]].decode() == place["text"], "a source is at its offsets")
        for sentence in answer["sentences"]:
            for c in sentence["citations"]:
                check(data[c["begin"]:c["end"]].decode() == c["quote"], "a quote is at its offsets")


    for flags in (["--style", "map-reduce"], ["--style", "refine"], ["--rewrite"]):
        code, out, err = run("ask", folder / "ask.db", "-m", model, "-n", 24, "--json", "Who counts ships?", *flags)
        check(code == 0 and json.loads(out)["answered"] and json.loads(out)["usage"]["completion_tokens"] > 0, f"{flags}: {out[:200]} {err[-200:]}")
    code, _, err = run("ask", folder / "ask.db", "-m", model, "Who?", "--style", "refin")
    check(code == 2 and "did you mean 'refine'" in err, f"--style: {err}")
    # Drafts: the best safe one is the answer; the same seed gives the same drafts.
    (folder / "tox.jsonl").write_text("".join(json.dumps({"text": t, "label": l}) + "\n" for t, l in
                                              [("you stupid fool", "toxic"), ("stupid idiot", "toxic"), ("a kind word", "neutral"), ("ships at night", "neutral")] * 8))
    code, _, err = run("classify", "train", "--method", "logistic", "-d", folder / "tox.jsonl", "-o", folder / "tox.json")
    check(code == 0, f"a classifier: {err[-300:]}")
    words = ["ask", folder / "ask.db", "-m", model, "-n", 16, "--json", "Who counts ships?", "--drafts", 3, "--temp", 1, "--seed", 7, "--classifier", folder / "tox.json"]
    code, out, err = run(*words)
    check(code == 0, f"drafts: {err[-300:]}")
    if code == 0:
        answer = json.loads(out)
        best = max(answer["drafts"], key=lambda d: d["score"])
        check(len(answer["drafts"]) == 3 and answer["answer"] == answer["drafts"][answer["chosen"]]["text"] == best["text"], f"drafts: {answer['drafts']}")
        check(all(d["safe"] and 0 <= d["toxicity"] < 0.5 and abs(d["score"] - (d["quality"] + d["groundedness"]) / 2) < 1e-12 for d in answer["drafts"]), "scores")
        check(run(*words, "-t", 1)[1] == out, "the same drafts on one thread")
    for flags, part in ((["--drafts", 3], "--temp"), (["--drafts", 0], "1 to 64"), (["--threshold", 0.3], "--drafts"), (["--drafts", 2, "--temp", 1, "--style", "refine"], "stuff")):
        code, _, err = run("ask", folder / "ask.db", "-m", model, "Who?", *flags)
        check(code == 2 and part in err, f"{flags}: {err}")
    # Evaluation: shares, by the same model as judge.
    (folder / "q.jsonl").write_text('{"question": "Who counts ships?", "answer": "The keeper."}\n{"question": "zeppelin?", "answer": "No."}\n')
    code, out, err = run("ask", folder / "ask.db", "-m", model, "-n", 24, "--json", "--eval", folder / "q.jsonl")
    check(code == 0, f"ask --eval: {err[-300:]}")
    if code == 0:
        scores = json.loads(out)
        check(scores["questions"] == 2 and scores["answered"] == 0.5, f"ask --eval: {scores}")
        for name in ("context_precision", "context_recall", "faithfulness", "answer_relevance", "groundedness"):
            check(0 <= scores[name] <= 1 and scores["samples"][1][name] == 0, f"{name}: {scores}")
    code, _, err = run("ask", folder / "ask.db", "-m", model)
    check(code == 2 and "--eval" in err, f"no question: {err}")


def check_training(folder):
    """Hard negatives of BM25 train a retriever (DPR): the trained encoder ranks the positives higher than before. And what embeddings cost."""
    golden = ROOT / "tests" / "golden" / "models" / "bert-embedding"
    model = folder / "encoder"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((golden / name).read_bytes())
    colours, things = ["red", "blue", "green", "black"], ["fish", "bird", "boat", "tree", "stone"]
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "what", "is", "swims"] + colours + things + [f"x{i}" for i in range(20)]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    beir = folder / "beir"
    (beir / "qrels").mkdir(parents=True)
    pairs = [(c, t) for c in colours for t in things]
    # A question shares one word with the passage that answers it, and another one with passages that do not.
    (beir / "corpus.jsonl").write_text("".join(json.dumps({"_id": f"d{i}", "text": f"the {t} x{i} is {c}"}) + "\n" for i, (c, t) in enumerate(pairs)))
    (beir / "queries.jsonl").write_text("".join(json.dumps({"_id": f"q{i}", "text": f"what x{i} {c}"}) + "\n" for i, (c, t) in enumerate(pairs)))
    (beir / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(f"q{i}\td{i}\t1\n" for i in range(len(pairs))))
    run("index", "add", folder / "b.db", beir, "--chunk", "whole", "--language", "none")
    code, out, err = run("search", folder / "b.db", "--eval", beir, "--negatives", folder / "triplets.jsonl", "--json")
    check(code == 0 and json.loads(out)["triplets"] == 20, f"hard negatives: {out} {err[-200:]}")
    for i, line in enumerate((folder / "triplets.jsonl").read_text().splitlines()):
        t = json.loads(line)
        check(f"x{i} " in t["positive"] and f"x{i} " not in t["negative"] and pairs[i][0] in t["negative"], f"a triplet: {t}")
    scores = []
    code, _, err = run("sft", "-m", model, "--datasets", folder / "triplets.jsonl", "--num-epochs", 12, "--learning-rate", 3e-3,
                       "--micro-batch-size", 10, "-o", folder / "trained")
    check(code == 0, f"training: {err[-400:]}")
    for name, encoder in (("before", model), ("after", folder / "trained")):
        run("index", "add", folder / f"{name}.db", beir, "--chunk", "whole", "-m", encoder)
        code, out, err = run("search", folder / f"{name}.db", "--eval", beir, "--mode", "dense", "--json")
        check(code == 0, f"{name}: {err[-300:]}")
        scores.append(json.loads(out)["mrr@10"] if code == 0 else 0)
    check(scores[1] > scores[0] + 0.2, f"training helps: {scores}")
    print("DPR, mrr@10 before and after:", scores)
    # WORKED 36: one dollar for ten thousand articles. 10,000 articles of 12 tokens at 1 / 0.12 dollars per million.
    (folder / "prices.json").write_text(json.dumps({"input": 1e6 / (10000 * 12)}))
    article = " ".join(["the"] * 10)
    code, _, err = run("embed", "-m", model, "--prices", folder / "prices.json", text=(article + "\n") * 10000)
    check(code == 0 and "120000 tokens" in err and ": 1 USD" in err, f"the cost of embeddings: {err[-200:]}")
    (folder / "articles.jsonl").write_text("".join(json.dumps({"_id": str(i), "text": article}) + "\n" for i in range(100)))
    code, out, err = run("index", "add", folder / "articles.db", folder / "articles.jsonl", "-m", model, "--chunk", "whole", "--prices", folder / "prices.json", "--json")
    cost = json.loads(out.splitlines()[-1]).get("cost", {}) if code == 0 else {}
    check(cost.get("tokens") == 1200 and abs(cost["money"] - 0.01) < 1e-12, f"the cost of an index: {cost} {err[-200:]}")


def check_programs(folder):
    """Semantic search over the rows of a CSV, and questions to a text of one's own (WORKED 26, 30)."""
    model = make_model(folder)
    (folder / "posts.csv").write_text("id,text\n" + "".join(f"{i},borderlands is quite a game {i * 7919 % 101}\n" for i in range(20)))
    code, _, err = run("index", "add", folder / "posts.db", folder / "posts.csv", "-m", model)
    check(code == 0, f"a CSV with vectors: {err[-300:]}")
    hits = search(folder / "posts.db", "borderlands quite", "--mode", "dense", "-k", 5)
    scores = [h["score"] for h in hits]
    check(len(hits) == 5 and scores == sorted(scores, reverse=True), f"the five nearest: {scores}")
    _, out, _ = run("embed", "-m", model, "--json", "borderlands quite", *(h["text"] for h in hits))
    query, *rows = (json.loads(line)["embedding"] for line in out.splitlines())
    for hit, row in zip(hits, rows):
        check(abs(sum(a * b for a, b in zip(query, row)) - hit["score"]) < 1e-5, "a score is the cosine")
    text = folder / "own.txt"
    text.write_text("The cook bakes bread. " + " ".join(f"Sentence {i} is about the harbour." for i in range(200)))
    run("index", "add", folder / "own.db", text, "--chunk", "characters", "--chunk-size", 1000, "--chunk-overlap", 0)
    code, out, err = run("ask", folder / "own.db", "-m", model, "-k", 1, "-n", 8, "--json", "Who bakes bread?", "--min-relevance", 0.1)
    answer = json.loads(out) if code == 0 else {"sources": []}
    check(len(answer["sources"]) == 1 and "cook bakes bread" in answer["sources"][0]["text"] and len(answer["sources"][0]["text"]) <= 1000,
          f"one chunk, with its source: {out[:300]} {err[-200:]}")


def check_collection(folder):
    """A BEIR folder as others make them: string ids, titles, graded judgements, missing and empty fields, judged documents that are not
    there, unjudged queries. The scores are computed here from the run."""
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
    # By score and, as trec_eval does, equal scores by the id from the end of the alphabet.
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
    check(code == 0 and "1399 added" in out or "1400 added" in out or "1398 added" in out, f"Cranfield: {out} {err[-300:]}")
    code, out, err = run("search", folder / "cran.db", "--eval", folder / "cranfield", "--trec", folder / "run.trec", "--json")
    check(code == 0, f"evaluation: {err[-300:]}")
    scores = json.loads(out)
    check(scores["queries"] == 225 and scores["ndcg@10"] > 0.35, f"Cranfield: {scores}")
    code, out, err = run("metrics", "ndcg", "--run", folder / "run.trec", "--qrels", folder / "cranfield" / "cranqrel", "-k", 10, "--json")
    check(code == 0 and abs(json.loads(out)["score"] - scores["ndcg@10"]) < 1e-9, f"the same as makar metrics: {out[:200]}")
    # As a BEIR folder; two documents have two texts, of which this takes the first.
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


with tempfile.TemporaryDirectory() as scratch:
    place = pathlib.Path(scratch)
    for one in (check_formats, check_hostile_files, check_bm25, check_usage, check_dense, check_cross_encoder, check_ask, check_programs, check_training, check_kills, check_collection, check_assets):
        part = place / one.__name__
        part.mkdir()
        one(part)
sys.exit(1 if failures else 0)
