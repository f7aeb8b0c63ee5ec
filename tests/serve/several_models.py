#!/usr/bin/env python3
"""Several models in one server, loaded on request; several adapters in one batch.

usage: several_models.py MAKAR
"""
import array
import json
import os
import pathlib
import random
import re
import sys
import tempfile
import threading

from serving import GOLDEN, Server, check, failures, make_model, quiet
from tensor_files import write_safetensors


def make_adapter(folder, seed, modules, rank=3):
    """A PEFT adapter of random numbers for the tiny llama."""
    config = json.loads((GOLDEN / "config.json").read_text())
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    heads, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    shapes = {"self_attn.q_proj": (heads, width), "self_attn.k_proj": (kv, width), "self_attn.v_proj": (kv, width),
              "self_attn.o_proj": (width, heads), "mlp.gate_proj": (inner, width), "mlp.up_proj": (inner, width),
              "mlp.down_proj": (width, inner)}
    rng, tensors = random.Random(seed), {}
    for layer in range(config["num_hidden_layers"]):
        for name, (rows, columns) in shapes.items():
            if name.split(".")[1] not in modules:
                continue
            for part, shape in (("A", (rank, columns)), ("B", (rows, rank))):
                values = array.array("f", (rng.gauss(0, 0.5) for _ in range(shape[0] * shape[1]))).tobytes()
                tensors[f"base_model.model.model.layers.{layer}.{name}.lora_{part}.weight"] = ("F32", shape, values)
    folder.mkdir()
    write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": 6, "target_modules": modules, "task_type": "CAUSAL_LM"}))
    return folder


REQUEST = {"messages": [{"role": "user", "content": "a long enough beginning " * 9}], "max_tokens": 12,
           "temperature": 0.8, "seed": 7, "logprobs": True}


def content_of(answer):
    choice = answer["choices"][0]
    return choice["message"]["content"], [(t["bytes"], t["logprob"]) for t in choice["logprobs"]["content"]]


def ask(s, **more):
    status, answer = s.post("/v1/chat/completions", dict(REQUEST, **more))
    return (status, content_of(answer)) if status == 200 else (status, answer)


def check_adapters(makar, root):
    adapters = {"first": make_adapter(root / "first", 1, ["q_proj", "v_proj"]),
                "second": make_adapter(root / "second", 2, ["q_proj", "k_proj", "o_proj", "gate_proj", "down_proj"], 5)}
    model = make_model(root / "base")
    alone = {}
    for name, folder in adapters.items():
        with Server(makar, "-t", "1", "--lora", str(folder), model=model) as s:
            alone[name] = ask(s)
            vector = s.post("/v1/embeddings", {"input": "a text"})[1]["data"][0]["embedding"]
            alone[name + " vector"] = vector
    modules = [flag for name, folder in adapters.items() for flag in ("--lora-modules", f"{name}={folder}")]
    with Server(makar, "-t", "2", *modules, model=model) as s:
        alone["base"] = ask(s)
        check(len({json.dumps(alone[n]) for n in ("base", "first", "second")}) == 3, "adapters change the answer")
        unexpected = []

        def client(seed):
            rng = random.Random(seed)
            for _ in range(6):
                name = rng.choice(["base", "first", "second"])
                answer = ask(s, model=name)
                if answer != alone[name]:
                    unexpected.append((name, answer))

        clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        check(not unexpected, f"an adapter gives the same answer alone and in a batch with others: {unexpected[:1]}")
        for name in adapters:
            vector = s.post("/v1/embeddings", {"input": "a text", "model": name})[1]["data"][0]["embedding"]
            check(vector == alone[name + " vector"], "embeddings with an adapter")
        status, _, text = s.request("GET", "/v1/models")
        listed = {m["id"]: m for m in json.loads(text)["data"]}
        check(status == 200 and listed["first"]["parent"] == "base" and listed["base"]["parent"] is None,
              "adapters are listed below their model")
        status, answer = ask(s, model="third")
        check(status == 404 and answer["error"]["code"] == "model_not_found", "an unknown adapter is an unknown model")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")


def check_models(makar, root):
    models_folder = root / "models"
    models_folder.mkdir()
    for name in ("one", "two", "three"):
        make_model(models_folder / name)
    (models_folder / "no-model").mkdir()
    (models_folder / "broken").mkdir()
    (models_folder / "broken/config.json").write_text("{")
    with Server(makar, "-t", "1", "--models-dir", str(models_folder), "--models-max", "2", model=make_model(root / "main")) as s:

        def loaded():
            models = json.loads(s.request("GET", "/v1/models")[2])["data"]
            return {m["id"] for m in models if m["loaded"]}

        main = ask(s)
        check(main[0] == 200 and loaded() == {"main"}, "the first model is loaded at the start")
        models = {m["id"] for m in json.loads(s.request("GET", "/v1/models")[2])["data"]}
        check(models == {"main", "one", "two", "three", "broken"}, f"all models are listed: {models}")
        check(ask(s, model="one") == main and loaded() == {"main", "one"}, "another model is loaded on request")
        check(ask(s, model="two:latest") == main and loaded() == {"one", "two"}, "the least recently used model is unloaded")
        status, answer = ask(s, model="broken")
        check(status >= 400 and "config.json" in answer["error"]["message"], "the error of a model that cannot be loaded names the cause")
        check(ask(s, model="three") == main, "the other models still answer")
        unexpected = []

        def client(names):
            for name in names:
                answer = ask(s, model=name)
                # If both loaded models are in use, the answer is 503.
                if answer != main and (answer[0] != 503 or answer[1]["error"]["code"] != "busy"):
                    unexpected.append(answer)

        clients = [threading.Thread(target=client, args=(random.Random(i).choices(["main", "one", "two", "three"], k=6),))
                   for i in range(6)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        check(not unexpected, f"models are loaded and unloaded under load: {unexpected[:1]}")
        quiet(s)
        check(len(loaded()) <= 2, "no more than --models-max models are loaded")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    for flags, word in ((["--add-model", "main=" + str(models_folder / "one")], "twice"), (["--models-dir", "/nowhere"], "nowhere"),
                        (["--lora-modules", "x"], "NAME=FOLDER"), (["--models-max", "0"], "--models-max"),
                        (["--add-model", "x=/nowhere"], "nowhere")):
        try:
            Server(makar, *flags, model=root / "main")
            check(False, f"{flags} is refused")
        except RuntimeError as e:
            check(word in str(e), f"{flags} says why: {e}")


def check_memory(makar, root):
    if os.environ.get("MAKAR_SANITIZE"):
        return print("skipped under a sanitizer, which uses memory itself: the memory budget")
    models_folder = root / "models"
    models_folder.mkdir()
    names = [f"m{i}" for i in range(6)]
    for name in names:
        make_model(models_folder / name)
    budget = 80
    with Server(makar, "-t", "1", "--models-dir", str(models_folder), "--models-max", "50", "--mem-budget", str(budget),
                model=make_model(root / "main")) as s:
        main = ask(s)
        for name in names * 2:
            answer = ask(s, model=name)
            check(answer == main, f"{name} is answered within the budget: {answer}")
            quiet(s)
        models = json.loads(s.request("GET", "/v1/models")[2])["data"]
        loaded = [m["id"] for m in models if m["loaded"]]
        check(1 <= len(loaded) < len(models), f"some models were unloaded: {loaded}")
        text = pathlib.Path(f"/proc/{s.process.pid}/status").read_text()
        peak = int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) / 1000
        check(peak <= budget * 1.024, f"{peak} MB within {budget}")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")


def main():
    for test in (check_adapters, check_models, check_memory):
        with tempfile.TemporaryDirectory() as root:
            test(sys.argv[1], pathlib.Path(root))
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
