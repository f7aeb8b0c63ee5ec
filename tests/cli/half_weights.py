#!/usr/bin/env python3
"""Weights in f16 and bf16: every golden model that `makar forward` runs gives outputs near those of its f32 weights.

usage: half_weights.py MAKAR
"""
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

from tensor_files import read_floats, read_safetensors, write_safetensors

MAKAR = sys.argv[1]
MODELS = pathlib.Path(__file__).resolve().parents[1] / "golden/models"


def to_half(data, kind):
    n = len(data) // 4
    if kind == "F16":
        return struct.pack(f"<{n}e", *struct.unpack(f"<{n}f", data))
    return b"".join(data[i + 2:i + 4] for i in range(0, len(data), 4))  # bf16: the upper half of each f32, rounded towards zero


def forward(model, inputs, out):
    """-> (outputs, error)"""
    out.unlink(missing_ok=True)
    done = subprocess.run([MAKAR, "forward", model, "-i", inputs, "-o", out], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        return {}, done.stderr
    return read_floats(out), ""


def distance(a, b):
    norm = math.sqrt(sum(y * y for y in b))
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b))) / max(norm, 1e-6)


def main():
    compared, failures = 0, []
    with tempfile.TemporaryDirectory() as top:
        top = pathlib.Path(top)
        for folder in sorted(MODELS.iterdir()):
            weights, inputs = folder / "model.safetensors", folder / "golden.safetensors"
            if not weights.exists() or not inputs.exists():
                continue
            tensors = read_safetensors(weights)
            expected, _ = forward(folder, inputs, top / "out.safetensors")
            if not expected or not any(kind == "F32" for kind, _, _ in tensors.values()):
                continue
            for kind in ("F16", "BF16"):
                copy = top / folder.name
                shutil.copytree(folder, copy)
                (copy / "model.safetensors").unlink()
                write_safetensors(copy / "model.safetensors", {k: (kind, s, to_half(d, kind)) if t == "F32" else (t, s, d) for k, (t, s, d) in tensors.items()})
                got, error = forward(copy, inputs, top / "out.safetensors")
                shutil.rmtree(copy)
                compared += 1
                if set(got) != set(expected):
                    failures.append(f"{folder.name} {kind}: {error[-300:]}")
                    continue
                logits = [k for k in expected if "logits" in k] or list(expected)
                difference = max(distance(got[k], expected[k]) for k in logits)
                if not difference < (0.05 if kind == "F16" else 0.3):
                    failures.append(f"{folder.name} {kind}: outputs differ by {difference:.3g}")
    print(f"{compared} models compared")
    for text in failures:
        print("FAILED", text)
    return 1 if failures or compared < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
