#!/usr/bin/env python3
"""makar chat on a pseudo-terminal: a paste is one message, Ctrl-C stops an answer or discards a line, a full context
offers two commands, every session has its own seed.

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

    def wait(self, pattern, seconds=120 * PATIENCE):
        """Reads until the pattern appears; returns the output up to its end."""
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

    def wait_blocked(self, seconds=120 * PATIENCE):
        """Waits until the process is blocked because its output is not read: it sleeps, and uses no processor time."""
        def used():
            fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
            return fields[0], int(fields[11]) + int(fields[12])
        before, steady, end = None, 0, time.monotonic() + seconds
        while steady < 20 and time.monotonic() < end:
            time.sleep(0.02)
            now = used()
            steady = steady + 1 if now == before and now[0] == "S" else 0
            before = now
        check(steady == 20, f"the process waits for its output to be read: {before}")

    def alive(self):
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

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
    t.send("\003")  # discards the line
    t.wait("> ")
    t.send(f"/save {saved}\r")
    t.wait("messages saved")
    t.send("/quit\r")
    t.close()
    messages = json.loads(saved.read_text())["messages"]
    check([m["content"] for m in messages if m["role"] == "user"] == ["first line\nsecond l\u00efne\nthird end", "\u00e9a"],
          f"a paste is one message: {messages}")


def check_interrupt(root):
    # So long that no machine finishes it before the signal arrives.
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


def check_interrupt_between_reads(root, model):
    """SIGINT while chat is blocked in a write, so certainly not in a read: one signal is enough, and it does not end the session."""
    t = Terminal("chat", model, "-n", "400", "--ignore-eos")
    t.wait("> ")
    # While a line is edited: Ctrl-L draws it again, until more output is pending than a terminal holds.
    line = "x" * 1500
    t.send(line)
    t.wait("x{100}")
    t.send("\014" * 200)
    t.wait_blocked()
    os.kill(t.pid, signal.SIGINT)
    t.wait(r"\n\S*> ")  # a new line and a new prompt, with the terminal's codes between them
    t.send("/tokens\r")
    output = t.wait("there is no answer yet|prompt tokens")
    check("no answer yet" in output, f"the line was discarded: {output[-300:]!r}")
    t.wait("> ")
    # While a command prints: there is nothing to discard.
    t.send("go\r")
    t.wait("stopped by --max-tokens")
    t.wait("> ")
    t.send("/why\r" + "/why\r" * 4)
    t.wait_blocked()
    os.kill(t.pid, signal.SIGINT)
    t.wait(r"%[^%]*> ")
    t.send("/tokens\r")
    t.wait("400 generated")
    check(t.alive(), "the session continues")
    t.send("/quit\r")
    t.close()


def check_full_context(root):
    model = make_model(root / "small", positions=64)
    t = Terminal("chat", model, "-n", "8", "--ignore-eos")
    t.wait("> ")
    for i in range(9):  # answers are random bytes of different lengths in tokens
        t.send("x" * 20 + f"{i}\r")
        output = t.wait(r"\[stopped|starts a new conversation")
        if "[stopped" not in output:
            break
        t.wait("> ")
    check(i > 0 and "context: is full" in output and "/forget" in output, f"a full context names the commands that help: {output!r}")
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
    check(users and users[-1] == "x" * 20 + f"{i}" and "x" * 20 + "0" not in users, f"the oldest turns are gone: {users}")


def check_clear(root, model):
    saved = root / "cleared.json"
    lines = f"first\n/clear\nsecond\n/save {saved}\n"
    done = subprocess.run([MAKAR, "chat", str(model), "-n", "4", "--system", "Be brief."], input=lines, capture_output=True, text=True,
                          timeout=120 * PATIENCE)
    messages = json.loads(saved.read_text())["messages"] if saved.exists() else []
    check([m["content"] for m in messages if m["role"] != "assistant"] == ["Be brief.", "second"],
          f"/clear keeps the system message only: {messages} {done.stderr}")


def check_seed(root, model):
    def answer(*flags):
        done = subprocess.run([MAKAR, "chat", str(model), "-n", "24", "--temp", "1", "--ignore-eos", *flags], input="hello\n",
                              capture_output=True, text=True, timeout=120 * PATIENCE)
        return done.stdout
    check(answer("--seed", "5") == answer("--seed", "5"), "the same --seed gives the same answer")
    check(len({answer() for _ in range(3)}) > 1, "without --seed, sessions differ")


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    tiny = make_model(root / "tiny")
    check_paste(root, tiny)
    check_interrupt(root)
    check_interrupt_between_reads(root, tiny)
    check_full_context(root)
    check_clear(root, tiny)
    check_seed(root, tiny)
sys.exit("\n".join(failures) if failures else 0)
