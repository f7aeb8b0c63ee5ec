#!/usr/bin/env python3
"""Runs the commands of README.md and docs/ that name models and files of the reader (makar ..., curl ...), with small stand-ins for
them, document by document in order. newcomer.py runs those that need only the repository (build/makar ...).

usage: documented.py MAKAR [NAME...]   NAME: only documents whose name contains it
"""
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

from checks import check, failures
from stand_ins import ASSETS, ROOT, StandIns

MAKAR = pathlib.Path(sys.argv[1]).resolve()
# Commands that need what a test machine does not have, and the test that runs them another way.
ELSEWHERE = [(r"makar pull ", "tests/cli/pull.py"), (r"postgresql://", "tests/postgres/postgres.py"),
             (r"python3 tests/images/differential.py", "tests/images/differential.py"), (r"v1/moderations|add-model toxicity", "tests/serve/several_models.py"),
             (r"eval safety|eval matrix", "tests/cli/eval.py")]
# Options that make a command short; the rest is as documented.
SHORT = [(r"makar (pretrain|sft|dpo|grpo|ppo|reward(?! score| best)|distill)\b(?!.*--lr-find)(?!.*recipes/\w+\.yaml)", "--max-steps 2"),
         (r"makar (sft|dpo|reward(?! score| best)|distill)\b", "--micro-batch-size 1"), (r"makar (sft|dpo|reward(?! score| best| quality)|distill)\b", "--sequence-len 512"),
         (r"makar (grpo|ppo)\b", "--micro-batch-size 8"),
         (r"makar (grpo|ppo|reward best)\b", "--max-completion-length 4"), (r"makar pretrain .*-d (books.txt|pairs.tsv)", "--sequence-len 32"),
         (r"makar pretrain recipes/\w+\.yaml(?!.*--lr-find)", "max_steps=2"),
         (r"makar pretrain recipes/gpt_books_world", "layers=1 width=64 heads=1 ffn=64 sequence_len=512 micro_batch_size=1"), (r"makar classify (train|compare)\b.*(-m |cnn|lstm|cola)", "--num-epochs 1"),
         (r"makar net (tabular|lm)", "--num-epochs 1"), (r"makar net (autoencoder|gan)", "--num-epochs 1"), (r"makar eval (-m|ab|matrix)", "--limit 2"),
         (r"makar (generate|ask|chat|caption|sql|translate)\b(?!.*--eval)", "-n 8"), (r"makar agent(?!.*mcp)", "-n 8"),
         (r"makar pretrain .*--lr-find", "--lr-find-steps 10"), (r"makar pipeline", "policy_steps=1 reward_epochs=1")]
# A model with random weights does not find an answer; that message is the right result.
NO_ANSWER = [(r"makar sql .*-m", "no query ran"), (r"makar agent .*-m", "ended without an answer")]
COUNTS = [(r"(makar data world .*)-n \d+", r"\1-n 12"), (r"--count 500", "--count 1"), (r"--limit \d+", "--limit 2")]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def blocks_of(document):
    for block in re.findall(r"^```sh\n(.*?)^```", document.read_text(), re.M | re.S):
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        yield [line for line in lines if re.match(r"(echo .*\| *)?makar |curl ", line)]


class Block:
    """One sh block: its servers run until its end."""

    def __init__(self, place, folder, environment):
        self.place, self.folder, self.environment = place, folder, environment
        self.server, self.port, self.last_id = None, 8080, "file-none"

    def close(self):
        if self.server:
            self.server.terminate()
            self.server.communicate()
            self.server = None

    def serve(self, command):
        self.close()
        self.port = free_port()
        self.server = subprocess.Popen(["bash", "-c", f"exec {command} --port {self.port}"], cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
        end = time.time() + 60
        while time.time() < end and self.server.poll() is None:
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        self.server.kill()
        check(False, f"{self.place}: {command}: no server: {self.server.communicate()[0][-500:]}")
        self.server = None

    def run(self, line):
        command = line
        for pattern, text in COUNTS:
            command = re.sub(pattern, text, command)
        for pattern, words in SHORT:
            if re.search(pattern, command):
                plain, redirect = re.match(r"([^<>]*?(?:'[^']*'|\"[^\"]*\"|[^<>])*?)((?: [<>] ?\S+)?)$", command).groups()
                command = f"{plain} {words}{redirect}"
        if " serve " in f" {command} " and "--serve-mcp" not in command:
            return self.serve(command)
        if command.startswith("curl"):
            if not self.server:  # the server of an earlier block of the document
                self.serve("makar serve -m MODEL")
            command = command.replace("curl ", "curl -sf ", 1).replace("127.0.0.1:8080", f"127.0.0.1:{self.port}").replace("file-...", self.last_id)
        begin = time.time()
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=self.folder, capture_output=True, text=True, timeout=600, env=self.environment,
                              stdin=subprocess.DEVNULL)
        no_answer = any(re.search(pattern, command) and message in done.stdout + done.stderr for pattern, message in NO_ANSWER)
        check((done.returncode == 0 or no_answer) and "internal error" not in done.stderr, f"{self.place}: {line}\n  ran: {command}\n  exit {done.returncode}: {(done.stderr or done.stdout)[-500:]}")
        if found := re.search(r'"id": ?"(file-[^"]+)"', done.stdout):
            self.last_id = found[1]
        if os.environ.get("MAKAR_VERBOSE"):
            print(f"{time.time() - begin:6.1f} s  {line}", flush=True)


def follow(document, stand_ins, scratch):
    name = document.stem
    blocks = [b for b in blocks_of(document) if b]
    if not blocks:
        return 0, 0
    folder = scratch / "documents" / document.relative_to(ROOT).as_posix().replace("/", "-")
    folder.mkdir(parents=True)
    stand_ins.fill(name, folder)
    (scratch / "bin").mkdir(exist_ok=True)
    if not (scratch / "bin/makar").exists():
        os.symlink(MAKAR, scratch / "bin/makar")
    environment = dict(os.environ, HOME=str(scratch), XDG_DATA_HOME=str(scratch / "data"), PATH=f"{scratch / 'bin'}:{os.environ['PATH']}", MAKAR_TASKS=str(ROOT / "tasks"))
    count = skipped = 0
    for lines in blocks:
        block = Block(name, folder, environment)
        for line in lines:
            if any(re.search(pattern, line) for pattern, _ in ELSEWHERE) or (re.search(r"makar eval (?!ls)|cran|triplets", line) and not ASSETS.is_dir()):
                skipped += 1
                continue
            block.run(line)
            count += 1
        block.close()
    return count, skipped


with tempfile.TemporaryDirectory() as root:
    scratch = pathlib.Path(root)
    for pattern, test in ELSEWHERE:
        check((ROOT / test).is_file(), f"{test} does not exist")
    makers = StandIns(str(MAKAR), scratch / "stand-ins")
    documents = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/howto").glob("*.md"))]
    total = [0, 0]
    for one in documents:
        if sys.argv[2:] and not any(word in str(one) for word in sys.argv[2:]):
            continue
        counts = follow(one, makers, scratch)
        total = [a + b for a, b in zip(total, counts)]
    print(f"{total[0]} commands ran; {total[1]} need a network, a database server or data that is not here")
sys.exit(1 if failures else 0)
