#!/usr/bin/env python3
"""Learning from human feedback as one pipeline: ratings on the page of the server, pairs, a reward model, PPO. Killed during
the reward model's training and during PPO, it resumes and ends with the bytes of a run that was not killed.

usage: pipeline.py MAKAR
"""
import json
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from checks import check, failures
from program import MAKAR, good, refused, run

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "recipes/feedback_loop.yaml"


def rate(folder, base, pairs):
    """Two raters on the page: they prefer the better answer of each pair."""
    (folder / "ratings").mkdir()
    study = folder / "ratings/study.jsonl"
    study.write_text("".join(json.dumps({"prompt": p["prompt"], "answers": [p["rejected"], p["chosen"]]}) + "\n" for p in pairs))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([MAKAR, "serve", "-m", str(base), "--ratings", str(folder / "ratings"), "--port", str(port), "-t", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def post(path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    try:
        end = time.time() + 120
        while time.time() < end:
            try:
                post("/makar/ratings/study/next", {"rater": "ann"})
                break
            except OSError:
                time.sleep(0.1)
        for rater in ("ann", "bob"):
            for _ in pairs:
                item = post("/makar/ratings/study/next", {"rater": rater})
                better = pairs[item["item"]]["chosen"]
                post("/makar/ratings/study", {"rater": rater, "item": item["item"], "ranks": [1 if text == better else 2 for text in item["answers"]]})
    finally:
        server.terminate()
        server.wait(30)
    return study


def start_and_kill(words, checkpoint, number):
    """Starts the pipeline and ends it by a signal once a stage has written a checkpoint."""
    child = subprocess.Popen([MAKAR, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.time() + 300
    while time.time() < end and child.poll() is None and not checkpoint.is_dir():
        time.sleep(0.005)
    child.send_signal(number)
    child.wait()


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, base = folder / "text.jsonl", folder / "base"
    good("data", "world", "--form", "text", "-n", 200, "-o", text)
    good("pretrain", "-d", text, "layers=1", "width=32", "heads=2", "vocab_size=500", "sequence_len=256", "max_steps=20", "micro_batch_size=8", "lr=3e-3", "-t", 1, "-o", base)
    pairs = [json.loads(line) for line in good("data", "world", "--form", "preferences", "-n", 40, "--events", 3).stdout.splitlines()]
    study = rate(folder, base, pairs)
    prompts = folder / "prompts.jsonl"
    prompts.write_text("".join(json.dumps({"prompt": p["prompt"]}) + "\n" for p in pairs[:8]))
    words = ["pipeline", RECIPE, f"model={base}", f"study={study}", f"prompts={prompts}", "reward_epochs=3", "policy_steps=4", "save_steps=1", "threads=1"]
    whole, killed = folder / "whole", folder / "killed"
    done = good(*words, f"folder={whole}")
    check("5 stages finished" in done.stdout and "stage 3/5 policy" in done.stderr, f"{done.stdout} {done.stderr[-500:]}")
    lines = [json.loads(line) for line in (whole / "pairs.jsonl").read_text().splitlines()]
    check([(p["chosen"], p["rejected"]) for p in lines] == [(p["chosen"], p["rejected"]) for p in pairs], "the pairs are those that the raters saw")
    start_and_kill([*words, f"folder={killed}"], killed / "reward/checkpoint-2", signal.SIGKILL)
    check(not (killed / "reward/model.safetensors").exists(), "killed in the training of the reward model")
    start_and_kill([*words, f"folder={killed}"], killed / "policy/checkpoint-2", signal.SIGTERM)
    check((killed / "reward/model.safetensors").exists() and not (killed / "policy/model.safetensors").exists(), "stopped in PPO")
    again = good(*words, f"folder={killed}")
    check("pairs: already finished" in again.stderr and "reward: already finished" in again.stderr, again.stderr[-800:])
    for name in ("pairs.jsonl", "reward/model.safetensors", "policy/model.safetensors", "before.jsonl", "after.jsonl"):
        check((killed / name).read_bytes() == (whole / name).read_bytes(), f"{name} has different bytes after two kills")
    third = good(*words, f"folder={killed}")
    check(third.stderr.count("already finished") == 5, "nothing is left to do")
    refused("another command", *words[:-2], "save_steps=2", "threads=1", f"folder={killed}")
    listed = good(*words, "--list", f"folder={folder / 'none'}").stdout
    check(listed.startswith("pairs: makar judge people") and not (folder / "none").exists(), listed)
    refused("prompts has no value", "pipeline", RECIPE, "model=a", "study=b")
    refused("did you mean 'model'", *words, "modle=x")
    other = folder / "other.yaml"
    other.write_text(f"variables: {{folder: {folder / 'o'}}}\nstages:\n  - {{name: a, command: [prun, x]}}\n")
    refused("did you mean 'prune'", "pipeline", other)
    other.write_text(f"variables: {{folder: {folder / 'o'}}}\nstages:\n  - {{name: a, command: [judge, people, /nonexistent.jsonl]}}\n")
    refused("exit code 1", "pipeline", other)
    check(run("pipeline").returncode == 2, "a pipeline is needed")
sys.exit(f"pipeline: {len(failures)} failures" if failures else 0)
