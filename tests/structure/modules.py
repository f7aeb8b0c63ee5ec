#!/usr/bin/env python3
"""The module checker: compares the #includes of src/ with the modules of CMakeLists.txt.

A module may include itself, the modules after DEPS in its add_module(...), and what those may include. A class has one header:
to the linker, two classes of one name in one namespace would be the same.

usage: modules.py [ROOT]       check a tree (default: the tree of this file)
       modules.py --self-test  show that planted faults are caught
"""
import re

import planted

KEYWORDS = {"DEPS", "LIBS", "ALONE", "MAIN"}


def read_modules(cmake):
    """CMakeLists.txt -> {module: direct dependencies}, in the order of the file."""
    modules = {}
    text = re.sub(r"#.*", "", cmake)
    for call in re.findall(r"^\s*add_module\(([^)]*)\)", text, re.M):
        name, *words = call.split()
        deps, section = [], None
        for word in words:
            if word in KEYWORDS:
                section = word
            elif section == "DEPS":
                deps.append(word)
        modules[name] = deps
    return modules


def duplicate_classes(root):
    """Classes that two headers define in the same namespace, except files compiled once per instruction set."""
    places, errors = {}, []
    for path in sorted((root / "src").rglob("*.h")):
        if "isa" in path.parts:
            continue
        text = path.read_text(errors="replace")
        space = re.search(r"^namespace ([\w:]+) \{", text, re.M)
        for name in re.findall(r"^(?:class|struct|enum class) (\w+)(?!\w|::)[^;{]*\{", text, re.M):
            key = (space.group(1) if space else "", name)
            place = path.relative_to(root)
            if key in places:
                errors.append(f"{place}: defines {name}, as {places[key]} does; the linker would merge them")
            places.setdefault(key, place)
    return errors


def check(root):
    """-> (errors, number of includes seen)"""
    modules = read_modules((root / "CMakeLists.txt").read_text())
    errors, allowed = duplicate_classes(root), {}
    for name, deps in modules.items():
        allowed[name] = {name}
        for dep in deps:
            if dep not in allowed:
                errors.append(f"CMakeLists.txt: module '{name}' depends on '{dep}', which is not added before it")
            allowed[name] |= allowed.get(dep, set())
    seen = 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix not in {".cpp", ".h", ".cu", ".cuh"}:
            continue
        place = path.relative_to(root)
        module = place.parts[1]
        if len(place.parts) < 3 or module not in modules:
            errors.append(f"{place}: is in no module that CMakeLists.txt adds")
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not found:
                continue
            seen += 1
            other = found.group(1).split("/")[0]
            if not (root / "src" / found.group(1)).is_file():
                errors.append(f"{place}:{number}: \"{found.group(1)}\" is not a file of src/ (write the path relative to src/)")
            elif other not in allowed[module]:
                errors.append(f"{place}:{number}: module '{module}' includes \"{found.group(1)}\"; "
                              f"it may include {', '.join(sorted(allowed[module]))}")
    return errors, seen


def self_test():
    files = {
        "CMakeLists.txt": "add_module(base LIBS fmt::fmt)\nadd_module(tensor DEPS base)\n# add_module(ghost)\n"
                          "add_module(nn DEPS tensor)\nadd_module(text DEPS\n  base)\n",
        "src/base/a.h": "#include <vector>\n",
        "src/tensor/b.h": '#include "base/a.h"\nnamespace makar {\nstruct B {};\n}\n',
        "src/nn/c.cpp": '#include "nn/c.h"\n#include "base/a.h"\n',
        "src/nn/c.h": '#include "tensor/b.h"\n',
        "src/text/d.cpp": '#include "base/a.h"\n',
    }
    faults = [
        ("src/base/up.h", '// low\n#include "tensor/b.h"\n', "src/base/up.h:2"),
        ("src/text/side.cpp", '#include "nn/c.h"\n', "src/text/side.cpp:1"),
        ("src/nn/gone.cpp", '#include "nn/none.h"\n', "src/nn/gone.cpp:1"),
        ("src/ghost/e.cpp", "int e;\n", "src/ghost/e.cpp"),
        ("src/text/twin.h", "namespace makar {\nclass B {\n};\n}\n", "defines B"),
        ("CMakeLists.txt", "add_module(base DEPS tensor)\nadd_module(tensor)\nadd_module(nn DEPS tensor base)\nadd_module(text DEPS base)\n",
         "'base' depends on 'tensor'"),
    ]
    planted.self_test("modules.py", files, faults, lambda root: check(root)[0])


if __name__ == "__main__":
    planted.main(check, self_test, "modules: {} includes checked, all allowed")
