#!/usr/bin/env python3
"""makar reward best through the program: conversations, pairs and rankings from sampled answers, the same bytes for any number of
threads, and data that the training commands read.

usage: best_of_n.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import good, refused


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        chats, prompts, base, chat = (folder / n for n in ("chats.jsonl", "prompts.jsonl", "base", "chat"))
        chats.write_text(good("data", "world", "--form", "instructions", "-n", 200, "--events", 3).stdout)
        prompts.write_text(good("data", "world", "--form", "rewards", "-n", 20, "--events", 3).stdout)
        text = folder / "text.jsonl"
        text.write_text(good("data", "world", "--form", "text", "-n", 150, "--events", 3).stdout)
        good("pretrain", "-d", text, "--model-type", "llama", "--layers", 1, "--width", 32, "--heads", 2, "--vocab-size", 400, "--sequence-len", 256,
             "--max-steps", 30, "--learning-rate", 3e-3, "-q", "-o", base)
        good("sft", "-m", base, "-d", chats, "--max-steps", 30, "--learning-rate", 3e-3, "-q", "-o", chat)
        command = ["reward", "best", "-m", chat, prompts, "--reward", "length=40", "-n", 4, "--max-completion-length", 24, "-q"]
        got = json.loads(good(*command, "-o", folder / "best.jsonl", "--json").stdout or "{}")
        best = lines(folder / "best.jsonl")
        check(got.get("best_reward", -1) > got.get("reward", 0) and got.get("answers", 1) % 4 == 0, f"the best is better than the mean: {got}")
        check(all(r["messages"][-1]["role"] == "assistant" and r["messages"][0]["role"] == "user" for r in best), f"{best[:1]}")
        good(*command, "-o", folder / "again.jsonl", "-t", 1)
        check((folder / "again.jsonl").read_bytes() == (folder / "best.jsonl").read_bytes(), "one thread gives the same bytes")
        for template, same in ((f"@{chat}/chat_template.jinja", True), ("{% for m in messages %}{{ m['content'] }}{% endfor %}", False)):
            good(*command, "-o", folder / "t.jsonl", "--chat-template", template)
            check(((folder / "t.jsonl").read_bytes() == (folder / "best.jsonl").read_bytes()) == same, f"the template {template} is used")
        good(*command, "-o", folder / "pairs.jsonl", "--form", "pairs")
        check(lines(folder / "pairs.jsonl") and all(r["rewards"][0] > r["rewards"][1] for r in lines(folder / "pairs.jsonl")), "chosen is better")
        good(*command, "-o", folder / "ranked.jsonl", "--form", "ranked")
        ranked = lines(folder / "ranked.jsonl")
        check(ranked and all(r["ranks"] == sorted(r["ranks"]) and len(set(r["answers"])) == len(r["answers"]) for r in ranked), f"{ranked[:1]}")
        good(*command, "-o", folder / "none.jsonl", "--min-reward", 5)
        check(lines(folder / "none.jsonl") == [], "nothing reaches the minimum")
        common = ["--max-steps", 1, "--micro-batch-size", 2, "--val-set-size", 0, "-q"]
        good("sft", "-m", chat, "-d", folder / "best.jsonl", *common, "-o", folder / "s")
        good("dpo", "-m", chat, "-d", folder / "pairs.jsonl", *common, "-o", folder / "d")
        good("reward", "-m", chat, "-d", folder / "ranked.jsonl", *common, "-o", folder / "r")
        plain, own, other = (good("reward", "score", "-m", folder / "r", folder / "pairs.jsonl", *options).stdout
                             for options in ([], ["--chat-template", f"@{chat}/chat_template.jinja"], ["--chat-template", "{{ messages[0]['content'] }}"]))
        check(plain and plain == own and plain != other, "reward score uses a template")
        check(good("reward", "best", "-m", chat, prompts, "--reward", f"model={folder / 'r'}", "-n", 2, "--max-completion-length", 24, "-q", "-o", folder / "m.jsonl").returncode == 0, "a reward model scores the answers")
        refused("did you mean 'best'", *command, "-o", folder / "x", "--form", "bst")
        refused("at 0 all answers would be equal", *command, "-o", folder / "x", "--temp", 0)
        refused("has no effect", *command, "-o", folder / "x", "--form", "pairs", "--keep", 2)
        refused("cannot be written", *command, "-o", folder / "no/such/folder.jsonl")
        refused("--allow-programs", *command, "--reward", "program=true", "-o", folder / "x")
    print("best of n: " + ("ok" if not failures else f"{len(failures)} failures"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
