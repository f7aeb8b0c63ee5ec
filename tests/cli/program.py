"""Runs the program under test, the first argument of the script, and checks what it did."""
import json
import pathlib
import signal
import subprocess
import sys
import time

from checks import check

MAKAR = str(pathlib.Path(sys.argv[1]).resolve())
GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def run(*words, text=None):
    return subprocess.run([MAKAR, *map(str, words)], capture_output=True, text=True, timeout=900, input=text)


def good(*words, text=None):
    """Runs a command that must succeed."""
    done = run(*words, text=text)
    check(done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.strip()[-600:]}")
    return done


def refused(part, *words, text=None):
    """Runs a command that must fail with `part` in its error message."""
    done = run(*words, text=text)
    check(done.returncode in (1, 2) and part in done.stderr and "internal error" not in done.stderr,
          f"{' '.join(map(str, words))} should be refused with '{part}': {done.returncode} {done.stderr.strip()[-300:]}")


def steps(folder):
    """The steps in a training run's log."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if "lr" in line]


def kill_when(ready, words, out, wait=0.0):
    """Starts a training run with `words` into the folder `out` and kills it `wait` seconds after ready() is true."""
    child = subprocess.Popen([MAKAR, *map(str, words), "-o", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.time() + 300
    while time.time() < end and child.poll() is None and not ready():
        time.sleep(0.002)
    time.sleep(wait)
    child.send_signal(signal.SIGKILL)
    child.wait()


def kill_after(checkpoint, words, out, wait=0.0):
    """As kill_when(), after the run has saved `checkpoint`."""
    kill_when(lambda: (out / checkpoint).is_dir(), words, out, wait)
