#!/usr/bin/env python3
"""Prices: the cost of requests in answers, the log, /metrics and the engine's state, by key.

usage: prices.py MAKAR
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

from serving import Server, check, failures, make_model, quiet


def costs(server, key=None):
    text = server.request("GET", "/metrics", headers={"authorization": f"Bearer {key}"} if key else {})[2]
    return {caller: float(value) for caller, value in re.findall(r'^makar:cost_total\{caller="([^"]*)",currency="EUR"\} (\S+)$', text, re.M)}


def main(makar):
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        prices = root / "prices.json"
        chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 10, "temperature": 0}
        # By tokens alone the cost is exact: 3 per million prompt tokens, 15 per million generated tokens.
        prices.write_text(json.dumps({"currency": "EUR", "input": 3, "output": 15}))
        (root / "keys").write_text("key-of-ann ann\nkey-of-bob bob\nkey-of-root root admin\n")
        with Server(makar, "--prices", prices, "--api-key-file", root / "keys", model=make_model(root / "tiny")) as s:
            as_key = lambda key: {"headers": {"authorization": f"Bearer {key}"}}
            sums = {"ann": 0.0, "bob": 0.0}
            for name, count in (("ann", 3), ("bob", 1)):
                for _ in range(count):
                    code, answer = s.post("/v1/chat/completions", chat, **as_key(f"key-of-{name}"))
                    usage = answer["usage"]
                    expected = (3 * usage["prompt_tokens"] + 15 * usage["completion_tokens"]) / 1e6
                    check(code == 200 and abs(usage["cost"] - expected) < 1e-12 and usage["currency"] == "EUR", f"cost: {usage}")
                    sums[name] += expected
            _, events = s.stream("/v1/chat/completions", dict(chat, stream_options={"include_usage": True}), **as_key("key-of-ann"))
            usage = events[-2]["usage"]
            check(abs(usage["cost"] - (3 * usage["prompt_tokens"] + 15 * usage["completion_tokens"]) / 1e6) < 1e-12, f"stream: {usage}")
            sums["ann"] += usage["cost"]
            # Embeddings have a price too.
            _, embedded = s.post("/v1/embeddings", {"input": ["an article"] * 4}, **as_key("key-of-bob"))
            tokens = embedded["usage"]["prompt_tokens"]
            sums["bob"] += 3 * tokens / 1e6
            lines = [line for line in s.lines() if line.get("cost")]
            check(len(lines) == 6 and abs(sum(line["cost"] for line in lines) - sum(sums.values())) < 1e-12, f"costs in the log: {lines}")
            all_costs = costs(s, "key-of-root")
            check({k: round(v, 12) for k, v in all_costs.items()} == {k: round(v, 12) for k, v in sums.items()},
                  f"costs by key: {all_costs} {sums}")
            check(set(costs(s, "key-of-ann")) == {"ann"}, "a key sees its own cost only")
            state = json.loads(s.request("GET", "/makar/engine", headers={"authorization": "Bearer key-of-bob"})[2])
            check(abs(state["cost"]["money"] - sums["bob"]) < 1e-12 and state["cost"]["currency"] == "EUR",
                  f"the cost on the page: {state['cost']}")
            check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
        # Time and energy: 3600 per hour is 1 per second of work, and 1000 W are 1000 J per second.
        prices.write_text(json.dumps({"hour": 3600, "watts": 1000}))
        with Server(makar, "--prices", prices, model=make_model(root / "again")) as s:
            for _ in range(3):
                code, answer = s.post("/v1/chat/completions", dict(chat, max_tokens=100))
            quiet(s)
            lines = [line for line in s.lines() if "cost" in line and line["completion_tokens"]]
            check(len(lines) == 3 and all(line["cost"] > 0 and abs(line["joules"] - 1000 * line["cost"]) < 1e-6 for line in lines), f"energy: {lines}")
            check(all(line["cost"] <= line["ms"] / 1e3 + 0.05 for line in lines[:1]),
                  f"the cost does not exceed that of the elapsed time: {lines}")
        with Server(makar, model=make_model(root / "free")) as s:
            code, answer = s.post("/v1/chat/completions", chat)
            check("cost" not in answer["usage"] and costs(s) == {}, "without prices there is no cost")
        for text, word in (("[]", "object"), ('{"inptu": 1}', "did you mean 'input'"), ('{"input": -1}', "negative"), ('{"currency": 7}', "USD"),
                           ("{", "prices.json")):
            prices.write_text(text)
            done = subprocess.run([makar, "serve", "-m", root / "free", "--port", "0", "--prices", prices], capture_output=True, text=True, timeout=60)
            check(done.returncode == 2 and word in done.stderr, f"{text}: {done.returncode} {done.stderr}")


main(sys.argv[1])
sys.exit(1 if failures else 0)
