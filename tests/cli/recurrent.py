#!/usr/bin/env python3
"""Recurrent networks on the command line: language model, classifier, encoder-decoder with attention, ELMo.

usage: recurrent.py MAKAR
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

MAKAR = os.path.abspath(sys.argv[1])
FABLES = str(pathlib.Path(__file__).resolve().parents[2] / "recipes/data/fables.txt")
failures = []


def run(*arguments, stdin=None):
    # One thread unless a test says otherwise: these networks are small.
    if "-t" not in arguments and arguments[0] != "tokenizer":
        arguments = (*arguments, "-t", 1)
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=900, input=stdin)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def ok(*arguments, stdin=None):
    code, out, err = run(*arguments, stdin=stdin)
    expect(" ".join(map(str, arguments)), code == 0, err)
    return out


def language_models(folder):
    # A model that knows only how frequent each character is has this loss.
    text = pathlib.Path(FABLES).read_text()
    entropy = -sum(n / len(text) * math.log(n / len(text)) for n in map(text.count, set(text)))
    for kind in ("rnn", "lstm", "gru"):
        run_folder = folder / kind
        common = ["-d", FABLES, "--model-type", kind, "--layers", 2, "--width", 32, "--tokenizer", "char", "--sequence-len", 32,
                  "--learning-rate", "1e-2", "--max-steps", 60, "--json"]
        result = json.loads(ok("pretrain", *common, "-o", run_folder))
        expect(f"{kind} learns", result["loss"] < entropy - 0.05, (result, entropy))
        again = folder / (kind + "-threads")
        ok("pretrain", *common, "-o", again, "-t", 3)
        expect(f"{kind}: threads change no byte",
               (run_folder / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes())
        text = ok("generate", "-m", run_folder, "-n", 20, "--seed", 1, "--temp", 1, "The ")
        expect(f"{kind} generates", text == ok("generate", "-m", run_folder, "-n", 20, "--seed", 1, "--temp", 1, "The ") and len(text) > 3, text)
    stopped = folder / "stopped"
    part = [*common[:-3], "--save-steps", 10, "--save-total-limit", 10, "--json"]
    ok("pretrain", *part, "--max-steps", 40, "-o", stopped)
    whole = (stopped / "model.safetensors").read_bytes()
    for name in ("run.json", "model.safetensors"):
        (stopped / name).unlink()
    for checkpoint in ("checkpoint-40", "checkpoint-30"):
        subprocess.run(["rm", "-r", stopped / checkpoint], check=True)
    out = ok("pretrain", *part, "--max-steps", 40, "-o", stopped)
    expect("a resumed run has the same bytes", whole == (stopped / "model.safetensors").read_bytes(), out)


def classifiers(folder):
    train = folder / "train.tsv"
    train.write_text("text\tlabel\n" + "".join(f"a {w} film number {i}\t{l}\n" for i in range(40) for w, l in (("good", "pos"), ("bad", "neg"))))
    for more in ([], ["--bidirectional", "--layers", 2]):
        model = folder / f"c{len(more)}"
        result = json.loads(ok("classify", "train", "--model-type", "gru", *more, "--width", 16, "--vocab-size", 300, "-d", train,
                             "--val-datasets", train, "--learning-rate", "1e-2", "--num-epochs", 8, "-o", model, "--json"))
        expect("a classifier", result["validation"]["accuracy"] == 1, result)
        answer = ok("classify", "run", "-m", model, stdin="a good one\n")
        expect("it answers", "pos" in answer, answer)
    code, _, err = run("classify", "train", "--model-type", "lstn", "-d", train, "-o", folder / "x")
    expect("an unknown type", code == 2 and "lstm" in err, err)


def translators(folder):
    pairs = [tuple(w.split()) for w in ("one eins", "two zwei", "three drei", "four vier")]
    data = folder / "pairs.tsv"
    data.write_text("source\ttarget\n" + "".join(f"{a[0]} {b[0]}\t{a[1]} {b[1]}\n" for a in pairs for b in pairs))
    picture = folder / "a.svg"
    shape = ["--val-set-size", 0, "--objective", "seq2seq", "--model-type", "gru", "--layers", 1, "--vocab-size", 300, "--sequence-len", 16,
             "--micro-batch-size", 16, "--lr-scheduler", "constant", "--learning-rate", "1e-2", "--json"]
    sources = "".join(f"{a[0]} {b[0]}\n" for a in pairs for b in pairs)
    targets = "".join(f"{a[1]} {b[1]}\n" for a in pairs for b in pairs)
    for attention in (["general"], ["dot"], ["concat"], ["location"], ["additive"], ["dot", "--local-attention", "monotonic"],
                      ["concat", "--local-attention", "predictive"]):
        model = folder / "-".join(a.strip("-") for a in attention)
        result = json.loads(ok("pretrain", "-d", data, *shape, "--attention", *attention, "--width", 64, "--max-steps", 200, "-o", model))
        expect(f"{attention} learns", result["loss"] < 0.05, result)
        for beams in (1, 4):
            out = ok("translate", "-m", model, "--lines", "--beams", beams, stdin=sources)
            expect(f"{attention} translates", out == targets, out)
    model = folder / "general"
    ok("translate", "-m", model, "--alignment", picture, "three one")
    expect("a picture", picture.read_text().count("<title>") >= 4)
    code, _, err = run("pretrain", "-d", data, "--objective", "seq2seq", "--model-type", "gru", "--attention", "globl", "-o", folder / "y")
    expect("an unknown attention", code == 1 and "additive" in err, err)


def elmo(folder):
    """The forward and the backward language model, embeddings from their layers, and a classifier that learns how to mix the layers."""
    model = folder / "elmo"
    common = ["-d", FABLES, "--model-type", "elmo", "--layers", 2, "--width", 64, "--vocab-size", 400, "--sequence-len", 32, "--learning-rate", "1e-2",
              "--max-steps", 40, "--json"]
    result = json.loads(ok("pretrain", *common, "-o", model))
    expect("elmo learns", result["loss"] < 5, result)
    again = folder / "elmo-threads"
    ok("pretrain", *common, "-o", again, "-t", 3)
    expect("elmo: threads change no byte", (model / "model.safetensors").read_bytes() == (again / "model.safetensors").read_bytes())
    vectors = [json.loads(line)["embedding"] for line in ok("embed", "-m", model, "--json", "the fox saw a crow", "a crow saw the fox").splitlines()]
    expect("elmo embeds", len(vectors) == 2 and len(vectors[0]) == 64 and vectors[0] != vectors[1], [len(v) for v in vectors])
    train = folder / "elmo.tsv"
    train.write_text("text\tlabel\n" + "".join(f"a {w} film number {i}\t{l}\n" for i in range(40) for w, l in (("good", "pos"), ("bad", "neg"))))
    head = folder / "elmo-head"
    result = json.loads(ok("classify", "train", "-m", model, "--freeze-body", "-d", train, "--val-datasets", train, "--learning-rate", "3e-2",
                         "--num-epochs", 12, "-o", head, "--json"))
    expect("a classifier on frozen ELMo", result["validation"]["accuracy"] == 1, result)
    expect("it answers", "pos" in ok("classify", "run", "-m", head, stdin="a good one\n"))
    code, _, err = run("generate", "-m", model, "The ")
    expect("elmo does not generate", code == 1 and "internal" not in err, err)


with tempfile.TemporaryDirectory() as name:
    for test in (language_models, classifiers, translators, elmo):
        test(pathlib.Path(name))
for failure in failures:
    print("FAIL", failure)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
