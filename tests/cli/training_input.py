#!/usr/bin/env python3
"""Input and output of training commands: column names, schemas, recipes with mistakes, the recipes of the repository,
progress and reports.

usage: training_input.py MAKAR
"""
import json
import os
import pathlib
import pty
import re
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, failures

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
TINY = ["--layers", 1, "--width", 32, "--heads", 2, "--sequence-len", 48, "--micro-batch-size", 4, "-t", 2]


def run(makar, *words, **more):
    return subprocess.run([makar, *map(str, words)], capture_output=True, text=True, timeout=1800, **more)


def good(makar, *words, **more):
    done = run(makar, *words, **more)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.strip()[-500:]}")
    return done


def check_report(done, code, *parts):
    text = done.stdout + done.stderr
    missing = [p for p in parts if p not in text]
    check(done.returncode == code and not missing, f"{' '.join(map(str, done.args[1:]))}: {done.returncode}, without {missing}: {text.strip()[-700:]}")


def columns(makar, folder, bert, llama):
    """Columns named by the user on the command line and in a recipe, headers with known names, columns by number."""
    reviews = [("warm and good", "good"), ("cold and bad", "bad")] * 20
    (folder / "own.csv").write_text("opinion,verdict,year\n" + "".join(f"{t},{label},2020\n" for t, label in reviews))
    (folder / "known.csv").write_text("review,sentiment\n" + "".join(f"{t},{label}\n" for t, label in reviews))
    (folder / "bare.tsv").write_text("".join(f"{label}\t7\t{t}\n" for t, label in reviews))
    (folder / "swapped.csv").write_text("".join(f"good,review number {i} was written by hand\n" for i in range(60)))
    (folder / "columns.yaml").write_text(f"datasets:\n  - path: {folder / 'own.csv'}\n    text: opinion\n    field_label: verdict\n")
    train = ["classify", "train", "-m", bert, "--max-steps", 2, "--max-length", 32, "-t", 2]
    for name, words in {"own": ["-d", f"{folder / 'own.csv'},text=opinion,label=verdict"], "known": ["-d", folder / "known.csv"],
                        "number": ["-d", f"{folder / 'bare.tsv'},text=3,label=1"], "recipe": [folder / "columns.yaml"]}.items():
        done = good(makar, *train, *words, "-o", folder / f"columns-{name}")
        check_report(done, 0, "40 examples (schema: text-label, 2 labels)")
        config = json.loads((folder / f"columns-{name}/config.json").read_text())
        check(sorted(config["id2label"].values()) == ["bad", "good"], f"{name}: {config['id2label']}")
    check_report(run(makar, *train, "-d", f"{folder / 'own.csv'},text=opinion,label=nothing", "-o", folder / "no"), 1,
         "own.csv:2: has no field 'nothing'; its fields are: 'opinion', 'verdict', 'year'")
    check_report(run(makar, *train, "-d", folder / "own.csv", "-o", folder / "no"), 1, "own.csv:1", "opinion, verdict, year", "text=NAME,label=NAME")
    check_report(run(makar, *train, "-d", f"{folder / 'own.csv'},tekst=opinion", "-o", folder / "no"), 1, "unknown setting 'tekst' of a dataset")
    check_report(run(makar, *train, "-d", folder / "swapped.csv", "--val-set-size", 0, "-o", folder / "columns-swapped"), 0, "warning: 60 labels for 60 examples", "text=2,label=1")
    done = good(makar, *train, "-d", f"{folder / 'swapped.csv'},text=2,label=1", "--val-set-size", 0, "-o", folder / "columns-not-swapped")
    check("warning" not in done.stderr, f"columns by number: {done.stderr}")
    # Conversations and text.
    (folder / "asked.jsonl").write_text("".join(json.dumps({"ask": f"the river {i}", "reply": "near"}) + "\n" for i in range(12)))
    chat = ["sft", "-m", llama, "--max-steps", 2, "--sequence-len", 48, "-t", 2]
    done = good(makar, *chat, "-d", f"{folder / 'asked.jsonl'},prompt=ask,completion=reply", "--val-set-size", 0, "-o", folder / "columns-chat")
    check_report(done, 0, "12 conversations for training", "prompt-completion")
    done = run(makar, *chat, "-d", folder / "asked.jsonl", "-o", folder / "no")
    check_report(done, 1, "12 records could not be used", "asked.jsonl:1: its fields ('ask', 'reply') match no schema expected here", "prompt, completion", ",prompt=FIELD,completion=FIELD")
    check(done.stderr.count("\n  ") == 1 and done.stderr.count("match no schema") == 2, f"an unknown schema is reported once, and in the error: {done.stderr}")
    (folder / "poems.jsonl").write_text("".join(json.dumps({"verse": f"the river and the hill {i}", "by": "x"}) + "\n" for i in range(40)))
    good(makar, "pretrain", "-d", f"{folder / 'poems.jsonl'},text=verse", "--tokenizer", "char", *TINY, "--max-steps", 2, "-o", folder / "columns-text")
    check_report(run(makar, "data", "stats", f"{folder / 'poems.jsonl'},text=verse"), 0, "schema      text (40 records)")
    print("columns: named, numbered, recognized")


def validation(makar, folder, bert, llama):
    """Where the hash chooses no example for validation, the last ones are used."""
    (folder / "few.jsonl").write_text("".join(json.dumps({"prompt": f"the river {i}", "completion": "near"}) + "\n" for i in range(4)))
    (folder / "few.txt").write_text("the river and the hill\n" * 60)
    (folder / "few-labels.jsonl").write_text("".join(json.dumps({"text": f"the river {i}", "label": i % 2}) + "\n" for i in range(6)))
    (folder / "few-pairs.jsonl").write_text("".join(json.dumps({"source": f"the river {i}", "target": "near"}) + "\n" for i in range(4)))
    for name, words in {"chats": ["sft", "-m", llama, "-d", folder / "few.jsonl", "--sequence-len", 48, "-t", 2],
                        "text": ["pretrain", "-d", folder / "few.txt", "--tokenizer", "char", *TINY],
                        "labels": ["classify", "train", "-m", bert, "-d", folder / "few-labels.jsonl", "--max-length", 32, "-t", 2],
                        "pairs": ["pretrain", "--objective", "seq2seq", "--model-type", "bart", "-d", folder / "few-pairs.jsonl", "--tokenizer", "char", *TINY]}.items():
        done = good(makar, *words, "--val-set-size", 0.001, "--max-steps", 1, "-o", folder / f"validation-{name}", "--json")
        figures = json.loads(done.stdout)["validation"] if done.returncode == 0 else {}
        check("loss" in figures, f"{name}: validated on the last examples: {figures} {done.stderr[-300:]}")
    print("validation: never empty by chance")


def recipes_with_mistakes(makar, folder, llama):
    axolotl = folder / "axolotl.yaml"
    axolotl.write_text(f"base_model: {llama}\nload_in_4bit: true\nfp16: auto\nsequence_len: 48\ncutoff_len: 48\nwandb_project: x\nlerning_rate: 1e-4\n")
    check_report(run(makar, "sft", axolotl, "-o", folder / "no"), 2, "axolotl.yaml:2: 5 unknown keys:", "line 2: unknown key 'load_in_4bit' (in makar: adapter: qlora)",
         "line 3: unknown key 'fp16' (in makar: bf16)", "line 5: unknown key 'cutoff_len' (in makar: sequence_len)",
         "line 6: unknown key 'wandb_project' (not supported", "line 7: unknown key 'lerning_rate'; did you mean 'learning_rate'")
    for line, part in (("learning_rate: fast", "'learning_rate' expects a number, got 'fast'"), ("max_steps: 1.5", "'max_steps' expects an integer, got '1.5'"),
                       ("sample_packing: perhaps", "'sample_packing' expects true or false, got 'perhaps'"), ("seed: [1, 2]", "'seed' expects one value, got 'a list of 2'")):
        path = folder / "wrong.yaml"
        path.write_text(f"base_model: {llama}\n\n{line}\n")
        check_report(run(makar, "sft", path, "-o", folder / "no"), 2, f"wrong.yaml:3: {part}")
    (folder / "words.yaml").write_text("sample_packing: True\ngradient_checkpointing: False\nmax_steps: 1\n")
    good(makar, "sft", folder / "words.yaml", "-m", llama, "-d", folder / "few.jsonl", "--val-set-size", 0, "-o", folder / "words")
    check_report(run(makar, "sft", "-m", llama, "cutoff_len=48"), 2, "unknown key 'cutoff_len' (in makar: sequence_len)")
    print("recipes: mistakes with file and line, all unknown keys at once")


def recipes_of_the_repository(makar, folder):
    """They run on a clone, in the order of recipes/README.md, from the repository's root."""
    def path(name):
        return folder / "recipes" / name

    for command, recipe, more in (("pretrain", "first_model", ["max_steps=30"]), ("sft", "first_chat", ["num_epochs=2", f"base_model={path('first_model')}"]),
                                  ("pretrain", "first_bert", ["max_steps=20"]), ("classify train", "first_classifier", ["num_epochs=1", f"base_model={path('first_bert')}"])):
        good(makar, *command.split(), f"recipes/{recipe}.yaml", *more, f"output_dir={path(recipe)}", "-t", 2, "-q", cwd=ROOT)
    done = good(makar, "generate", "-m", path("first_chat"), "--chat", "-n", 4, "Who lived by the river?")
    check((path("first_chat") / "chat_template.jinja").is_file(), "the template of the training is saved with the model")
    done = good(makar, "classify", "run", "-m", path("first_classifier"), input="A warm coat\n")
    check("good" in done.stdout or "bad" in done.stdout, done.stdout)
    for file in (ROOT / "recipes").glob("first_*.yaml"):
        for found in re.findall(r"path: (\S+)", file.read_text()):
            check((ROOT / found).is_file(), f"{file.name}: {found} is in the repository")
    print("recipes: those of the repository run on a clone")


def reporting(makar, folder):
    """A line break after the progress bar, "1 step", ticks at whole steps, at most 100 % of the peak, the default folder."""
    model = GOLDEN / "models/gpt2"
    words = [makar, "sft", "-m", model, "-d", model / "golden.safetensors", "learning_rate=1e-3", "-t", "1"]
    done = subprocess.run([*map(str, words), "max_steps=1"], capture_output=True, text=True, cwd=folder)
    check(re.search(r"^runs/sft: 1 step in ", done.stdout), f"one step, in the default folder: {done.stdout}")
    good(makar, *map(str, words[1:]), "max_steps=7", "-o", folder / "ticks")
    ticks = re.findall(r'class="x"[^>]*>([^<]*)<', (folder / "ticks/loss.svg").read_text())
    check(len(ticks) >= 3 and all(t.isdigit() for t in ticks) and len(set(ticks)) == len(ticks), f"ticks of seven steps: {ticks}")
    shares = [int(p) for p in re.findall(r"(\d+)% peak", subprocess.run([*map(str, words), "max_steps=300", "logging_steps=1", "-o", str(folder / "shares")],
                                                                        capture_output=True, text=True).stderr)]
    check(shares and max(shares) <= 100, f"shares of the peak: {max(shares, default=None)}")
    master, slave = pty.openpty()
    process = subprocess.Popen([*map(str, words), "max_steps=1000000", "-o", str(folder / "bar")], stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    output, end = b"", time.monotonic() + 600
    while b"eta" not in output and time.monotonic() < end:
        output += os.read(master, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while chunk := os.read(master, 4096):
            output += chunk
    except OSError:
        pass
    process.wait(timeout=600)
    os.close(master)
    check(re.search(rb"\n(\r)?stopped at step \d+; the same command resumes", output), f"after the bar: {output[-300:]!r}")
    print("reporting: lines, steps, ticks, shares")


def main():
    makar = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "text.txt").write_text("the river and the hill are near the old house\n" * 200)
        bert, llama = folder / "bert", folder / "llama"
        for out, kind in ((bert, "bert"), (llama, "llama")):
            good(makar, "pretrain", "-d", folder / "text.txt", "--model-type", kind, "--vocab-size", 300, *TINY, "--max-steps", 2, "-o", out, "-q")
        columns(makar, folder, bert, llama)
        validation(makar, folder, bert, llama)
        recipes_with_mistakes(makar, folder, llama)
        recipes_of_the_repository(makar, folder)
        reporting(makar, folder)
    if failures:
        sys.exit(f"training_input.py: {len(failures)} failures")


if __name__ == "__main__":
    main()
