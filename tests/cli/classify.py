#!/usr/bin/env python3
"""makar classify run: thresholds, the confusion matrix, CSV, pairs of texts, and the fields of GLUE and SNLI.

usage: classify.py MAKAR
"""
import csv
import io
import json
import math
import pathlib
import random
import shutil
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, refused

random.seed(4)
WORDS = {"neg": ["bad", "dull", "poor"], "pos": ["good", "fine", "great"]}


def texts(count, mixed):
    """Texts with words of their label; each is a word of the other label with probability `mixed`."""
    out = []
    for i in range(count):
        label = ("neg", "pos")[i % 2]
        words = [random.choice(WORDS[label if random.random() > mixed else ("pos", "neg")[i % 2]]) for _ in range(3)] + ["film", "the"]
        out.append({"text": " ".join(words), "label": label})
    return out


def write(path, records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def check_words(folder):
    """A classifier without a language model, compared with counts computed here."""
    train, test = texts(60, 0.1), texts(41, 0.4)
    model = folder / "words.json"
    good("classify", "train", "--method", "logistic", "-d", write(folder / "train.jsonl", train), "-o", model)
    input_lines = "".join(r["text"] + "\n" for r in test)
    plain = lines(good("classify", "run", model, text=input_lines))
    all_scores = lines(good("classify", "run", model, "--scores", text=input_lines))
    for a, b in zip(plain, all_scores):
        check(set(b["scores"]) == {"neg", "pos"} and abs(sum(b["scores"].values()) - 1) < 1e-9, f"--scores: {b}")
        check(a["label"] == max(b["scores"], key=b["scores"].get) and a["score"] == b["scores"][a["label"]], f"the best label: {a} {b}")

    scores = json.loads(good("classify", "run", model, "--eval", write(folder / "test.jsonl", test), "--csv", folder / "out.csv", "--json").stdout)
    pairs = [(r["label"], p["label"]) for r, p in zip(test, plain)]
    names = ["neg", "pos"]
    check(scores["labels"] == names and scores["confusion"] == [[pairs.count((t, p)) for p in names] for t in names], f"confusion: {scores}")
    check(abs(scores["accuracy"] - sum(t == p for t, p in pairs) / len(pairs)) < 1e-12 and scores["texts"] == 41, "accuracy")
    probabilities = [b["scores"]["pos"] for b in all_scores]

    def f1(threshold):
        found = [p >= threshold for p in probabilities]
        correct = sum(f and r["label"] == "pos" for f, r in zip(found, test))
        return 2 * correct / (sum(found) + sum(r["label"] == "pos" for r in test))
    best = scores["best_threshold"]
    check(best["label"] == "pos" and abs(best["f1"] - max(map(f1, probabilities))) < 1e-12 and abs(f1(best["threshold"]) - best["f1"]) < 1e-12, f"best threshold: {best}")
    rows = list(csv.DictReader(open(folder / "out.csv", newline="")))
    check([r["truth"] for r in rows] == [r["label"] for r in test] and [r["label"] for r in rows] == [p["label"] for p in plain], "CSV of --eval")
    check(all(abs(float(r["pos"]) - p) < 1e-12 and abs(float(r["score"]) - max(float(r["pos"]), float(r["neg"]))) < 1e-12 for r, p in zip(rows, probabilities)), "numbers in CSV")
    text = good("classify", "run", model, "--eval", folder / "test.jsonl").stdout
    check("confusion matrix" in text and f"accuracy           {scores['accuracy']:.4f}" in text and "best F1 of 'pos'" in text, f"the report: {text}")

    # Thresholds: one label, or all.
    chosen = lines(good("classify", "run", model, "--threshold", "pos=0.8", text=input_lines))
    check([c["label"] for c in chosen] == ["pos" if p >= 0.8 else "neg" for p in probabilities], "--threshold pos=0.8")
    chosen = lines(good("classify", "run", model, "--threshold", "0.7", text=input_lines))
    check([c["label"] for c in chosen] == [None if p["score"] < 0.7 else p["label"] for p in plain], "--threshold 0.7")
    check(any(c["label"] is None for c in chosen), "some texts are undecided")
    undecided = json.loads(good("classify", "run", model, "--threshold", "0.7", "--eval", folder / "test.jsonl", "--json").stdout)
    check("(none)" in undecided["labels"], f"undecided texts count as wrong: {undecided['labels']}")

    # CSV on standard output, with quotes and line breaks in texts.
    odd = [{"text": 'good, "fine"\nfilm'}, {"text": "bad"}, {"nothing": 1}]
    done = good("classify", "run", model, "--jsonl", "--csv", "-", text="".join(json.dumps(r) + "\n" for r in odd))
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    check([r["text"] for r in rows] == [odd[0]["text"], "bad"] and list(rows[0]) == ["text", "label", "score", "neg", "pos"], f"CSV: {done.stdout}")
    check("line 3" in done.stderr, "a bad line is reported")
    refused("the labels are neg, pos", "classify", "run", model, "--threshold", "good=0.5", "--text", "x")
    refused("expected a number", "classify", "run", model, "--threshold", "pos=x", "--text", "x")
    refused("give the name of a file", "classify", "run", model, "--eval", folder / "test.jsonl", "--csv", "-")
    refused("remove --text", "classify", "run", model, "--eval", folder / "test.jsonl", "--text", "x")
    write(folder / "no.jsonl", [{"text": "x"}])
    refused("no labelled texts", "classify", "run", model, "--eval", folder / "no.jsonl")


def make_bert(folder, **config):
    model = folder / f"bert{len(list(folder.iterdir()))}"
    shutil.copytree(GOLDEN / "models" / "bert-sequence-classification", model)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "blue", "fish", "bird", "sings", "swims", "the"]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return model


def check_pairs(folder):
    """The names of two texts in GLUE, SNLI and rerankers give the same answer."""
    model = make_bert(folder)
    a, b = "the red fish", "blue bird sings"
    names = [("text", "text_pair"), ("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2"), ("question", "sentence"),
             ("#1 String", "#2 String"), ("query", "passage"), ("sentence", "text2")]
    answers = lines(good("classify", "run", "-m", model, "--jsonl", "--scores", text="".join(json.dumps({x: a, y: b}) + "\n" for x, y in names)))
    check(len(answers) == len(names) and all(x == answers[0] for x in answers), f"pairs: {answers}")
    single = lines(good("classify", "run", "-m", model, "--scores", "--text", a))[0]
    check(single != answers[0], "the second text is read")
    # Files as they are distributed: SNLI with '-', tables of GLUE.
    snli = [{"gold_label": g, "sentence1": a, "sentence2": b, "annotator_labels": [g]} for g in ("neutral", "entailment", "-", "contradiction")]
    done = good("classify", "train", "-m", model, "-d", write(folder / "snli.jsonl", snli * 4), "--val-set-size", 0.3, "--max-steps", 1, "--max-length", 16, "-o", folder / "nli")
    check("3 labels" in done.stderr and "did not agree" in done.stderr, f"SNLI: {done.stderr[-400:]}")
    scores = json.loads(good("classify", "run", "-m", folder / "nli", "--eval", folder / "snli.jsonl", "--json").stdout)
    check(scores["texts"] == 12 and len(scores["confusion"]) == 3, f"SNLI, measured: {scores}")
    tables = {"mrpc.tsv": "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n", "qqp.tsv": "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n",
              "rte.tsv": "index\tsentence1\tsentence2\tlabel\n", "qnli.tsv": "index\tquestion\tsentence\tlabel\n", "sst2.tsv": "sentence\tlabel\n"}
    for name, head in tables.items():
        columns = head.rstrip("\n").split("\t")
        row = [{"#1 String": a, "#2 String": b, "question1": a, "question2": b, "sentence1": a, "sentence2": b, "question": a, "sentence": b}.get(c, "{}") for c in columns]
        row = [r if r != "{}" or c in ("Quality", "is_duplicate", "label") else "7" for r, c in zip(row, columns)]
        (folder / name).write_text(head + "".join("\t".join(r.format(i % 2) if r == "{}" else r for r in row) + "\n" for i in range(6)))
        scores = json.loads(good("classify", "run", "-m", model, "--eval", folder / name, "--json").stdout or "{}")
        check(scores.get("texts") == 6, f"{name}: {scores}")


def check_multi_label(folder):
    """Labels that are not exclusive: an answer has each label whose score reaches the threshold."""
    model = make_bert(folder, problem_type="multi_label_classification")
    answer = lines(good("classify", "run", "-m", model, "--text", "the red fish"))[0]
    single = lines(good("classify", "run", "-m", make_bert(folder), "--scores", "--text", "the red fish"))[0]["scores"]
    odds = {k: v / (1 - v) for k, v in answer["scores"].items()}
    total = sum(odds.values())
    check(all(math.isclose(odds[k] / total, single[k], rel_tol=1e-5) for k in single), f"sigmoids: {answer} {single}")
    check(answer["labels"] == sorted((k for k, v in answer["scores"].items() if v >= 0.5), key=lambda k: -answer["scores"][k]), f"labels: {answer}")
    check(lines(good("classify", "run", "-m", model, "--threshold", 0, "--text", "the red fish"))[0]["labels"] != [], "--threshold 0")


def check_numbers(folder):
    data = write(folder / "numbers.jsonl", [{"sentence1": "red " * i, "sentence2": "fish", "score": i / 2} for i in range(1, 9)])
    good("classify", "train", "-m", make_bert(folder), "-d", data, "--regression", "--val-set-size", 0.2, "--max-steps", 2, "--max-length", 16, "-o", folder / "stsb")
    scores = json.loads(good("classify", "run", "-m", folder / "stsb", "--eval", data, "--json", "--csv", folder / "n.csv").stdout)
    rows = list(csv.DictReader(open(folder / "n.csv", newline="")))
    error = sum((float(r["score"]) - float(r["truth"])) ** 2 for r in rows) / 8
    check(scores["texts"] == 8 and abs(scores["mse"] - error) < 1e-6 and -1 <= scores["pearson"] <= 1, f"STS-B: {scores} {error}")


with tempfile.TemporaryDirectory() as scratch:
    for one in (check_words, check_pairs, check_multi_label, check_numbers):
        part = pathlib.Path(scratch) / one.__name__
        part.mkdir()
        one(part)
sys.exit(1 if failures else 0)
