#!/usr/bin/env python3
"""Writes tests/golden/metrics/sacrebleu.json: generated sentences with the scores of sacrebleu 2.6.0, which must be
importable.

usage: make_sacrebleu.py OUTPUT
"""
import json
import random
import sys

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF, TER

WORDS = ("the a cat dog house river small green quickly runs sleeps over under Mr. Dr. U.S. 3.14 1,000 5-6 10% $5 it's "
         "don't cat's &quot;yes&quot; AT&amp;T &lt;b&gt; (maybe) [x] e-mail end. stop! why? semi;colon a/b Über Straße "
         "größer élan naïve Привет мир Ελλάδα 你好 世界 。 、 ，今天 天气 こんにちは カタカナ 한국어 العربية، देवनागरी । "
         "\u00a0nbsp\u00a0 \u2019quoted\u2018 «mot» – — … € ½ x² 😀 <skipped> __ ~ ^").split(" ")


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 2, 3, 5, 8, 13, 21, 40])))


def changed(rng, text):
    """A noisy copy: words dropped, repeated, replaced, and blocks moved."""
    words = text.split(" ")
    for _ in range(rng.randint(0, 4)):
        if not words:
            break
        i = rng.randrange(len(words))
        kind = rng.randrange(4)
        if kind == 0:
            del words[i]
        elif kind == 1:
            words.insert(i, rng.choice(WORDS))
        elif kind == 2:
            words[i] = rng.choice(WORDS)
        else:
            j = rng.randint(i, min(len(words), i + 6))
            block, rest = words[i:j], words[:i] + words[j:]
            at = rng.randint(0, len(rest))
            words = rest[:at] + block + rest[at:]
    return " ".join(words)


def main():
    rng = random.Random(7)
    refs = [[sentence(rng) for _ in range(60)]]
    refs.append([changed(rng, r) for r in refs[0]])
    hyp = [changed(rng, r) if rng.random() < 0.9 else sentence(rng) for r in refs[0]]
    cases = []
    for tok in ("13a", "intl", "char", "zh", "none"):
        cases.append(("bleu", dict(tokenize=tok), 1))
        cases.append(("bleu", dict(tokenize=tok, lowercase=True, effective_order=True), 2))
    for smooth, value in (("none", None), ("floor", None), ("floor", 0.5), ("add-k", None), ("add-k", 2.0), ("exp", None)):
        cases.append(("bleu", dict(smooth_method=smooth, smooth_value=value, effective_order=True), 1))
    cases.append(("bleu", dict(max_ngram_order=2), 2))
    for words in (0, 1, 2):
        cases.append(("chrf", dict(word_order=words), 1))
        cases.append(("chrf", dict(word_order=words, lowercase=True, eps_smoothing=True), 2))
    cases.append(("chrf", dict(char_order=4, beta=1, whitespace=True), 1))
    for norm in (False, True):
        for punct in (False, True):
            for asian in (False, True):
                cases.append(("ter", dict(normalized=norm, no_punct=punct, asian_support=asian), 1 + asian))
    cases.append(("ter", dict(case_sensitive=True), 2))
    out = {"sacrebleu": sacrebleu.__version__, "hyp": hyp, "refs": refs, "scores": []}
    for kind, options, n in cases:
        metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[kind](**options)
        score = metric.corpus_score(hyp, refs[:n])
        sentences = [metric.sentence_score(h, [r[i] for r in refs[:n]]).score for i, h in enumerate(hyp)]
        out["scores"].append({"kind": kind, "options": options, "n_refs": n, "score": score.score,
                              "signature": str(metric.get_signature()), "sentences": [round(s, 9) for s in sentences]})
    with open(sys.argv[1], "w") as f:
        json.dump(out, f, ensure_ascii=False, separators=(",", ":"))
        f.write("\n")


if __name__ == "__main__":
    main()
