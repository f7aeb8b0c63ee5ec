#!/usr/bin/env python3
"""Augmentation of a small training set: accuracy on SST-2's test sentences without and with changed copies, by kind.

usage: ./dev bench augment [--sentences N] [--draws N] [--copies N] [--methods NAME,...] [--only KIND;...] [--vectors FILE] [--masked-model DIR] [--json]

Each draw takes N random sentences of the training part (its own seed), trains classifiers of `makar classify train --method` on them without and
with copies of each kind, and measures them on the 1,821 test sentences. Printed are the mean over the draws, and the mean gain with its standard
error; the same draws are used for every kind. Kinds that need a resource which is not given are left out: --vectors (neighbors), --masked-model
(contextual), --translator and --back-translator, --paraphraser.
"""
# builds: makar
import json
import random
import statistics
import subprocess
import sys
import tempfile

from common import assets


KINDS = {"synonyms": ["synonyms:0.1"], "insertion": ["insertion:0.1"], "deletion": ["deletion:0.1"], "swap": ["swap:0.1"], "shuffle": ["shuffle"],
         "noise": ["noise:0.03"], "entities": ["entities"], "split-merge": ["split-merge"], "adversarial": ["adversarial:0.2"],
         "neighbors": ["neighbors:0.1"], "contextual": ["contextual:0.1"], "back-translation": ["back-translation"], "paraphrase": ["paraphrase"],
         "synonyms, insertion, swap or deletion": ["synonyms:0.1", "insertion:0.1", "swap:0.1", "deletion:0.1"]}
NEEDS = {"neighbors": ["vectors"], "contextual": ["masked-model"], "back-translation": ["translator", "back-translator"], "paraphrase": ["paraphraser"]}


def main():
    parser = assets.parser(__doc__)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--methods", default="naive-bayes,svm")
    parser.add_argument("--only", default=";".join(KINDS), help="kinds, separated by semicolons")
    parser.add_argument("--prompt", help="prompt of the paraphraser")
    for names in NEEDS.values():
        for name in names:
            parser.add_argument(f"--{name}")
    a = parser.parse_args()

    def given(name):
        return getattr(a, name.replace("-", "_"))

    methods = a.methods.split(",")

    def makar(*words):
        done = subprocess.run([a.makar, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        assets.unpack("eval/sst2.tgz", folder)
        train = [line for line in open(f"{folder}/sst2/train.tsv", encoding="utf-8") if line.strip()]
        parts = [f"{folder}/part{draw}.tsv" for draw in range(a.draws)]
        for draw, part in enumerate(parts):
            with open(part, "w", encoding="utf-8") as out:
                out.writelines(random.Random(draw).sample(train, a.sentences))

        def accuracy(method, data):
            out = makar("classify", "train", "--method", method, "-d", data, "--val-datasets", f"{folder}/sst2/test.tsv", "-o", f"{folder}/{method}.json", "--json")
            return json.loads(out)["accuracy"]

        def augmented(kind, draw, classifier):
            """A file of the draw's sentences and their copies."""
            flags = [flag for step in KINDS[kind] for flag in ("-a", step)] + (["--choose"] if len(KINDS[kind]) > 1 else [])
            for name in NEEDS.get(kind, []):
                flags += ["--" + name, given(name)]
            if kind == "paraphrase" and a.prompt:
                flags += ["--prompt", a.prompt]
            if kind == "adversarial":
                accuracy(classifier, parts[draw])
                flags += ["--classifier", f"{folder}/{classifier}.json"]
            makar("data", "augment", parts[draw], *flags, "--copies", a.copies, "--seed", draw + 1, "-q", "-t", a.threads, "-o", f"{folder}/more.jsonl")
            return f"{folder}/more.jsonl"

        plain = {m: [accuracy(m, part) for part in parts] for m in methods}
        for m in methods:
            row = {"bench": "augment", "case": "without", "method": m, "accuracy": round(statistics.mean(plain[m]), 4)}
            print(json.dumps(row) if a.json else f"{'without':<40} {m:<12} {row['accuracy']:.4f}", flush=True)
        for kind in a.only.split(";"):
            if not all(given(name) for name in NEEDS.get(kind, [])):
                continue
            gains = {m: [] for m in methods}
            for draw in range(a.draws):
                more = None
                for m in methods:
                    if more is None or kind == "adversarial":  # its copies depend on the classifier
                        more = augmented(kind, draw, m)
                    gains[m].append(accuracy(m, more) - plain[m][draw])
            for m in methods:
                gain = statistics.mean(gains[m])
                error = statistics.stdev(gains[m]) / a.draws ** 0.5 if a.draws > 1 else 0.0
                row = {"bench": "augment", "case": kind, "sentences": a.sentences, "copies": a.copies, "draws": a.draws, "method": m,
                       "accuracy": round(statistics.mean(plain[m]) + gain, 4), "gain": round(gain, 4), "standard_error": round(error, 4)}
                print(json.dumps(row) if a.json else f"{kind:<40} {m:<12} {row['accuracy']:.4f}  {gain:+.4f} +- {error:.4f}", flush=True)


if __name__ == "__main__":
    main()
