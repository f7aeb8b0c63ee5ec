#!/usr/bin/env python3
"""makar ngram, vectors, classify --method, data curate, data augment and net on the command line; a worked example of BPE.

usage: lexical.py MAKAR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MAKAR = os.path.abspath(sys.argv[1])
FABLES = str(pathlib.Path(__file__).resolve().parents[2] / "recipes/data/fables.txt")
failures = []


def run(*arguments, stdin=None):
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=300, input=stdin)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def ok(*arguments, stdin=None):
    code, out, err = run(*arguments, stdin=stdin)
    expect(" ".join(map(str, arguments)), code == 0, err)
    return out


def ngrams(folder):
    arpa = folder / "fables.arpa"
    ok("ngram", "train", FABLES, "--order", 3, "-o", arpa, "-q")
    score = json.loads(ok("ngram", "score", arpa, FABLES, "--json"))
    expect("the training text is likely", score["unknown_words"] == 0 and 1 < score["perplexity"] < 30, score)
    each = ok("ngram", "score", arpa, FABLES, "--each").splitlines()
    expect("a line per sentence", len(each) == score["sentences"], len(each))
    expect("the sum of the lines", abs(sum(float(l.split("\t")[0]) for l in each) - score["log10_prob"]) < 1e-3)
    first = ok("ngram", "generate", arpa, "--seed", 3, "--samples", 4)
    expect("the same seed", first == ok("ngram", "generate", arpa, "--seed", 3, "--samples", 4) and first.count("\n") == 4, first)
    code, _, err = run("ngram", "train", FABLES, "--smoothing", "kats", "-o", arpa)
    expect("an unknown smoothing", code == 2 and "did you mean 'katz'" in err, err)
    code, _, err = run("ngram", "score", FABLES, FABLES)
    expect("a text is not a model", code == 1 and "fables.txt:" in err and "data" in err, err)


def vectors(folder):
    text = folder / "text.txt"
    text.write_text("the cat and the dog play\nthe dog and the cat sleep\nred and blue and green are colours\nblue or red or green\n" * 60)
    outputs = []
    for threads in (1, 2):
        file = folder / f"v{threads}.vec"
        ok("vectors", "train", text, "-o", file, "--dim", 16, "--epochs", 5, "--min-count", 1, "-t", threads, "-q")
        outputs.append(file.read_bytes())
    expect("threads change no byte", outputs[0] == outputs[1])
    for method in ("cbow", "glove", "ppmi", "lsa"):
        ok("vectors", "train", text, "-o", folder / "m.vec", "--method", method, "--dim", 4, "--min-count", 1, "-q")
    binary, back = folder / "v.bin", folder / "v.txt"
    ok("vectors", "convert", folder / "v1.vec", binary, "--format", "binary")
    ok("vectors", "convert", binary, back, "--format", "text")
    expect("binary and back", back.read_bytes() == outputs[0])
    near = json.loads(ok("vectors", "neighbors", binary, "cat", "-k", 3, "--json"))
    expect("neighbours", len(near) == 3 and all(n["word"] != "cat" for n in near), near)
    ok("vectors", "analogy", binary, "cat", "dog", "red")
    ok("vectors", "map", binary, "-o", folder / "map.svg", "--iterations", 50)
    expect("a picture", (folder / "map.svg").read_text().count("<circle") == len(outputs[0].splitlines()) - 1)
    # Count vectors over ten words; tf 0.0025 and idf ln 20 give 0.00749.
    two = folder / "two.txt"
    two.write_text("a the the cat sat on on mat red\nthe cat sat mat dog lay rug\n")
    lines = [json.loads(line) for line in ok("vectors", "count", two).splitlines()]
    order = [lines[0]["words"].index(w) for w in "a the cat sat on mat red dog lay rug".split()]
    expect("bags of words", [[l["vector"][i] for i in order] for l in lines[1:]] == [[1, 2, 1, 1, 2, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 1, 0, 1, 1, 1]], lines)
    two.write_text("rare " + "word " * 399 + "\n" + "word\n" * 19)
    lines = [json.loads(line) for line in ok("vectors", "count", two, "--kind", "tf-idf").splitlines()]
    expect("tf-idf", abs(lines[1]["vector"][lines[0]["words"].index("rare")] - 0.00749) < 5e-6 and lines[2]["vector"][0] == 0, lines[:2])
    two.write_text("x y x\n")
    pairs = {(p["word"], p["context"]): p["value"] for p in map(json.loads, ok("vectors", "count", two, "--kind", "cooccurrence", "--window", 2).splitlines())}
    expect("co-occurrences", pairs == {("x", "x"): 2, ("x", "y"): 2, ("y", "x"): 2}, pairs)
    pairs = [json.loads(l) for l in ok("vectors", "count", two, "--kind", "ppmi", "--window", 1).splitlines()]
    # p(x, y) = 1/2 and p(x) = p(y) = 1/2: log 2.
    expect("ppmi", len(pairs) == 2 and all(abs(p["value"] - 0.6931) < 1e-4 for p in pairs), pairs)
    code, _, err = run("vectors", "count", two, "--kind", "bags")
    expect("an unknown kind of counts", code == 2 and "did you mean 'bag'" in err, err)
    code, _, err = run("vectors", "neighbors", binary, "unicorn")
    expect("an unknown word", code == 1 and "unicorn" in err and "--maxn" in err, err)
    model = folder / "model.bin"
    ok("vectors", "train", text, "-o", model, "--dim", 8, "--epochs", 5, "--min-count", 1, "--maxn", 4, "--bucket", 1000, "--format", "fasttext", "-q")
    near = json.loads(ok("vectors", "neighbors", model, "colourful", "-k", 2, "--json"))
    expect("neighbours of an unknown word", len(near) == 2 and near[0]["word"] == "colours", near)
    ok("vectors", "analogy", model, "cat", "cats", "dog")
    same = float(ok("vectors", "similarity", model, "red", "red"))
    expect("a word has similarity 1 with itself", same == 1 and float(ok("vectors", "similarity", model, "red", "colourful")) < 1, same)
    printed = [json.loads(line)["vector"] for line in ok("vectors", "print", model, "red", "colourful", "--json").splitlines()]
    expect("vectors", [len(v) for v in printed] == [8, 8], printed)
    code, _, err = run("vectors", "similarity", model, "red")
    expect("two words are needed", code == 2 and "two words" in err, err)
    if shutil.which("fasttext"):
        fasttext = subprocess.run(["fasttext", "nn", model, "2"], input="colourful\n", capture_output=True, text=True).stdout
        expect("fastText agrees", "colours" in fasttext.splitlines()[0], fasttext)
        fasttext = subprocess.run(["fasttext", "print-word-vectors", model], input="colourful\n", capture_output=True, text=True).stdout.split()
        expect("the vector of fastText", all(abs(float(t) - o) < 1e-4 * abs(o) + 1e-6 for t, o in zip(fasttext[1:], printed[1])), fasttext)
    code, _, err = run("vectors", "train", text, "-o", folder / "x", "--dim", 0)
    expect("a bad width", code == 2 and "--dim" in err, err)
    code, _, err = run("vectors", "train", text, "-o", folder / "x", "--min-count", 100000)
    expect("no word is left", code == 1 and "min-count" in err, err)


def worked_tokens(folder):
    """The usual example of BPE: hug, pug, pun, bun, hugs with counts 10, 5, 12, 4, 5."""
    words = folder / "words.txt"
    words.write_text("".join(f"{word}\n" * count for word, count in (("hug", 10), ("pug", 5), ("pun", 12), ("bun", 4), ("hugs", 5))))
    ok("tokenizer", "train", words, "--model-type", "bpe", "--pipeline", "whitespace", "--vocab-size", 11, "-o", folder / "bpe", "-q")
    model = json.loads((folder / "bpe/tokenizer.json").read_text())["model"]
    merges = [" ".join(m) if isinstance(m, list) else m for m in model["merges"]]
    expect("the first merges", merges == ["u g", "u n", "h ug"], merges)
    expect("the alphabet", sorted(t for t in model["vocab"] if len(t) == 1) == list("bghnpsu"), model["vocab"])
    ok("tokenizer", "train", words, "--model-type", "wordpiece", "--vocab-size", 20, "-o", folder / "wordpiece", "-q")
    pieces = ok("tokenizer", "encode", folder / "wordpiece", "--text", "mug", "--pieces").strip()
    expect("an unknown letter", json.loads(pieces) == ["[UNK]"], pieces)


def classifiers(folder):
    train = folder / "train.tsv"
    train.write_text("".join(f"a {w} film number {i}\t{l}\n" for i in range(20) for w, l in (("good", "pos"), ("bad", "neg"))))
    for method in ("naive-bayes", "logistic", "svm"):
        model = folder / f"{method}.json"
        result = json.loads(ok("classify", "train", "--method", method, "-d", train, "--val-datasets", train, "-o", model, "--json"))
        expect(method, result["accuracy"] == 1, result)
        answer = json.loads(ok("classify", "run", model, stdin="a good one\n"))
        expect(f"{method} answers", answer["label"] == "pos", answer)
    table = ok("classify", "compare", "-d", train, "--test", train)
    expect("a table", table.count("\n") == 7, table)
    result = json.loads(ok("classify", "train", "--method", "vectors", "-d", train, "--val-datasets", train, "--width", 16, "--epochs", 20, "--lr", "3e-2",
                         "-o", folder / "mean", "--json"))
    expect("vectors", result["accuracy"] == 1, result)
    expect("vectors answer", json.loads(ok("classify", "run", folder / "mean", stdin="a good one\n"))["label"] == "pos")
    cnn = folder / "cnn"
    result = json.loads(ok("classify", "train", "--method", "cnn", "-d", train, "--val-datasets", train, "--width", 16, "--filters", 8, "--epochs", 10,
                         "--lr", "1e-2", "-o", cnn, "--json"))
    expect("cnn", result["accuracy"] == 1, result)
    answer = json.loads(ok("classify", "run", cnn, stdin="a good one\n"))
    expect("cnn answers", answer["label"] == "pos", answer)
    tags = folder / "tags.jsonl"
    tags.write_text('{"tokens": ["the", "dog", "runs"], "ner_tags": ["DET", "NOUN", "VERB"]}\n' * 5)
    ok("classify", "train", "--method", "hmm", "-d", tags, "-o", folder / "hmm.json")
    answer = json.loads(ok("classify", "run", folder / "hmm.json", stdin="the dog runs\n"))
    expect("tags", answer["tags"] == ["DET", "NOUN", "VERB"], answer)
    answer = json.loads(ok("classify", "run", folder / "hmm.json", "--scores", stdin="the dog runs\n"))
    expect("forward-backward", all(p[t] > 0.8 for p, t in zip(answer["scores"], answer["tags"])) and answer["log_prob"] < 0, answer)
    answer = json.loads(ok("classify", "run", folder / "logistic.json", "--scores", stdin="a good one\n"))
    expect("probabilities", abs(sum(answer["scores"].values()) - 1) < 1e-6, answer)
    code, _, err = run("classify", "train", "--method", "svn", "-d", train, "-o", folder / "x.json")
    expect("an unknown method", code == 2 and "did you mean 'svm'" in err, err)


def curation(folder):
    data = folder / "web.jsonl"
    page = "<p>The miller opened the gate of the house that stood by the river, and the water turned the wheel {}.</p>"
    texts = [page.format(n) + f" Write to me{n}@example.org about the {n} stones." for n in range(30)] + ["short"]
    texts.append(texts[0])
    data.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts) + "not json\n")
    out = folder / "clean.jsonl"
    report = json.loads(ok("data", "curate", data, "--clean", "html", "--clean", "blanks", "--min-words", 5, "--exact", "--pii", "-o", out, "--json"))
    expect("counts", report["documents"] == 32 and report["kept"] == 30 and report["bad_records"] == 1, report)
    expect("reasons", {k: v["documents"] for k, v in report["drops"].items()} == {"short": 1, "exact-duplicate": 1}, report["drops"])
    kept = out.read_text()
    expect("cleaned", "<p>" not in kept and "@example" not in kept and kept.count("[EMAIL]") == 30)
    expect("a report", "exact-duplicate" in pathlib.Path(str(out) + ".report.md").read_text())
    recipe = folder / "r.yaml"
    recipe.write_text(f"datasets: [{data}]\nclean: [html]\nnear: 0.7\nmin_words: 5\n")
    report = json.loads(ok("data", "curate", recipe, "-o", folder / "r.jsonl", "--json"))
    expect("near-duplicates by a recipe", report["drops"].get("near-duplicate", {}).get("documents", 0) > 0, report)
    voted = folder / "voted.jsonl"
    voted.write_text("".join(json.dumps({"text": f"she and he saw page {n}", "votes": n}) + "\n" for n in range(10)))
    report = json.loads(ok("data", "filter", f"{voted},weight=2", "--min-field", "votes=4", "--representation", "--keep-fields", "-o", folder / "v.jsonl", "--json"))
    expect("votes", report["drops"]["field-votes"]["documents"] == 4 and report["sources"][0]["written"] == 12, report)
    expect("groups", report["groups"]["gender: women"] == {"documents": 10, "mentions": 10, "kept_documents": 6, "kept_mentions": 6}, report["groups"])
    expect("fields stay", [json.loads(l)["votes"] for l in (folder / "v.jsonl").read_text().splitlines()] == [n for n in range(4, 10) for _ in "ab"])
    report = json.loads(ok("data", "dedup", folder / "v.jsonl", "--near", 0, "-o", folder / "u.jsonl", "--json"))
    expect("dedup", report["kept"] == 6 and report["drops"]["exact-duplicate"]["documents"] == 6, report)
    for bad, word in ((("--min-field", "votes"), "votes=3"), (("--min-tokens", 5), "--tokenizer"), (("--groups", voted), "--representation"),
                      (("--representation", "--groups", voted), "voted.jsonl:1")):
        code, _, err = run("data", "curate", voted, *bad, "-o", out)
        expect(f"{bad}", code in (1, 2) and word in err, err)
    code, _, err = run("data", "curate", data, "--clean", "htlm", "-o", out)
    expect("an unknown cleaner", code == 2 and "did you mean 'html'" in err, err)
    # The quality filter: lines of the training text have low perplexities, their words in alphabetical order high ones.
    lines = [line for line in pathlib.Path(FABLES).read_text().splitlines() if line.count(" ") > 8][:40]
    ok("ngram", "train", FABLES, "-o", folder / "f.arpa")
    mixed = folder / "mixed.jsonl"
    mixed.write_text("".join(json.dumps({"text": t}) + "\n" for line in lines for t in (line, " ".join(sorted(line.split())))))
    report = json.loads(ok("data", "curate", mixed, "--ngram-model", folder / "f.arpa", "-o", folder / "m.jsonl", "--json"))
    expect("perplexities are counted", report["kept"] == 2 * len(lines) == sum(h["documents"] for h in report["histograms"]["perplexity"]), report)
    report = json.loads(ok("data", "curate", mixed, "--ngram-model", folder / "f.arpa", "--max-perplexity", 40, "-o", folder / "m.jsonl", "--json"))
    kept = [json.loads(line)["text"] for line in (folder / "m.jsonl").read_text().splitlines()]
    expect("fluent lines are kept", kept == lines and report["drops"]["perplexity"]["documents"] == len(lines), report)
    expect("a histogram", "## Perplexity" in (folder / "m.jsonl.report.md").read_text())
    code, _, err = run("data", "curate", mixed, "--max-perplexity", 40, "-o", folder / "m.jsonl")
    expect("a model is needed", code == 2 and "--ngram-model" in err, err)
    rude = folder / "rude.tsv"
    rude.write_text("sentence\tlabel\n" + "you are a fool and an idiot\ttoxic\nthe river is calm today\tfine\n" * 20)
    ok("classify", "train", "--method", "logistic", "-d", rude, "-o", folder / "rude.json")
    some = folder / "some.jsonl"
    some.write_text("".join(json.dumps({"text": t}) + "\n" for t in ("the river is calm", "calm river\nyou idiot fool")))
    report = json.loads(ok("data", "curate", some, "--toxicity", folder / "rude.json", "-o", folder / "s.jsonl", "--json"))
    expect("a toxic line", report["drops"]["toxic"]["documents"] == 1 and [h["documents"] for h in report["histograms"]["toxicity"]] == [1, 1], report)
    english, german = folder / "en.txt", folder / "de.txt"
    english.write_text("the water and the wheel of the miller turned every morning in the house by the river\n" * 5)
    german.write_text("das wasser und das rad des mannes drehten sich jeden morgen in dem haus an dem fluss\n" * 5)
    ok("data", "language", "train", f"en={english}", f"de={german}", "-o", folder / "l.json")
    out = ok("data", "language", "detect", folder / "l.json", stdin="the house by the water\ndas haus und das wasser\n")
    expect("languages", [l.split("\t")[0] for l in out.splitlines()] == ["en", "de"], out)


def augmentation(folder):
    data = folder / "small.tsv"
    data.write_text("text\tlabel\nThe cat sat on the mat.\tcalm\nA dog ran to John in Paris, and it barked.\tloud\n")
    out = folder / "more.jsonl"
    steps = [part for kind in ("swap:0.2", "deletion", "noise:0.05", "entities") for part in ("-a", kind)]
    result = json.loads(ok("data", "augment", data, *steps, "--copies", 3, "-o", out, "--json"))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    expect("originals and copies", result["written"] == len(lines) == 8 and result["records"] == 2, result)
    expect("labels stay", [l["label"] for l in lines] == ["calm"] * 4 + ["loud"] * 4, lines)
    expect("kinds are named", "augmented" not in lines[0] and lines[1]["augmented"].startswith("swap"), lines[1])
    first = out.read_bytes()
    ok("data", "augment", data, *steps, "--copies", 3, "-o", out, "-q")
    expect("the same seed", out.read_bytes() == first)
    ok("data", "augment", data, *steps, "--copies", 3, "-o", out, "--seed", 2, "--choose", "--only-new")
    expect("another seed, without originals", len(out.read_text().splitlines()) == 6)
    ok("classify", "train", "--method", "naive-bayes", "-d", data, "-o", folder / "nb.json")
    ok("data", "augment", data, "-a", "adversarial:1", "--classifier", folder / "nb.json", "-o", out)
    code, _, err = run("data", "augment", data, "-a", "swop", "-o", out)
    expect("an unknown kind", code == 2 and "did you mean 'swap'" in err, err)
    code, _, err = run("data", "augment", data, "-a", "paraphrase", "-o", out)
    expect("a missing model", code == 1 and "--paraphraser" in err, err)


def networks(folder):
    table = folder / "points.csv"
    table.write_text("x,y,side\n" + "".join(f"{x / 10},{y / 10},{'in' if x * x + y * y < 60 else 'out'}\n"
                                            for x in range(-10, 11, 2) for y in range(-10, 11, 2)))
    net = folder / "net"
    result = json.loads(ok("net", "tabular", table, "--target", "side", "--hidden", "16", "--epochs", 60, "--lr", "2e-2", "--batch-size", 16, "-o", net, "--json"))
    expect("a network", result["accuracy"] > 0.8 and result["rows"] == 97, result)
    expect("pictures", (net / "boundary.svg").is_file() and (net / "loss.svg").is_file())
    answers = [json.loads(line) for line in ok("net", "run", net, table).splitlines()]
    expect("predictions", len(answers) == 121 and {a["prediction"] for a in answers} == {"in", "out"}, answers[:2])
    unlabelled = folder / "unlabelled.csv"
    unlabelled.write_text("x,y\n0,0\n1,1,1,1\n0.9,0.9\n")
    code, out, err = run("net", "run", net, unlabelled)
    expect("rows without a target", code == 0 and [json.loads(a)["prediction"] for a in out.splitlines()] == ["in", "out"], out + err)
    expect("a skipped row is reported", "skipped" in err, err)
    (folder / "unlabelled.jsonl").write_text('{"x": 0, "y": 0}\n')
    expect("records without a target", json.loads(ok("net", "run", net, folder / "unlabelled.jsonl"))["prediction"] == "in")
    curve = folder / "curve.csv"
    curve.write_text("x,y\n" + "".join(f"{i / 10},{(i / 10) ** 2}\n" for i in range(-20, 21)))
    result = json.loads(ok("net", "tabular", curve, "--target", "y", "--loss", "huber", "--epochs", 60, "--lr", "2e-2", "--batch-size", 8, "-o", net, "--json"))
    expect("a curve", result["rmse"] < 1 and (net / "fit.svg").is_file(), result)
    near = folder / "near.csv"  # values that differ in their last digits only
    near.write_text("x,y\n" + "".join(f"{10**17 + 16 * (i % 2)},{i % 2}\n" for i in range(40)))
    ok("net", "tabular", near, "--target", "y", "--epochs", 2, "-o", folder / "near")
    bags = folder / "bags.txt"
    bags.write_text("the cat and the dog\nred and blue\n" * 20)
    result = json.loads(ok("net", "autoencoder", bags, "--hidden", "8", "--code", 2, "--epochs", 30, "--lr", "1e-2", "-o", net, "--json"))
    expect("bags of words", result["reconstruction"] < 3, result)
    images = folder / "images-idx3-ubyte"
    images.write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 64, 0, 0, 0, 4, 0, 0, 0, 4]) + bytes([250, 250, 0, 0] * 4 + [0, 0, 250, 250] * 4) * 32)
    (folder / "labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 64]) + bytes([0, 1] * 32))
    vae = folder / "vae"
    ok("net", "autoencoder", images, "--kind", "variational", "--hidden", "8", "--code", 2, "--epochs", 5, "-o", vae)
    for picture in ("reconstructions.png", "interpolation.png", "samples.png"):
        expect(picture, (vae / picture).read_bytes()[1:4] == b"PNG")
    ok("net", "gan", images, "--generator", "8", "--discriminator", "8", "--code", 4, "--batch-size", 16, "--epochs", 3, "-o", folder / "gan")
    expect("samples", (folder / "gan/samples.png").read_bytes()[1:4] == b"PNG")
    for flag, value in (("--dropout", 1), ("--kind", "cnn"), ("--generator", "8,x"), ("--batch-size", 1000), ("--optimizer", "adm"), ("--beta1", 2), ("--generator", "8,8,8")):
        code, _, err = run("net", "gan", images, flag, value, "-o", folder / "no-gan")
        expect(f"a bad {flag}", code == 2 and flag[2:] + ":" in err and not (folder / "no-gan").exists(), err)
    for source, model in ((folder / "gan", "gan"), (vae, "vae")):
        for name, seed in (("a", 1), ("b", 1), ("c", 2)):
            ok("net", "sample", source, "-n", 100, "--seed", seed, "-o", folder / f"{model}-{name}.png")
        a, b, c, trained = (path.read_bytes() for path in (*(folder / f"{model}-{n}.png" for n in "abc"), source / "samples.png"))
        expect(f"samples of {model}", a == b == trained and a != c)
    codes = [json.loads(line) for line in ok("net", "run", vae, images).splitlines()]
    expect("codes", len(codes) == 64 and len(codes[0]["code"]) == 2 and codes[0] == codes[2] != codes[1], codes[:3])
    code, _, err = run("net", "run", vae, bags)
    expect("images, not text", code == 1 and "the network reads images" in err, err)
    code, _, err = run("net", "run", folder / "gan", images)
    expect("a GAN has no answers", code == 1 and "makar net sample" in err, err)
    code, _, err = run("net", "sample", net, "-o", folder / "no.png")
    expect("an autoencoder of words has no images", code == 1 and "variational" in err, err)
    result = json.loads(ok("net", "lm", FABLES, "--test", FABLES, "--width", 16, "--hidden", 32, "--epochs", 10, "--batch-size", 32, "--lr", "1e-2", "--min-count", 1, "-o", folder / "lm", "--json"))
    expect("a language model", result["perplexity"] < 60 and len(result["samples"]) == 3, result)
    again = json.loads(ok("net", "run", folder / "lm", FABLES))
    expect("the same perplexity", again["perplexity"] == result["perplexity"], again)
    expect("the same sentences", ok("net", "sample", folder / "lm", "-n", 3).splitlines() == result["samples"])
    code, _, err = run("net", "tabular", table, "--target", "colour", "-o", net)
    expect("an unknown column", code == 1 and "colour" in err and "'x,y,side'" in err, err)
    code, _, err = run("net", "tabular", table, "--target", "side", "--loss", "msee", "-o", net)
    expect("an unknown loss", code == 1 and "cross-entropy" in err, err)
    (net / "net.json").write_text("{}")
    code, _, err = run("net", "run", net, table)
    expect("a broken model", code == 1 and "net.json" in err, err)


with tempfile.TemporaryDirectory() as name:
    for test in (ngrams, vectors, worked_tokens, classifiers, curation, augmentation, networks):
        test(pathlib.Path(name))
for failure in failures:
    print("FAIL", failure)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
