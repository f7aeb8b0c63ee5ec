#!/usr/bin/env python3
"""Curation of a corpus with planted duplicates and personal data: precision, recall, MB/s and peak memory.

usage: ./dev bench curate [--megabytes N] [--threads N] [--folder DIR] [--json]

Documents are 4 to 31 random sentences of the assets' books, each with a unique number. Planted among them: exact copies, near copies
(some words replaced by others) and decoys (up to half of the words replaced). The similarity of each planted pair is computed from its
sets of 5-word shingles; a pair at or above 0.8 must be found, one below 0.7 must not. A text that is dropped without a planted original is a false positive
too. One document in 50 has a planted e-mail address, phone, card, account or social security number or IP address.
"""
# builds: makar
import json
import random
import re
import resource
import subprocess
import tempfile
import time

from common import assets


NEAR, FAR = 0.8, 0.7


def sentences():
    out = []
    for text in assets.book_texts():
        out += [s for s in re.split(r"(?<=[.!?]) ", " ".join(text.split())) if 4 <= s.count(" ") <= 60]
    return out


def shingles(text):
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[i:i + 5]) for i in range(max(1, len(words) - 4))}


def jaccard(a, b):
    a, b = shingles(a), shingles(b)
    return len(a & b) / len(a | b)


def card(draw):
    digits = [4] + [draw.randrange(10) for _ in range(14)]
    total = sum(d if i % 2 else (2 * d - 9 if d > 4 else 2 * d) for i, d in enumerate(digits))
    number = "".join(map(str, digits + [-total % 10]))
    return " ".join(number[i:i + 4] for i in range(0, 16, 4))


def iban(draw):
    body = "".join(str(draw.randrange(10)) for _ in range(18))
    return f"DE{98 - int(body + '131400') % 97:02d}{body}"


PERSONAL = {
    "email": lambda d: f"{d.choice(['anna', 'john.smith', 'k_lee', 'maria-3'])}{d.randrange(1000)}@{d.choice(['example.com', 'mail.uni.de', 'a-b.org'])}",
    "phone": lambda d: d.choice(["+1 415 555 {:04d}", "(212) 555-{:04d}", "+44 20 7946 {:04d}", "212-555-{:04d}", "+49 30 1234{:04d}"]).format(d.randrange(10000)),
    "card": card,
    "iban": iban,
    "ssn": lambda d: f"{d.randrange(100, 600)}-{d.randrange(10, 99)}-{d.randrange(1000, 9999)}",
    "ip": lambda d: ".".join(str(d.randrange(1, 255)) for _ in range(4)),
}


def replace_words(draw, words, rate, pool):
    out = list(words)
    for i in range(1, len(out)):
        if draw.random() < rate:
            out[i] = draw.choice(pool)
    return out


def generate(path, megabytes, seed):
    """Writes the corpus; returns the planted pairs by kind as (number, similarity), and the planted personal data."""
    draw, source = random.Random(seed), sentences()
    pool = sorted({w for s in source[:20000] for w in s.split() if w.isalpha() and len(w) > 3})
    pairs, personal, recent, number, size = {"exact": [], "near": [], "decoy": []}, [], [], 0, 0
    with open(path, "w") as out:
        while size < megabytes * 1e6:
            number += 1
            kind = draw.random()
            if recent and kind < 0.06:
                original = draw.choice(recent)
                if kind < 0.02:
                    text = original
                    pairs["exact"].append((number, 1.0))
                else:
                    words = original.split()
                    words[0] = f"n{number}"
                    name, rate = ("near", draw.uniform(0.005, 0.03)) if kind < 0.04 else ("decoy", draw.uniform(0.08, 0.5))
                    text = " ".join(replace_words(draw, words, rate, pool))
                    pairs[name].append((number, jaccard(original, text)))
            else:
                parts = [f"n{number}", *draw.choices(source, k=draw.randrange(4, 32))]
                if draw.random() < 0.02:
                    name = draw.choice(list(PERSONAL))
                    item = PERSONAL[name](draw)
                    parts.insert(draw.randrange(1, len(parts) + 1), f"Write to {item} today.")
                    personal.append((name, item))
                elif draw.random() < 0.05:
                    recent.append(" ".join(parts))
                    recent = recent[-5000:]
                text = " ".join(parts)
            line = json.dumps({"text": text, "id": number}) + "\n"
            size += len(line)
            out.write(line)
    return pairs, personal, number, size


def run_measured(command):
    """Output, seconds, processor seconds, and the peaks of resident memory in MB: all of it, and without mapped files."""
    begin, before = time.time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    child, peak = subprocess.Popen(command, stdout=subprocess.PIPE, text=True), {"VmHWM": 0, "RssAnon": 0}
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status") as status:
                for line in status:
                    name, _, value = line.partition(":")
                    if name in peak:
                        peak[name] = max(peak[name], int(value.split()[0]) // 1024)
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    output, after = child.stdout.read(), resource.getrusage(resource.RUSAGE_CHILDREN)
    if child.returncode != 0:
        raise SystemExit(f"{command} ended with {child.returncode}")
    return output, time.time() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


def main():
    parser = assets.parser(__doc__)
    parser.add_argument("--megabytes", type=float, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="where to put the corpus and the output; a temporary folder if not set")
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = a.folder or temporary
        pairs, personal, documents, size = generate(f"{folder}/corpus.jsonl", a.megabytes, a.seed)
        command = [a.makar, "data", "curate", f"{folder}/corpus.jsonl", "--pii", "--exact", "--near", str(NEAR), "-t", str(a.threads), "-o",
                   f"{folder}/clean.jsonl", "--json"]
        output, wall, cpu, peak = run_measured([*command, "--gopher"])
        rules = sum(v["documents"] for k, v in json.loads(output)["drops"].items() if k.startswith("gopher"))
        # Again without the quality rules, so that every planted pair is compared.
        report, kept, leaked = json.loads(run_measured(command)[0]), set(), 0
        planted = {item for _, item in personal}
        missed = {name: 0 for name in PERSONAL}
        pattern = re.compile(r"Write to (.*?) today\.")
        with open(f"{folder}/clean.jsonl") as lines:
            for line in lines:
                text = json.loads(line)["text"]
                kept.add(int(text.split(" ", 1)[0][1:]))
                for found in pattern.findall(text):
                    leaked += found in planted
        kinds = {item: name for name, item in personal}
        if leaked:
            with open(f"{folder}/clean.jsonl") as lines:
                for line in lines:
                    for found in pattern.findall(json.loads(line)["text"]):
                        if found in planted:
                            missed[kinds[found]] += 1
        # An exact copy has the number of its original: one of the two is kept.
        copies = report["drops"].get("exact-duplicate", {}).get("documents", 0)
        near = [(n, s) for name in ("near", "decoy") for n, s in pairs[name]]
        expected = [n for n, s in near if s >= NEAR]
        found = sum(n not in kept for n in expected)
        wrong = sum(n not in kept for n, s in near if s < FAR)
        dropped = report["drops"].get("near-duplicate", {}).get("documents", 0)
        unplanted = dropped - sum(n not in kept for n, s in near)
        row = {"bench": "curate", "case": f"{size / 1e6:.0f} MB", "threads": a.threads, "documents": documents,
               "MB_per_second": round(size / 1e6 / wall, 1), "MB_per_cpu_second": round(size / 1e6 / cpu, 1), "cpu_seconds": round(cpu, 1), "peak_MB": peak["VmHWM"], "peak_heap_MB": peak["RssAnon"],
               "exact_planted": len(pairs["exact"]), "exact_dropped": copies,
               "near_planted": len(expected), "near_recall": round(found / max(1, len(expected)), 4),
               "near_dropped": dropped, "near_precision": round(1 - (wrong + unplanted) / max(1, dropped), 4), "dropped_below_0.7": wrong,
               "gopher_dropped": rules,
               "pii_planted": len(personal), "pii_recall": round(1 - leaked / max(1, len(personal)), 4), "pii_missed": missed, "pii_replaced": report["pii"]}
        print(json.dumps(row) if a.json else "\n".join(f"{k:<20} {v}" for k, v in row.items()))


if __name__ == "__main__":
    main()
