#!/usr/bin/env python3
"""makar grpo and makar ppo through the program: the reward rises, sampler and trainer agree at every step, killed runs continue
with the same bytes, rewards by rules, models, programs, tests and queries, and refused options.

usage: policy.py MAKAR
"""
import json
import pathlib
import shutil
import sqlite3
import sys
import tempfile

from checks import check, failures
from program import good, kill_after, kill_when, refused, run, steps


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
        report = (out / "report.md").read_text()
        check(all(f"![{name}]({name}.svg)" in report and (out / f"{name}.svg").is_file() for name in ("loss", "reward", "kl", "length")), f"{command}: the report plots rewards: {report}")


def last_step(out):
    """The last complete step in a log that may end in the middle of a line."""
    path = out / "log.jsonl"
    text = path.read_text() if path.is_file() else ""
    found = [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]
    return max((line["step"] for line in found if "lr" in line), default=0)


def resumes(folder, base, prompts, common):
    """Killed inside of an update and inside of a rollout, and continued. A rollout serves four steps, so it is in steps 1, 5, 9 and 13."""
    for command, words in (("grpo", ["--num-generations", 8]), ("ppo", ["--kl-target", 1, "--kl-horizon", 100])):
        gate, inside = folder / f"{command}-gate", folder / f"{command}-inside"
        program = f"program=if [ -e {gate} ]; then touch {inside}; sleep 3; fi; tr -cd e | wc -c,weight=-0.01"
        words = [command, "-m", base, "-d", prompts, *common, "--reward", "length=60", "--reward", program, "--allow-programs", *words,
                 "--steps-per-generation", 2, "--num-iterations", 2, "--max-steps", 14, "--save-steps", 2, "-q"]
        whole, out = folder / f"{command}-whole", folder / f"{command}-killed"
        good(*words, "-o", whole)
        # After an odd step nothing is saved, and the next step uses the same answers: it is only an update. A kill that comes too late does not count.
        for _ in range(10):
            shutil.rmtree(out, ignore_errors=True)
            kill_when(lambda: last_step(out) >= 3 and last_step(out) % 2 == 1, words, out)
            killed = last_step(out)
            if killed % 2 == 1:
                break
        check(3 <= killed < 14 and killed % 2 == 1, f"{command}: the first kill is inside of an update, after step {killed}")
        gate.touch()
        kill_when(inside.exists, words, out)
        killed = last_step(out)
        check(inside.exists() and 4 <= killed < 14 and killed % 4 == 0, f"{command}: the second kill is inside of a rollout, after step {killed}")
        gate.unlink()
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
    good("ppo", "-m", base, "-d", prompts, *common, "--reward", f"model={reward_model}", "--max-steps", 1, "-o", folder / "scored")
    refused("--allow-programs", "grpo", "-m", base, "-d", prompts, *common, "--reward", "program=true", "-o", folder / "no")
    refused("program gave 1e+300 for the answer", "grpo", "-m", base, "-d", prompts, *common, "--reward", "program=echo 1e300", "--allow-programs", "-o", folder / "huge")
    check(not list((folder / "huge").glob("checkpoint-*")), "a reward that is not usable leaves no checkpoint")
    continued(folder, base, prompts, pairs, common, out)
    changed_files(folder, base, prompts, common, reward_model)


def continued(folder, base, prompts, pairs, common, adapter):
    """The reference of a run that continues an adapter is the model with that adapter."""
    for command, words in (("grpo", ["--num-generations", 4]), ("ppo", [])):
        words = [command, "-m", base, "-d", prompts, *common, "--reward", "length=60", *words, "--max-steps", 3, "--lora-model-dir", adapter]
        for reference in ([], ["--ref-model", base]):
            out = folder / f"{command}-continued{len(reference)}"
            good(*words, *reference, "-o", out)
            kl = [s["metrics"]["kl"] for s in steps(out)]
            check(len(kl) == 3 and (kl[0] == 0) == (not reference) and kl[-1] > 0, f"{command} {reference}: the divergence from the reference: {kl}")
    good("dpo", "-m", base, "-d", pairs, "--val-set-size", 0, "--max-steps", 1, "--lora-model-dir", adapter, "-o", folder / "dpo-continued")
    m = steps(folder / "dpo-continued")[0]["metrics"]
    check(m["rewards/chosen"] == 0 and m["rewards/rejected"] == 0, f"dpo: the reference has the adapter: {m}")


def changed_files(folder, base, prompts, common, reward_model):
    """A resumed run must meet the models that it began with."""
    out, config = folder / "changed", reward_model / "config.json"
    words = ["ppo", "-m", base, "-d", prompts, *common, "--reward", f"model={reward_model}", "--max-steps", 3, "--save-steps", 1]
    kill_after("checkpoint-1", words, out)
    before = config.read_bytes()
    config.write_bytes(before + b"\n")
    refused(f"the files of {reward_model} have changed", *words, "-o", out)
    config.write_bytes(before)
    good(*words, "-o", out)
    # Likewise for the databases of queries, and for the script of a program.
    database, script = folder / "counts.db", folder / "score.py"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE t (a)")
    connection.close()
    script.write_text("print(1)\n")
    records = folder / "counts.jsonl"
    records.write_text("".join(json.dumps({"prompt": f"Count {i}.", "sql": "SELECT count(*) FROM t", "database": str(database)}) + "\n" for i in range(20)))
    grpo = ["grpo", "-m", base, "--num-generations", 4, "--max-steps", 3, "--save-steps", 1, *common]
    for file, words in ((database, ["-d", records, "--reward", "sql"]), (database, ["-d", records, "--reward", f"sql={database}"]),
                        (script, ["-d", records, "--reward", f"program={sys.executable} {script}", "--allow-programs"])):
        shutil.rmtree(out)
        kill_after("checkpoint-1", [*grpo, *words], out)
        before = file.read_bytes()
        file.write_bytes(before + b"\n")
        refused(f"the files of {file} have changed", *grpo, *words, "-o", out)
        file.write_bytes(before)
        good(*grpo, *words, "-o", out)


def executed(folder, base, common):
    """Rewards that run queries, and code with tests, on a model that has learnt one answer per prompt by heart."""
    answers = {"Count the sales.": "```sql\nSELECT count(*) FROM sales\n```", "Add the sales.": "SELECT 1 AS n",
               "Write f.": "```python\ndef f(x): return x + 1\n```", "Write g.": "def g(x): return x"}
    chats, learnt, database = folder / "answers.jsonl", folder / "learnt", folder / "sales.db"
    chats.write_text("".join(json.dumps({"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}) + "\n" for q, a in answers.items()))
    good("sft", "-m", base, "-d", chats, "--val-set-size", 0, "--max-steps", 150, "--micro-batch-size", 4, "--lr", 1e-2, "-q", "-o", learnt)
    script = "CREATE TABLE sales (product TEXT, sold INTEGER); INSERT INTO sales VALUES ('tea', 3), ('milk', 9), ('tea', 4);"
    with sqlite3.connect(database) as connection:
        connection.executescript(script)
    connection.close()
    sql, tests = folder / "sql.jsonl", folder / "tests.jsonl"

    def write(path, *records):
        path.write_text("".join(json.dumps(r) + "\n" for r in records))
    count, total = {"prompt": "Count the sales.", "sql": "SELECT 3.0"}, {"prompt": "Add the sales.", "sql": "SELECT sum(sold) FROM sales"}
    write(sql, {**count, "database": str(database)}, {**total, "schema": script})
    write(tests, {"prompt": "Write f.", "test_list": ["assert f(1) == 2", "assert f(5) == 6"]},
          {"prompt": "Write g.", "tests": "def check(c):\n    assert c(1) == 2", "entry_point": "g"})
    best = ["reward", "best", "-m", learnt, "-n", 2, "--temp", 0.05, "--max-completion-length", 60, "-q"]
    allow = "--confirm-run-unsafe-code"
    longer = [60 if word == 12 else word for word in common]
    cases = [("sql", sql, [])]
    probe = run(*best, tests, "--reward", "tests", allow, "-o", folder / "probe.jsonl")
    if "Landlock" in probe.stderr or "install it" in probe.stderr:
        print("programs cannot run here:", probe.stderr.strip())
    else:
        cases.append(("tests", tests, [allow]))
    for reward, data, words in cases:
        out = folder / f"{reward}-best.jsonl"
        good(*best, data, "--reward", reward, *words, "-o", out)
        got = {r["messages"][0]["content"]: (r["messages"][1]["content"], r["reward"]) for r in map(json.loads, out.read_text().splitlines())}
        right, wrong = (json.loads(line)["prompt"] for line in data.read_text().splitlines())
        check(got.get(right) == (answers[right], 1) and got.get(wrong) == (answers[wrong], 0), f"--reward {reward}: {got}")
        trained = folder / f"{reward}-grpo"
        good("grpo", "-m", learnt, "-d", data, *longer, "--num-generations", 8, "--reward", reward, *words, "--max-steps", 1, "-o", trained)
        value = steps(trained)[0]["metrics"]["reward"]
        check(0 < value < 1, f"grpo --reward {reward}: {value}")
    write(sql, count, total)
    good(*best, sql, "--reward", f"sql={database}", "-o", folder / "one-database.jsonl")
    refused("allow it with --confirm-run-unsafe-code", *best, tests, "--reward", "tests", "-o", folder / "no")
    refused("did you mean 'python'", *best, tests, "--reward", "tests=pyton", allow, "-o", folder / "no")
    refused("no such database", *best, sql, "--reward", "sql=none.db", "-o", folder / "no")
    # What a record lacks is found before the run starts, with its line.
    for record, part in ((count, "no 'database'"), ({"prompt": "x", "database": str(database)}, "no 'sql'"), ({**count, "schema": "CREATE"}, "schema"),
                         ({**total, "schema": "CREATE TABLE t (a)"}, "no such table: sales"), ({**count, "database": "postgresql://localhost/x"}, "must be a SQLite file")):
        write(sql, {**count, "schema": script}, record)
        refused("sql.jsonl:2", "grpo", "-m", learnt, "-d", sql, *common, "--reward", "sql", "-o", folder / "no")
        refused(part, *best, sql, "--reward", "sql", "-o", folder / "no")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 1001) SELECT i FROM n"
    for query, part in ((numbers, "more than 1000 rows"), ("SELECT random()", "random numbers"), ("SELECT date('now')", "current time")):
        write(sql, {**count, "schema": script}, {**count, "schema": script, "sql": query})
        refused("sql.jsonl:2: reward: 'sql' of a record cannot be used: ", *best, sql, "--reward", "sql", "-o", folder / "no")
        refused(part, *best, sql, "--reward", "sql", "-o", folder / "no")
    done = run(*best, sql, "--reward", "sql=postgresql://u:secret@127.0.0.1:1/x", "-o", folder / "no")
    check(done.returncode == 1 and "secret" not in done.stderr and ("~/.pgpass" in done.stderr or "libpq" in done.stderr), f"an address with a password: {done.stderr}")
    if len(cases) == 2:
        write(tests, {"prompt": "x", "test": "assert True"}, {"prompt": "y"})
        refused("tests.jsonl:2: reward: the record of a prompt has no 'tests'", *best, tests, "--reward", "tests", allow, "-o", folder / "no")


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
    refused("bare.jsonl:1: reward: the record of a prompt has no 'answer' to compare", "grpo", "-m", base, "-d", folder / "bare.jsonl", *common, "--reward", "exact", "--num-generations", 4, "--max-steps", 1, "-o", folder / "no")
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
    executed(folder, base, common)
    options(folder, base, prompts, common)
sys.exit(f"policy: {len(failures)} failures" if failures else 0)
