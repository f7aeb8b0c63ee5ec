#!/usr/bin/env python3
"""makar demo with --quick: the stages and their figures, what is printed in a pipe, resuming after Ctrl-C and after a kill in each stage, --from, --list, the
report, the port, and refused options.

usage: demo.py MAKAR
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

from checks import check, failures
from program import MAKAR, refused, run

STAGES = ["data", "tokenizer", "pretrain", "tune", "align", "evaluate", "quantize", "inside", "retrieve", "serve"]


def demo(folder, *words):
    environment = dict(os.environ, COLUMNS="80")
    return subprocess.run([MAKAR, "demo", "--quick", "--no-serve", "-t", "1", "-o", folder, *words], capture_output=True,
                          text=True, timeout=900, env=environment, stdin=subprocess.DEVNULL)


def state(folder):
    return json.loads((folder / "demo.json").read_text())["stages"]


def whole(folder):
    done = demo(folder)
    check(done.returncode == 0, f"the demo: {done.stderr[-800:]}")
    check(list(state(folder)) == STAGES, f"all stages: {list(state(folder))}")
    for number in range(1, 11):
        check(f"--- {number}/10 " in done.stdout, f"the headline of stage {number}")
    for name, stage in state(folder).items():
        check(stage["figures"] and all(f["command"] and f["value"] for f in stage["figures"]), f"{name} ends with a figure: {stage}")
    own = [line for line in done.stdout.splitlines() if re.match(r"(\$|---|=>|   ? [^ ]|stage )", line)]
    check(all(len(line) <= 80 for line in own), f"80 columns: {[line for line in own if len(line) > 80][:3]}")
    check("\033" not in done.stdout and "\r" not in done.stdout, "no control characters in a pipe")
    check("=> difference to the model before alignment:" in done.stdout, "the evaluation compares with the model before alignment")
    report = (folder / "report.md").read_text()
    check(report.count("```sh\n") == sum(len(s["figures"]) for s in state(folder).values()), "the report has each figure's command")
    # The commands of the report run as they are printed: the one that encodes a text, for example.
    command = next(c for c in re.findall(r"```sh\n(.*?)\n```", report, re.S) if "tokenizer encode" in c)
    again = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    check(again.returncode == 0 and again.stdout.startswith("["), f"{command}: {again.stderr}")


def start(folder):
    return subprocess.Popen([MAKAR, "demo", "--quick", "--no-serve", "-t", "1", "-o", str(folder)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, start_new_session=True, env=dict(os.environ, COLUMNS="80"))


def in_stage(child, number):
    """Reads what the demo prints until the first command of a stage; false if it ends before."""
    reached = False
    for line in child.stdout:
        reached = reached or line.startswith(f"--- {number}/10 ")
        if reached and line.startswith("$ "):
            return True
    return False


def ends(folder):
    """The demo runs to its end; a command that a killed demo started may still be saving its state."""
    end = time.time() + 120
    done = demo(folder)
    while time.time() < end and "wait for it" in done.stderr:
        time.sleep(0.5)
        done = demo(folder)
    check(done.returncode == 0, f"the demo resumes: {done.stderr[-500:]}")
    return done


def same_results(folder, complete, how):
    for name in ("text.jsonl", "chat.jsonl", "tokenizer/tokenizer.json", *(f"{n}/model.safetensors" for n in ("base", "chat", "aligned")), "world-q8_0.gguf"):
        check((folder / name).read_bytes() == (complete / name).read_bytes(), f"{name} has different bytes after {how}")
    names = lambda at: {name: [f["name"] for f in stage["figures"]] for name, stage in state(at).items()}  # noqa: E731
    check(names(folder) == names(complete), f"the figures after {how}: {names(folder)}")


def resumes_after_interrupt(folder, complete):
    """Ctrl-C during pretraining."""
    child = start(folder)
    check(in_stage(child, 3), "the third stage")
    end = time.time() + 60
    while time.time() < end and child.poll() is None and not (folder / "base/log.jsonl").exists():
        time.sleep(0.002)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does
    errors = child.communicate(timeout=120)[1]
    check(child.returncode == 130 and "the same command resumes" in errors, f"Ctrl-C: {child.returncode} {errors[-300:]}")
    done_before = list(state(folder))
    check(done_before == STAGES[:len(done_before)] and len(done_before) in (2, 3), f"stages before Ctrl-C: {done_before}")
    check("1/10 data: already done" in ends(folder).stdout, "finished stages do not run again")
    same_results(folder, complete, "Ctrl-C")


def resumes_after_kills(folder, complete):
    """Killed once in each stage, a different part of a second after its first command."""
    for number in range(1, len(STAGES) + 1):
        end, reached = time.time() + 120, False
        while not reached and time.time() < end:  # a command of the killed demo may still be saving its state
            child = start(folder)
            reached = in_stage(child, number)
            if reached:
                time.sleep(0.07 * number)
            child.kill()
            errors = child.communicate()[1]
            reached = reached or STAGES[number - 1] in state(folder)  # short stages: the last run was killed after this one
            if not reached:
                check("wait for it" in errors, f"stage {number} after a kill: {errors[-300:]}")
                time.sleep(0.3)
        check(reached, f"stage {number} ({STAGES[number - 1]}) begins")
    ends(folder)
    same_results(folder, complete, "a kill in each stage")


def options(root, folder):
    listed = run("demo", "--list")
    check(listed.returncode == 0 and [line.split()[1] for line in listed.stdout.splitlines()] == STAGES, f"--list: {listed.stdout}")
    before = state(folder)["pretrain"]
    with socket.socket() as taken:  # the port is in use: the next free one is taken
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = demo(folder, "--from", "7", "--port", str(port))
        used = re.search(r"--port (\d+)", done.stdout)
        check(done.returncode == 0 and used is not None and port < int(used[1]) <= port + 100,
              f"--from 7 --port {port}: used {used and used[1]} {done.stdout[-600:]} {done.stderr[-300:]}")
    check("already done" in done.stdout and "--- 7/10" in done.stdout and "--- 6/10" not in done.stdout, "stages before 7 are kept")
    check(state(folder)["pretrain"] == before, "and their figures")
    refused("--from: stage 1 (data) is not done", "demo", "--quick", "--from", "3", "-o", root / "new")
    refused("--from", "demo", "--from", "11", "-o", root / "new")
    refused("use another --dir", "demo", "-o", folder)
    (root / "odd").mkdir()
    (root / "odd/demo.json").write_text("[1]")
    refused("is not the state of a demo", "demo", "--quick", "-o", root / "odd")


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    whole(root / "demo")
    if not failures:
        resumes_after_interrupt(root / "stopped", root / "demo")
        resumes_after_kills(root / "killed", root / "demo")
        options(root, root / "demo")
sys.exit("\n".join(failures) if failures else 0)
