#!/usr/bin/env python3
"""Retrieval with models: cross-encoders, makar ask, training a retriever, costs, and worked examples.

usage: retrieval_models.py MAKAR
"""
import json
import struct

from checks import check
from program import GOLDEN
from retrieval_checks import make_model, run, run_all, search
from tensor_files import read_floats, read_safetensors, write_safetensors


def check_cross_encoder(folder):
    """The score of a pair is the difference of the logits that makar forward computes for [CLS] query [SEP] passage [SEP] with token types."""
    golden = GOLDEN / "models" / "bert-sequence-classification"
    model = folder / "cross"
    model.mkdir()
    config = json.loads((golden / "config.json").read_text())
    labels = len(config.get("id2label", {})) or config.get("num_labels", 2)
    if labels > 2:  # a cross-encoder has one or two labels: keep the first two
        config["id2label"], config["label2id"] = {"0": "a", "1": "b"}, {"a": 0, "b": 1}
    (model / "config.json").write_text(json.dumps(config))
    tensors = read_safetensors(golden / "model.safetensors")
    for name, (dtype, shape, data) in tensors.items():
        if name.startswith("classifier.") and shape[0] > 2:
            tensors[name] = (dtype, [2] + shape[1:], data[:len(data) // shape[0] * 2])
    write_safetensors(model / "model.safetensors", tensors)
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
        write_safetensors(folder / "in.safetensors", {"in.input_ids": ("I64", [1, n], pack(ids)), "in.token_type_ids": ("I64", [1, n], pack(types))})
        code, _, err = run("forward", model, "-i", folder / "in.safetensors", "-o", folder / "out.safetensors")
        check(code == 0, f"forward: {err}")
        logits = read_floats(folder / "out.safetensors")["out.logits"]
        expected = logits[0] if len(logits) == 1 else logits[1] - logits[0]
        check(abs(hit["score"] - expected) < 1e-4, f"cross-encoder: {hit['score']} {expected}")


def check_ask(folder):
    """A model after three training steps answers something; every citation points at its text."""
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
        for cited in answer["sources"]:
            check(data[cited["begin"]:cited["end"]].decode() == cited["text"], "a source is at its offsets")
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
    # Evaluation: scores from 0 to 1, with the same model as the judge.
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
    """Hard negatives of BM25 train a retriever (DPR): the trained encoder ranks the positives higher than before. Also the cost of embeddings."""
    golden = GOLDEN / "models" / "bert-embedding"
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
    # One dollar: 10,000 articles of 12 tokens at 1 / 0.12 dollars per million.
    (folder / "prices.json").write_text(json.dumps({"input": 1e6 / (10000 * 12)}))
    article = " ".join(["the"] * 10)
    code, _, err = run("embed", "-m", model, "--prices", folder / "prices.json", text=(article + "\n") * 10000)
    check(code == 0 and "120000 tokens" in err and ": 1 USD" in err, f"the cost of embeddings: {err[-200:]}")
    (folder / "articles.jsonl").write_text("".join(json.dumps({"_id": str(i), "text": article}) + "\n" for i in range(100)))
    code, out, err = run("index", "add", folder / "articles.db", folder / "articles.jsonl", "-m", model, "--chunk", "whole", "--prices", folder / "prices.json", "--json")
    cost = json.loads(out.splitlines()[-1]).get("cost", {}) if code == 0 else {}
    check(cost.get("tokens") == 1200 and abs(cost["money"] - 0.01) < 1e-12, f"the cost of an index: {cost} {err[-200:]}")


def check_programs(folder):
    """Semantic search over the rows of a CSV, and questions about a given text."""
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


run_all(check_cross_encoder, check_ask, check_training, check_programs)
