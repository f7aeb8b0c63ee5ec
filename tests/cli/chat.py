#!/usr/bin/env python3
"""makar chat on a terminal of its own: a paste is one message, Ctrl-C stops an answer, a full context offers a way on,
every session has its own seed.

usage: chat.py MAKAR
"""
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "serve"))
from serving import PATIENCE, check, failures, make_model  # noqa: E402

MAKAR = sys.argv[1]


class Terminal:
    def __init__(self, *arguments):
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8", COLUMNS="200")
            os.execv(MAKAR, [MAKAR, *map(str, arguments)])
        self.text = ""

    def send(self, text):
        os.write(self.file, text.encode())

    def wait(self, pattern, seconds=60 * PATIENCE):
        """Reads until the pattern is there; what came up to its end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = re.search(pattern, self.text)
            if found:
                seen, self.text = self.text[:found.end()], self.text[found.end():]
                return seen
            if select.select([self.file], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.file, 65536).decode(errors="replace")
                except OSError:
                    break
        check(False, f"waited for {pattern!r}, got {self.text[-300:]!r}")
        return ""

    def shows(self, pattern, seconds):
        """Whether the pattern appears in time; nothing is consumed."""
        end = time.monotonic() + seconds
        while not re.search(pattern, self.text) and time.monotonic() < end:
            if select.select([self.file], [], [], 0.2)[0]:
                self.text += os.read(self.file, 65536).decode(errors="replace")
        return bool(re.search(pattern, self.text))

    def close(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.file)


def check_paste(root, model):
    saved = root / "saved.json"
    t = Terminal("chat", model, "-n", "4")
    welcome = t.wait("lists the commands")
    check("tiny (LlamaForCausalLM" in welcome and "context 2048" in welcome, f"the model is named: {welcome!r}")
    t.wait("> ")
    t.send("\033[200~first line\rsecond l\u00efne\nthird\033[201~")
    t.send(" end\r")
    t.wait(r"stopped by --max-tokens")
    t.wait("> ")
    t.send("\u00e9a\r")
    t.wait(r"stopped by --max-tokens")
    t.wait("> ")
    t.send("half a li")
    t.wait("half a li")
    for _ in range(6):  # Ctrl-C ends the line, not the session; one that arrives between two reads has to be repeated
        t.send("\003")
        if t.shows("> ", 10):
            break
    t.wait("> ")
    t.send(f"/save {saved}\r")
    t.wait("messages saved")
    t.send("/quit\r")
    t.close()
    messages = json.loads(saved.read_text())["messages"]
    check([m["content"] for m in messages if m["role"] == "user"] == ["first line\nsecond l\u00efne\nthird end", "\u00e9a"],
          f"a paste is one message: {messages}")


def check_interrupt(root):
    # An answer that a fast machine does not finish before the signal arrives.
    t = Terminal("chat", make_model(root / "long", positions=100_000), "-n", "90000", "--ignore-eos")
    t.wait("> ")
    t.send("go\r")
    t.wait(r"go\s+\S")
    time.sleep(0.3)
    t.send("\003")
    t.wait(r"\[stopped by Ctrl-C\]")
    t.wait("> ")
    t.send("/tokens\r")
    t.wait("ended by Ctrl-C")
    t.send("/quit\r")
    t.close()


def check_full_context(root):
    model = make_model(root / "small", positions=64)
    t = Terminal("chat", model, "-n", "8", "--ignore-eos")
    t.wait("> ")
    for i in range(2):
        t.send("x" * 20 + f"{i}\r")
        t.wait(r"stopped")
        t.wait("> ")
    t.send("y" * 20 + "\r")
    offered = t.wait("starts a new conversation")
    check("context: is full" in offered and "/forget" in offered, f"a full context offers a way on: {offered!r}")
    t.wait("> ")
    t.send("/forget\r")
    t.wait(r"removed \d turn")
    t.wait("stopped")  # the message that did not fit is answered
    t.wait("> ")
    saved = root / "forgot.json"
    t.send(f"/save {saved}\r")
    t.wait("messages saved")
    t.close()
    users = [m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "user"]
    check(users and users[-1] == "y" * 20 and "x" * 20 + "0" not in users, f"the oldest turns are gone: {users}")


def check_seed(root, model):
    def answer(*flags):
        done = subprocess.run([MAKAR, "chat", str(model), "-n", "24", "--temp", "1", "--ignore-eos", *flags], input="hello\n",
                              capture_output=True, text=True, timeout=120 * PATIENCE)
        return done.stdout
    check(answer("--seed", "5") == answer("--seed", "5"), "a seed that is given is used")
    check(len({answer() for _ in range(3)}) > 1, "without one, sessions differ")


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    tiny = make_model(root / "tiny")
    check_paste(root, tiny)
    check_interrupt(root)
    check_full_context(root)
    check_seed(root, tiny)
sys.exit("\n".join(failures) if failures else 0)
