"""Shared by the tests of makar index, search and ask."""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import run as run_program


def run(*arguments, text=None):
    done = run_program(*arguments, text=text)
    return done.returncode, done.stdout, done.stderr


def search(index, query, *arguments):
    code, out, err = run("search", index, query, "--json", *arguments)
    check(code == 0, f"search {query}: {err[-300:]}")
    return json.loads(out)["hits"] if code == 0 else []


def make_model(folder):
    """A few steps on a page of text: enough to embed and to answer something."""
    page = folder / "page.txt"
    page.write_text("".join(chr(c) for c in range(32, 127)) + "\nSources answer questions. [1] The keeper counts ships.\n" * 40)
    code, _, err = run("pretrain", "--datasets", page, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 400, "-o", folder / "model")
    check(code == 0, f"a model: {err[-300:]}")
    return folder / "model"


def run_all(*checks):
    """Runs each check in a folder of its own; ends the program."""
    with tempfile.TemporaryDirectory() as scratch:
        for one in checks:
            part = pathlib.Path(scratch) / one.__name__
            part.mkdir()
            one(part)
    sys.exit(1 if failures else 0)
