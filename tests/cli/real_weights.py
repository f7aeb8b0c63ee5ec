#!/usr/bin/env python3
"""Real weights through the commands: what they write is what was recorded with them. Skips where they are absent.

usage: real_weights.py MAKAR ASSETS        (ASSETS: MAKAR_ASSETS, or the folder given)
"""
import json
import lzma
import math
import os
import shutil
import subprocess
import sys
import tempfile

MAKAR = sys.argv[1]
ASSETS = os.environ.get("MAKAR_ASSETS", sys.argv[2])
WEIGHTS = os.path.join(ASSETS, "weights")
if not os.path.isdir(WEIGHTS):
    print(f"no real weights at {WEIGHTS}")
    sys.exit(77)
failures = []


def run(*arguments):
    done = subprocess.run([MAKAR, *arguments], capture_output=True, timeout=300)
    if done.returncode != 0:
        failures.append(f"{' '.join(arguments)[:120]}: {done.stderr.decode()[:300]}")
    return done.stdout.decode()


def expect(what, condition, detail=""):
    print(("ok    " if condition else "FAIL  ") + what)
    if not condition:
        failures.append(f"{what}: {detail}")


def unpacked(name, scratch):
    """A copy of a folder of weights with its .xz files unpacked."""
    to = os.path.join(scratch, name)
    shutil.copytree(os.path.join(WEIGHTS, name), to)
    for file in os.listdir(to):
        if file.endswith(".xz"):
            with lzma.open(os.path.join(to, file)) as packed, open(os.path.join(to, file[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
    return to


def stories(scratch):
    folder = os.path.join(WEIGHTS, "stories260K")
    run("convert", f"{folder}/stories260K.bin", f"{scratch}/stories", "--tokenizer", f"{folder}/tok512.bin")
    want = open(f"{folder}/expected_greedy_200.txt", encoding="utf-8").read()
    got = run("generate", "-m", f"{scratch}/stories", "", "-n", "200")
    expect("stories260K writes the recorded story", got == want + "\n", got[-80:])
    run("convert", f"{scratch}/stories", f"{scratch}/stories.gguf", "--outtype", "f32")
    got = run("generate", "-m", f"{scratch}/stories.gguf", "", "-n", "200")
    expect("and the same from GGUF", got == want + "\n", got[-80:])


def minimind(scratch):
    folder = unpacked("minimind2-small", scratch)
    got = run("generate", "-m", folder, "--chat", "What is the capital of France?", "-n", "40")
    expect("MiniMind2 answers as recorded", got == "The capital of France is Paris.\n", got)
    schema = '{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}'
    got = run("generate", "-m", folder, "--chat", "A person as JSON", "--json-schema", schema, "-n", "80")
    try:
        person = json.loads(got)
        expect("and writes JSON of a schema", isinstance(person["name"], str) and isinstance(person["age"], int), got)
    except ValueError:
        expect("and writes JSON of a schema", False, got)
    plain = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7")
    ahead = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7", "-md", folder)
    expect("guesses of a draft model change nothing", plain == ahead, (plain, ahead))
    ahead = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7", "--lookup")
    expect("nor do guesses from the prompt", plain == ahead, (plain, ahead))


def minilm():
    folder = os.path.expanduser("~/.cache/makar-assets/all-MiniLM-L6-v2")
    if not os.path.isdir(folder):
        print("skip  all-MiniLM-L6-v2 has not been fetched")
        return
    mine = json.loads(run("embed", "-m", folder, "hello world", "--json"))["embedding"]
    want = json.load(open(f"{WEIGHTS}/checks/all-MiniLM-L6-v2.hello_world.json"))
    want = want if isinstance(want, list) else want.get("embedding") or next(iter(want.values()))
    dot = sum(a * b for a, b in zip(mine, want))
    cosine = dot / math.sqrt(sum(a * a for a in mine) * sum(b * b for b in want))
    expect("all-MiniLM-L6-v2 reproduces the recorded vector", cosine >= 0.9999, cosine)


with tempfile.TemporaryDirectory() as scratch:
    stories(scratch)
    minimind(scratch)
    minilm()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
