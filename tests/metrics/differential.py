#!/usr/bin/env python3
"""makar metrics compared with nltk, scikit-learn and sacrebleu on generated data (Debian: python3-nltk, python3-sklearn).
Comparisons with a missing library are left out; without any library the test is skipped.

usage: differential.py MAKAR [ITEMS [SEED]]
"""
import json
import math
import os
import random
import subprocess
import sys
import tempfile


def restart_in_debian_python():
    """Debian's packages are installed for /usr/bin/python3, which need not be the first Python in PATH."""
    debian = "/usr/bin/python3"
    if os.path.realpath(sys.executable) != os.path.realpath(debian) and os.path.exists(debian):
        os.execv(debian, [debian, *sys.argv])


def optional(name):
    try:
        return __import__(name)
    except ImportError:
        return None


nltk, sklearn, sacrebleu = optional("nltk"), optional("sklearn"), optional("sacrebleu")
if not (nltk or sklearn or sacrebleu):
    if not os.environ.get("MAKAR_DIFFERENTIAL"):
        os.environ["MAKAR_DIFFERENTIAL"] = "1"
        restart_in_debian_python()
    print("skipped: no nltk, scikit-learn or sacrebleu")
    sys.exit(77)

MAKAR, ITEMS = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
rng = random.Random(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
failures = 0
compared = []


def score(*arguments):
    process = subprocess.run([MAKAR, "metrics", *map(str, arguments), "--json", "--resamples", "0"], capture_output=True, text=True)
    if process.returncode != 0:
        sys.exit(f"{arguments}: {process.stderr}")
    return json.loads(process.stdout)


def near(what, value, expected, tolerance=1e-6):
    global failures
    compared.append(what)
    if not (abs(value - expected) <= tolerance or (math.isnan(value) and math.isnan(expected))):
        failures += 1
        print(f"FAILED {what}: {value} instead of {expected}")


def write(name, lines):
    with open(name, "w", encoding="utf-8") as f:
        f.writelines(f"{line}\n" for line in lines)
    return name


def vocabulary():
    """Words of WordNet with their inflections, so that stems and synonyms match."""
    words = ["the", "a", "is", "of", "to", "and", "in", "it", "was"]
    try:
        with open("/usr/share/wordnet/index.noun") as f:
            nouns = [line.split()[0] for line in f if not line.startswith(" ")]
        with open("/usr/share/wordnet/index.verb") as f:
            verbs = [line.split()[0] for line in f if not line.startswith(" ")]
    except OSError:
        return words + ["cat", "cats", "running", "runs", "happy", "happily", "flies", "relational"]
    nouns, verbs = ([w for w in rng.sample(group, 4000) if "_" not in w] for group in (nouns, verbs))
    out = words * 20
    for w in nouns:
        out += [w, w + "s", w + "es", w + "ly", w + "ness"]
    for w in verbs:
        out += [w, w + "s", w + "ed", w + "ing", w + "ational"]
    return out + ["Dying", "skies", "news", "Ran", "better", "geese", "Straße", "naïve", "men's", "3.5", "yyy", "ied"]


def sentence_pairs(words, synonyms):
    for _ in range(ITEMS):
        ref = [rng.choice(words) for _ in range(rng.randint(0, 25))]
        hyp = []
        for word in ref:
            kind = rng.random()
            if kind < 0.5:
                hyp.append(word)
            elif kind < 0.7:
                hyp.append(synonyms(word))
            elif kind < 0.8:
                hyp.append(word + rng.choice(["s", "ed", "ing", ""]))
            elif kind < 0.9:
                hyp.append(rng.choice(words))
        if rng.random() < 0.3:
            rng.shuffle(hyp)
        yield " ".join(hyp), " ".join(ref)


def check_nltk():
    from nltk.corpus.reader.wordnet import WordNetCorpusReader
    from nltk.stem.porter import PorterStemmer
    from nltk.translate.meteor_score import meteor_score

    class Debian(WordNetCorpusReader):
        """Debian's WordNet has no list of lexicographers' files; METEOR does not need their names."""

        def __init__(self):
            from nltk.corpus.reader.api import CorpusReader
            CorpusReader.__init__(self, "/usr/share/wordnet", [])
            from collections import defaultdict
            self._lemma_pos_offset_map, self._synset_offset_cache = defaultdict(dict), defaultdict(dict)
            self._lexnames, self._key_count_file, self._key_synset_file = [""] * 64, None, None
            self._data_file_map, self._exception_map = {}, {}
            self._load_lemma_pos_offset_map()
            self._load_exception_map()

        def open(self, name):
            return open(f"/usr/share/wordnet/{name}", encoding="utf-8")

        def _data_file(self, pos):
            if pos == "s":
                pos = "a"
            if pos not in self._data_file_map:
                self._data_file_map[pos] = self.open("data." + self._FILEMAP[pos])
            return self._data_file_map[pos]

    wordnet = Debian() if os.path.exists("/usr/share/wordnet/index.noun") else None

    def synonym(word):
        names = [n for s in (wordnet.synsets(word.lower()) if wordnet else []) for n in s.lemma_names() if "_" not in n]
        return rng.choice(names) if names else word

    pairs = list(sentence_pairs(vocabulary(), synonym))
    write("hyp", [h for h, _ in pairs]), write("ref", [r for _, r in pairs])
    class NoWordNet:
        def synsets(self, word):
            return []
    for flags, database in ((["--no-synonyms"], NoWordNet()), ([], wordnet)):
        if database is None:
            continue
        values = score("meteor", "--hyp", "hyp", "--ref", "ref", "--each", *flags)["each"]
        for (h, r), value in zip(pairs, values):
            near(f"meteor {flags} of {h!r} / {r!r}", value, meteor_score([r.split()], h.split(), wordnet=database))
    # Stems, through ROUGE-1 of a word against its stem by nltk: 1 if makar finds the same stem.
    stemmer = PorterStemmer()
    words = sorted({w.lower() for h, r in pairs for w in (h + " " + r).split() if w.isascii() and w.isalnum() and len(w) > 3})
    stems = [stemmer.stem(w) for w in words]
    stable = [(w, s) for w, s in zip(words, stems) if len(s) <= 3 or stemmer.stem(s) == s]
    write("hyp", [w for w, _ in stable]), write("ref", [s for _, s in stable])
    for (w, s), value in zip(stable, score("rouge1", "--stem", "--hyp", "hyp", "--ref", "ref", "--each")["each"]):
        near(f"stem of {w}, {s}", value, 1)


def check_sklearn():
    from sklearn import metrics
    for classes in (2, 3, 7):
        truth = [rng.randrange(classes) for _ in range(ITEMS)]
        guess = [t if rng.random() < 0.6 else rng.randrange(classes) for t in truth]
        write("hyp", guess), write("ref", truth)
        e = score("accuracy", "--hyp", "hyp", "--ref", "ref")
        near("accuracy", e["accuracy"], metrics.accuracy_score(truth, guess))
        near("balanced", e["balanced_accuracy"], metrics.balanced_accuracy_score(truth, guess))
        for average in ("macro", "micro", "weighted"):
            near("f1 " + average, e["f1_" + average], metrics.f1_score(truth, guess, average=average))
        near("mcc", e["mcc"], metrics.matthews_corrcoef(truth, guess))
        if e["confusion"] != metrics.confusion_matrix(truth, guess).tolist():
            sys.exit("FAILED confusion matrix")
        for name, weights in (("none", None), ("linear", "linear"), ("quadratic", "quadratic")):
            near("kappa " + name, score("kappa", "--weights", name, "--hyp", "hyp", "--ref", "ref")["score"],
                 metrics.cohen_kappa_score(truth, guess, weights=weights))
        rows = []
        for t in truth:
            raw = [rng.choice([0.1, 0.3, rng.random()]) + (0.5 if c == t else 0) for c in range(classes)]
            rows.append([x / sum(raw) for x in raw])
        write("hyp", [r[1] if classes == 2 else " ".join(map(repr, r)) for r in rows])
        e = score("auroc", "--hyp", "hyp", "--ref", "ref")
        if classes == 2:
            ones = [r[1] for r in rows]
            near("auroc", e["auroc"], metrics.roc_auc_score(truth, ones))
            near("average precision", e["average_precision"], metrics.average_precision_score(truth, ones))
            near("brier", e["brier"], metrics.brier_score_loss(truth, ones))
        else:
            near("auroc", e["auroc"], metrics.roc_auc_score(truth, rows, multi_class="ovr"))
        near("log loss", e["log_loss"], metrics.log_loss(truth, rows))
    # One query; scikit-learn's gains are linear.
    relevance = [rng.randrange(4) for _ in range(50)]
    scores = rng.sample(range(1000), 50)
    write("run", [f"q Q0 d{i} 0 {s} t" for i, s in enumerate(scores)])
    write("qrels", [f"q 0 d{i} {r}" for i, r in enumerate(relevance)])
    for k in (3, 10, 50):
        near(f"ndcg@{k}", score(f"ndcg@{k}", "--run", "run", "--qrels", "qrels")["score"],
             metrics.ndcg_score([relevance], [scores], k=k))
    binary = [int(r > 1) for r in relevance]
    write("qrels", [f"q 0 d{i} {r}" for i, r in enumerate(binary)])
    near("map", score("map", "--run", "run", "--qrels", "qrels")["score"], metrics.average_precision_score(binary, scores))
    from scipy import stats
    x = [rng.choice([rng.random(), 0.5]) for _ in range(ITEMS)]
    y = [a + rng.random() for a in x]
    write("hyp", x), write("ref", y)
    e = score("pearson", "--hyp", "hyp", "--ref", "ref")
    near("pearson", e["pearson"], stats.pearsonr(x, y)[0])
    near("spearman", e["spearman"], stats.spearmanr(x, y)[0])
    near("kendall", e["kendall"], stats.kendalltau(x, y)[0])


def check_sacrebleu():
    from sacrebleu.metrics import BLEU, CHRF, TER
    pairs = [(h, r) for h, r in sentence_pairs(vocabulary() + list(".,!?()-\"'…%“”") * 50, lambda w: w + rng.choice(".,;")) if r]
    hyp, ref = [h for h, _ in pairs], [r for _, r in pairs]
    write("hyp", hyp), write("ref", ref)
    for name, metric in (("bleu", BLEU(effective_order=True)), ("chrf", CHRF()), ("chrf++", CHRF(word_order=2)), ("ter", TER())):
        e = score(name, "--hyp", "hyp", "--ref", "ref", "--each")
        near(name, e["score"], metric.corpus_score(hyp, [ref]).score)
        for h, r, value in zip(hyp, ref, e["each"]):
            near(f"{name} of {h!r} / {r!r}", value, metric.sentence_score(h, [r]).score)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for module, check in ((nltk, check_nltk), (sklearn, check_sklearn), (sacrebleu, check_sacrebleu)):
        if module:
            check()
print(f"{len(compared)} comparisons with {', '.join(m.__name__ for m in (nltk, sklearn, sacrebleu) if m)}, {failures} failures")
sys.exit(1 if failures else 0)
