#!/usr/bin/env python3
"""makar metrics on the command line: help, bad usage, every kind of input, two systems, hostile files.

usage: metrics.py MAKAR
"""
import gzip
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from tensor_files import read_safetensors, write_safetensors

MAKAR = os.path.abspath(sys.argv[1])
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "golden"
GOLDEN = FIXTURES / "metrics"
failures = []


def run(*arguments, timeout=120):
    done = subprocess.run([MAKAR, "metrics", *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def near(what, value, want, tolerance=1e-9):
    expect(what, value is not None and abs(value - want) <= tolerance, (value, want))


def score(*arguments):
    code, out, err = run(*arguments, "--json")
    expect(" ".join(map(str, arguments)), code == 0, err)
    return json.loads(out) if code == 0 else {}


def write(name, lines):
    path = pathlib.Path(name)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def check_usage():
    code, out, _ = run("--help")
    expect("--help", code == 0 and "usage: makar metrics" in out and "bleu" in out, out[:200])
    code, _, err = run()
    expect("without a name", code == 2 and "bleu" in err, err[:200])
    code, _, err = run("blue")
    expect("a wrong name", code == 2 and "did you mean 'bleu'" in err, err)
    names = [line.split()[0] for line in out.splitlines() if line.startswith("  ")]
    expect("the list", len(names) > 35, names)
    for name in names:
        code, text, err = run(name, "--help")
        expect(f"{name} --help", code == 0 and "usage: makar metrics" in text and "--json" in text, (code, err))
        code, _, err = run(name, "--no-such-flag")
        expect(f"{name} --no-such-flag", code == 2, (code, err))


def check_sacrebleu():
    golden = json.load(open(GOLDEN / "sacrebleu.json"))
    hyp = write("hyp.txt", golden["hyp"])
    refs = [write(f"ref{i}.txt", r) for i, r in enumerate(golden["refs"])]
    flags = {"tokenize": "--tokenize", "smooth_method": "--smooth-method", "smooth_value": "--smooth-value",
             "max_ngram_order": "--max-ngram-order", "lowercase": "--lowercase", "effective_order": "--effective-order",
             "word_order": "--word-order", "char_order": "--char-order", "beta": "--beta", "whitespace": "--whitespace",
             "eps_smoothing": "--eps-smoothing", "normalized": "--normalized", "no_punct": "--no-punct",
             "asian_support": "--asian-support", "case_sensitive": "--case-sensitive"}
    for case in golden["scores"]:
        arguments = [case["kind"], "--hyp", hyp, "--resamples", 0]
        for ref in refs[:case["n_refs"]]:
            arguments += ["--ref", ref]
        for key, value in case["options"].items():
            if value is True:
                arguments.append(flags[key])
            elif value is not None and value is not False:
                arguments += [flags[key], value]
        result = score(*arguments)
        near(case["signature"], result.get("score"), case["score"])
        expect("signature", result.get("signature") == case["signature"], (result.get("signature"), case["signature"]))
    # Several references from one column, and gzip.
    with open("both.jsonl", "w") as f:
        for h, *r in zip(golden["hyp"], *golden["refs"]):
            f.write(json.dumps({"out": h, "refs": r}) + "\n")
    with gzip.open("hyp.gz", "wt", encoding="utf-8") as f:
        f.write("".join(line + "\n" for line in golden["hyp"]))
    want = score("bleu", "--hyp", hyp, "--ref", refs[0], "--ref", refs[1])
    for source in ("both.jsonl:out", "hyp.gz"):
        again = score("bleu", "--hyp", source, "--ref", "both.jsonl:refs")
        expect(source, again == want, (again, want))
    expect("an interval", want["interval"]["low"] < want["score"] < want["interval"]["high"], want["interval"])


def check_systems():
    refs = [f"the number {i} is a fine number to have in a sentence like this" for i in range(60)]
    a = [r.replace("fine", "good") if i % 2 else r for i, r in enumerate(refs)]
    b = [r.replace("fine number", "word") for r in refs]
    write("r.txt", refs), write("a.txt", a), write("b.txt", b)
    two = score("bleu", "--hyp", "a.txt", "--hyp", "b.txt", "--ref", "r.txt", "--trials", 500)
    test = two["comparisons"][0]
    near("difference", test["difference"], two["systems"][1]["score"] - two["systems"][0]["score"])
    expect("a real difference", test["bootstrap"]["p"] < 0.05 and test["randomisation"]["p"] < 0.05, test)
    same = score("bleu", "--hyp", "a.txt", "--hyp", "a.txt", "--ref", "r.txt", "--trials", 500)["comparisons"][0]
    expect("no difference", same["difference"] == 0 and same["randomisation"]["p"] == 1 == same["bootstrap"]["p"], same)
    again = score("bleu", "--hyp", "a.txt", "--hyp", "b.txt", "--ref", "r.txt", "--trials", 500)
    expect("the same seed", again == two)
    code, out, err = run("exact-match", "--hyp", "a.txt", "--hyp", "b.txt", "--ref", "r.txt", "--trials", 100)
    expect("McNemar in text", code == 0 and "McNemar" in out, err)


def check_texts():
    write("h.txt", ["It is very cold outside."]), write("r.txt", ["It is cold outside."])
    rouge = score("rouge", "--hyp", "h.txt", "--ref", "r.txt")
    near("rouge1", rouge["rouge1"]["precision"], 0.8)
    near("rouge2", rouge["rouge2"]["recall"], 2 / 3)
    near("rougeL", rouge["score"], 8 / 9)
    near("rouge2 alone", score("rouge2", "--hyp", "h.txt", "--ref", "r.txt")["score"], 4 / 7)
    for name in ("ROUGE-2", "rouge_2", "rouge-2"):
        near(name, score(name, "--hyp", "h.txt", "--ref", "r.txt")["score"], 4 / 7)
    near("rouge155", score("rougeL", "--mode", "rouge-1.5.5", "--hyp", "h.txt", "--ref", "r.txt")["score"], 8 / 9)
    near("wer", score("wer", "--hyp", "h.txt", "--ref", "r.txt")["score"], 1 / 4)
    near("squad", score("squad", "--hyp", "h.txt", "--ref", "r.txt")["score"], 100 * 8 / 9)
    # Four matches in two chunks: it is | cold outside.
    p, r = 4 / 5, 1
    near("meteor", score("meteor", "--no-synonyms", "--hyp", "h.txt", "--ref", "r.txt")["score"],
         (1 - 0.5 * (2 / 4) ** 3) * p * r / (0.9 * p + 0.1 * r))
    code, _, err = run("meteor", "--wordnet", "/nowhere", "--hyp", "h.txt", "--ref", "r.txt")
    expect("meteor without WordNet", code == 1 and "wordnet-base" in err and "--no-synonyms" in err, err)
    write("t.txt", ["a b a b", "a c"])
    near("distinct", score("distinct", "--hyp", "t.txt", "-n", 2)["score"], 3 / 4)
    near("repetition", score("repetition", "--hyp", "t.txt", "-n", 1)["score"], 1 / 4)
    expect("diversity", score("diversity", "--hyp", "t.txt")["ttr"] == 0.75)
    expect("self-bleu", score("self-bleu", "--hyp", "t.txt")["score"] > 0)


def check_labels():
    golden = json.load(open(GOLDEN / "scikit_learn.json"))
    for key in ("y", "pred", "binary", "binary_pred", "group", "score"):
        write(f"{key}.txt", golden[key])
    with open("table.csv", "w") as f:
        f.write("truth,guess\n" + "".join(f"{a},{b}\n" for a, b in zip(golden["y"], golden["pred"])))
    for source in (("pred.txt", "y.txt"), ("table.csv:guess", "table.csv:truth")):
        e = score("accuracy", "--hyp", source[0], "--ref", source[1])
        for key in ("accuracy", "f1_macro", "f1_micro", "f1_weighted", "mcc", "kappa"):
            near(key, e[key], golden[key])
        expect("confusion", e["confusion"] == golden["confusion"])
    near("f1", score("f1", "--average", "weighted", "--hyp", "pred.txt", "--ref", "y.txt")["score"], golden["f1_weighted"])
    near("kappa", score("kappa", "--hyp", "pred.txt", "--ref", "y.txt")["score"], golden["kappa"])
    for name, key in (("auroc", "auroc"), ("average-precision", "average_precision"), ("brier", "brier"), ("log-loss", "log_loss")):
        near(name, score(name, "--hyp", "score.txt", "--ref", "binary.txt")["score"], golden[key])
    e = score("calibration", "--hyp", "score.txt", "--ref", "binary.txt", "--svg", "c.svg")
    expect("calibration", 0 < e["score"] < 1 and open("c.svg").read().startswith("<svg"), e.get("score"))
    e = score("fairness", "--hyp", "binary_pred.txt", "--ref", "binary.txt", "--group", "group.txt", "--resamples", 100)
    for key in ("demographic_parity_difference", "demographic_parity_ratio", "equal_opportunity_difference",
                "equalized_odds_difference"):
        near(key, e[key], golden[key])
        near(key + " by name", score(key, "--hyp", "binary_pred.txt", "--ref", "binary.txt", "--group", "group.txt",
                                     "--resamples", 0)["score"], golden[key])
    rates = e["groups"][0]
    expect("rates have intervals", rates["tpr_interval"][0] <= rates["tpr"] <= rates["tpr_interval"][1], rates)
    e = score("representation", "--group", "group.txt", "--expected", "0=1,1=1,2=2")
    expect("representation", abs(sum(g["expected"] for g in e["groups"]) - 1) < 1e-12 and e["groups"][2]["count"] == 74, e)
    write("x.txt", [1, 2, 3, 4]), write("z.txt", [1, 8, 27, 26])
    near("spearman", score("spearman", "--hyp", "x.txt", "--ref", "z.txt")["score"], 0.8)
    write("p.txt", ["B-PER I-PER O B-LOC"]), write("q.txt", ["B-PER I-PER O B-ORG"])
    near("span-f1", score("span-f1", "--hyp", "p.txt", "--ref", "q.txt")["score"], 0.5)
    write("r1.txt", "xx"), write("r2.txt", "xx"), write("r3.txt", "xy")
    near("fleiss", score("fleiss", "--hyp", "r1.txt", "--hyp", "r2.txt", "--hyp", "r3.txt")["score"],
         (2 / 3 - 26 / 36) / (1 - 26 / 36))
    write("w.txt", ["win", "win", "tie", "loss"])
    near("win-rate", score("win-rate", "--hyp", "w.txt")["score"], 2.5 / 4)
    for other, name in (("f1_macro", "f1"), ("matthews_corrcoef", "mcc"), ("cohen_kappa", "kappa")):
        expect(other, score(other, "--hyp", "pred.txt", "--ref", "y.txt") == score(name, "--hyp", "pred.txt", "--ref", "y.txt"))
    with open("qa.jsonl", "w") as f:
        f.write(json.dumps({"guess": "in Paris", "answers": {"text": ["Paris", "the city of Paris"]}}) + "\n")
    near("a field inside of another", score("squad", "--hyp", "qa.jsonl:guess", "--ref", "qa.jsonl:answers.text")["score"],
         100 * 2 / 3)
    with open("samples.jsonl", "w") as f:
        for i in range(5):
            f.write(json.dumps({"task_id": "HumanEval/0", "passed": i < 2}) + "\n")
    near("pass@2", score("pass@2", "--hyp", "samples.jsonl")["score"], 0.7)


def check_ranking():
    write("run.trec", ["q1 Q0 a 1 3 t", "q1 Q0 b 2 2 t", "q1 Q0 c 3 1 t", "q2 Q0 a 1 1 t"])
    write("qrels.txt", ["q1 0 b 1", "q1 0 c 2", "q2 0 z 1", "q3 0 a 1"])
    near("mrr", score("mrr", "--run", "run.trec", "--qrels", "qrels.txt")["score"], (1 / 2 + 0 + 0) / 3)
    e = score("recall@2", "--hyp", "run.trec", "--ref", "qrels.txt")
    near("recall@2", e["score"], (1 / 2) / 3)
    expect("missing queries are counted", e["queries_missing_in_run"] == 1, e)
    near("hit-rate", score("hit-rate", "-k", 2, "--run", "run.trec", "--qrels", "qrels.txt")["score"], 1 / 3)
    write("bad.trec", ["q1 Q0 a 1 3 t", "q1 Q0 a 1"])
    code, _, err = run("ndcg", "--run", "bad.trec", "--qrels", "qrels.txt")
    expect("a bad run", code == 1 and "bad.trec:2" in err, err)


def check_bad_input():
    write("one.txt", ["a"]), write("two.txt", ["a", "b"]), write("none.txt", [])
    for what, arguments, words in [
            ("counts", ["bleu", "--hyp", "two.txt", "--ref", "one.txt"], "has 2 values"),
            ("empty", ["bleu", "--hyp", "none.txt", "--ref", "none.txt"], "no values"),
            ("no file", ["bleu", "--hyp", "nothing.txt", "--ref", "one.txt"], "nothing.txt"),
            ("no column", ["accuracy", "--hyp", "t.csv:wrong", "--ref", "one.txt"], "wrong"),
            ("no numbers", ["pearson", "--hyp", "two.txt", "--ref", "two.txt"], "expected a number"),
            ("constant", ["pearson", "--hyp", "same.txt", "--ref", "same.txt"], "not defined"),
            ("probabilities", ["brier", "--hyp", "seven.txt", "--ref", "binary2.txt"], "from 0 to 1"),
            ("not UTF-8", ["bleu", "--hyp", "latin.txt", "--ref", "one.txt"], "UTF-8")]:
        pathlib.Path("t.csv").write_text("x,y,z\n1,2,3\n")
        pathlib.Path("latin.txt").write_bytes(b"stra\xdfe\n")
        write("same.txt", [1, 1]), write("seven.txt", [7, 7]), write("binary2.txt", [0, 1])
        code, out, err = run(*arguments)
        expect(what, code == 1 and words in err and not out, (code, err))
    for arguments in (["bleu", "--hyp", "one.txt"], ["bleu", "--hyp", "one.txt", "--ref", "one.txt", "--tokenize", "xx"],
                      ["bleu", "--hyp", "one.txt", "--ref", "one.txt", "--resamples", "-1"],
                      ["rouge", "--hyp", "one.txt", "--ref", "one.txt", "--mode", "x"]):
        code, _, err = run(*arguments)
        expect(" ".join(arguments), code == 2, (code, err))
    # A line of 300,000 words: the quadratic metrics refuse it, the linear ones take it.
    write("long.txt", [" ".join(f"w{i % 997}" for i in range(300000))])
    write("other.txt", [" ".join(f"w{i * 7 % 991}" for i in range(300000))])
    for name in ("ter", "rougeL", "wer", "eed"):
        code, _, err = run(name, "--hyp", "long.txt", "--ref", "other.txt", "--resamples", 0)
        expect(f"{name} of a long line", code == 1 and "line 1" in err, (code, err))
    for name in ("bleu", "rouge2", "squad"):
        code, _, err = run(name, "--hyp", "long.txt", "--ref", "long.txt", "--resamples", 0)
        expect(f"{name} of a long line", code == 0, (code, err))


def read_rows(path, name, code):
    """The rows of a tensor; `code`: the format character of its type in struct."""
    _, shape, data = read_safetensors(path)[name]
    values = struct.unpack(f"<{len(data) // struct.calcsize('<' + code)}{code}", data)
    return [values[i:i + shape[-1]] for i in range(0, len(values), shape[-1])]


def forward(model, ids, output):
    write_safetensors(pathlib.Path("in.safetensors"), {"in.input_ids": ("I64", [1, len(ids)], struct.pack(f"<{len(ids)}q", *ids))})
    subprocess.run([MAKAR, "forward", model, "--input", "in.safetensors", "--output", "out.safetensors"], check=True,
                   capture_output=True)
    return read_rows(pathlib.Path("out.safetensors"), f"out.{output}", "f")


def bert_vectors(ids, layer):
    """Hidden states of makar forward, scaled to length 1."""
    rows = forward("bert", ids, f"hidden_states.{layer}")
    return [[x / math.sqrt(sum(y * y for y in row)) for x in row] for row in rows]


def check_bert_score():
    shutil.copytree(FIXTURES / "models" / "bert-embedding", "bert")
    words = [f"w{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(315)]
    write("bert/vocab.txt", ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + words)
    ids = {w: 5 + i for i, w in enumerate(words)}
    hyp = [[words[(i * 7 + j * 13) % 315] for j in range(4 + i)] for i in range(5)]
    ref = [[words[(i * 7 + j * 11) % 315] for j in range(5 + i)] for i in range(5)]
    write("h.txt", map(" ".join, hyp)), write("r.txt", map(" ".join, ref))

    def frequency(token):
        return math.log(6 / (1 + sum(token in [2, 3] or any(ids[w] == token for w in r) for r in ref)))

    for layer, idf in ((2, False), (1, True), (0, False)):
        scores = []
        for h, r in zip(hyp, ref):
            a, b = ([2] + [ids[w] for w in words_] + [3] for words_ in (h, r))
            x, y = bert_vectors(a, layer), bert_vectors(b, layer)
            cosine = [[sum(p * q for p, q in zip(u, v)) for v in y] for u in x]
            weight = frequency if idf else lambda token: 0 if token in (2, 3) else 1
            def mean(best, tokens):
                return sum(weight(t) * c for t, c in zip(tokens, best)) / sum(map(weight, tokens))
            p, r_ = mean([max(row) for row in cosine], a), mean([max(col) for col in zip(*cosine)], b)
            scores.append((p, r_, 2 * p * r_ / (p + r_)))
        result = score("bertscore", "-m", "bert", "--hyp", "h.txt", "--ref", "r.txt", "--layer", layer, *(["--idf"] if idf else []))
        for i, key in enumerate(("precision", "recall", "f1")):
            near(f"bertscore {key} of layer {layer}", result[key], sum(s[i] for s in scores) / 5, 1e-5)
    plain = score("bertscore", "-m", "bert", "--hyp", "h.txt", "--ref", "r.txt")["score"]
    write("base.csv", ["LAYER,P,R,F", "0,0.1,0.1,0.1", "2,0.2,0.3,0.4"])
    for base in ("0.2,0.3,0.4", "base.csv"):
        near("baseline", score("bertscore", "-m", "bert", "--hyp", "h.txt", "--ref", "r.txt", "--baseline", base)["score"],
             (plain - 0.4) / 0.6, 1e-6)
    near("itself", score("bertscore", "-m", "bert", "--hyp", "r.txt", "--ref", "r.txt")["score"], 1, 1e-6)
    code, _, err = run("bertscore", "-m", "bert", "--hyp", "h.txt", "--ref", "r.txt", "--layer", 3)
    expect("a layer too many", code == 2 and "0 to 2" in err, err)


def model_of_words(fixture, folder, **config):
    """A fixture whose tokenizer reads w17 as token 17."""
    shutil.copytree(FIXTURES / "models" / fixture, folder)
    values = {**json.load(open(f"{folder}/config.json")), **config}
    json.dump(values, open(f"{folder}/config.json", "w"))
    vocabulary = {"<unk>": 0, **{f"w{i}": i for i in range(1, values["vocab_size"])}}
    json.dump({"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"}, "added_tokens": [],
               "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"}}, open(f"{folder}/tokenizer.json", "w"))


def check_perplexity():
    model_of_words("llama", "llama")
    texts = ["w3 w17 w5 w40", "w9 w1 w2 w8 w7 w6", "w30 w31"]
    write("t.txt", texts + [""])
    result = score("perplexity", "-m", "llama", "--text", "t.txt")
    done = subprocess.run([MAKAR, "score", "-m", "llama", "--jsonl"], capture_output=True, text=True,
                          input="".join(json.dumps({"completion": t}) + "\n" for t in texts))
    parts = [json.loads(line) for line in done.stdout.splitlines()]
    total, tokens = sum(p["logprob"] for p in parts), sum(p["tokens"] for p in parts)
    near("perplexity", result["score"], math.exp(-total / tokens), 1e-9)
    near("bits per byte", result["bits_per_byte"], -total / math.log(2) / sum(map(len, texts)), 1e-9)
    expect("token accuracy", 0 <= result["token_accuracy"] <= 1 and result["empty_texts"] == 1 and result["tokens"] == tokens, result)


def check_encoder_decoder_perplexity():
    fixture = FIXTURES / "models" / "t5-tied-clean"
    ids, mask, labels = (read_rows(fixture / "golden.safetensors", f"in.{name}", "q") for name in ("input_ids", "attention_mask", "labels"))
    sources = [[i for i, m in zip(*row) if m] for row in zip(ids, mask)]
    targets = [[i for i in row if i >= 0] for row in labels]
    # The last label of each target is an end token, so none is appended.
    model_of_words("t5-tied-clean", "t5", eos_token_id=[t[-1] for t in targets])
    write("source.txt", [" ".join(f"w{i}" for i in row) for row in sources])
    write("target.txt", [" ".join(f"w{i}" for i in row) for row in targets])
    result = score("perplexity", "-m", "t5", "--source", "source.txt", "--text", "target.txt")
    near("perplexity of an encoder-decoder", math.log(result["score"]), json.load(open(fixture / "golden.json"))["loss"], 1e-5)
    text = lambda ids: " ".join(f"w{i}" for i in ids)
    scored = [json.loads(subprocess.run([MAKAR, "score", "-m", "t5", "-p", text(s), "--completion", text(t), "--json"], capture_output=True,
                                        text=True).stdout) for s, t in zip(sources, targets)]
    near("makar score", sum(one["logprob"] for one in scored), result["logprob"])
    expect("all labels", [one["tokens"] for one in scored] == [len(t) for t in targets], scored)
    pathlib.Path("t5.yaml").write_text(json.dumps({
        "task": "t5", "output_type": "loglikelihood", "doc_to_text": "s", "doc_to_target": "t", "metric_list": [{"metric": "perplexity"}],
        "dataset_kwargs": {"documents": [{"s": text(s), "t": text(t)} for s, t in zip(sources, targets)]}, "metadata": {"version": 1}}))
    done = subprocess.run([MAKAR, "eval", "-m", "t5", "--tasks", "t5.yaml", "--json"], capture_output=True, text=True)
    expect("makar eval", done.returncode == 0, done.stderr)
    near("makar eval of an encoder-decoder", math.log(json.loads(done.stdout)["results"]["t5"]["perplexity,none"]), -result["logprob"] / len(targets))
    done = subprocess.run([MAKAR, "detect", "-m", "t5", "--text", "target.txt"], capture_output=True, text=True)
    expect("makar detect", done.returncode == 1 and "decoder-only" in done.stderr, done.stderr)
    code, _, err = run("perplexity", "-m", "t5", "--text", "target.txt")
    expect("no source", code == 2 and "--source" in err, err)
    write("one.txt", ["w3"])
    code, _, err = run("perplexity", "-m", "t5", "--source", "one.txt", "--text", "target.txt")
    expect("sources of another length", code == 1 and "one.txt" in err, err)


def check_grammaticality():
    model_of_words("bert-sequence-classification", "classifier")
    texts = [[3, 17, 5, 40], [9, 1, 2], [30]]
    want = []
    for ids in texts:
        logits = forward("classifier", ids, "logits")[0]
        want.append(math.exp(logits[1]) / sum(map(math.exp, logits)))
    write("t.txt", [" ".join(f"w{i}" for i in ids) for ids in texts])
    result = score("grammaticality", "-m", "classifier", "--hyp", "t.txt", "--each")
    near("grammaticality", result["score"], sum(want) / 3, 1e-6)
    near("acceptable", result["acceptable"], sum(p > 0.5 for p in want) / 3)
    expect("signature", result["signature"] == "model:bert|label:LABEL_1", result)
    code, _, err = run("grammaticality", "-m", "classifier", "--hyp", "t.txt", "--label", "good")
    expect("an unknown label", code == 2 and "LABEL_0, LABEL_1, LABEL_2" in err, err)
    code, _, err = run("grammaticality", "-m", "llama", "--hyp", "t.txt")
    expect("no classifier", code == 1 and "makar classify train" in err, err)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    check_usage()
    check_sacrebleu()
    check_systems()
    check_texts()
    check_labels()
    check_ranking()
    check_bad_input()
    check_bert_score()
    check_perplexity()
    check_encoder_decoder_perplexity()
    check_grammaticality()
for failure in failures:
    print("FAILED", failure[:600])
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
