#!/usr/bin/env python3
"""makar and its peers on the same texts, in alternating rounds; called by ./dev bench tokenize.

With one thread, rates are MB per second of processor time, which other load does not affect; with more, of wall time. The token
counts should be equal where a peer runs the same tokenizer; different counts are part of the report.
"""
import argparse
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys

import texts
import training
from report import report
from training import BUILD, DATA, HERE, PEERS

NPM = {"tiktoken": "1.0.22", "gpt-tokenizer": "^3", "tokenizers": "0.23.2", "@huggingface/tokenizers": "^0.2"}
ASSETS = os.environ.get("MAKAR_ASSETS", "../shared/assets")
OTHER_CASES = ("repeat", "train")  # cases besides the tokenizers

# name: the source of the tokenizer, then its name in each peer ("json": makar's tokenizer.json of it)
CASES = {
    "gpt2": (f"{ASSETS}/tokenizers/hf/gpt2/tokenizer.json", {"tiktoken": "gpt2", "gpt-tokenizer": "gpt2", "hf": "json"}),
    "llama3": (f"{ASSETS}/tokenizers/hf/llama3_2/tokenizer.json", {"hf": "json"}),
    "gpt4": (f"{ASSETS}/tokenizers/tiktoken/cl100k_base.json", {"tiktoken": "cl100k_base", "gpt-tokenizer": "cl100k_base", "hf": "json"}),
    "gpt4o": (f"{ASSETS}/tokenizers/hf/gpt4o/tokenizer.json", {"tiktoken": "o200k_base", "gpt-tokenizer": "o200k_base", "hf": "json"}),
    "wordpiece": (f"{ASSETS}/weights/bert-tiny-toxicity/vocab.txt", {"hf": "json"}),
    "unigram": ("spm:unigram", {"sentencepiece": "model", "hf": "json"}),
    "llama2": (f"{ASSETS}/tokenizers/sentencepiece/llama2-tokenizer.model", {"sentencepiece": "model", "hf": "json"}),
}


def install_npm():
    """The npm peers, into build/peers. False where there is no npm."""
    if not shutil.which("npm"):
        subprocess.run(["scripts/install-packages", os.path.relpath(os.path.join(HERE, "packages.txt"))], check=False)
    if not shutil.which("npm"):
        return False
    os.makedirs(PEERS, exist_ok=True)
    package_json = json.dumps({"private": True, "dependencies": NPM})
    path = os.path.join(PEERS, "package.json")
    if not os.path.exists(path) or open(path).read() != package_json or not os.path.isdir(PEERS + "/node_modules"):
        with open(path, "w") as file:
            file.write(package_json)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=PEERS, check=True, stdout=sys.stderr)
    return True


def has_python_library():
    """Whether this Python has the Hugging Face library, which then replaces npm's."""
    return importlib.util.find_spec("tokenizers") is not None


def prepare(case):
    """The tokenizer as its source file and as a tokenizer.json, below build/."""
    folder = os.path.join(DATA, case)
    os.makedirs(folder, exist_ok=True)
    source, converted = CASES[case][0], os.path.join(folder, "tokenizer.json")
    if source.startswith("spm:"):
        source = os.path.join(folder, "spm.model")
        if not os.path.exists(source):
            command = training.spm_train("unigram", texts.text("english", DATA), source[:-6], 2)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not os.path.exists(source):
        unpacked = os.path.join(folder, "source-" + os.path.basename(source))
        with open(unpacked, "wb") as file:
            subprocess.run(["zcat", source + ".gz"], stdout=file, check=True)
        source = unpacked
    if not os.path.exists(converted):
        subprocess.run([f"{BUILD}/makar", "tokenizer", "convert", source, converted], check=True, stdout=subprocess.DEVNULL)
    return source, converted


class Side:
    """One competitor: a process that makes a pass over the text for each line it is sent."""

    def __init__(self, name, command, threads):
        env = dict(os.environ, RAYON_NUM_THREADS=str(threads), PEERS=PEERS)
        self.name, self.rates, self.tokens, self.threads = name, [], 0, threads
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, bufsize=1)
        first = self.process.stdout.readline()
        self.load = json.loads(first)["ready"] if first else None

    def go(self, size, keep):
        self.process.stdin.write("\n")
        line = self.process.stdout.readline()
        if not line:
            self.load = None
            return
        result = json.loads(line)
        self.tokens = result["tokens"]
        if keep:
            self.rates.append(size / 1e6 / (result["cpu"] if self.threads == 1 else result["wall"]))

    def close(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def compare(args, case, text, threads, npm):
    source, converted = prepare(case)
    path = texts.text(text, DATA)
    size = os.path.getsize(path)
    commands = {"makar": [f"{BUILD}/bench_tokenizer_makar", source if case == "unigram" else converted, path, str(threads)]}
    for peer, name in CASES[case][1].items():
        if peer == "sentencepiece":
            commands[peer] = [f"{BUILD}/bench_tokenizer_sentencepiece", source, path, str(threads)]
        elif peer == "hf" and not npm and has_python_library():
            commands[peer] = [sys.executable, f"{HERE}/peers.py", peer, converted, path, str(threads)]
        elif npm:
            commands[peer] = ["node", f"{HERE}/peers.cjs", peer, converted if name == "json" else name, path, str(threads)]
    sides = [Side(name, command, threads) for name, command in commands.items() if shutil.which(command[0])]
    for name, command in commands.items():
        if not shutil.which(command[0]):
            print(f"tokenize: {name} is not installed: skipped for {case}", file=sys.stderr)
    for i, side in enumerate(sides):
        if side.name == "hf" and side.load is None and npm:  # no binary for this machine: use the library in JavaScript
            side.close()
            sides[i] = Side("hf-js", [a if a != "hf" else "hf-js" for a in commands["hf"]], threads)
    for turn in range(args.rounds + 1):  # the first warms up
        for side in sides:
            if side.load is not None:
                side.go(size, turn > 0)
    for side in sides:
        side.close()
    for side in sides[1:]:
        if side.load is None:
            print(f"tokenize: {side.name} failed on {case} {text}", file=sys.stderr)
            continue
        extra = {"load_s": sides[0].load, "peer_load_s": side.load}
        if side.tokens != sides[0].tokens:
            extra["tokens"], extra["peer_tokens"] = sides[0].tokens, side.tokens
        report(args, f"{case} {text}", threads, sides[0].rates, side.name, side.rates, "MB/s", 1, extra)


def compare_repeats(args, case):
    """One repeated character as one text: 512 KiB compared with half a second, 4 MiB with eight times the time of 512 KiB."""
    source, converted = prepare(case)
    seconds = {}
    for name, character in (("letter", "a"), ("blank", " "), ("sign", "\u4e2d")):
        for kib in (512, 4096):
            path = os.path.join(DATA, f"repeat-{name}-{kib}.txt")
            if not os.path.exists(path):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(character * (kib * 1024 // len(character.encode())))
            side = Side("makar", [f"{BUILD}/bench_tokenizer_makar", source if case == "unigram" else converted, path, "1"], 1)
            for _ in range(args.rounds):
                side.go(1e6, True)
            side.close()
            seconds[name, kib] = [1 / rate for rate in side.rates]
    for name in ("letter", "blank", "sign"):
        report(args, f"{case} 512 KiB of a {name}", 1, seconds[name, 512], "the goal", [0.5], "s", -1)
        report(args, f"{case} 4 MiB of a {name}", 1, seconds[name, 4096], "8 x 512 KiB", [8 * t for t in seconds[name, 512]], "s", -1)


def main():
    p = argparse.ArgumentParser(prog="./dev bench tokenize", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--json", action="store_true", help="print one JSON object per line")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", default="1,2", help="a list (1,2)")
    p.add_argument("--texts", default="english,code,mixed")
    p.add_argument("--no-npm", action="store_true", help="install nothing from npm: peers from Python and Debian only")
    p.add_argument("--cases", default=",".join([*CASES, *OTHER_CASES]), help="a list (%(default)s)")
    args = p.parse_args()
    unknown = [c for c in args.cases.split(",") if c not in CASES and c not in OTHER_CASES]
    if unknown:
        p.error(f"no case '{unknown[0]}'; there are {', '.join([*CASES, *OTHER_CASES])}")
    npm = not args.no_npm and install_npm()
    if not npm and not args.no_npm:
        print("tokenize: npm is not installed: its peers are skipped", file=sys.stderr)
    for threads in (int(t) for t in args.threads.split(",")):
        for case in args.cases.split(","):
            if case == "train":
                words = ["--threads", str(threads), "--rounds", str(args.rounds), *["--json"] * args.json, *["--npm"] * bool(npm)]
                subprocess.run([sys.executable, f"{HERE}/training.py", *words], check=True)
                continue
            if case == "repeat":
                for family in CASES if threads == 1 else ():
                    compare_repeats(args, family)
                continue
            for text in args.texts.split(","):
                compare(args, case, text, threads, npm)


if __name__ == "__main__":
    sys.exit(main())
