#!/usr/bin/env python3
"""Signals and kills at random moments of a training run that saves at every step: complete checkpoints are never lost.

A run is started, stopped and started again, with every limit of kept checkpoints, saving in the foreground and in the
background, by one signal, two, or a signal and a kill. After each stop the complete checkpoints (complete.json with the
right checksums) must be at least as many as before, up to the limit, and the newest must not be older.

usage: checkpoints.py MAKAR [--trials N]   24 trials; 200 with MAKAR_SLOW=1
"""
import argparse
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from checks import check, failures

MODEL = pathlib.Path(__file__).resolve().parents[1] / "golden/models/gpt2"
STOPS = {
    "SIGINT": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGKILL": [signal.SIGKILL],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
    "SIGTERM twice": [signal.SIGTERM, signal.SIGTERM],
    "SIGINT, SIGKILL": [signal.SIGINT, signal.SIGKILL],
    "SIGTERM, SIGKILL": [signal.SIGTERM, signal.SIGKILL],
}


def complete(run):
    """Steps of the complete checkpoints, whose files have the checksums of their marker. A marker without such files is a failure."""
    steps = []
    for marker in run.glob("checkpoint-*/complete.json"):
        folder = marker.parent
        if folder.name.endswith(".tmp"):
            continue
        sums = json.loads(marker.read_text())
        good = all((folder / name).is_file() and hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest for name, digest in sums.items())
        check(good and len(sums) == 2, f"{folder} has a marker, but not the files with the checksums in it")
        if good:
            steps.append(int(folder.name.split("-")[1]))
    return sorted(steps)


def stop(process, run, signals, rng):
    for i, what in enumerate(signals):
        if i > 0 and rng.random() < 0.6:  # inside a save
            end = time.monotonic() + 0.05
            while time.monotonic() < end and process.poll() is None and not list(run.glob("*.tmp")):
                pass
        elif i > 0:
            time.sleep(rng.choice([0, rng.uniform(0, 0.004), rng.uniform(0, 0.02)]))
        if process.poll() is None:
            process.send_signal(what)
    try:
        process.wait(timeout=600)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        check(False, "a run did not end after its last signal")


def trials(makar, scratch, count, rng):
    words = [makar, "sft", "-m", MODEL, "-d", MODEL / "golden.safetensors", "learning_rate=1e-3", "max_steps=1000000", "save_steps=1", "-t", "1", "-q"]
    lost = inside_save = 0
    for trial in range(count):
        limit, background = 1 + trial % 3, trial // 3 % 2 == 1
        kind = list(STOPS)[trial % len(STOPS)]
        run = scratch / f"run-{limit}-{background}"
        before = complete(run)
        process = subprocess.Popen([*map(str, words), f"save_total_limit={limit}", *(["--save-in-background"] if background else []), "-o", str(run)],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 600  # until the run has written its first checkpoint
        while process.poll() is None and time.monotonic() < end:
            newest = [int(p.name.split("-")[1]) for p in run.glob("checkpoint-*") if p.name.split("-")[1].isdigit()]
            if newest and max(newest) > max(before, default=0):
                break
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        check(process.poll() is None, f"trial {trial}: the run ended by itself: {process.stderr.read() if process.poll() is not None else ''}")
        stop(process, run, STOPS[kind], rng)
        inside_save += bool(list(run.glob("*.tmp")))
        after = complete(run)
        fewer = len(after) < min(limit, max(len(before), 1)) or max(after, default=0) < max(before, default=0)
        lost += fewer
        check(not fewer, f"trial {trial} ({kind}, limit {limit}, {'background' if background else 'foreground'}): {before} before, {after} after")
        check(len(after) <= limit + 1, f"trial {trial}: {len(after)} checkpoints, save_total_limit is {limit}")
        process.stderr.close()
    print(f"checkpoints: {count} stops, {inside_save} inside a save, {lost} lost a checkpoint")


def same_step_again(makar, scratch):
    """A run that resumes at its last step does not save that step again; it writes the model and removes files of interrupted saves."""
    words = ["sft", "-m", MODEL, "-d", MODEL / "golden.safetensors", "learning_rate=1e-3", "max_steps=6", "save_steps=1", "-t", "1", "-q"]
    run = scratch / "same"

    def go():
        done = subprocess.run([makar, *map(str, words), "-o", str(run)], capture_output=True, text=True, timeout=600)
        check(done.returncode == 0, done.stderr)

    go()
    state = run / "checkpoint-6/state.safetensors"
    before = (state.stat().st_ino, state.stat().st_mtime_ns)
    (run / "run.json").unlink()  # as if it had been killed before the model was written
    (run / "model.safetensors").unlink()
    shutil.copytree(run / "checkpoint-5", run / "checkpoint-9.tmp")  # a save and a removal that were cut short
    (run / "checkpoint-3").mkdir()
    go()
    check((state.stat().st_ino, state.stat().st_mtime_ns) == before, "the last step was saved again")
    check((run / "model.safetensors").is_file(), "the model is written")
    check(not (run / "checkpoint-9.tmp").exists() and not (run / "checkpoint-3").exists(), "files of interrupted saves are removed")
    print("checkpoints: a saved step is not saved again")


def sigterm_again(makar, scratch):
    """Any number of SIGTERMs end a run after its checkpoint; a second SIGINT ends it at once."""
    words = [makar, "sft", "-m", MODEL, "-d", MODEL / "golden.safetensors", "learning_rate=1e-3", "max_steps=1000000", "save_steps=1000000", "-t", "1", "-q"]
    for again, code in ((signal.SIGTERM, 0), (signal.SIGINT, 130)):
        run = scratch / f"again-{again}"
        process = subprocess.Popen([*map(str, words), "-o", str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        end = time.monotonic() + 600
        while process.poll() is None and time.monotonic() < end and not ((run / "log.jsonl").is_file() and (run / "log.jsonl").stat().st_size):
            time.sleep(0.001)
        process.send_signal(signal.SIGTERM)
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(again)
            time.sleep(0.0005)
        process.wait(timeout=600)
        message = process.stderr.read()
        process.stderr.close()
        check(process.returncode == code, f"SIGTERM, then signal {int(again)}: exit code {process.returncode}, expected {code}: {message}")
        check(code != 0 or (len(complete(run)) == 1 and "resumes from" in message), f"SIGTERM twice: {complete(run)} {message}")
    print("checkpoints: a second SIGTERM does not end a run before its checkpoint")


def two_at_once(makar, scratch):
    """A second training in the same folder is refused while the first is running."""
    words = [makar, "sft", "-m", MODEL, "-d", MODEL / "golden.safetensors", "max_steps=1000000", "save_steps=1", "-t", "1", "-q", "-o", scratch / "both"]
    first = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 600
    while not (scratch / "both/log.jsonl").is_file() and time.monotonic() < end:
        time.sleep(0.005)
    try:
        second = subprocess.run(["timeout", "300", *map(str, words)], capture_output=True, text=True)
    finally:
        first.kill()
        first.wait()
    check(second.returncode == 1 and "another training run uses" in second.stderr, f"two at once: {second.returncode} {second.stderr}")
    print("checkpoints: two trainings in one folder are refused")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("makar")
    parser.add_argument("--trials", type=int, default=200 if os.environ.get("MAKAR_SLOW") == "1" else 24)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    makar = str(pathlib.Path(arguments.makar).resolve())
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        trials(makar, scratch, arguments.trials, random.Random(arguments.seed))
        same_step_again(makar, scratch)
        sigterm_again(makar, scratch)
        two_at_once(makar, scratch)
    if failures:
        sys.exit(f"checkpoints.py: {len(failures)} failures")


if __name__ == "__main__":
    main()
