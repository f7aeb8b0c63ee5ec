#!/usr/bin/env python3
"""makar classify senses: records, accuracy, bad input; with a real encoder, senses of "bank" and "light".

usage: senses.py MAKAR   (real data: MAKAR_ASSETS, default ../shared/assets; that part is skipped without it)
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import check, failures
from program import GOLDEN, good, refused

ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", pathlib.Path(__file__).resolve().parents[3] / "shared" / "assets"))

TRAIN = [
    ("bank", "river", "They sat on the bank of the river and fished."), ("bank", "river", "The boat ran aground on the muddy bank."),
    ("bank", "river", "Willows grow along the bank of the stream."), ("bank", "money", "She opened an account at the bank."),
    ("bank", "money", "The bank refused to give him a loan."), ("bank", "money", "He works as a clerk in a bank in the city."),
    ("light", "weight", "The suitcase is light and easy to carry."), ("light", "weight", "Feathers are light."),
    ("light", "weight", "He lifted the light box with one hand."), ("light", "lamp", "Turn on the light, the room is dark."),
    ("light", "lamp", "The light of the sun fell through the window."), ("light", "lamp", "A light was shining in the distance.")]
TEST = [
    ("bank", "river", "The children swam to the far bank of the river."), ("bank", "river", "Ducks rest on the grassy bank near the water."),
    ("bank", "money", "The bank pays interest on savings."), ("bank", "money", "I need to go to the bank to cash a cheque."),
    ("light", "weight", "This bicycle is very light, only seven kilograms."), ("light", "weight", "She packed a light bag for the trip."),
    ("light", "lamp", "The light in the kitchen went out."), ("light", "lamp", "We saw the light of a lighthouse.")]


def lines(rows):
    return "".join(json.dumps({"word": w, "sense": s, "text": t}) + "\n" for w, s, t in rows)


def check_command(folder):
    model = folder / "encoder"
    model.mkdir()
    for name in ("config.json", "model.safetensors"):
        (model / name).write_bytes((GOLDEN / "models" / "bert-embedding" / name).read_bytes())
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "bank", "river", "money", "of", "a"]
    (model / "vocab.txt").write_text("\n".join(words) + "\n")
    (model / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "do_lower_case": True}))
    examples = folder / "examples.jsonl"
    examples.write_text(lines([("bank", "river", "the bank of the river"), ("bank", "money", "the money of a bank")]))
    start = ["classify", "senses", "-m", model, "--examples", examples]
    # A labelled text itself is at cosine 1.
    out = json.loads(good(*start, "--text", "The Bank of the river", "--word", "bank").stdout)
    check(out["sense"] == "river" and out["word"] == "bank" and abs(out["senses"][0]["cosine"] - 1) < 1e-5 and out["begin"] == 4 and out["end"] == 8, f"{out}")
    check(out["senses"][1]["sense"] == "money" and out["senses"][1]["cosine"] < out["senses"][0]["cosine"], f"{out}")
    # Records: with a byte range, with a lemma; a bad record gets an error on its line.
    text = "the bank of the bank"
    records = [{"text": text, "begin": 16, "end": 20}, {"text": "the banks of a river", "word": "banks", "lemma": "bank"}, {"text": "no such word", "word": "bank"},
               {"text": text, "begin": 5, "end": 500}, {"text": "the river", "word": "river"}, [1], {"text": 3, "word": "x"}]
    done = good(*start, "-f", write(folder / "asked.jsonl", "".join(json.dumps(r) + "\n" for r in records) + "{broken\n"))
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    check([("sense" in a) for a in answers] == [True, True] + [False] * 6, f"lines: {answers}")
    check(answers[0]["begin"] == 16 and all("message" in a["error"] and a["error"]["line"] == i + 3 for i, a in enumerate(answers[2:])), f"{answers}")
    one, mean = (good(*start, *flags, "-f", folder / "examples.jsonl") for flags in ((), ("--mean",)))
    check("accuracy 1.0000 (2 of 2); always the most frequent sense: 0.5000" in one.stderr and "accuracy 1.0000" in mean.stderr, f"{one.stderr} {mean.stderr}")
    check(good(*start, "-t", 1, "-f", folder / "examples.jsonl").stdout == one.stdout, "the same on one thread")
    refused("belong together", *start, "--text", "the bank")
    refused("--examples", "classify", "senses", "-m", model, "--text", "x", "--word", "x")
    refused("--layers", *start, "--layers", 0, "--text", "the bank", "--word", "bank")
    refused("examples.txt:1", "classify", "senses", "-m", model, "--examples", write(folder / "examples.txt", '{"text": "the bank", "word": "bank"}\n'), "--text", "a", "--word", "a")
    refused("no examples", "classify", "senses", "-m", model, "--examples", write(folder / "empty.jsonl", "\n"), "--text", "a", "--word", "a")
    refused("there are no examples of", *start, "--text", "the river", "--word", "river")


def write(path, text):
    path.write_text(text)
    return path


def check_real(folder):
    if not (ASSETS / "get").is_file():
        print("skipped: a real encoder (no assets)")
        return
    got = subprocess.run([ASSETS / "get", "all-MiniLM-L6-v2"], capture_output=True, text=True)
    if got.returncode:
        print("skipped: a real encoder (not fetched)")
        return
    done = good("classify", "senses", "-m", got.stdout.strip(), "--examples", write(folder / "train.jsonl", lines(TRAIN)), "-f", write(folder / "test.jsonl", lines(TEST)))
    check("(8 of 8)" in done.stderr or "(7 of 8)" in done.stderr, f"senses by MiniLM: {done.stderr}")
    print("senses by MiniLM:", done.stderr.strip().splitlines()[-1])


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    check_command(root)
    check_real(root)
sys.exit(1 if failures else 0)
