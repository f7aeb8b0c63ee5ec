#!/usr/bin/env python3
"""Recurrent networks as a person types them: language model, classifier, encoder-decoder with attention.

usage: recurrent.py MAKAR
"""
import json
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
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=300, input=stdin)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def ok(*arguments, stdin=None):
    code, out, err = run(*arguments, stdin=stdin)
    expect(" ".join(map(str, arguments)), code == 0, err)
    return out


def language_models(folder):
    for kind in ("rnn", "lstm", "gru"):
        run_folder = folder / kind
        common = ["-d", FABLES, "--model-type", kind, "--layers", 2, "--width", 32, "--tokenizer", "char", "--sequence-len", 32,
                  "--learning-rate", "5e-3", "--max-steps", 40, "--json"]
        made = json.loads(ok("pretrain", *common, "-o", run_folder))
        expect(f"{kind} learns", made["loss"] < 3.1, made)
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
        made = json.loads(ok("classify", "train", "--model-type", "gru", *more, "--width", 16, "--vocab-size", 300, "-d", train,
                             "--val-datasets", train, "--learning-rate", "1e-2", "--num-epochs", 8, "-o", model, "--json"))
        expect("a classifier", made["validation"]["accuracy"] == 1, made)
        answer = ok("classify", "run", "-m", model, stdin="a good one\n")
        expect("it answers", "pos" in answer, answer)
    code, _, err = run("classify", "train", "--model-type", "lstn", "-d", train, "-o", folder / "x")
    expect("an unknown type", code == 2 and "lstm" in err, err)


def translators(folder):
    pairs = [tuple(w.split()) for w in ("one eins", "two zwei", "three drei", "four vier")]
    data = folder / "pairs.tsv"
    data.write_text("source\ttarget\n" + "".join(f"{a[0]} {b[0]}\t{a[1]} {b[1]}\n" for a in pairs for b in pairs))
    picture = folder / "a.svg"
    shape = ["--val-set-size", 0, "--objective", "seq2seq", "--model-type", "gru", "--layers", 1, "--vocab-size", 280, "--sequence-len", 16,
             "--micro-batch-size", 16, "--lr-scheduler", "constant", "--learning-rate", "3e-3", "--json"]
    for attention in (["additive"], ["dot", "--local-attention", "monotonic"], ["concat", "--local-attention", "predictive"], ["location"]):
        made = json.loads(ok("pretrain", "-d", data, *shape, "--attention", *attention, "--width", 16, "--max-steps", 30, "-o", folder / attention[0]))
        expect(f"{attention[0]} learns", made["loss"] < 4, made)
    model = folder / "translator"
    made = json.loads(ok("pretrain", "-d", data, *shape, "--width", 64, "--max-steps", 400, "-o", model))
    expect("it learns", made["loss"] < 0.05, made)
    for source, target in (("three one", "drei eins"), ("two four", "zwei vier")):
        for beams in (1, 4):
            out = ok("translate", "-m", model, "--beams", beams, source)
            expect("it translates", out.strip() == target, out)
    ok("translate", "-m", model, "--alignment", picture, "three one")
    expect("a picture", picture.read_text().count("<title>") >= 4)
    code, _, err = run("pretrain", "-d", data, "--objective", "seq2seq", "--model-type", "gru", "--attention", "globl", "-o", folder / "y")
    expect("an unknown attention", code == 1 and "additive" in err, err)


with tempfile.TemporaryDirectory() as name:
    for test in (language_models, classifiers, translators):
        test(pathlib.Path(name))
for failure in failures:
    print("FAIL", failure)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
