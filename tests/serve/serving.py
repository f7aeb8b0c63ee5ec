"""A server on loopback with a tiny random model, clients for it, and measurements of time; shared by the tests in this folder."""
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from checks import check, failures  # noqa: E402,F401

# The factor by which a sanitizer slows programs; limits of time are multiplied by it.
PATIENCE = 10 if "thread" in os.environ.get("MAKAR_SANITIZE", "") else 4 if os.environ.get("MAKAR_SANITIZE") else 1
GOLDEN = pathlib.Path(__file__).parent.parent / "golden/models/llama"
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>"]
TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
            "{% if m.role == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def byte_tokenizer():
    """One token per byte, spelled as in GPT-2, and three control tokens."""
    vocab, next_code = {}, 256
    for b in range(256):
        printable = 33 <= b <= 126 or 0xA1 <= b <= 0xAC or b >= 0xAE
        vocab[chr(b if printable else next_code)] = b
        next_code += not printable
    added = [{"id": 256 + i, "content": t, "special": True, "normalized": False} for i, t in enumerate(SPECIAL)]
    return {"version": "1.0", "added_tokens": added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def make_model(folder, positions=2048, golden=GOLDEN):
    """The golden llama (or another model) with a byte-level tokenizer and a chat template."""
    folder.mkdir()
    config = json.loads((golden / "config.json").read_text())
    config.update(max_position_embeddings=positions, eos_token_id=256)
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(golden / "model.safetensors", folder)
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return folder


def write_toxicity_config(folder):
    """The configuration of the weights bert-tiny-toxicity, which come without one."""
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["BertForSequenceClassification"], "model_type": "bert", "hidden_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512, "vocab_size": 30522,
        "max_position_embeddings": 512, "type_vocab_size": 2, "id2label": {"0": "not-toxic", "1": "toxic"}}))


class Server:
    """`makar serve` on a free port, with requests to it; the end of a `with` block stops it."""

    def __init__(self, makar, *flags, model=None, name="tiny"):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        self.model = model or make_model(root / name)
        self.log = open(root / "log", "w+")
        if "--store" not in flags:
            flags = ("--store", "none", *flags)
        # XDG_DATA_HOME: the tests do not touch the data of the user who runs them.
        self.process = subprocess.Popen([makar, "serve", "-m", str(self.model), "--port", "0", "--log", *flags],
                                        stdout=subprocess.PIPE, stderr=self.log, text=True,
                                        env=dict(os.environ, XDG_DATA_HOME=str(root / "data")))
        head = self.process.stdout.readline()
        found = re.search(r"https?://([\d.]+):(\d+)", head)
        if not found:
            self.log.seek(0)
            raise RuntimeError("no server: " + head + self.log.read())
        self.host, self.port = found[1], int(found[2])
        self.name = self.model.name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.stop()
        self.process.stdout.close()
        self.log.close()
        self.folder.cleanup()

    def stop(self, signal_number=signal.SIGTERM, wait=60 * PATIENCE):
        self.process.send_signal(signal_number)
        try:
            return self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def lines(self):
        """The lines of the log. A line is written shortly after the answer."""
        text = None
        while text != (text := pathlib.Path(self.log.name).read_text()):
            time.sleep(0.2)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def request(self, method, path, body=None, headers=None, timeout=120 * PATIENCE):
        """-> (status, headers, text)"""
        link = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        link.request(method, path, body, headers or {})
        answer = link.getresponse()
        text = answer.read().decode()
        link.close()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, text

    def post(self, path, body, **more):
        status, _, text = self.request("POST", path, body, **more)
        return status, json.loads(text)

    def stream(self, path, body, **more):
        """The events of a stream as JSON, with the last one, "[DONE]"."""
        _, headers, text = self.request("POST", path, dict(body, stream=True), **more)
        events = [e[6:] for e in text.split("\n\n") if e.startswith("data: ")]
        return headers, [json.loads(e) if e != "[DONE]" else e for e in events]

    def raw(self, data, timeout=20 * PATIENCE, half_close=False):
        """Sends bytes unchanged; returns what the server sends until it closes the connection or the timeout is over."""
        out = b""
        with socket.create_connection((self.host, self.port), timeout=timeout) as link:
            try:
                link.sendall(data)
                if half_close:
                    link.shutdown(socket.SHUT_WR)
                while True:
                    more = link.recv(65536)
                    if not more:
                        break
                    out += more
            except (socket.timeout, ConnectionError):
                pass
        return out


def wait_until(condition, seconds=120 * PATIENCE, pause=0.01):
    """Waits until condition() is true; returns its last value. The limit only ends a failing test; it is not measured."""
    end = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return value


def quiet(server, seconds=120 * PATIENCE):
    """Waits until no request is in the server: a client may have read an answer before the server has released the request."""
    return wait_until(lambda: metric(server, "num_requests_in_flight") == 0, seconds)


def processor_seconds(pid):
    """Processor time of a process: unlike its duration, it does not depend on other load on the machine."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(server):
    """Resident memory of the server in MB."""
    pages = pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize() / 1e6


class Stalls:
    """While the block runs, a thread of the test sleeps for 5 ms at a time: `longest` is the longest delay that this machine,
    or the test's own process, added to it. A client that measures the server has at least such delays too, so limits of
    time are extended by three of them: `allowed(seconds)`. A server that makes its clients wait does not delay this thread."""

    def __init__(self):
        self.longest, self.finished = 0.0, threading.Event()
        self.thread = threading.Thread(target=self.measure, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.finished.set()
        self.thread.join()

    def measure(self):
        while not self.finished.is_set():
            start = time.monotonic()
            time.sleep(0.005)
            self.longest = max(self.longest, time.monotonic() - start - 0.005)

    def allowed(self, seconds):
        return seconds * PATIENCE + 3 * self.longest


def metric(server, name):
    text = server.request("GET", "/metrics")[2]
    return float(re.search(rf"^makar:{name} (\S+)$", text, re.M)[1])


def run_cases(cases):
    """Runs the cases ({name: function that takes the program}) named on the command line, or all; returns the exit code."""
    makar = sys.argv[1]
    for name in sys.argv[2:] or cases:
        start = time.monotonic()
        cases[name](makar)
        print(f"{name}: {time.monotonic() - start:.1f} s, {len(failures)} failures so far", flush=True)
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0
