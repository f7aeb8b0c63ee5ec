#!/usr/bin/env python3
"""The npm clients of clients.mjs against a server with the tiny models of the tests, for everything that needs no sensible
answer; where the weights are present, also against a small real chat model and the toxicity classifier.

usage: clients.py MAKAR ASSETS        (ASSETS: folder of model weights; the environment variable MAKAR_ASSETS overrides it)

Skipped (exit code 77) without node, or if npm cannot install the packages of package-lock.json.
"""
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from serving import PATIENCE, Server, byte_tokenizer, make_model, write_toxicity_config

HERE = pathlib.Path(__file__).parent
GOLDEN = HERE.parent / "golden/models"


def decompressed(source, to):
    """A copy of the folder in which .xz files are decompressed."""
    to.mkdir()
    for path in source.iterdir():
        if path.suffix == ".xz":
            with lzma.open(path) as compressed, open(to / path.stem, "wb") as out:
                shutil.copyfileobj(compressed, out)
        else:
            shutil.copy(path, to)
    return to


def real_models(weights, root):
    toxicity = decompressed(weights / "bert-tiny-toxicity", root / "toxicity")
    write_toxicity_config(toxicity)
    return decompressed(weights / "minimind2-small", root / "minimind2"), toxicity


def tiny_models(root):
    classifier = root / "classifier"
    shutil.copytree(GOLDEN / "bert-sequence-classification", classifier)
    tokenizer = byte_tokenizer()
    tokenizer["added_tokens"] = []
    (classifier / "tokenizer.json").write_text(json.dumps(tokenizer))
    return make_model(root / "tiny"), classifier


def main():
    weights = pathlib.Path(os.environ.get("MAKAR_ASSETS", sys.argv[2])) / "weights"
    installed = subprocess.run([HERE.parent.parent / "scripts/npm-ci", HERE], capture_output=True, text=True, timeout=300)
    if not shutil.which("node") or installed.returncode != 0:
        print("skipped: the clients cannot be installed:", installed.stderr[-500:])
        return 77
    real = (weights / "minimind2-small").is_dir() and (weights / "bert-tiny-toxicity").is_dir()
    for sensible in (False, True) if real else (False,):
        with tempfile.TemporaryDirectory() as folder:
            model, classifier = (real_models if sensible else lambda _, root: tiny_models(root))(weights, pathlib.Path(folder))
            with Server(sys.argv[1], "--add-model", str(classifier), model=model) as s:
                command = ["node", str(HERE / "clients.mjs"), f"http://{s.host}:{s.port}", s.name, classifier.name, str(int(sensible))]
                done = subprocess.run(command, timeout=600 * PATIENCE)
                code = done.returncode or s.stop()
                if code:
                    return code
    return 0


sys.exit(main())
