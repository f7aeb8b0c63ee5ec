#!/usr/bin/env python3
"""Encoders and classifiers over HTTP: moderations, reranking, embeddings, and requests that they refuse.

usage: ranking_api.py MAKAR ASSETS        (MAKAR_ASSETS overrides ASSETS; checks whose files are missing
are skipped)
"""
import json
import lzma
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from serving import Server, byte_tokenizer, check, failures, make_model, write_toxicity_config

MODELS = pathlib.Path(__file__).parent.parent / "golden/models"
TEXTS = ["Hello there.", "Something else entirely.", "hello"]


def golden(name, root, **changes):
    """A model of the golden fixtures with a byte-level tokenizer; if the vocabulary is smaller, ids are taken modulo its size."""
    folder = root / name
    shutil.copytree(MODELS / name, folder)
    config = json.loads((folder / "config.json").read_text())
    config.update(changes)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = byte_tokenizer()
    tokenizer["added_tokens"] = []
    size = config["vocab_size"]
    tokenizer["model"]["vocab"] = {token: at % size for token, at in list(tokenizer["model"]["vocab"].items())[:size]}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


def run_printed_curl(makar, model):
    """Runs the curl command that the server prints -> (route, status)."""
    with Server(makar, "-t", "1", model=model) as s:
        text = "".join(s.process.stdout.readline() for _ in range(3))
        route, body = re.search(r"curl http://[^/]+(\S+) -d '(.*)'", text).groups()
        return route, s.post(route, json.loads(body))[0]


def classes(makar, model, text):
    out = subprocess.run([makar, "classify", "run", "-m", str(model), "--text", text], capture_output=True, text=True, timeout=60)
    return json.loads(out.stdout)


def check_classifier(makar, root):
    model = golden("bert-sequence-classification", root)
    with Server(makar, "-t", "1", model=model) as s:
        _, batch = s.post("/v1/moderations", {"input": TEXTS})
        check(len(batch["results"]) == 3 and batch["model"] == model.name, f"moderations: {batch}")
        for text, result in zip(TEXTS, batch["results"]):
            scores = result["category_scores"]
            check(abs(sum(scores.values()) - 1) < 1e-6, "scores of exclusive classes add up to one")
            expected = classes(makar, model, text)
            check(abs(scores[expected["label"]] - expected["score"]) < 1e-5 and result["categories"][expected["label"]],
                  f"the same as makar classify: {expected} {result}")
            check(s.post("/v1/moderations", {"input": text})[1]["results"] == [result], "the same result alone and in a batch")
        _, parts = s.post("/v1/moderations", {"input": [{"type": "text", "text": TEXTS[0]}]})
        check(parts["results"] == batch["results"][:1], "text parts are classified")
        status, error = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]})
        check(status == 400 and error["error"]["param"] == "model" and "/v1/moderations" in error["error"]["message"],
              f"a classifier does not chat: {error}")
        for path, body in (("/v1/completions", {"prompt": "a"}), ("/v1/responses", {"input": "a"}),
                           ("/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}),
                           ("/api/generate", {"prompt": "a"}), ("/score", {"prompt": "a", "completion": "b"})):
            check(s.post(path, body)[0] == 400, f"{path} of a classifier")
        for body, param in (({}, "input"), ({"input": []}, "input"), ({"input": [1]}, "input[0]"), ({"input": 1}, "input"),
                            ({"input": [{"type": "image_url"}]}, "input[0].type")):
            status, error = s.post("/v1/moderations", body)
            check(status == 400 and error["error"]["param"] == param, f"{body}: {error}")
        check(s.post("/v1/moderations", {"input": "a", "model": "other"})[0] == 404, "another model")
        check(s.request("GET", "/health")[0] == 200 and s.stop() == 0, "the server stops")
    check(run_printed_curl(makar, model) == ("/v1/moderations", 200), "the curl line of a classifier")
    several = golden("distilbert-classifier", root, problem_type="multi_label_classification")
    with Server(makar, "-t", "1", model=several) as s:
        result = s.post("/v1/moderations", {"input": TEXTS[0]})[1]["results"][0]
        check(abs(sum(result["category_scores"].values()) - 1) > 1e-3, "scores of independent labels do not add up to one")
        check({k: v >= 0.5 for k, v in result["category_scores"].items()} == result["categories"], "each label is compared with the threshold")
        check(result["flagged"] == any(result["categories"].values()), "flagged")


def check_default_classifier(makar, root):
    """Moderations without a model name use the classifier, which is loaded for them; without a classifier they are an error."""
    chat = make_model(root / "chat")
    classifier, rank = root / "bert-sequence-classification", golden("llama-reward", root)
    with Server(makar, "-t", "1", "--add-model", str(rank), "--add-model", str(classifier), model=chat) as s:
        status, answer = s.post("/v1/moderations", {"input": TEXTS[0]})
        check(status == 200 and answer["model"] == classifier.name, f"a classifier is found: {answer}")
        named = s.post("/v1/moderations", {"input": TEXTS[0], "model": classifier.name})[1]
        check(named["results"] == answer["results"], "the same results as by its name")
        status, answer = s.post("/v1/moderations", {"input": TEXTS[0], "model": "chat"})
        check(status == 400 and answer["error"]["param"] == "model", f"a model that does not classify is refused: {answer}")
        check(s.post("/v1/completions", {"prompt": "a", "max_tokens": 1})[1]["model"] == "chat", "other requests without a model name use the first model")
    with Server(makar, "-t", "1", model=chat) as s:
        status, error = s.post("/v1/moderations", {"input": "a"})
        check(status == 400 and error["error"]["param"] == "model" and "--add-model" in error["error"]["message"],
              f"no model classifies: {error}")


def check_vectors(makar, root):
    model = golden("bert-embedding", root)
    with Server(makar, "-t", "1", model=model) as s:
        _, ranks = s.post("/v1/rerank", {"query": "hello", "documents": TEXTS, "return_documents": True})
        vectors = [d["embedding"] for d in s.post("/v1/embeddings", {"input": ["hello", *TEXTS]})[1]["data"]]
        scores = [math.fsum(a * b for a, b in zip(vectors[0], v)) for v in vectors[1:]]
        order = sorted(range(3), key=lambda i: -scores[i])
        check([r["index"] for r in ranks["results"]] == order and order[0] == 2, f"ranks: {ranks}")
        check(all(abs(r["relevance_score"] - scores[r["index"]]) < 1e-5 for r in ranks["results"]), "scores are cosines")
        check([r["document"]["text"] for r in ranks["results"]] == [TEXTS[i] for i in order], "documents are returned")
        _, two = s.post("/rerank", {"query": "hello", "documents": [{"text": t} for t in TEXTS], "top_n": 2})
        check([(r["index"], r["relevance_score"]) for r in two["results"]] ==
              [(r["index"], r["relevance_score"]) for r in ranks["results"][:2]] and "document" not in two["results"][0],
              f"the best two: {two}")
        check(two["usage"]["total_tokens"] == ranks["usage"]["total_tokens"] > 0, "usage")
        status, error = s.post("/v1/moderations", {"input": "a"})
        check(status == 400 and error["error"]["param"] == "model", f"an encoder does not classify: {error}")
        for body, param in (({"documents": ["a"]}, "query"), ({"query": "a"}, "documents"),
                            ({"query": "a", "documents": []}, "documents"), ({"query": "a", "documents": [1]}, "documents[0]"),
                            ({"query": 1, "documents": ["a"]}, "query"), ({"query": "a", "documents": ["a"], "top_n": 0}, "top_n"),
                            ({"query": "a", "documents": ["b", ""]}, "documents[1]")):
            status, error = s.post("/v1/rerank", body)
            check(status == 400 and error["error"]["param"] == param, f"{body}: {error}")
    check(run_printed_curl(makar, model) == ("/v1/embeddings", 200), "the curl line of an encoder")


def check_pairs(makar, root):
    """A model with one label reads query and document together."""
    model = root / "llama-reward"
    with Server(makar, "-t", "1", model=model) as s:
        _, ranks = s.post("/v1/rerank", {"query": "hello ", "documents": TEXTS})
        for result in ranks["results"]:
            logit = classes(makar, model, "hello " + TEXTS[result["index"]])["score"]
            check(abs(result["relevance_score"] - 1 / (1 + math.exp(-logit))) < 1e-5, f"the score of a pair: {result} {logit}")
        scores = [r["relevance_score"] for r in ranks["results"]]
        check(scores == sorted(scores, reverse=True), "best first")
        status, long = s.post("/v1/rerank", {"query": "q" * 10, "documents": ["d" * 100000, "d"]})
        check(status == 200 and long["usage"]["total_tokens"] < 100000, f"a long document is cut: {long}")
        status, long = s.post("/v1/rerank", {"query": "q" * 100000, "documents": ["d"]})
        check(status == 200 and long["usage"]["total_tokens"] < 100000, f"a long query is cut: {long}")
    model = golden("roberta-classifier", root)
    with Server(makar, "-t", "1", model=model) as s:
        status, ranks = s.post("/v1/rerank", {"query": "hello", "documents": TEXTS})
        check(status == 400 and ranks["error"]["param"] == "model", f"a model with four classes does not rerank: {ranks}")


def check_recorded(makar, root, assets):
    """The toxicity classifier gives the recorded scores."""
    weights = pathlib.Path(assets) / "weights/bert-tiny-toxicity"
    if not weights.is_dir():
        print("no weights at", weights)
        return
    model = root / "toxicity"
    model.mkdir()
    shutil.copy(weights / "vocab.txt", model)
    with lzma.open(weights / "model.safetensors.xz") as compressed, open(model / "model.safetensors", "wb") as out:
        shutil.copyfileobj(compressed, out)
    write_toxicity_config(model)
    with Server(makar, "-t", "1", model=model) as s:
        for line in (weights / "check_scores.txt").read_text().splitlines():
            text, numbers = re.match(r"(.*) \(\[.*?\], \[(.*)\]\)$", line).groups()
            recorded = [float(x) for x in numbers.split(",")]
            result = s.post("/v1/moderations", {"input": text})[1]["results"][0]
            scores = [result["category_scores"][k] for k in ("not-toxic", "toxic")]
            check(max(abs(a - b) for a, b in zip(scores, recorded)) < 2e-3, f"{text}: {scores}, recorded {recorded}")
            check(result["flagged"] == (recorded[1] > 0.5) == result["categories"]["toxic"], f"{text} is flagged: {result}")


def main():
    makar = sys.argv[1]
    assets = os.environ.get("MAKAR_ASSETS", sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        check_classifier(makar, root)
        check_default_classifier(makar, root)
        check_vectors(makar, root)
        check_pairs(makar, root)
        check_recorded(makar, root, assets)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
