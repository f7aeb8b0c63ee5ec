#!/usr/bin/env python3
"""The npm clients of clients.mjs against a server with a small real chat model.

usage: clients.py MAKAR ASSETS

Skipped (77) without node, without node_modules (npm ci in this folder) or without the weights.
"""
import lzma
import pathlib
import shutil
import subprocess
import sys
import tempfile

from serving import Server

HERE = pathlib.Path(__file__).parent


def main():
    weights = pathlib.Path(sys.argv[2]) / "weights/minimind2-small"
    if not shutil.which("node") or not (HERE / "node_modules/openai").is_dir() or not weights.is_dir():
        print("skipped: node, node_modules or the weights are absent")
        return 77
    with tempfile.TemporaryDirectory() as root:
        model = pathlib.Path(root) / "minimind2"
        model.mkdir()
        for path in weights.iterdir():
            if path.suffix == ".xz":
                with lzma.open(path) as packed, open(model / path.stem, "wb") as out:
                    shutil.copyfileobj(packed, out)
            else:
                shutil.copy(path, model)
        with Server(sys.argv[1], model=model) as s:
            done = subprocess.run(["node", str(HERE / "clients.mjs"), f"http://{s.host}:{s.port}", s.name], timeout=600)
            return done.returncode or s.stop()


sys.exit(main())
