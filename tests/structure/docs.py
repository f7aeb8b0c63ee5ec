#!/usr/bin/env python3
"""The documentation checker: what README.md, CONTRIBUTING.md, docs/ and the modules' READMEs name must exist.

Scanned: `inline code` and fenced blocks marked sh. Checked there: paths of the repository, `make TARGET`,
`./dev COMMAND`, presets, `makar COMMAND` and its flags (from the program's own --help), programs below build/.
Also checked: relative links and their anchors, decisions numbered without gaps, a README of at most 40 lines in every
module, and a row for every module in the README's map. docs/design.md is the plan: only its links are checked.

usage: docs.py [--root ROOT] [MAKAR]   MAKAR is the program, e.g. build/makar; without it flags are not checked
       docs.py --self-test             show that planted faults are caught
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys

import planted

# A word without a slash is treated as a file of the repository when it has one of these suffixes; data files are not.
OUR_SUFFIXES = (".cpp", ".h", ".py", ".sh", ".cmake", ".md")
PLACEHOLDER = re.compile(r"[<>*{}$|]|\.\.\.|(^|[/_.-])(NAME|DIR|FILE|MODULE|SUBJECT|NNNN|YYYY)")
README_LINES = 40


class Checker:
    def __init__(self, root, program=None):
        self.root, self.program = root, program
        self.errors, self.helps, self.checked = [], {}, 0
        self.targets = set(re.findall(r"^([a-z][\w-]*):", self.read("Makefile"), re.M))
        dev = re.findall(r"^  ([a-z0-9 |]+)\) \"do_", self.read("dev"), re.M)
        self.dev = set(dev[0].replace("|", " ").split()) if dev else set()
        self.presets = set(re.findall(r'"name": "(\w+)"', self.read("CMakePresets.json")))
        self.commands = set(re.findall(r'^\s*\{"([\w-]+)",', self.read("src/cli/commands.cpp"), re.M))
        self.modules = re.findall(r"^\s*add_module\((\w+)", self.read("CMakeLists.txt"), re.M)
        scripts = [p for g in ("dev", "scripts/*", "bench/*.*", "tests/**/*.py", "src/cli/*.cpp") for p in root.glob(g) if p.is_file()]
        folders = ("src", "tests", "bench", "fuzz", "docs", "cmake", "scripts")
        self.file_names = {p.name for f in folders for p in (root / f).rglob("*")} | {p.name for p in root.glob("*")}
        self.script_text = "\n".join(p.read_text(errors="replace") for p in scripts)

    def read(self, name):
        path = self.root / name
        return path.read_text(errors="replace") if path.is_file() else ""

    def error(self, place, what):
        self.errors.append(f"{place}: {what}")

    # -- commands ------------------------------------------------------------------------------------------------
    def help(self, *words):
        if words not in self.helps:
            done = subprocess.run([self.program, *words, "--help"], capture_output=True, text=True, timeout=20)
            self.helps[words] = done.stdout if done.returncode == 0 else None
        return self.helps[words]

    def check_makar(self, words, place):
        if not words or not re.fullmatch(r"[a-z][\w-]*", words[0]):
            return  # `makar --help`, `makar COMMAND`
        if words[0] not in self.commands:
            return self.error(place, f"`makar {words[0]}`: no such command; there are {', '.join(sorted(self.commands))}")
        if not self.program:
            return
        path, text = [words[0]], self.help(words[0])
        for word in words[1:]:
            if not text or not re.fullmatch(r"[a-z][\w-]*", word):
                break
            listed = re.search(rf"^  {re.escape(word)} |makar\s+{' '.join(path)}\s+{re.escape(word)}\b", text, re.M)
            if not listed and not re.search(r"^usage: .* SUBCOMMAND", text, re.M):
                break
            path.append(word)
            text = self.help(*path) if listed else None
        if text is None:
            return self.error(place, f"`makar {' '.join(path)}`: `--help` fails or does not list it")
        known = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))
        for word in words[len(path):]:
            flag = re.match(r"--?[A-Za-z][\w-]*", word)
            if flag and flag.group() not in known:
                self.error(place, f"`makar {' '.join(path)} {flag.group()}`: no such option")

    def check_command(self, line, place):
        """One simple command: its name and arguments."""
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            words = line.split()
        while words and (re.match(r"\w+=", words[0]) or words[0] in {"$", "sudo", "nice", "time"}):
            words = words[1:]
        if not words:
            return
        name, rest = words[0], words[1:]
        if name == "make":
            for word in rest:
                if re.fullmatch(r"[a-z][\w-]*", word) and word not in self.targets:
                    self.error(place, f"`make {word}`: the Makefile has no such target")
        elif name == "./dev":
            if rest and re.fullmatch(r"[a-z][\w-]*", rest[0]) and rest[0] not in self.dev:
                self.error(place, f"`./dev {rest[0]}`: no such command")
        elif name == "cmake" and "--preset" in rest[:-1]:
            preset = rest[rest.index("--preset") + 1]
            if preset not in self.presets:
                self.error(place, f"`cmake --preset {preset}`: CMakePresets.json has no such preset")
        elif name == "makar" or name.endswith("/makar"):
            self.check_makar(rest, place)
        elif len(words) == 1 and re.fullmatch(r"--[a-z][\w-]+", name):  # a flag without a command: some command must have it
            if name not in self.script_text:
                self.error(place, f"`{name}`: no command or script has this option")

    # -- paths ---------------------------------------------------------------------------------------------------
    def check_build_path(self, word, place):
        """Programs are not in the repository: check that their sources exist."""
        programs = [(r"build/makar", None), (r"build/test_(\w+)", "tests/{}"), (r"build/bench_(\w+)", "bench/{}.cpp"),
                    (r"build/tests/golden", "tests/golden/main.cpp"), (r"build/tests/corpus_(\w+)", "fuzz/{}.cpp"),
                    (r"build-fuzz/fuzz/fuzz_(\w+)", "fuzz/{}.cpp")]
        if word.count("/") == 1 and word.endswith("/"):
            return  # a build folder itself
        for pattern, source in programs:
            found = re.fullmatch(pattern, word)
            if found and (source is None or (self.root / source.format(*found.groups())).exists()):
                return
        self.error(place, f"`{word}`: no such program is built there")

    def check_path(self, word, document, place):
        word = word.rstrip(".,:;)").lstrip("(")
        if "://" in word or word.startswith(("/", "~", "-", "../")) or "=" in word or not re.search(r"[A-Za-z]", word):
            return
        slash = "/" in word.strip("/")
        if not slash and (word in self.file_names or word in OUR_SUFFIXES):  # a file name without a folder
            return
        if not (slash or word.endswith(OUR_SUFFIXES) or (word.endswith("/") and re.fullmatch(r"[\w.-]+/", word))):
            return
        word = word.removeprefix("./")
        bases = [self.root, document.parent, self.root / "src"]
        if re.search(r"[\s\"'\\]", word) or any((base / word).exists() for base in bases):
            self.checked += 1
            return
        parts = word.split("/")
        placeholder_at = next((i for i, part in enumerate(parts) if PLACEHOLDER.search(part)), None)
        if placeholder_at is not None:  # the folders before the placeholder must exist
            folder = "/".join(parts[:placeholder_at])
            if folder and not folder.startswith("build") and not any((base / folder).is_dir() for base in bases):
                self.error(place, f"`{word}`: there is no folder {folder}")
            return
        if re.match(r"build(-\w+)?/", word):
            return self.check_build_path(word, place)
        if re.fullmatch(r"[\w.+-]+(/[\w.+-]*)*", word):
            self.error(place, f"`{word}`: no such file or folder")

    # -- documents -----------------------------------------------------------------------------------------------
    def check_code(self, text, document, place):
        for line in re.split(r"&&|\|\||[|;]\s|\n", text):
            self.check_command(line.strip(), place)
        runs_makar = re.search(r"(^|[\s/])makar [a-z]", text)  # arguments of the program may be files of the user
        for word in text.split():
            if not runs_makar or (self.root / word.removeprefix("./").split("/")[0]).exists() or "makar" in word:
                self.check_path(word, document, place)

    def anchors(self, path):
        titles = re.findall(r"^#+ +(.*)$", path.read_text(errors="replace"), re.M)
        return {re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles}

    def check_links(self, text, document, place_of):
        for found in re.finditer(r"\]\(([^)\s]+)\)", text):
            target, place = found.group(1), place_of(found.start())
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            path = (document.parent / name) if name else document
            if not path.exists():
                self.error(place, f"the link to {target} leads nowhere")
            elif anchor and path.suffix == ".md" and anchor not in self.anchors(path):
                self.error(place, f"the link to {target}: no such heading")

    def check_document(self, document):
        text, name = document.read_text(errors="replace"), document.relative_to(self.root)

        fence = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
        prose = fence.sub(lambda m: "\n" * m.group().count("\n"), text)  # keeps line numbers
        without_code = re.sub(r"`[^`\n]*`", lambda m: " " * len(m.group()), prose)
        place_in = lambda source: (lambda at: f"{name}:{source.count(chr(10), 0, at) + 1}")
        self.check_links(without_code, document, place_in(without_code))
        if name.as_posix() == "docs/design.md":
            return
        for block in fence.finditer(text):
            if block.group(1) != "sh":
                continue
            lines = block.group(2).replace("\\\n", " ").splitlines()
            for line in lines:
                self.check_code(line, document, place_in(text)(block.start()))
        for code in re.finditer(r"`([^`\n]+)`", prose):
            self.check_code(code.group(1), document, place_in(prose)(code.start()))

    def check_decisions(self):
        names = sorted(p.name for p in (self.root / "docs/decisions").glob("*.md"))
        for expected, name in enumerate(names, 1):
            if name[:5] != f"{expected:04}-":
                return self.error(f"docs/decisions/{name}", f"expected number {expected:04}: decisions are numbered without gaps")
            title = self.read(f"docs/decisions/{name}").split("\n")[0]
            if not title.startswith(f"# {expected:04}. "):
                self.error(f"docs/decisions/{name}:1", f"the title must begin with '# {expected:04}. '")

    def check_modules(self):
        readme = self.read("README.md")
        for module in self.modules:
            if not (self.root / "src" / module).is_dir():
                continue  # a planned module
            if f"`src/{module}/`" not in readme and f"`{module}/`" not in readme:
                self.error("README.md", f"the map of modules lacks `src/{module}/`")
            lines = self.read(f"src/{module}/README.md").splitlines()
            if not lines:
                self.error(f"src/{module}/README.md", "every module has a README")
            elif len(lines) > README_LINES:
                self.error(f"src/{module}/README.md", f"has {len(lines)} lines; {README_LINES} at most")

    def run(self):
        documents = [self.root / "README.md", self.root / "CONTRIBUTING.md", self.root / "CHANGELOG.md"]
        for pattern in ("docs/**/*.md", "src/**/README.md", "tests/README.md", "bench/README.md", "fuzz/README.md"):
            documents += sorted(self.root.glob(pattern))
        documents = [d for d in documents if d.is_file()]
        for document in documents:
            self.check_document(document)
        self.check_decisions()
        self.check_modules()
        return documents


SOUND = {
    "Makefile": "test: build\n\tctest\nbuild:\n\tcmake\n",
    "dev": 'case "$c" in\n  fmt | lint) "do_$c" ;;\nesac\n',
    "CMakePresets.json": '{ "name": "release" }',
    "CMakeLists.txt": "add_module(base)\n",
    "src/cli/commands.cpp": '      {"forward", "run a model", run_forward},\n      {"tokenizer", "text to ids", run_tokenizer},\n'
                            '      {"template", "render", run_template},\n',
    "src/base/README.md": "# base\n\n`error.h` is `base/error.h`. `src/base/<name>.cpp` and `fuzz/NAME.cpp` come later; `model.safetensors`.\n",
    "src/base/error.h": "",
    "fuzz/json.cpp": "",
    "docs/decisions/0001-one.md": "# 0001. One\n",
    "README.md": "# makar\n\nModules: `src/base/`. Run `make test`, `./dev fmt`, `makar forward --model DIR`, `makar template render --tools FILE`, `build/makar`.\n"
                 "[one](docs/decisions/0001-one.md) and [modules](#makar).\n\n```sh\nmakar tokenizer encode \\\n  --lines x && make build\n```\n"
                 "```text\nmake nothing of `this`\n```\n",
}
FAULTS = [
    ("README.md", "See `src/base/gone.h`.", "src/base/gone.h"),
    ("README.md", "See `gone.h`.", "gone.h"),
    ("README.md", "See `gone/NAME.cpp`.", "no folder gone"),
    ("README.md", "Run `make nothing`.", "make nothing"),
    ("README.md", "Run `./dev nothing`.", "./dev nothing"),
    ("README.md", "Run `cmake --preset nothing`.", "--preset nothing"),
    ("README.md", "Run `makar nothing`.", "makar nothing"),
    ("README.md", "Run `makar forward --nothing`.", "makar forward --nothing"),
    ("README.md", "```sh\nmakar tokenizer nothing\n```", "makar tokenizer nothing"),
    ("README.md", "```sh\ncat x | makar tokenizer encode --nothing\n```", "makar tokenizer encode --nothing"),
    ("README.md", "Run `makar template render --nothing`.", "makar template render --nothing"),
    ("README.md", "Pass `--nothing`.", "`--nothing`"),
    ("README.md", "Run `build/tests/test_base`.", "no such program"),
    ("README.md", "[gone](docs/gone.md)", "leads nowhere"),
    ("README.md", "[gone](#gone)", "no such heading"),
    ("docs/decisions/0003-three.md", "# 0003. Three", "without gaps"),
    ("docs/decisions/0002-two.md", "# Two", "title must begin"),
    ("docs/design.md", "[gone](gone.md)", "leads nowhere"),
    ("src/base/README.md", "more\n" * README_LINES, "lines; 40 at most"),
    ("CMakeLists.txt", "add_module(cli)", "the map of modules lacks"),
]
FAKE_PROGRAM = """#!/bin/sh
case "$*" in
  'forward --help') echo '  -m --model DIR  the model' ;;
  'tokenizer --help') printf 'usage: makar tokenizer SUBCOMMAND [options]\\n\\n  encode       text to ids\\n' ;;
  'template --help') echo 'usage: makar template render [options]' ;;
  'template render --help') echo '  --tools FILE  tools' ;;
  'tokenizer encode --help') echo '  --lines  each line' ;;
  *) exit 2 ;;
esac
"""


def self_test():
    def check(root):
        program = root / "makar"
        program.write_text(FAKE_PROGRAM)
        program.chmod(0o755)
        checker = Checker(root, str(program))
        checker.run()
        return checker.errors

    # A fault is a line added to a document, or a new document.
    faults = [(name, (SOUND[name] + "\n" if name in SOUND else "") + text + "\n", expected)
              for name, text, expected in FAULTS]
    planted.self_test("docs.py", SOUND, faults, check)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("program", nargs="?")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    program = arguments.program
    if program and not pathlib.Path(program).is_file():
        print(f"docs: {program} is not built, so flags of commands are not checked")
        program = None
    checker = Checker(arguments.root, str(pathlib.Path(program).resolve()) if program else None)
    documents = checker.run()
    for error in checker.errors:
        print(error)
    if checker.errors:
        sys.exit(f"docs: {len(checker.errors)} errors in {len(documents)} documents")
    print(f"docs: {len(documents)} documents, {checker.checked} paths, all exist")


if __name__ == "__main__":
    main()
