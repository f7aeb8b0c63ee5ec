#!/usr/bin/env python3
"""Expensive requests: while they are processed, /tokenize of other clients is answered within 0.5 s and no stream pauses for
1 s. Both limits are extended by the delays of this machine: the time of the same requests without the attack, and the delay
that a sleeping thread measures during it.

usage: overload.py MAKAR [CASE...]      MAKAR_SLOW=1: the full sizes, one trial
"""
import array
import json
import math
import os
import pathlib
import random
import socket
import struct
import sys
import tempfile
import threading
import time

import attacks
from attacks import CHAT, NO_END, TEXT, USER
from serving import (
    PATIENCE, TEMPLATE, Server, Stalls, byte_tokenizer, check, metric, processor_seconds, quiet, run_cases, wait_until)
from tensor_files import write_safetensors

SLOW = bool(os.environ.get("MAKAR_SLOW"))
MAX_TOKENIZE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 1.0
COPIES = 4 if SLOW else 2  # of each request at once: as many as the workers for long requests that one caller may occupy
TRIALS = 1 if SLOW else 4  # only a server that stalls fails in all of them


def make_slow_model(folder, positions=9000):
    """A llama with random weights that takes milliseconds per row: large enough for a long prompt to stall a stream."""
    folder.mkdir(parents=True)
    width, inner, layers, heads, vocab = 320, 1024, 8, 8, 320
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": inner,
              "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": heads, "head_dim": width // heads,
              "vocab_size": vocab, "max_position_embeddings": positions, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 256, "torch_dtype": "float32"}
    rng = random.Random(7)
    noise = array.array("f", (rng.gauss(0, 0.05) for _ in range(4099))).tobytes()  # a prime number, so that rows differ
    shapes = {"model.embed_tokens.weight": (vocab, width), "model.norm.weight": (width,), "lm_head.weight": (vocab, width)}
    for i in range(layers):
        block = f"model.layers.{i}."
        for name in "qkvo":
            shapes[f"{block}self_attn.{name}_proj.weight"] = (width, width)
        shapes.update({block + "mlp.gate_proj.weight": (inner, width), block + "mlp.up_proj.weight": (inner, width), block + "mlp.down_proj.weight": (width, inner),
                       block + "input_layernorm.weight": (width,), block + "post_attention_layernorm.weight": (width,)})
    tensors = {}
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        tensors[name] = ("F32", shape, struct.pack("f", 1.0) * shape[0] if len(shape) == 1 else (noise * (size // len(noise) + 1))[:size])
    write_safetensors(folder / "model.safetensors", tensors)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer()))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE, "eos_token": "<|end|>"}))
    return folder


def request_bytes(path, body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body


def post_all(s, requests, read=True, hold=0.0):
    """Sends all requests at once, each on its own connection; waits for the first bytes of each answer, or for `hold` seconds."""
    def send(data):
        try:
            with socket.create_connection((s.host, s.port), timeout=300 * PATIENCE) as link:
                if not read:
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                link.sendall(data)
                if read:
                    answer = link.recv(4096)
                    if not answer.startswith(b"HTTP/1.1"):
                        print("no answer:", answer[:100], flush=True)
                else:
                    time.sleep(hold)
        except OSError:
            pass  # refused, or closed by the server
    threads = [threading.Thread(target=send, args=(data,), daemon=True) for data in requests]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


class Others:
    """Well-behaved clients: the longest time of /tokenize, and the longest pause between tokens of a stream."""

    def __init__(self, s, stream=True):
        self.s, self.stop = s, threading.Event()
        self.tokenize = self.gap = 0.0
        self.tokens = 0
        self.threads = [threading.Thread(target=self.ask)] + ([threading.Thread(target=self.listen)] if stream else [])

    def __enter__(self):
        for t in self.threads:
            t.start()
        wait_until(lambda: len(self.threads) == 1 or self.tokens >= 3)
        self.tokenize = self.gap = 0.0
        time.sleep(0.7)
        self.before = self.tokenize, self.gap  # without the attack
        self.tokenize = self.gap = 0.0
        self.stalls = Stalls().__enter__()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for t in self.threads:
            t.join()
        self.stalls.__exit__()

    def excess(self):
        """How much the two times exceed their limits; negative: within."""
        return (self.tokenize - self.stalls.allowed(MAX_TOKENIZE_SECONDS) - 2 * self.before[0],
                self.gap - self.stalls.allowed(MAX_PAUSE_SECONDS) - 2 * self.before[1])

    def ask(self):
        while not self.stop.is_set():
            start = time.monotonic()
            status, _, text = self.s.request("POST", "/tokenize", {"content": "how long does this take"})
            self.tokenize = max(self.tokenize, time.monotonic() - start)
            check(status == 200, f"/tokenize: {status} {text[:100]}")
            time.sleep(0.03)

    def listen(self):
        while not self.stop.is_set():
            body = request_bytes(TEXT, {"prompt": "a", "max_tokens": 1500, "temperature": 0, "stream": True, **NO_END})
            with socket.create_connection((self.s.host, self.s.port), timeout=300 * PATIENCE) as link:
                link.sendall(body)
                last, seen = time.monotonic(), b""
                while not self.stop.is_set():
                    piece = link.recv(65536)
                    now = time.monotonic()
                    seen = (seen + piece)[-200:]
                    self.tokens += piece.count(b"data: ")
                    self.gap, last = max(self.gap, now - last), now
                    if not piece or b"[DONE]" in seen:
                        break


def check_others_during(s, what, attack, stream=True):
    """Runs the attack in another process, again if the limits were exceeded: other load on the machine may be the cause."""
    worst = []
    for trial in range(TRIALS):
        with Others(s, stream) as others:
            with attacks.in_background(attack) as process:
                process.join(600 * PATIENCE)
            time.sleep(0.2)
        worst.append(others.excess())
        print(f"{what}: /tokenize within {others.tokenize:.2f} s" + (f", streams paused {others.gap:.2f} s" if stream else "") +
              f" ({others.before[0]:.2f} and {others.before[1]:.2f} s before, the machine stalled {others.stalls.longest:.2f} s)", flush=True)
        if max(worst[-1]) < 0:
            break
    for name, values in zip(("/tokenize", "a pause of a stream"), zip(*worst)):
        check(min(values) < 0, f"{what}: {name} took {min(values):.2f} s more than allowed")
    check(s.process.poll() is None, f"{what}: the server runs")
    check(quiet(s, 600 * PATIENCE), f"{what}: {metric(s, 'num_requests_in_flight')} requests are still in the server")


def descending_characters(count):
    return "".join(chr(0x100000 - 2 * i) for i in range(count))


def grammars(makar):
    """Grammars and schemas that are large, or that take quadratic time in a simple compiler."""
    chain = "root ::= r0\n" + "".join(f"r{i} ::= r{i + 1}\n" for i in range(40000)) + 'r40000 ::= "a"\n'
    properties = {"type": "object", "properties": {f"p{i}": {} for i in range(80000)}}
    merged = {"allOf": [{"properties": {f"a{i}": {}}} for i in range(20000)]}
    nested = {"allOf": [{"properties": {"a": {"x": i}}} for i in range(20000)]}
    def ask(**more):
        return request_bytes(CHAT, json.dumps({"messages": USER, "max_tokens": 1, **more}, ensure_ascii=False).encode())
    def schema(value):
        return ask(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": value}})
    requests = {"a class of 250,000 characters in descending order": ask(grammar="root ::= [" + descending_characters(250000) + "]"),
             "40,000 chained rules": ask(grammar=chain), "80,000 properties": schema(properties),
             "allOf of 20,000 parts": schema(merged), "allOf of one property": schema(nested)}
    with Server(makar, "-t", "2") as s:
        for what, data in requests.items():
            check_others_during(s, what, lambda: post_all(s, [data] * COPIES))


def patterns(makar):
    """60 regular expressions of 1,900 alternatives, and short expressions that describe large automata."""
    rng = random.Random(1)
    def alternatives(i):
        return "|".join("".join(rng.choice("abcdefghij") for _ in range(5)) + str(i) for _ in range(1900))
    def ask(regex):
        return request_bytes(CHAT, {"messages": USER, "max_tokens": 8, "guided_regex": regex})
    alternations = [ask(alternatives(i)) for i in range(60)]
    counted = [ask("((a|b|c){%d}){190}" % (300 + i)) for i in range(60 if SLOW else 12)]
    with Server(makar, "-t", "2") as s:
        check_others_during(s, "60 regular expressions of 1,900 alternatives", lambda: post_all(s, alternations))
        check_others_during(s, f"{len(counted)} counted expressions", lambda: post_all(s, counted))


def texts(makar):
    """8 MB of blanks, and a conversation of 100,000 messages."""
    blanks = json.dumps({"messages": [{"role": "user", "content": " " * 8_000_000}], "max_tokens": 1}).encode()
    messages = json.dumps({"messages": [{"role": "user", "content": "a"}] * 100000, "max_tokens": 1}).encode()
    with Server(makar, "-t", "2") as s:
        check_others_during(s, "8 MB of blanks", lambda: post_all(s, [request_bytes(CHAT, blanks)] * COPIES))
        check_others_during(s, "100,000 messages", lambda: post_all(s, [request_bytes(CHAT, messages)] * COPIES))


def unread(makar):
    """120 clients that request long answers and do not read them."""
    data = request_bytes("/tokenize", {"content": "a b c " * 50000})
    with Server(makar, "-t", "2", "--client-time", "2") as s:
        check_others_during(s, "120 clients that do not read", lambda: post_all(s, [data] * 120, read=False, hold=2.0))


def disconnects(makar):
    """Work ends when its client disconnects: the server spends little processor time on it afterwards."""
    blanks = request_bytes("/tokenize", {"content": "é " * 2_000_000})
    schema = request_bytes(CHAT, {"messages": USER, "response_format": {"type": "json_schema", "json_schema": {
        "name": "n", "schema": {"allOf": [{"properties": {f"a{i}": {}}} for i in range(20000)]}}}})
    with Server(makar, "-t", "2") as s:
        links = []
        for data in [blanks, schema] * 20:
            link = socket.create_connection((s.host, s.port), timeout=300 * PATIENCE)
            link.sendall(data)
            links.append(link)
        wait_until(lambda: metric(s, "num_requests_in_flight") > 0)
        for link in links:
            link.close()
        before = processor_seconds(s.process.pid)
        check(quiet(s), "the requests of clients that disconnected end")
        used = processor_seconds(s.process.pid) - before
        print(f"disconnects: {used:.2f} s of processor time after 40 clients disconnected", flush=True)
        check(used < 5 * PATIENCE, f"work for clients that disconnected took {used:.1f} s more of processor time")


def engine(makar):
    """Long prompts, long texts to embed and to score, and inspections, during a stream of the same model."""
    with tempfile.TemporaryDirectory() as folder:
        model = make_slow_model(pathlib.Path(folder) / "slow")
        with Server(makar, "-t", "2", "-np", "16", model=model) as s:
            count = 8000 if SLOW else 3000 if PATIENCE == 1 else 1000
            long = "".join(random.Random(3).choice("abcdefgh ") for _ in range(count))
            status, body = s.post(TEXT, {"prompt": long[:100], "max_tokens": 2})
            check(status == 200, f"the model answers: {status} {str(body)[:200]}")
            check_others_during(s, f"two prompts of {count} tokens", lambda: post_all(
                s, [request_bytes(TEXT, {"prompt": prefix + long, "max_tokens": 2}) for prefix in "xy"]))
            check_others_during(s, f"an embedding of {count} tokens", lambda: post_all(
                s, [request_bytes("/v1/embeddings", {"input": "z" + long})]))
            check_others_during(s, f"a score of {count} tokens", lambda: post_all(
                s, [request_bytes("/score", {"prompt": "w", "completion": long})]))
            echo = {"prompt": "v" + long, "echo": True, "logprobs": 3, "max_tokens": 1}
            check_others_during(s, f"an echo of {count} tokens with log-probabilities", lambda: post_all(s, [request_bytes(TEXT, echo)]))
            def look(i):
                return {"prompt": str(i) + long[:400 if SLOW else 250], "what": ["next", "probabilities", "attention"], "top": 10, "layers": [0]}
            status, body = s.post("/makar/look", look(0))
            check(status == 200 and body["attention"]["rows"] > 200, f"an inspection: {status} {str(body)[:200]}")
            looks = [request_bytes("/makar/look", look(i)) for i in range(1, 101 if SLOW else 7)]
            check_others_during(s, f"{len(looks)} inspections", lambda: post_all(s, looks))


def templates(makar):
    """A chat template whose macros and expressions recurse: each request gets an error, and the server continues."""
    with tempfile.TemporaryDirectory() as folder:
        template = pathlib.Path(folder) / "template.jinja"
        template.write_text("{% macro m() %}{{ m()" + "+''" * 290 + " }}{% endmacro %}{{ m() }}")
        with Server(makar, "-t", "1", "--chat-template", "@" + str(template)) as s:
            for _ in range(3):
                status, body = s.post(CHAT, {"messages": USER, "max_tokens": 1})
                check(status == 400 and "stack" in body["error"]["message"], f"a template that recurses: {status} {str(body)[:200]}")
            check(s.post(TEXT, {"prompt": "a", "max_tokens": 1})[0] == 200, "other requests are answered")


CASES = {f.__name__: f for f in (grammars, patterns, texts, unread, disconnects, engine, templates)}


if __name__ == "__main__":
    sys.exit(run_cases(CASES))
