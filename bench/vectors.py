#!/usr/bin/env python3
"""Word vectors against fastText: time and quality on the same text with the same settings.

usage: ./dev bench vectors [--data FILE] [--megabytes N] [--threads N] [--epochs N] [--methods NAME,...] [--subwords] [--json]

FILE has words separated by blanks; without it, the text is that of the assets' books in lower case without punctuation. Quality is Spearman's
correlation with the ratings of WordSim-353, MEN, SimLex-999 and the rare words of Stanford, with the number of pairs that are known, and the
share of Google's analogies that are right. Time is CPU time (user and system), because other programs may use the machine too;
wall time is printed next to it.
"""
# builds: makar
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time

from common import assets


def timed(*command):
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.time()
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.time() - begin


def evaluate(a, vectors, *words):
    return json.loads(subprocess.run([a.makar, "vectors", "eval", vectors, *words, "--json"], capture_output=True, text=True, check=True).stdout)[-1]


def main():
    parser = assets.parser(__doc__)
    parser.add_argument("--data")
    parser.add_argument("--megabytes", type=float, default=10)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--methods", default="skipgram,cbow")
    parser.add_argument("--subwords", action="store_true", help="train character n-grams of 3 to 6, which also give vectors of unknown words")
    parser.add_argument("--fasttext", default=shutil.which("fasttext"))
    a = parser.parse_args()
    if not a.fasttext:
        print("fasttext is missing (a Debian package): no peer", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        a.text = a.data or f"{folder}/books.txt"
        if not a.data:
            assets.write_books(a.text, a.megabytes, True)
        assets.unpack("eval/wordsim.tgz", folder)
        a.wordsim = f"{folder}/wordsim"
        max_ngram, buckets = (6, 200000) if a.subwords else (0, 0)
        for method in a.methods.split(","):
            peer_file, makar_file = f"{folder}/fasttext", f"{folder}/makar.vec"
            results, files = {}, {}
            if a.fasttext:
                results["fastText"] = timed(a.fasttext, method, "-input", a.text, "-output", peer_file, "-dim", 100, "-ws", 5, "-neg", 5, "-epoch", a.epochs,
                                            "-minCount", 5, "-minn", 3, "-maxn", max_ngram, "-bucket", buckets, "-t", 0.001, "-lr", 0.05, "-thread", a.threads)
                files["fastText"] = peer_file + (".bin" if a.subwords else ".vec")
            for mode, flags in (("deterministic", []), ("fast", ["--fast"])):
                files[mode] = f"{makar_file}.{mode}"
                if a.subwords:
                    flags = [*flags, "--maxn", max_ngram, "--bucket", buckets, "--format", "fasttext"]
                results[mode] = timed(a.makar, "vectors", "train", a.text, "--method", method, "-o", files[mode], "-t", a.threads, "--epochs", a.epochs, "-q", *flags)
            for mode in results:
                scores = {}
                for name in ("EN-WS-353-ALL", "EN-MEN-TR-3k", "EN-SIMLEX-999", "EN-RW-STANFORD"):
                    similarity = evaluate(a, files[mode], "--similarity", f"{a.wordsim}/{name}.txt")
                    scores[name] = (round(similarity["spearman"], 4), similarity["pairs"])
                analogies = evaluate(a, files[mode], "--analogies", f"{a.wordsim}/questions-words.txt")
                scores["analogies"], scores["analogy_questions"] = round(analogies["accuracy"], 4), analogies["questions"]
                (cpu, wall), peer = results[mode], results.get("fastText", (None,))[0]
                row = {"bench": "vectors", "case": f"{method} {mode}{' subwords' if a.subwords else ''}", "threads": a.threads, "makar_value": round(cpu, 2), "peer": "fastText",
                       "peer_value": peer and round(peer, 2), "unit": "cpu seconds", "ratio": peer and round(peer / cpu, 2), "spread": None,
                       "wall_seconds": round(wall, 1), **scores}
                print(json.dumps(row) if a.json else f"{row['case']:<24} {cpu:7.2f} cpu s {wall:7.1f} s  ratio {row['ratio']}  {scores}", flush=True)


if __name__ == "__main__":
    main()
