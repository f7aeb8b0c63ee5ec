#!/usr/bin/env python3
"""makar grpo and makar ppo through the program: the reward rises, sampler and trainer agree at every step, killed runs continue
with the same bytes, rewards by rules, models and programs, and refused options.

usage: policy.py MAKAR
"""
import json
import pathlib
import sys
import tempfile

from checks import check, failures
from program import good, kill_after, refused, steps


def mean(name, part):
    return sum(s["metrics"][name] for s in part) / len(part)


def rises(folder, base, prompts, common):
    """Shorter answers have a higher reward: the model learns to end them."""
    for command, words in (("grpo", ["--num-generations", 8, "--max-steps", 24]),
                           ("grpo", ["--num-generations", 8, "--max-steps", 24, "--loss-type", "dr_grpo", "--beta", 0.01, "--epsilon-high", 0.28]),
                           ("ppo", ["--max-steps", 48, "--steps-per-generation", 2, "--num-iterations", 2, "--kl-coef", 0.001])):
        out = folder / f"{command}-{len(words)}"
        done = good(command, "-m", base, "-d", prompts, *common, "--reward", "length=60", *words, "-o", out)
        if done.returncode != 0:
            continue
        log = steps(out)
        first, last = mean("reward", log[:4]), mean("reward", log[-4:])
        check(last > first + 0.1, f"{command} {words}: the reward rises: {first} {last}")
        check(all(s["metrics"]["logp diff"] == 0 for s in log), f"{command}: sampler and trainer agree")
        check("logp diff 0.0" in done.stderr and "| reward " in done.stderr and "| kl " in done.stderr, f"{command}: the step line: {done.stderr[-500:]}")
        check({"reward", "reward std", "kl", "clip", "length", "truncated"} <= set(log[0]["metrics"]), f"{command}: {log[0]}")
        check(mean("kl", log[-4:]) > mean("kl", log[:1]), f"{command}: the divergence is measured")


def resumes(folder, base, prompts, common):
    """Killed at different times, in rollouts and in updates, and continued."""
    for command, words in (("grpo", ["--num-generations", 8, "--steps-per-generation", 2, "--num-iterations", 2]),
                           ("ppo", ["--steps-per-generation", 2, "--num-iterations", 2, "--kl-target", 1, "--kl-horizon", 100])):
        words = [command, "-m", base, "-d", prompts, *common, "--reward", "length=60", *words, "--max-steps", 14, "--save-steps", 3, "-q"]
        whole, out = folder / f"{command}-whole", folder / f"{command}-killed"
        good(*words, "-o", whole)
        for after, wait in ((3, 0.0), (6, 0.05), (9, 0.11)):
            kill_after(f"checkpoint-{after}", words, out, wait)
        good(*words, "-o", out)
        same = (out / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
        check(same, f"{command}: a resumed run has different bytes")
        check([s["metrics"] for s in steps(out)] == [s["metrics"] for s in steps(whole)], f"{command}: a resumed run logs the same")
        threads = folder / f"{command}-threads"
        good(*words, "-t", 1, "-o", threads)
        check((threads / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes(), f"{command}: one thread has different bytes")


def rewards(folder, base, prompts, pairs, common):
    """A reward model, a program and a sum of them; an adapter with its base as the reference."""
    reward_model = folder / "reward_model"
    good("reward", "-m", base, "-d", pairs, "--val-set-size", 0, "--micro-batch-size", 8, "--lr", 3e-3, "--max-steps", 5, "-t", 2, "-o", reward_model)
    program = folder / "program.py"
    program.write_text("import json, sys\nrecord = json.load(sys.stdin)\nprint(len(record['answer']) % 3)\n")
    out = folder / "mixed"
    done = good("grpo", "-m", base, "-d", prompts, *common, "--num-generations", 4, "--max-steps", 2, "--reward", f"model={reward_model},weight=0.5",
                "--reward", "exact", "--reward", "world", "--reward", f"program={sys.executable} {program}", "--allow-programs", "--adapter", "lora", "-o", out)
    if done.returncode == 0:
        m = steps(out)[0]["metrics"]
        total = 0.5 * m["reward/model"] + m["reward/exact"] + m["reward/world"] + m["reward/program"]
        check(abs(m["reward"] - total) < 1e-6, f"a weighted sum: {m}")
        check(m["kl"] == 0 and (out / "adapter_model.safetensors").is_file(), f"an adapter starts at its base: {m}")
    done = good("ppo", "-m", base, "-d", prompts, *common, "--reward", f"model={reward_model}", "--max-steps", 1, "-o", folder / "scored")
    refused("--allow-programs", "grpo", "-m", base, "-d", prompts, *common, "--reward", "program=true", "-o", folder / "no")


def options(folder, base, prompts, common):
    for words, part in ((["--reward", "exakt"], "did you mean 'exact'"), (["--reward", "regex=("], "does not compile"), (["--num-generations", 5], "not a multiple of 5"),
                        (["--num-generations", 1], "2 or more"), (["--loss-type", "grp"], "did you mean 'grpo'"), (["--epsilon", 0], "epsilon"),
                        (["--scale-rewards", "groups"], "did you mean 'group'"), (["--beta", 1, "--no-reference"], "needs the reference"),
                        (["--max-completion-length", 4096], "leaves none for a prompt")):
        reward = [] if "--reward" in words else ["--reward", "exact"]
        refused(part, "grpo", "-m", base, "-d", prompts, *[w for w in common if "--max-completion-length" not in words or w not in ("--max-completion-length", 12)],
                *reward, *words, "--max-steps", 1, "-o", folder / "no")
    refused("reward", "grpo", "-m", base, "-d", prompts, "-o", folder / "no")
    refused("PPO needs the reference", "ppo", "-m", base, "-d", prompts, "--reward", "exact", "--no-reference", "-o", folder / "no")
    refused("no 'answer' to compare", "grpo", "-m", base, "-d", folder / "bare.jsonl", *common, "--reward", "exact", "--num-generations", 4, "--max-steps", 1, "-o", folder / "no")
    refused("is not a reward model", "grpo", "-m", base, "-d", prompts, *common, "--reward", f"model={base}", "-o", folder / "no2")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    text, prompts, pairs, base = folder / "text.jsonl", folder / "prompts.jsonl", folder / "pairs.jsonl", folder / "base"
    good("data", "world", "--form", "text", "-n", 300, "-o", text)
    good("data", "world", "--form", "rewards", "-n", 200, "--events", 3, "-o", prompts)
    good("data", "world", "--form", "preferences", "-n", 60, "--events", 3, "-o", pairs)
    (folder / "bare.jsonl").write_text("".join(json.dumps({"prompt": f"Who is {i}?"}) + "\n" for i in range(20)))
    good("pretrain", "-d", text, "layers=1", "width=32", "heads=2", "vocab_size=600", "sequence_len=256", "max_steps=40", "micro_batch_size=8", "lr=3e-3", "-t", 2, "-o", base)
    common = ["--val-set-size", 0, "--micro-batch-size", 16, "--gradient-accumulation-steps", 1, "--max-completion-length", 12, "--lr", 3e-3]
    rises(folder, base, prompts, common)
    resumes(folder, base, prompts, common)
    rewards(folder, base, prompts, pairs, common)
    options(folder, base, prompts, common)
sys.exit(f"policy: {len(failures)} failures" if failures else 0)
