#!/usr/bin/env python3
"""Speculative decoding: tokens per second of `makar generate` with a draft model against the same run without one, one request at a time,
greedy. The time of the prompts (a second run with one token per answer) is subtracted. The answers must be equal.

usage: ./dev bench speculation --model TARGET --draft DRAFT --requests FILE.jsonl [--draft-max N ...] [--threads N] [--max-tokens N]
                               [--temperature X] [--repeats N] [--device cpu|cuda] [--program FILE]
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import time


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--model", required=True)
    p.add_argument("--draft", required=True)
    p.add_argument("--requests", required=True)
    p.add_argument("--draft-max", type=int, nargs="+", default=[2, 3, 4, 6, 8])
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--max-tokens", type=int, default=64)
    p.add_argument("--temperature", type=float, default=0)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--device", default="cpu")
    p.add_argument("--program", default=str(pathlib.Path(__file__).resolve().parents[1] / "build/makar"))
    return p.parse_args()


def main():
    a = arguments()

    def run_once(tokens, *words):
        start = time.perf_counter()
        done = subprocess.run([a.program, "generate", "-m", a.model, "--jsonl", "-f", a.requests, "--parallel", "1", "-t", str(a.threads), "-n", str(tokens),
                               "--temperature", str(a.temperature), "--seed", "1", "--device", a.device, *words], check=True, capture_output=True, text=True)
        return time.perf_counter() - start, [json.loads(line) for line in done.stdout.splitlines()]

    def measure(*words):
        """Returns the tokens per second, their spread, and the answers."""
        rates = []
        for _ in range(a.repeats):
            prompt_seconds, _ = run_once(1, *words)
            total_seconds, answers = run_once(a.max_tokens, *words)
            tokens = sum(len(x["answers"][0]["ids"]) - 1 for x in answers)
            rates.append(tokens / (total_seconds - prompt_seconds))
        return statistics.median(rates), (max(rates) - min(rates)) / statistics.median(rates), answers

    plain, spread, expected = measure()
    texts = [x["answers"][0]["text"] for x in expected]
    for draft_max in a.draft_max:
        rate, _, answers = measure("--model-draft", a.draft, "--draft-max", str(draft_max))
        drafted, accepted = (sum(x["usage"][key] for x in answers) for key in ("drafted", "accepted"))
        print(json.dumps({"bench": "speculation", "case": f"draft-max-{draft_max}", "threads": a.threads, "device": a.device, "makar_value": rate, "peer": "without a draft", "peer_value": plain,
                          "unit": "tokens/s", "ratio": rate / plain, "spread": spread, "accepted": accepted / max(1, drafted),
                          "identical": [x["answers"][0]["text"] for x in answers] == texts}), flush=True)


if __name__ == "__main__":
    main()
