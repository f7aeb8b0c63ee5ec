#!/usr/bin/env python3
"""The methods of text classification in historical order: SST-2 and TREC questions, from naive Bayes to a fine-tuned transformer.

usage: ./dev bench history [--only NAME,...] [--sets sst2,trec] [--transformer DIR] [--elmo DIR] [--vectors FILE] [--device cuda] [--threads N] [--json]

All methods are trained on the training parts and measured on the test parts, with one seed. Word vectors (skip-gram, 100 dimensions)
and the language model of ELMo (two layers of width 512) are trained on the assets' books unless --vectors and --elmo are given;
--megabytes sets the amount of text, --elmo-steps the number of steps. The transformer is all-MiniLM-L6-v2 of the assets; without it the row is left out.
"""
# builds: makar
import json
import os
import subprocess
import sys
import tempfile
import time

from common import assets
from common.assets import ASSETS


NAMES = {"most": "most frequent label", "bayes": "naive Bayes", "logistic": "logistic regression", "svm": "linear SVM", "vectors": "mean of word vectors",
         "cnn": "CNN on word vectors", "lstm": "bidirectional LSTM", "elmo": "ELMo, frozen", "elmo-tuned": "ELMo, fine-tuned",
         "transformer": "all-MiniLM-L6-v2, fine-tuned"}
LEXICAL = {"bayes": "naive-bayes", "logistic": "logistic", "svm": "svm", "vectors": "vectors", "cnn": "cnn"}
TRAINED = {"lstm": ["--model-type", "lstm", "--bidirectional", "--width", 128, "--dropout", 0.3, "--vocab-size", 4000, "--learning-rate", 2e-3, "--num-epochs", 4],
           "elmo": ["--freeze-body", "--learning-rate", 1e-2, "--num-epochs", 10],
           "elmo-tuned": ["--learning-rate", 1e-3, "--num-epochs", 4],
           "transformer": ["--learning-rate", 1e-4, "--num-epochs", 3, "--micro-batch-size", 16, "--warmup-ratio", 0.06, "--freeze-layers", 1]}


def prepare(folder):
    for name in ("sst2", "trec_qc"):
        assets.unpack(f"eval/{name}.tgz", folder)
    for part in ("train", "test"):
        rows = [line.rstrip("\n").split(" ", 1) for line in open(f"{folder}/trec_qc/TREC.{part}.all", encoding="utf-8", errors="replace")]
        with open(f"{folder}/trec-{part}.tsv", "w") as out:
            out.writelines(f"{text.lower()}\tq{label}\n" for label, text in rows)
        os.rename(f"{folder}/sst2/{part}.tsv", f"{folder}/sst2-{part}.tsv")


def main():
    parser = assets.parser(__doc__)
    parser.add_argument("--only", default=",".join(NAMES))
    parser.add_argument("--sets", default="sst2,trec")
    parser.add_argument("--transformer")
    parser.add_argument("--elmo")
    parser.add_argument("--vectors")
    parser.add_argument("--megabytes", type=float, default=60)
    parser.add_argument("--elmo-steps", type=int, default=6000)
    parser.add_argument("--device", default="cpu")
    a = parser.parse_args()
    chosen = a.only.split(",")

    def makar(*words):
        done = subprocess.run([a.makar, *map(str, words), "-t", str(a.threads)], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}\n{done.stderr}")
        return done.stdout

    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        if not a.transformer and "transformer" in chosen:
            found = subprocess.run([f"{ASSETS}/get", "all-MiniLM-L6-v2"], capture_output=True, text=True)
            a.transformer = found.stdout.strip().splitlines()[-1] if found.returncode == 0 and found.stdout.strip() else ""
        def prepare_vectors():
            assets.write_books(f"{folder}/words.txt", a.megabytes, True)
            a.vectors = f"{folder}/books.vec"
            makar("vectors", "train", f"{folder}/words.txt", "-o", a.vectors, "--epochs", 3, "-q")

        def prepare_elmo():
            assets.write_books(f"{folder}/text.txt", a.megabytes, False)
            a.elmo = f"{folder}/elmo"
            makar("pretrain", "-d", f"{folder}/text.txt", "--model-type", "elmo", "--layers", 2, "--width", 512, "--dropout", 0.1, "--sequence-len", 64,
                  "--micro-batch-size", 32, "--learning-rate", 2e-3, "--lr-scheduler", "cosine", "--warmup-steps", 100, "--max-steps", a.elmo_steps,
                  "--val-set-size", 0.01, "--device", a.device, "-o", a.elmo)

        def measured(name, data):
            """The accuracy on the test part; None without the model that the row needs."""
            files = ["-d", f"{folder}/{data}-train.tsv", "--val-datasets", f"{folder}/{data}-test.tsv"]
            if name == "most":
                labels = [[line.rstrip("\n").split("\t")[-1] for line in open(f"{folder}/{data}-{p}.tsv")] for p in ("train", "test")]
                best = max(set(labels[0]), key=labels[0].count)
                return labels[1].count(best) / len(labels[1])
            if name in LEXICAL:
                if name in ("vectors", "cnn"):
                    if not a.vectors:
                        prepare_vectors()
                    files += ["--vectors", a.vectors]
                return json.loads(makar("classify", "train", "--method", LEXICAL[name], *files, "-o", f"{folder}/out-{name}-{data}", "--json"))["accuracy"]
            if name.startswith("elmo") and not a.elmo:
                prepare_elmo()
            base = {"transformer": a.transformer, "elmo": a.elmo, "elmo-tuned": a.elmo}.get(name)
            if base == "":
                return None
            out = json.loads(makar("classify", "train", *(["-m", base] if base else []), *TRAINED[name], *files, "--device", a.device,
                                   "-o", f"{folder}/out-{name}-{data}", "--json"))
            return out["validation"]["accuracy"]

        table = {}
        for name in chosen:
            for data in a.sets.split(","):
                begin = time.time()
                try:
                    accuracy = measured(name, data)
                except RuntimeError as error:
                    # The other rows are still worth printing.
                    print(error, file=sys.stderr, flush=True)
                    accuracy = None
                if accuracy is None:
                    continue
                table[name, data] = accuracy
                row = {"bench": "history", "case": f"{data} {NAMES[name]}", "threads": a.threads, "accuracy": round(accuracy, 4), "seconds": round(time.time() - begin, 1)}
                print(json.dumps(row) if a.json else f"{row['case']:<45} {accuracy:.4f} {row['seconds']:8.1f} s", flush=True)
        if not a.json:
            print("\n| |", " | ".join(a.sets.split(",")), "|")
            for name in chosen:
                print(f"| {NAMES[name]} |", " | ".join(f"{table[name, d]:.4f}" if (name, d) in table else "" for d in a.sets.split(",")), "|")


if __name__ == "__main__":
    main()
