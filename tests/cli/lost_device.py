#!/usr/bin/env python3
"""A device that runs out of memory or is lost: the command says what happened, checkpoints stay intact, and the same command
resumes the run to the same bytes. The fence device fails where its environment variables say.

usage: lost_device.py MAKAR
"""
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA = ROOT / "tests/golden/models/llama"


def run(*args, **env):
    return subprocess.run([MAKAR, *map(str, args), "--device", "fence"], capture_output=True, text=True, env={**os.environ, **env})


def pretrain(folder, **env):
    return run("pretrain", "-d", ROOT / "docs/design.md", "--tokenizer", "char", "--max-steps", 8, "--save-steps", 2, "--sequence-len", 48, "--layers", 2,
               "--width", 32, "--heads", 2, "-o", folder, "-q", **env)


def main():
    small = run("generate", "-m", LLAMA, "--ids", "5,17", "-n", 4, MAKAR_FENCE_MB="0")
    check(small.returncode == 1 and "out of memory: " in small.stderr and "MB were requested, " in small.stderr and "internal error" not in small.stderr,
          f"out of memory: {small.returncode} {small.stderr!r}")
    lost = run("generate", "-m", LLAMA, "--ids", "5,17", "-n", 4, MAKAR_FENCE_KERNELS="20")
    check(lost.returncode == 1 and "device failed" in lost.stderr and "internal error" not in lost.stderr, f"lost: {lost.returncode} {lost.stderr!r}")
    with tempfile.TemporaryDirectory() as name:
        top = pathlib.Path(name)
        whole = pretrain(top / "whole")
        check(whole.returncode == 0, f"whole: {whole.stderr}")
        after_checkpoint = False
        for kernels in (500, 1000, 1500, 2000, 3000):
            folder = top / f"lost-{kernels}"
            stopped = pretrain(folder, MAKAR_FENCE_KERNELS=str(kernels))
            if stopped.returncode == 0:
                break
            check(stopped.returncode == 1 and "checkpoints are intact" in stopped.stderr, f"{kernels} kernels: {stopped.returncode} {stopped.stderr!r}")
            after_checkpoint = after_checkpoint or any(folder.glob("checkpoint-*"))
            again = pretrain(folder)
            check(again.returncode == 0, f"{kernels} kernels, resumed: {again.stderr}")
            same = (folder / "model.safetensors").read_bytes() == (top / "whole/model.safetensors").read_bytes()
            check(same, f"{kernels} kernels: the resumed run differs")
        check(after_checkpoint, "the device was never lost after a checkpoint")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
