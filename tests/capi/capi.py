#!/usr/bin/env python3
"""libmakar.so through python/makar.py, compared with the program; its symbols; and the examples.

usage: capi.py MAKAR LIBRARY EXAMPLES (the folder with the built examples)
"""
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/serve"), str(ROOT / "python")]
from checks import check, failures  # noqa: E402

MAKAR, LIBRARY, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), pathlib.Path(sys.argv[3])
os.environ["MAKAR_LIBRARY"] = str(LIBRARY)
import makar  # noqa: E402
from serving import make_model  # noqa: E402


def program(*words):
    result = subprocess.run([MAKAR, *map(str, words)], capture_output=True, text=True, timeout=300)
    check(result.returncode == 0, f"{words}: {result.stderr}")
    return result.stdout


def fails(part, call):
    try:
        call()
        check(False, f"should fail with '{part}'")
    except makar.Error as error:
        check(part in str(error), f"expected '{part}' in '{error}'")


def compare_with_program(path):
    model = makar.Model(path, threads=1)
    ids = model.tokenize("hello there")
    check(ids == [int(i) for i in program("tokenizer", "encode", "-m", path, "--text", "hello there", "--special").split()], f"tokens: {ids}")
    check("hello" in model.detokenize(ids), f"detokenize returns the text: {model.detokenize(ids)!r}")
    expected = json.loads(program("generate", "-m", path, "-n", "12", "--json", "hello"))["answers"][0]["text"]
    pieces = []
    text = model.generate("hello", on_text=pieces.append, max_tokens=12)
    check(text == expected and "".join(pieces) == text, f"generate: {text!r}, the program: {expected!r}")
    check("".join(model.stream("hello", max_tokens=12)) == text, "stream")
    sampled = json.loads(program("generate", "-m", path, "-n", "12", "--json", "--temperature", "0.9", "--seed", "3", "hello"))
    check(model.generate("hello", max_tokens=12, temperature=0.9, seed=3) == sampled["answers"][0]["text"], "the same seed gives the same sample")
    stopped = []
    model.generate("hello", on_text=lambda piece: stopped.append(piece) or True, max_tokens=12)
    check(len(stopped) == 1, f"a callback stops the generation: {stopped}")
    vector = model.embed("hello")
    check(vector == model.embed("hello") and math.isclose(math.hypot(*vector), 1, rel_tol=1e-4), "an embedding has length 1")
    scored = subprocess.run([MAKAR, "score", "-m", path, "--jsonl"], input='{"prompt": "hello", "completion": " there"}\n',
                            capture_output=True, text=True, timeout=300)
    expected = json.loads(scored.stdout)
    logprob, greedy = model.loglikelihood("hello", " there")
    check(logprob == expected["logprob"] and greedy == expected["is_greedy"], f"log-likelihood {logprob} {greedy}: {scored.stdout}")
    answers = [None] * 4
    threads = [threading.Thread(target=lambda i=i: answers.__setitem__(i, model.generate("hello", max_tokens=12))) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    check(answers == [text] * 4, "several threads get the same answers")

    fails("no such file or folder", lambda: makar.Model("/nowhere"))
    fails("max_tokens", lambda: model.generate("hello", max_tokens="many"))
    fails("no option 'colour'", lambda: model.generate("hello", colour=1))
    fails("temperature", lambda: model.generate("hello", temperature=-3))
    fails("vocabulary", lambda: model.detokenize([10**9]))

    def broken(_):
        raise ValueError("mine")
    try:
        model.generate("hello", on_text=broken, max_tokens=5)
        check(False, "an exception in a callback is lost")
    except ValueError:
        pass
    check(model.generate("hello", max_tokens=12) == text, "the model works after an exception in a callback")
    model.close()
    fails("NULL", lambda: model.tokenize("x"))


def symbols():
    listed = subprocess.run(["nm", "-D", "--defined-only", str(LIBRARY)], capture_output=True, text=True).stdout
    names = [line.split()[-1].split("@")[0] for line in listed.splitlines()]
    check(len(names) >= 10 and all(n.startswith("makar_") for n in names), f"exported: {[n for n in names if not n.startswith('makar_')][:5]}")
    header = (ROOT / "include/makar.h").read_text()
    check(all(f"{n}(" in header for n in names), "every exported function is in makar.h")


def examples(path, root):
    def example(name, *words):
        result = subprocess.run([EXAMPLES / f"example_{name}", *map(str, words)], capture_output=True, text=True, timeout=300)
        check(result.returncode == 0, f"example {name}: {result.stderr}")
        return result.stdout
    check(example("generate", path, "hello").strip(), "the C++ example generates text")
    check("log-probability" in example("generate_c", path, "hello"), "the C example prints a log-probability")
    tokens = example("sampler", path, "hello").split()
    check(len(tokens) > 5 and all(a != b for a, b in zip(tokens, tokens[1:])), f"no token twice in a row: {tokens}")
    out = example("train", ROOT / "README.md", root / "trained", 31)
    losses = [float(line.split()[-1]) for line in out.splitlines()]
    check(len(losses) == 4 and losses[-1] < losses[0] - 0.5, f"the loss falls: {losses}")
    check("LlamaForCausalLM" in program("inspect", root / "trained"), "the trained model opens")
    check("MineForCausalLM with" in example("family", root / "mine"), "a user-defined family")
    failed = subprocess.run([EXAMPLES / "example_generate", "/nowhere", "x"], capture_output=True, text=True)
    check(failed.returncode == 1 and "no such file or folder" in failed.stderr, f"errors are printed: {failed.stderr}")


with tempfile.TemporaryDirectory() as folder:
    model_path = make_model(pathlib.Path(folder) / "model")
    compare_with_program(model_path)
    symbols()
    examples(model_path, pathlib.Path(folder))
sys.exit("\n".join(failures) if failures else 0)
