#!/usr/bin/env python3
"""makar metrics on hostile pairs (empty, punctuation alone, CJK, emoji, right to left, unusual blanks, long), compared with
sacrebleu, rouge_score and nltk, with all of their options. A missing library is left out; without any library the test is skipped.

usage: hostile.py MAKAR [PAIRS [SEED]]
"""
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

DEBIAN = "/usr/bin/python3"
if not os.environ.get("MAKAR_DIFFERENTIAL") and os.path.exists(DEBIAN):
    os.environ["MAKAR_DIFFERENTIAL"] = "1"
    os.execv(DEBIAN, [DEBIAN, *sys.argv])


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


LIBRARIES = [name for name in ("sacrebleu", "rouge_score", "nltk") if optional(name)]
if not LIBRARIES:
    print("skipped: no sacrebleu, rouge_score or nltk")
    sys.exit(77)
MAKAR, PAIRS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 100
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 7)
compared, failures = 0, 0

PIECES = [
    "the", "The", "cat's", "running", "flies", "don't", "U.S.", "3.14", "1,000", "-5", "$5.00", "a-b", "e.g.", "x", "I", "naïve", "STRASSE", "Straße",
    "ﬁne", "İstanbul", "ǅ", "ß", "é", "e\u0301", "\u0301", "猫", "猫が座る", "中文句子。", "，", "！", "한국어", "ひらがな", "カタカナ", "ー", "𠀀",
    "שלום", "مرحبا", "\u200f", "\u202e", "👩‍👩‍👧", "🇩🇪", "😀", "👍🏽", "\ufe0f", "\u200d", "\ufeff", "\u00ad", "&amp;", "&quot;", "&lt;", "<skipped>", "&amp;lt;",
    "...", "…", "?!", "—", "–", "“q”", "«", "'", "\"", "`", "(", ")", "[", "]", "{", "}", "\\", "/", "|", "~", "^", "_", "@-@", "%", "№", "€", "＄", "％", "a.b.c",
    "1.", ".5", "2-", "-", "--", "=", "+", "*", "#", "٣", "②", "½", "x²", "ⅳ", "a\u0000b", "\u0007",
]
BLANKS = [" ", " ", " ", " ", "", "  ", "\t", "\u00a0", "\u3000", "\u2003", "\u200b", "\n", "\r", "\u2028", "\u0085", "\u001c", "\u000b", "\u1680", "\u180e"]


def hostile():
    kind = rng.random()
    if kind < 0.05:
        return rng.choice(["", " ", "\t", "\n", "\u00a0", "\u3000 ", "\ufeff", "\u200b", "\u0000"])
    if kind < 0.15:
        return "".join(rng.choice(".,!?;:-—…'\"()[]{}<>&%$#@*/\\|~^_`=+ ") for _ in range(rng.randint(1, 12)))
    if kind < 0.2:
        return "".join(chr(rng.choice([rng.randrange(32, 0x3000), rng.randrange(0x3000, 0xd800), rng.randrange(0xe000, 0x20000)])) for _ in range(12))
    length = rng.randint(150, 300) if kind < 0.23 else rng.randint(1, 14)
    words = PIECES[:12] if kind > 0.8 else PIECES
    return "".join(rng.choice(words) + rng.choice(BLANKS) for _ in range(length))


def changed(text):
    kind = rng.random()
    if kind < 0.1:
        return text
    if kind < 0.2:
        return hostile()
    words = text.split(" ")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(words))
        words[at:at + 1] = rng.choice([[], [words[at], words[at]], [hostile()[:20]], [words[at].upper()], [words[at] + "."]])
        words = words or [""]
    if rng.random() < 0.3:
        rng.shuffle(words)
    return " ".join(words)


def near(what, value, expected, tolerance=1e-6):
    global compared, failures
    compared += 1
    if not abs(value - expected) <= tolerance:
        failures += 1
        if failures <= 20:
            print(f"FAILED {what}: {value} instead of {expected}")


def score(*arguments):
    process = subprocess.run([MAKAR, "metrics", *map(str, arguments), "--hyp", "pairs.jsonl:hyp", "--ref", "pairs.jsonl:refs", "--each",
                              "--json", "--resamples", "0"], capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"{arguments}: {process.stderr}")
    return json.loads(process.stdout)


def write(pairs):
    with open("pairs.jsonl", "w", encoding="utf-8") as f:
        f.writelines(json.dumps({"hyp": h, "refs": r}) + "\n" for h, r in pairs)


def check_all(what, flags, pairs, corpus_score, pair_score):
    e = score(*flags)
    if corpus_score:
        near(f"{what} of the corpus", e["score"], corpus_score())
    for (h, r), value in zip(pairs, e["each"]):
        near(f"{what} of {h!r} / {r!r}", value, pair_score(h, r))


def check_sacrebleu(pairs):
    from sacrebleu.metrics import BLEU, CHRF, TER
    hyps, refs = [h for h, _ in pairs], [[r[i] if i < len(r) else None for _, r in pairs] for i in range(3)]
    for tokenize, smooth, lower in itertools.product(("13a", "intl", "char", "zh", "none"), ("none", "floor", "add-k", "exp"), (False, True)):
        metric = BLEU(tokenize=tokenize, smooth_method=smooth, lowercase=lower, effective_order=True)
        check_all(f"BLEU {tokenize} {smooth} {lower}", ["bleu", "--tokenize", tokenize, "--smooth-method", smooth] + ["--lowercase"] * lower, pairs,
                  lambda: metric.corpus_score(hyps, refs).score, lambda h, r: metric.sentence_score(h, r).score)
    for words, lower, blanks, eps in itertools.product((0, 2), (False, True), (False, True), (False, True)):
        metric = CHRF(word_order=words, lowercase=lower, whitespace=blanks, eps_smoothing=eps)
        flags = ["--lowercase"] * lower + ["--whitespace"] * blanks + ["--eps-smoothing"] * eps
        check_all(f"chrF {words} {flags}", ["chrf", "--word-order", words] + flags, pairs, lambda: metric.corpus_score(hyps, refs).score,
                  lambda h, r: metric.sentence_score(h, r).score)
    # sacrebleu's TER takes seconds for a long pair.
    short = [(h, r) for h, r in pairs if max(map(len, [h] + r)) < 200]
    write(short)
    hyps, refs = [h for h, _ in short], [[r[i] if i < len(r) else None for _, r in short] for i in range(3)]
    for normalized, punct, asian, case in itertools.product((False, True), repeat=4):
        metric = TER(normalized=normalized, no_punct=punct, asian_support=asian, case_sensitive=case)
        flags = ["--normalized"] * normalized + ["--no-punct"] * punct + ["--asian-support"] * asian + ["--case-sensitive"] * case
        check_all(f"TER {flags}", ["ter"] + flags, short, lambda: metric.corpus_score(hyps, refs).score, lambda h, r: metric.sentence_score(h, r).score)
    write(pairs)


def check_rouge_score(pairs):
    from rouge_score.rouge_scorer import RougeScorer
    names = ["rouge1", "rouge2", "rouge3", "rougeL", "rougeLsum"]
    for name, stem in itertools.product(names, (False, True)):
        scorer = RougeScorer([name], use_stemmer=stem)
        check_all(f"{name} stem={stem}", [name] + ["--stem"] * stem, pairs, None,
                  lambda h, r: max(scorer.score(one, h)[name].fmeasure for one in r))


def check_nltk(pairs):
    from nltk.translate.meteor_score import meteor_score

    class NoWordNet:
        def synsets(self, word):
            return []
    check_all("METEOR", ["meteor", "--no-synonyms"], pairs, None,
              lambda h, r: meteor_score([one.split() for one in r], h.split(), wordnet=NoWordNet()))


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    texts = [hostile() for _ in range(PAIRS)]
    pairs = [(changed(t), [t] + [changed(t) for _ in range(rng.choice([0, 0, 1, 2]))]) for t in texts]
    write(pairs)
    for name in LIBRARIES:
        globals()[f"check_{name}"](pairs)
print(f"{compared} comparisons with {', '.join(LIBRARIES)}, {failures} failures")
sys.exit(1 if failures else 0)
