#!/usr/bin/env python3
"""Man pages, the reference and shell completion, made from the options of the commands; and makar doctor.

usage: reference.py MAKAR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "serve"))
from serving import check, failures  # noqa: E402

MAKAR = sys.argv[1]


def run(*arguments):
    done = subprocess.run([MAKAR, *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def pages():
    code, out, err = run("reference", "--format", "json")
    check(code == 0 and not err, f"the reference as JSON: {err}")
    return {page["command"]: page for page in json.loads(out)}


def check_pages(all_pages):
    listed = [line.split()[0] for line in run("--help")[1].splitlines() if line.startswith("  ")]
    check(set(listed) <= set(all_pages), f"every command has a page: {set(listed) - set(all_pages)}")
    check({"data world check", "reward score", "eval compare", "metrics bleu"} <= set(all_pages), "and subcommands too")
    for command, page in all_pages.items():
        if not page["options"]:
            continue
        help_text = run(*command.split(), "--help")[1]
        missing = [o["names"][0] for o in page["options"] if o["names"][0] not in help_text]
        check(not missing and page["usage"].split()[0] == "makar", f"{command}: the options of --help: {missing}")
    code, out, _ = run("reference", "data", "world")
    check(code == 0 and out.startswith("## makar data world\n") and "| `--form NAME` |" in out, f"one command: {out[:200]}")
    code, _, err = run("reference", "nothing")
    check(code == 2 and "unknown command 'nothing'" in err, f"an unknown command: {err}")


def check_man(all_pages):
    with tempfile.TemporaryDirectory() as folder:
        code, _, err = run("reference", "--format", "man", "-o", folder)
        files = {path.name for path in pathlib.Path(folder).iterdir()}
        expected = {("makar " + c).strip().replace(" ", "-") + ".1" for c in all_pages}
        check(code == 0 and files == expected, f"a man page for each command: {err} {files ^ expected}")
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", f"{folder}/makar-generate.1"],
                                  capture_output=True, text=True, env={"MANWIDTH": "80", "PATH": "/usr/bin:/bin"})
            check(done.returncode == 0 and not done.stderr and "--temperature" in done.stdout, f"man reads it: {done.stderr}")


def complete(script, *words):
    """The words that bash would offer after `words`."""
    line = " ".join(f"'{w}'" for w in words)
    done = subprocess.run(["bash", "--norc", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; "
                           "_makar 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\""], capture_output=True, text=True)
    return done.stdout.split()


def check_completion():
    with tempfile.TemporaryDirectory() as folder:
        for shell in ("bash", "zsh", "fish"):
            script = pathlib.Path(folder) / shell
            script.write_text(run("completion", shell)[1])
            if shutil.which(shell):
                done = subprocess.run([shell, "-n", script], capture_output=True, text=True)
                check(done.returncode == 0, f"{shell} reads its script: {done.stderr}")
        bash = f"{folder}/bash"
        check(complete(bash, "makar", "gen") == ["generate"], "commands")
        check(complete(bash, "makar", "data", "wor") == ["world"], "subcommands")
        check(complete(bash, "makar", "data", "world", "che") == ["check"], "subcommands of subcommands")
        check(complete(bash, "makar", "generate", "--tempe") == ["--temperature"], "options")
        check("--form" in complete(bash, "makar", "data", "world", "--f"), "options of subcommands")
        check(complete(bash, "makar", "data", "world", "--form", "x") == [], "no files where a value is no file")
        if shutil.which("fish"):
            done = subprocess.run(["fish", "-c", f"source {folder}/fish; complete -C 'makar data world --fo'; complete -C 'makar gen'"],
                                  capture_output=True, text=True)
            words = [line.split("\t")[0] for line in done.stdout.splitlines()]
            check(words == ["--form", "generate"] and not done.stderr, f"fish completes: {words} {done.stderr[:300]}")
        (pathlib.Path(folder) / "my-model").mkdir()
        check(complete(bash, "makar", "generate", "-m", f"{folder}/my") == [f"{folder}/my-model"], "files")
    code, _, err = run("completion", "tcsh")
    check(code == 2 and "expected bash, zsh or fish" in err, f"an unknown shell: {err}")


def check_doctor():
    code, out, err = run("doctor", "--json")
    found = json.loads(out)
    check(code == 0 and found["threads"] >= 1 and found["bytes_per_second"] > 1e8 and found["memory_bytes"] > 1e8, err)
    check(found["instructions"][0] == "portable", f"instruction sets: {found['instructions']}")
    check(found["instructions_in_use"] == (os.environ.get("MAKAR_ISA") or found["instructions"][-1]), f"in use: {found['instructions_in_use']}")
    other = "amx" if found["architecture"] == "aarch64" else "neon"
    for isa, message in (("avx3", "unknown instruction set 'avx3'"), ("portabel", "did you mean 'portable'?"), (other, "does not support")):
        wrong = subprocess.run([MAKAR, "doctor"], capture_output=True, text=True, env={**os.environ, "MAKAR_ISA": isa})
        supported = f"supports: {', '.join(found['instructions'])}"
        check(wrong.returncode == 2 and message in wrong.stderr and supported in wrong.stderr, f"MAKAR_ISA={isa}: {wrong.stderr}")
    small, large = found["models"][0], found["models"][-2]
    check(small["tokens_per_second_limit"] > large["tokens_per_second_limit"] > 0, "large models are slower")
    code, out, _ = run("doctor")
    check(code == 0 and "GB/s" in out and "Q4_K_M" in out and max(map(len, out.splitlines())) < 200, out)


every_page = pages()
check_pages(every_page)
check_man(every_page)
check_completion()
check_doctor()
sys.exit("\n".join(failures) if failures else 0)
