#!/usr/bin/env python3
"""The table of lines per family, and the rule behind it: a page has at most 120 lines and no copy of the stack.

A page is a file of src/models/families. It includes pages.h only (and the standard library through it), and defines no
forward pass: no Tensor, no ops. A family with a large GGUF section or part has it on a page of its own (NAME_gguf.cpp).

usage: families.py [ROOT]       print the table, exit 1 if a page breaks a rule
       families.py --self-test  show that planted faults are caught
"""
import re

import planted

LIMIT = 120
TYPE = re.compile(r'const Family \w+ =\s*\w*[({]\s*(?:\.type =\s*)?"([a-z0-9_-]+)"')
INCLUDE = re.compile(r'#include "([^"]+)"')
STACK = re.compile(r"\bops::\w+\(|\bForwardContext\b|\bTensor\b(?!::from)")


def pages(root):
    """-> (name, lines, families, text) of each page"""
    for path in sorted((root / "src/models/families").glob("*.cpp")):
        text = path.read_text()
        yield path.name, len(text.splitlines()), TYPE.findall(text), text


def check(root):
    """-> (errors, number of pages seen)"""
    errors, seen, families_seen = [], 0, set()
    for name, lines, families, text in pages(root):
        seen += 1
        if lines > LIMIT:
            errors.append(f"{name} has {lines} lines, more than {LIMIT}: move what other families share, or its GGUF section, to a page of its own")
        for include in INCLUDE.findall(text):
            if include != "models/families/pages.h":
                errors.append(f"{name} includes {include}: a page needs pages.h only")
        if STACK.search(text):
            errors.append(f"{name} computes with tensors ({STACK.search(text).group(0)}): the stack in src/nn does that")
        for family in families:
            if family in families_seen:
                errors.append(f"{name} is the second page with the family {family}")
            families_seen.add(family)
    return errors, seen


def self_test():
    page = '#include "models/families/pages.h"\nconst Family kA = {.type = "a"};\n'
    files = {"src/models/families/a.cpp": page, "src/models/families/b.cpp": page.replace('"a"', '"b"')}
    planted.self_test("families.py", files, [
        ("src/models/families/a.cpp", page + "//\n" * LIMIT, "more than 120"),
        ("src/models/families/a.cpp", page + '#include "nn/stack.h"\n', "pages.h only"),
        ("src/models/families/a.cpp", page + "void run(ForwardContext& f);\n", "computes with tensors"),
        ("src/models/families/a.cpp", page.replace('"a"', '"b"'), "second page"),
    ], lambda root: check(root)[0])


def check_with_table(root):
    """The table, then the check."""
    print(f"{'page':<28} lines  families")
    for name, lines, families, _ in pages(root):
        print(f"{name:<28} {lines:>5}  {', '.join(families) or '-'}")
    return check(root)


if __name__ == "__main__":
    planted.main(check_with_table, self_test, "families: {} pages of at most " + str(LIMIT) + " lines")
