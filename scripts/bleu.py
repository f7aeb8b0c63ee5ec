#!/usr/bin/env python3
"""Corpus BLEU of lines against one reference (Papineni et al., 2002), tokenised as mteval-v13a does, zero counts smoothed
exponentially: what sacrebleu prints by default.

    scripts/bleu.py HYPOTHESES REFERENCES     either may be .gz
"""
import collections
import gzip
import math
import re
import sys

RULES = [
    (re.compile(r'([{-~\[-` -&(-+:-@/])'), r' \1 '),
    (re.compile(r'([^0-9])([.,])'), r'\1 \2 '),
    (re.compile(r'([.,])([^0-9])'), r' \1 \2'),
    (re.compile(r'([0-9])(-)'), r'\1 \2 '),
]


def tokens(line):
    for entity, char in (('&quot;', '"'), ('&amp;', '&'), ('&lt;', '<'), ('&gt;', '>')):
        line = line.replace(entity, char)
    line = f' {line} '
    for pattern, put in RULES:
        line = pattern.sub(put, line)
    return line.split()


def grams(words, n):
    return collections.Counter(tuple(words[i:i + n]) for i in range(len(words) - n + 1))


def bleu(hypotheses, references):
    right, total, length, wanted = [0] * 4, [0] * 4, 0, 0
    for h, r in zip(hypotheses, references):
        h, r = tokens(h), tokens(r)
        length, wanted = length + len(h), wanted + len(r)
        for n in range(4):
            ours = grams(h, n + 1)
            right[n] += sum((ours & grams(r, n + 1)).values())
            total[n] += sum(ours.values())
    if not all(total):
        return 0.0, [0.0] * 4, 0.0
    smooth, precisions = 1.0, []
    for n in range(4):
        if right[n] == 0:
            smooth *= 2
        precisions.append(100 * (right[n] or 1 / smooth) / total[n])
    brevity = min(1.0, math.exp(1 - wanted / length))
    return brevity * math.exp(sum(map(math.log, precisions)) / 4), precisions, brevity


def lines(path):
    with (gzip.open if path.endswith('.gz') else open)(path, 'rt', encoding='utf-8', newline='\n') as f:
        return f.read().splitlines()


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    hypotheses, references = lines(sys.argv[1]), lines(sys.argv[2])
    if len(hypotheses) != len(references):
        sys.exit(f'{sys.argv[1]} has {len(hypotheses)} lines, {sys.argv[2]} {len(references)}')
    score, precisions, brevity = bleu(hypotheses, references)
    print(f'BLEU {score:.2f} ({"/".join(f"{p:.1f}" for p in precisions)}, brevity {brevity:.3f}) '
          f'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp')


if __name__ == '__main__':
    main()
