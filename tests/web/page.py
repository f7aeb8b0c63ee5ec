#!/usr/bin/env python3
"""The page in Chromium, against a server with tiny models.

usage: page.py MAKAR install    the npm packages of the tests, and the page's types
       page.py MAKAR NAME       NAME.mjs of this folder

Skipped (77) without node, npm or chromium, and where the packages cannot be had.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "serve"))
from serving import GOLDEN, Server, make_model  # noqa: E402

SKIPPED = 77


def install():
    for folder in ("web", "tests/web"):
        if subprocess.run([ROOT / "scripts/npm-ci", ROOT / folder]).returncode:
            print("skipped: no npm packages for", folder)
            return SKIPPED
    return subprocess.run([HERE / "node_modules/.bin/tsc", "-p", ROOT / "web"]).returncode


def make_run(folder, steps):
    """A log as training writes it, with a sample that would be trouble as HTML."""
    folder.mkdir(parents=True)
    lines = []
    for i in range(1, steps + 1):
        lines.append({"step": i, "loss": 4 / i ** 0.3, "norm": 1.0, "lr": 1e-3 * i / steps, "seconds": 0.1, "tokens": 512})
        if i % 20 == 0:
            lines.append({"step": i, "validation": {"loss": 4.2 / i ** 0.3}})
            lines.append({"step": i, "sample": f"at {i} <img src=x onerror='window.pwned=1'>"})
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def endless_model(folder):
    """No token ends an answer: streams are as long as they are asked to be."""
    make_model(folder, positions=32768)
    for name in ("config.json", "tokenizer_config.json"):
        fields = json.loads((folder / name).read_text())
        fields = {k: [] if k == "eos_token_id" else v for k, v in fields.items() if k != "eos_token"}
        (folder / name).write_text(json.dumps(fields))
    return folder


def run(makar, name):
    with tempfile.TemporaryDirectory() as root:
        root = pathlib.Path(root)
        flags = ["--store", str(root / "store.db"), "--runs", str(root / "runs")]
        if name == "key":
            flags += ["--api-key", "open-sesame"]
        make_run(root / "runs/first", 100)
        others = {"experts": "mixtral", "slopes": "bloom-alibi", "both": "t5-relu-tied"} if name == "look" else {}
        for other, golden in others.items():
            make_model(root / other, golden=GOLDEN.parent / golden)
            flags += ["--add-model", f"{other}={root / other}"]
        with Server(makar, *flags, model=endless_model(root / "tiny")) as s:
            done = subprocess.run(["node", HERE / f"{name}.mjs", f"http://{s.host}:{s.port}", root / "runs"], timeout=300)
            code = s.stop()
            if code:
                print("the server ended with", code)
            return done.returncode or code


def main():
    if not all(shutil.which(tool) for tool in ("node", "npm", "chromium")):
        print("skipped: node, npm or chromium is absent")
        return SKIPPED
    if sys.argv[2] == "install":
        return install()
    if not (HERE / "node_modules/playwright-core").is_dir():
        print("skipped: the npm packages are not there")
        return SKIPPED
    return run(sys.argv[1], sys.argv[2])


sys.exit(main())
