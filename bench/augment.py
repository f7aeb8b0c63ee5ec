#!/usr/bin/env python3
"""Augmentation of a small training set: accuracy on SST-2's test part without and with changed copies, by kind.

usage: ./dev bench augment [--sentences N] [--draws N] [--copies N] [--method NAME] [--only KIND,...] [--vectors FILE] [--masked-model DIR] [--json]

Each draw takes N random sentences of the training part (its own seed), trains a classifier of `makar classify train --method` on them without and
with copies of each kind, and measures it on the 1,821 test sentences. Printed are the mean over the draws, and the mean gain with its standard
error; the same draws are used for every kind. Kinds that need a resource which is not given are left out: --vectors (neighbors), --masked-model
(contextual), --translator and --back-translator, --paraphraser.
"""
# builds: makar
import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tarfile
import tempfile


HERE = os.path.dirname(os.path.abspath(__file__))
ASSETS = os.environ.get("MAKAR_ASSETS", os.path.join(HERE, "../../shared/assets"))
KINDS = {"synonyms": ["synonyms:0.1"], "insertion": ["insertion:0.1"], "deletion": ["deletion:0.1"], "swap": ["swap:0.1"], "shuffle": ["shuffle"],
         "noise": ["noise:0.03"], "entities": ["entities"], "split-merge": ["split-merge"], "adversarial": ["adversarial:0.2"],
         "neighbors": ["neighbors:0.1"], "contextual": ["contextual:0.1"], "back-translation": ["back-translation"], "paraphrase": ["paraphrase"],
         "synonyms, insertion, swap or deletion": ["synonyms:0.1", "insertion:0.1", "swap:0.1", "deletion:0.1"]}
NEEDS = {"neighbors": "vectors", "contextual": "masked_model", "back-translation": "translator", "paraphrase": "paraphraser"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--makar", default=os.path.join(HERE, "../build/makar"))
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--method", default="naive-bayes")
    parser.add_argument("--only", default=";".join(KINDS), help="kinds, separated by semicolons")
    for name in ("vectors", "masked-model", "translator", "back-translator", "paraphraser"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()

    def makar(*words):
        done = subprocess.run([a.makar, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(f"{ASSETS}/eval/sst2.tgz") as tar:
            tar.extractall(folder)
        train = [line for line in open(f"{folder}/sst2/train.tsv", encoding="utf-8") if line.strip()]
        test = f"{folder}/sst2/test.tsv"

        def accuracy(data):
            return json.loads(makar("classify", "train", "--method", a.method, "-d", data, "--val-datasets", test, "-o", f"{folder}/model.json", "--json"))["accuracy"]

        parts, plain = [], []
        for draw in range(a.draws):
            parts.append(f"{folder}/part{draw}.tsv")
            with open(parts[-1], "w", encoding="utf-8") as out:
                out.writelines(random.Random(draw).sample(train, a.sentences))
            plain.append(accuracy(parts[-1]))
        print(f"{'without':<40} {statistics.mean(plain):.4f}" if not a.json else
              json.dumps({"bench": "augment", "case": "without", "accuracy": statistics.mean(plain)}), flush=True)
        for kind in a.only.split(";"):
            if kind in NEEDS and not getattr(a, NEEDS[kind]):
                continue
            with_copies = []
            for draw, part in enumerate(parts):
                flags = [flag for step in KINDS[kind] for flag in ("-a", step)]
                for name in ("vectors", "masked_model", "translator", "back_translator", "paraphraser"):
                    if getattr(a, name):
                        flags += ["--" + name.replace("_", "-"), getattr(a, name)]
                if kind == "adversarial":
                    accuracy(part)
                    flags += ["--classifier", f"{folder}/model.json"]
                more = f"{folder}/more.jsonl"
                makar("data", "augment", part, *flags, *(["--choose"] if len(KINDS[kind]) > 1 else []), "--copies", a.copies, "--seed", draw + 1, "-q",
                      "-t", a.threads, "-o", more)
                with_copies.append(accuracy(more))
            gains = [new - old for new, old in zip(with_copies, plain)]
            error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else 0.0
            row = {"bench": "augment", "case": kind, "sentences": a.sentences, "method": a.method, "accuracy": round(statistics.mean(with_copies), 4),
                   "gain": round(statistics.mean(gains), 4), "standard_error": round(error, 4)}
            print(json.dumps(row) if a.json else f"{kind:<40} {row['accuracy']:.4f}  {row['gain']:+.4f} +- {row['standard_error']:.4f}", flush=True)


if __name__ == "__main__":
    main()
