#!/usr/bin/env python3
"""--device: results of a command on another device have the same bytes as on the CPU. The fence device (CPU kernels on memory
that the host cannot read) runs everywhere; cuda runs where there is a GPU.

usage: devices.py MAKAR
"""
import pathlib
import subprocess
import sys
import tempfile

MAKAR = sys.argv[1]
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden/models"
failures = []


def run(*args):
    return subprocess.run([MAKAR, *map(str, args)], capture_output=True)


def produce(folder, device):
    """All results of a device: name -> bytes."""
    out = {}
    device_folder = folder / device
    device_folder.mkdir()

    def store(name, done, path=None):
        if done.returncode != 0:
            failures.append(f"{device}: {name}: {done.stderr.decode()[-300:]}")
            return
        out[name] = pathlib.Path(path).read_bytes() if path else done.stdout

    store("generate", run("generate", "-m", GOLDEN / "llama", "--ids", "5,17,9", "-n", "12", "--device", device))
    store("beams", run("generate", "-m", GOLDEN / "gpt2", "--ids", "5,17,9", "-n", "8", "--beams", "3", "--device", device))
    store("generate q8_0", run("generate", "-m", ROOT / "models/world.gguf", "-p", "Where is", "-n", "24", "--temperature", "0",
                               "--logprobs", "2", "--json", "--device", device))
    for model in ("t5-relu-tied", "mixtral", "vit"):
        result = device_folder / f"{model}.safetensors"
        store(f"forward {model}", run("forward", GOLDEN / model, "-i", GOLDEN / model / "golden.safetensors", "-o", result,
                                     "--device", device), result)
    for optimizer in ("adamw", "muon"):
        trained = device_folder / optimizer
        store(f"pretrain {optimizer}", run("pretrain", "-d", ROOT / "docs/design.md", "--tokenizer", "char", "--max-steps", "6", "--sequence-len",
                                          "48", "--layers", "2", "--width", "32", "--heads", "2", "--optimizer", optimizer, "-o", trained,
                                          "--device", device, "-q"), trained / "model.safetensors")
    return out


def main():
    bad = run("generate", "-m", GOLDEN / "llama", "--ids", "5", "-n", "1", "--device", "fense")
    if bad.returncode != 2 or b"did you mean 'fence'" not in bad.stderr or b"cpu, cuda, fence" not in bad.stderr:
        failures.append(f"an unknown device: {bad.returncode} {bad.stderr!r}")
    gpu = run("generate", "-m", GOLDEN / "llama", "--ids", "5", "-n", "1", "--device", "cuda")
    if gpu.returncode != 0 and b"use the device 'cpu'" not in gpu.stderr:
        failures.append(f"cuda without a GPU: {gpu.returncode} {gpu.stderr!r}")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        want = produce(folder, "cpu")
        for device in ["fence"] + (["cuda"] if gpu.returncode == 0 else []):
            got = produce(folder, device)
            failures.extend(f"{device}: {key} differs from the CPU" for key in want if got.get(key) != want[key])
            print(f"{device}: {len(got)} results compared with the CPU")
    for line in failures:
        print("FAIL", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
