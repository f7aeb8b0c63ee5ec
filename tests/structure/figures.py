#!/usr/bin/env python3
"""The figures of docs/architecture.md: modules by level, and the lengths of files and functions.

A module of level n depends on modules of lower levels only, at least one of level n - 1. A function is measured from the
line of its name to its closing brace; a nested function counts as part of the outer one.

usage: figures.py               print the figures; exit code 1 if docs/architecture.md or docs/design.md lists other modules or dependencies
       figures.py --self-test   show that lengths and levels are measured
"""
import pathlib
import re
import statistics
import subprocess
import sys

import modules

SUFFIXES = {".cpp", ".h", ".cu", ".cuh"}
# In the project's format, the line before a body ends in "{" and has its arguments; the brace that closes it has its indentation.
BODY = re.compile(r"^(\s*)(?!namespace|extern|class|struct|enum|union|if|for|while|switch|else|do|try|catch|return|case)[\w:~<>,&*\[\] ].*\{$")


def levels(graph):
    """{module: direct dependencies} -> {module: level}"""
    level = {}
    for name, deps in graph.items():
        level[name] = 1 + max((level[d] for d in deps), default=-1)
    return level


def level_lines(graph):
    level = levels(graph)
    return [f"level {n}: {', '.join(name for name in graph if level[name] == n)}" for n in range(max(level.values()) + 1)]


def stale_documents(root):
    """-> lines of levels that docs/architecture.md lacks, rows of modules that docs/design.md lacks"""
    graph = modules.read_modules((root / "CMakeLists.txt").read_text())
    lines = (root / "docs/architecture.md").read_text().splitlines()
    errors = [f"docs/architecture.md lacks the line '{line}'" for line in level_lines(graph) if line not in lines]
    rows = dict(re.findall(r"^\| `(\w+)/` \| .* \| ([^|]*) \|$", (root / "docs/design.md").read_text(), re.M))
    for name, deps in graph.items():
        if rows.get(name) != (", ".join(deps) or "third-party only"):
            errors.append(f"docs/design.md: the row of {name} has '{rows.get(name)}', CMakeLists.txt '{', '.join(deps)}'")
    return errors


def functions(text):
    """-> lengths of the functions of a file in lines"""
    lines, found, at = text.split("\n"), [], 0
    while at < len(lines):
        start = BODY.match(lines[at])
        if not start or "(" not in "".join(lines[max(0, at - 8):at + 1]) or re.search(r"[=,(]\s*\{$", lines[at]):
            at += 1
            continue
        first = at  # a declaration of several lines begins at the line with the indentation of the closing brace
        indent = len(start.group(1))
        while indent > 2 and first > 0:
            first -= 1
            indent = len(lines[first]) - len(lines[first].lstrip())
        closing = re.compile(rf"^{' ' * indent}\}};?$")
        end = next((i for i in range(at + 1, len(lines)) if closing.match(lines[i])), None)
        if end is None:
            at += 1
            continue
        found.append(end - first + 1)
        at = end + 1
    return found


def figures(root):
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "src"], capture_output=True, text=True).stdout.split()
    paths = [root / p for p in listed if pathlib.Path(p).suffix in SUFFIXES]
    graph = modules.read_modules((root / "CMakeLists.txt").read_text())
    level = levels(graph)
    lengths = {p: len(p.read_text(errors="replace").splitlines()) for p in paths}
    print("\n".join(level_lines(graph)))
    print(f"{len(graph)} modules, {sum(map(len, graph.values()))} direct dependencies, no cycle, {max(level.values()) + 1} levels")
    values = sorted(lengths.values())
    print(f"{len(values)} files, {sum(values)} lines; median {statistics.median(values):.0f}, 90 % up to {values[len(values) * 9 // 10]}, "
          f"{sum(v > 200 for v in values)} above 200, {sum(v > 400 for v in values)} above 400, longest {values[-1]}")
    for path in sorted(lengths, key=lengths.get, reverse=True)[:5]:
        print(f"  {lengths[path]} {path.relative_to(root)}")
    spans = sorted(n for p in paths for n in functions(p.read_text(errors="replace")))
    print(f"{len(spans)} functions of several lines; median {statistics.median(spans):.0f}, 90 % up to {spans[len(spans) * 9 // 10]}, "
          f"{sum(s > 60 for s in spans)} above 60 lines, longest {spans[-1]}")


def self_test():
    text = "int a() {\n  return 1;\n}\n\nstruct S {\n  int b(int x,\n        int y) {\n    return 2;\n  }\n};\nconst int c[] = {\n};\n"
    assert functions(text) == [3, 4], functions(text)
    assert levels({"a": [], "b": ["a"], "c": ["a", "b"]}) == {"a": 0, "b": 1, "c": 2}
    print("figures.py: self-test passed")


if __name__ == "__main__":
    if "--self-test" in sys.argv:
        self_test()
    else:
        ROOT = pathlib.Path(__file__).resolve().parents[2]
        figures(ROOT)
        if stale := stale_documents(ROOT):
            sys.exit("\n".join(stale))
