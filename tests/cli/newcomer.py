#!/usr/bin/env python3
"""The documentation as a new user follows it: every command of README.md and docs/ that needs only the repository runs, in
order, in a fresh copy of it; the example of every --help uses options that exist.

The commands that begin with build/makar, and the examples in Python, are run. Files below /tmp go to a folder of the test.

usage: newcomer.py MAKAR
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]


def copy_of_repository(target):
    """Copies the files of the repository, as a clone has them."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True)
    names = listed.stdout.splitlines() if listed.returncode == 0 else [
        str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.is_file() and not p.relative_to(ROOT).parts[0].startswith("build")]
    for name in names:
        if not (ROOT / name).is_file():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target / name)
    (target / "build").mkdir()
    os.symlink(MAKAR, target / "build/makar")


def commands_of(document):
    """The commands in the sh blocks of a document, with continued lines joined."""
    text = document.read_text()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            if re.search(r"(^|\| *|&& *)(build/makar|python3 examples/inside.py) ", line):
                yield line.strip()


def follow(document, clone, scratch):
    count = 0
    for line in commands_of(document):
        command = line.replace("/tmp/", f"{scratch}/")
        environment = dict(os.environ, HOME=str(scratch), XDG_DATA_HOME=str(scratch / "data"))
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=clone, capture_output=True, text=True,
                              timeout=1800, env=environment, stdin=subprocess.DEVNULL)
        check(done.returncode == 0, f"{document.relative_to(clone)}: {line}\n  exit {done.returncode}: {done.stderr[-400:]}")
        check("internal error" not in done.stderr and "no effect" not in done.stderr, f"{line}: {done.stderr[-400:]}")
        count += 1
    return count


def check_install(clone, scratch):
    """make install, without building again."""
    done = subprocess.run(["make", "-o", "build", "install", f"DESTDIR={scratch}/root", "PREFIX=/usr"], cwd=clone,
                          capture_output=True, text=True, timeout=600)
    program = scratch / "root/usr/bin/makar"
    check(done.returncode == 0 and program.is_file(), f"make install: {done.stderr}")
    out = subprocess.run([str(program), "version"], capture_output=True, text=True, cwd=scratch).stdout
    check(out.startswith("makar "), f"the installed program: {out!r}")


def check_examples():
    """Examples of --help use options that the same text lists."""
    def help_of(*arguments):
        return subprocess.run([str(MAKAR), *arguments, "--help"], capture_output=True, text=True, timeout=600).stdout

    names = re.findall(r"^  ([a-z]+) {2,}", help_of(), re.M)
    check(len(names) > 20, f"commands: {names}")
    for name in names:
        text = help_of(name)
        paths = [[name]]
        if "SUBCOMMAND" in text:
            paths = [[name, s] for s in re.findall(r"^  ([a-z]+) {2,}", text, re.M)]
        for path in paths:
            text = help_of(*path)
            if len(path) == 2 and "SUBCOMMAND" in text:
                paths += [[*path, s] for s in re.findall(r"^  ([a-z]+) {2,}", text, re.M)]
                continue
            example = re.search(r"^example: (.*)$", text, re.M)
            if path == ["version"]:
                continue
            check(example is not None and f"makar {' '.join(path)}" in example[1], f"makar {' '.join(path)} --help has an example")
            known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text[:text.find("example:")]))
            for flag in re.findall(r" (--?[A-Za-z][\w-]*)", example[1].split("makar", 1)[1] if example else ""):
                check(flag in known, f"makar {' '.join(path)}: the example's {flag} is not listed")


with tempfile.TemporaryDirectory() as folder:
    clone, scratch = pathlib.Path(folder) / "makar", pathlib.Path(folder) / "scratch"
    clone.mkdir(), scratch.mkdir()
    copy_of_repository(clone)
    followed = sum(follow(d, clone, scratch) for d in [clone / "README.md", *sorted((clone / "docs").glob("*.md")),
                                                        *sorted((clone / "docs/howto").glob("*.md"))])
    check(followed >= 8, f"{followed} commands were followed")
    check_install(clone, scratch)
    check_examples()
sys.exit("\n".join(failures) if failures else 0)
