#!/usr/bin/env python3
"""Training through the program itself: golden losses, exact resuming after kills, failing writes.

usage: training.py MAKAR [--kills N]   N kills for each model and number of threads (2 by default; 50 is the slow suite)
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, failures

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def losses(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def run(makar, *words, **more):
    return subprocess.run([makar, *map(str, words)], capture_output=True, text=True, timeout=1800, **more)


# Routers choose experts by comparing scores: a difference of one rounding moves a token to another expert
# (docs/decisions/0006-golden-findings.md).
ROUTED = {"gpt-oss", "qwen2-moe"}


def compare(name, got, want):
    worst = max(abs(a - b) / max(abs(b), 1e-2) for a, b in zip(got, want)) if got else float("inf")
    limit = 1e-3 if name in ROUTED else 1e-4
    check(len(got) == len(want) and worst <= limit, f"{name}: losses {got}, expected {want}")
    return worst


def golden_training(makar, scratch):
    worst, count = 0, 0
    for folder in sorted((GOLDEN / "models").iterdir()):
        fixture = folder / "golden.json"
        golden = json.loads(fixture.read_text() or "{}") if fixture.is_file() else {}
        # Recorded with dropout on (docs/decisions/0006-golden-findings.md).
        if "training" not in golden or folder.name in {"t5-relu-tied", "t5-gated-gelu-untied", "marian-sinusoidal"}:
            continue
        rate = re.search(r"lr=(\S+)", golden["training"]["recipe"]).group(1)
        out = scratch / folder.name
        done = run(makar, "sft", "-m", folder, "-d", folder / "golden.safetensors", "-o", out, "max_steps=6", f"learning_rate={rate}",
                   "lr_scheduler=constant", "weight_decay=0.1", "beta1=0.9", "beta2=0.95", "eps=1e-8", "max_grad_norm=1",
                   "no_dropout=true", "-t", 1, "-q")
        if done.returncode != 0:
            check(False, f"{folder.name}: {done.stderr.strip()}")
            continue
        step = json.loads((out / "log.jsonl").read_text().splitlines()[0])
        check(step.get("total") == 6, f"{folder.name}: the log says how many steps the run has")
        worst, count = max(worst, compare(folder.name, losses(out), golden["training"]["loss"])), count + 1
    check(count >= 20, f"only {count} golden trainings were found")
    print(f"golden training: {count} models, worst relative difference {worst:.1e}")


def golden_adapters(makar, scratch):
    # lora/ was recorded with another eps than its base's config says.
    base = scratch / "lora-base"
    shutil.copytree(GOLDEN / "models/llama", base)
    config = json.loads((base / "config.json").read_text())
    config["rms_norm_eps"] = 1e-6
    (base / "config.json").write_text(json.dumps(config))
    cases = [("lora", base, GOLDEN / "lora", GOLDEN / "lora/golden.safetensors", 1e-2)]
    for folder in sorted((GOLDEN / "peft").iterdir()):
        if (folder / "adapter_config.json").is_file():
            cases.append((folder.name, GOLDEN / "peft/base", folder, folder / "golden.safetensors", 5e-3))
    for name, base, adapter, data, lr in cases:
        want = json.loads((adapter / "golden.json").read_text())["training_loss"]
        out = scratch / f"adapter-{name}"
        done = run(makar, "sft", "-m", base, "--lora-model-dir", adapter, "-d", data, "-o", out, f"max_steps={len(want)}",
                   f"learning_rate={lr}", "lr_scheduler=constant", "beta1=0.9", "beta2=0.999", "max_grad_norm=0",
                   "no_dropout=true", "-t", 1, "-q")
        if done.returncode != 0:
            check(False, f"{name}: {done.stderr.strip()}")
            continue
        worst = compare(name, losses(out), want)
        merged = run(makar, "merge", "-m", base, "--lora", out, "-o", scratch / f"merged-{name}")
        check(merged.returncode == 0, f"merge of {name}: {merged.stderr.strip()}")
        print(f"golden adapter {name}: worst relative difference {worst:.1e}")


def recipes(makar, scratch):
    """Every recipe is valid for the command that its first lines name; only the data is missing."""
    files = sorted((GOLDEN.parents[1] / "recipes").glob("*.yaml"))
    for recipe in files:
        command = re.search(rf"^#   makar ((?:classify |data )?\w+) recipes/{recipe.name}", recipe.read_text(), re.M)
        check(command, f"{recipe.name}: its head has no command")
        words = (command.group(1) if command else "pretrain").split()
        if words[0] == "pipeline":
            needed = [f"{name}=x" for name in re.findall(r"^  (\w+): +#", recipe.read_text(), re.M)]
            done = run(makar, *words, recipe, "--list", *needed)
            check(done.returncode == 0, f"{recipe.name}: {done.stderr.strip()}")
            continue
        base = "teacher" if words[0] == "distill" else "base_model"
        options = ["datasets=/nonexistent/x", f"output_dir={scratch / 'recipe'}", f"{base}={GOLDEN / 'models/llama'}"]
        if words[0] == "data":
            options = ["--datasets", "/nonexistent/x", "-o", scratch / "curated.jsonl"]
        done = run(makar, *words, recipe, *options)
        check(done.returncode == 1, f"{recipe.name}: {done.stderr.strip()}")
    check(len(files) >= 5, "the recipes are there")
    print(f"recipes: {len(files)} read")


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def kills(makar, scratch, count, rng):
    """Runs that are killed at random moments and resumed produce the same bytes as an undisturbed run."""
    models = {"gpt2": 60, "bert-mlm": 60, "t5-relu-tied": 60}
    for name, steps in models.items():
        model = GOLDEN / "models" / name
        if not model.is_dir():  # a fixture of the same family that has labels
            found = sorted(p for p in (GOLDEN / "models").iterdir() if p.name.startswith(name.split("-")[0]))
            model = next(p for p in found if (p / "golden.safetensors").is_file() and "labels" in (p / "golden.safetensors").read_bytes()[:4000].decode("latin1"))
        words = ["sft", "-m", model, "-d", model / "golden.safetensors", f"max_steps={steps}", "learning_rate=1e-3",
                 "save_steps=3", "ema=0.9", "-q"]
        uninterrupted = scratch / f"{name}-uninterrupted"
        done = run(makar, *words, "-o", uninterrupted, "-t", 1)
        check(done.returncode == 0, f"{name}: {done.stderr.strip()}")
        began = time.monotonic()
        run(makar, *words, "-o", scratch / "timing", "--overwrite", "-t", 1)
        seconds = time.monotonic() - began
        shutil.rmtree(scratch / "timing", ignore_errors=True)
        for threads in (1, 2):
            out = scratch / f"{name}-killed-{threads}"
            background = ["--save-in-background"] if threads == 2 else []
            shutil.rmtree(out, ignore_errors=True)
            killed, inside = 0, 0
            while True:
                process = subprocess.Popen([makar, *map(str, words), *background, "-o", str(out), "-t", str(threads)], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.DEVNULL)
                if killed < count:
                    if killed % 2 == 0:
                        time.sleep(rng.uniform(0, seconds / 2))
                    else:  # inside a save: as soon as its temporary folder exists
                        end = time.monotonic() + seconds
                        while time.monotonic() < end and process.poll() is None and not list(out.glob("*.tmp")):
                            time.sleep(0.0005)
                    if process.poll() is None:
                        process.send_signal(signal.SIGKILL)
                        inside += bool(list(out.glob("*.tmp")))
                    process.wait()
                    killed += 1
                elif process.wait() == 0:
                    break
                else:
                    check(False, f"{name}: the resumed run failed")
                    return
            check(digest(out) == digest(uninterrupted), f"{name}, {threads} threads: different bytes after {killed} kills")
            print(f"{name}, {threads} threads: {killed} kills, {inside} inside a save, the same bytes")


def gradient_checkpointing(makar, scratch):
    """Gradient checkpointing changes no bit, for each kind of model and objective, with dropout."""
    text = scratch / "text.txt"
    text.write_text("\n\n".join(f"Chapter {i}. The {i % 7} ships of the north sailed on, and nobody saw them again." for i in range(200)))
    kinds = {"gpt2": [], "llama": [], "bert": ["--next-sentence"], "t5": [], "bart": []}
    for kind, more in kinds.items():
        digests = []
        for name, word in (("plain", []), ("again", ["--gradient-checkpointing"])):
            out = scratch / f"memory-{kind}-{name}"
            done = run(makar, "pretrain", "-d", text, "-o", out, "--model-type", kind, "--layers", 2, "--width", 32, "--heads", 2, "--dropout", 0.1,
                       "--vocab-size", 400, "--sequence-len", 48, "--micro-batch-size", 4, "--max-steps", 4, "--gradient-accumulation-steps", 2,
                       "-t", 2, "-q", *more, *word)
            check(done.returncode == 0, f"{kind}, {name}: {done.returncode} {done.stderr.strip()}")
            digests.append(digest(out) if done.returncode == 0 else name)
        check(digests[0] == digests[1], f"{kind}: different bytes with gradient_checkpointing")
    print(f"gradient_checkpointing: {len(kinds)} kinds, the same bytes")


def interrupt(makar, scratch):
    """One Ctrl-C saves and stops; the same command continues."""
    model = GOLDEN / "models/gpt2"
    words = ["sft", "-m", model, "-d", model / "golden.safetensors", "max_steps=400", "learning_rate=1e-3", "save_steps=0", "-t", 1]
    uninterrupted, out = scratch / "int-uninterrupted", scratch / "int"
    run(makar, *words, "-o", uninterrupted)
    process = subprocess.Popen([makar, *map(str, words), "-o", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not (out / "log.jsonl").is_file():
        time.sleep(0.001)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=600)
    check(process.returncode == 0, f"interrupted: {stderr}")
    if "stopped at step" in stderr:
        check(len(list(out.glob("checkpoint-*/complete.json"))) == 1, "an interrupted run leaves a checkpoint")
        done = run(makar, *words, "-o", out)
        check("resuming at step" in done.stderr, f"the same command resumes: {done.stderr}")
    check(digest(out) == digest(uninterrupted), "an interrupted run ends with different bytes")
    run(makar, *words, "-o", scratch / "int2", "save_steps=200")
    changed = run(makar, *words, "-o", scratch / "int2", "save_steps=200", "learning_rate=2e-3")
    check(changed.returncode == 1 and "learning_rate" in changed.stderr, f"another setting is refused: {changed.stderr}")


def full_disk(makar, scratch):
    """Writes that fail: the message says so, and the older checkpoint stays complete."""
    model = GOLDEN / "models/gpt2"
    words = ["sft", "-m", model, "-d", model / "golden.safetensors", "learning_rate=1e-3", "save_steps=5", "max_steps=20", "-t", 1, "-q"]
    uninterrupted = scratch / "full-uninterrupted"
    run(makar, *words, "-o", uninterrupted)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))

    shutil.rmtree(scratch / "fresh", ignore_errors=True)
    done = run(makar, *words, "-o", scratch / "fresh", preexec_fn=limit)
    check(done.returncode == 1 and "was not written, older ones are untouched" in done.stderr, f"a full disk: {done.stderr}")
    check(not list((scratch / "fresh").glob("checkpoint-*/complete.json")), "no checkpoint is marked complete on a full disk")
    check(not list((scratch / "fresh").glob("*.tmp")), "no temporary folder is left")
    done = run(makar, *words, "--save-in-background", "-o", scratch / "fresh-background", preexec_fn=limit)
    check(done.returncode == 1 and "older ones are untouched" in done.stderr, f"a full disk in the background: {done.stderr}")
    # The previous checkpoint stays complete, and the run ends with the same bytes once there is space.
    part = scratch / "part"
    run(makar, *words, "-o", part)
    for folder in part.glob("checkpoint-20"):
        shutil.rmtree(folder)
    (part / "model.safetensors").unlink(missing_ok=True)
    done = run(makar, *words, "-o", part, preexec_fn=limit)
    check(done.returncode == 1, "the resumed run fails on a full disk")
    check((part / "checkpoint-15/complete.json").is_file(), "the older checkpoint stays complete")
    done = run(makar, *words, "-o", part)
    check(done.returncode == 0 and digest(part) == digest(uninterrupted), "different bytes after the disk was full")
    # A damaged checkpoint is skipped with a message.
    for folder in part.glob("checkpoint-20"):
        data = bytearray((folder / "state.safetensors").read_bytes())
        data[-1] ^= 1
        (folder / "state.safetensors").write_bytes(data)
    (part / "run.json").unlink()  # as if it had been killed before the model was written
    (part / "model.safetensors").unlink()
    done = run(makar, *[w for w in words if w != "-q"], "-o", part)
    check("checksum" in done.stderr and digest(part) == digest(uninterrupted), f"a damaged checkpoint: {done.stderr}")
    print("failing writes: reported, older checkpoints complete")


def finished_runs(makar, scratch):
    """A finished run is not replaced by another one without --overwrite; the same command says that it is finished."""
    model, out = GOLDEN / "models/gpt2", scratch / "finished"
    words = ["sft", "-m", model, "-d", model / "golden.safetensors", "max_steps=3", "-t", 1, "-o", out]
    check(run(makar, *words, "learning_rate=1e-3").returncode == 0, "a first run")
    before = digest(out)
    done = run(makar, *words, "learning_rate=1e-3")
    check(done.returncode == 0 and "finished already (3 steps)" in done.stdout and digest(out) == before, f"the same command: {done.stdout}{done.stderr}")
    done = run(makar, *words, "learning_rate=1e-3", "--json")
    check(json.loads(done.stdout)["finished_before"] is True, f"the same command as JSON: {done.stdout}")
    done = run(makar, *words, "learning_rate=2e-3", "weight_decay=0.5")
    check(done.returncode == 1 and "learning_rate was 0.001, now 0.002; weight_decay was 0.0, now 0.5" in done.stderr and "--overwrite" in done.stderr,
          f"other settings: {done.returncode} {done.stderr}")
    check(digest(out) == before, "a refused run changes the model")
    done = run(makar, "sft", "-m", model, "-d", "/nonexistent/x.safetensors", "--overwrite", "-o", out)
    check(done.returncode == 1 and digest(out) == before, "a run that cannot start changes the model")
    check(run(makar, *words, "learning_rate=2e-3", "--overwrite").returncode == 0 and digest(out) != before, "--overwrite replaces it")
    base = scratch / "base-model"
    shutil.copytree(model, base)
    done = run(makar, *words[:-2], "-o", base)
    check(done.returncode == 1 and "no training run wrote" in done.stderr, f"into the folder of a model: {done.stderr}")
    print("finished runs: kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("makar")
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    makar = str(pathlib.Path(arguments.makar).resolve())
    os.environ.pop("MAKAR_SEED", None)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        recipes(makar, scratch)
        golden_training(makar, scratch)
        golden_adapters(makar, scratch)
        gradient_checkpointing(makar, scratch)
        interrupt(makar, scratch)
        full_disk(makar, scratch)
        finished_runs(makar, scratch)
        kills(makar, scratch, arguments.kills, random.Random(arguments.seed))
    if failures:
        sys.exit(f"training.py: {len(failures)} failures")
    print("training.py: ok")


if __name__ == "__main__":
    main()
