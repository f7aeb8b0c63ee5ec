#!/usr/bin/env python3
"""The model that comes with the program: its script gives the same bytes twice, and makar generate and makar chat use it when
no model is given.

usage: default_model.py MAKAR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import check, failures
from program import MAKAR

ROOT = pathlib.Path(__file__).resolve().parents[2]


def make(folder, threads):
    out = folder / "world.gguf"
    done = subprocess.run([ROOT / "scripts/default-model", "--short", "-o", out, "--work", folder / "work"], capture_output=True,
                          text=True, timeout=600, env=dict(os.environ, MAKAR=MAKAR, MAKAR_THREADS=str(threads)))
    check(done.returncode == 0 and out.is_file(), f"scripts/default-model --short: {done.stderr[-500:]}")
    return out


def run(program, *words, text=""):
    return subprocess.run([program, *words], input=text, capture_output=True, text=True, timeout=120)


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    one, two = make(root / "one", 1), make(root / "two", 2)
    if not failures:
        check(one.read_bytes() == two.read_bytes(), "two runs of the script give different bytes")
        (root / "bin").mkdir()
        (root / "share/makar").mkdir(parents=True)
        program = shutil.copy(MAKAR, root / "bin/makar")
        done = run(program, "generate", "One morning,")
        check(done.returncode == 2 and "makar pull" in done.stderr, f"without a default model: {done.returncode} {done.stderr}")
        shutil.copy(one, root / "share/makar/world.gguf")
        for words, text in ((["generate", "-n", "8", "One morning,"], ""), (["chat", "-n", "8"], "Who is there?\n")):
            done = run(program, *words, text=text)
            check(done.returncode == 0 and done.stdout.strip(), f"makar {words[0]}: {done.stderr}")
            check("no model given: using world" in done.stderr and "knows nothing else" in done.stderr, f"the note about the default model: {done.stderr}")
        done = run(program, "generate", "-m", str(two), "-n", "8", "One morning,")
        check("no model given" not in done.stderr, f"a given model is not the default: {done.stderr}")
    shipped = ROOT / "models/world.gguf"
    if shipped.is_file():
        check(shipped.stat().st_size < 8 << 20, f"models/world.gguf has {shipped.stat().st_size} bytes")
        prompts, answers = root / "prompts.jsonl", root / "answers.jsonl"
        run(MAKAR, "data", "world", "--form", "prompts", "-n", "200", "--seed", "3", "--split", "test", "-o", str(prompts))
        done = run(MAKAR, "generate", "-m", str(shipped), "--jsonl", "-f", str(prompts), "-n", "80", "--temperature", "0")
        answers.write_text(done.stdout)
        score = run(MAKAR, "data", "world", "check", "--answers", str(answers), "--seed", "3", "--split", "test", "--json")
        check(json.loads(score.stdout)["exact"] >= 180, f"the model of the repository: {score.stdout} {done.stderr[-300:]}")
sys.exit("\n".join(failures) if failures else 0)
