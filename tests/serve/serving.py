"""A server on loopback with a tiny random model, and ways to talk to it; shared by the tests beside this file."""
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
from checks import check, failures  # noqa: E402,F401

# A program that watches itself takes so many times as long: its tests wait longer, and ask for nothing less.
PATIENCE = 10 if "thread" in os.environ.get("MAKAR_SANITIZE", "") else 4 if os.environ.get("MAKAR_SANITIZE") else 1
GOLDEN = pathlib.Path(__file__).parent.parent / "golden/models/llama"
SPECIAL = ["<|end|>", "<|user|>", "<|assistant|>"]
TEMPLATE = ("{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
            "{% if m.role == 'assistant' %}<|assistant|>{% else %}<|user|>{% endif %}{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")


def byte_tokenizer():
    """Each byte a token, as GPT-2 spells them; three control tokens follow."""
    vocab, free = {}, 256
    for b in range(256):
        shown = 33 <= b <= 126 or 0xA1 <= b <= 0xAC or b >= 0xAE
        vocab[chr(b if shown else free)] = b
        free += not shown
    added = [{"id": 256 + i, "content": t, "special": True, "normalized": False} for i, t in enumerate(SPECIAL)]
    return {"version": "1.0", "added_tokens": added,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def make_model(folder, positions=2048, golden=GOLDEN):
    """The golden llama (or another) with a tokenizer of bytes and a chat template."""
    folder.mkdir()
    config = json.loads((golden / "config.json").read_text())
    config.update(max_position_embeddings=positions, eos_token_id=256)
    (folder / "config.json").write_text(json.dumps(config))
    shutil.copy(golden / "model.safetensors", folder)
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return folder


class Server:
    def __init__(self, makar, *flags, model=None, name="tiny"):
        self.folder = tempfile.TemporaryDirectory()
        root = pathlib.Path(self.folder.name)
        self.model = model or make_model(root / name)
        self.log = open(root / "log", "w+")
        if "--store" not in flags:
            flags = ("--store", "none", *flags)
        # Files of clients go nowhere near those of the user.
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

    def stop(self, how=signal.SIGTERM, wait=60 * PATIENCE):
        self.process.send_signal(how)
        try:
            return self.process.wait(wait)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def lines(self):
        """The log; a line is written shortly after its answer."""
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
        """The events of a stream, as JSON; the last is what ended it."""
        _, headers, text = self.request("POST", path, dict(body, stream=True), **more)
        events = [e[6:] for e in text.split("\n\n") if e.startswith("data: ")]
        return headers, [json.loads(e) if e != "[DONE]" else e for e in events]

    def raw(self, data, timeout=20 * PATIENCE, half_close=False):
        """Bytes as they are; what comes back until the server closes or is silent."""
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


def quiet(server, seconds=10 * PATIENCE):
    """Whether nobody is inside any more; an answer may be read before its place is given back."""
    end = time.monotonic() + seconds
    while metric(server, "num_requests_inside") and time.monotonic() < end:
        time.sleep(0.01)
    return metric(server, "num_requests_inside") == 0


def metric(server, name):
    text = server.request("GET", "/metrics")[2]
    return float(re.search(rf"^makar:{name} (\S+)$", text, re.M)[1])
