#!/usr/bin/env python3
"""makar data world through the program: forms, parts that concatenate to the whole, the checker with right, wrong and hostile answers, and one
step of each recipe.

usage: world.py MAKAR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = str(pathlib.Path(sys.argv[1]).resolve())
RECIPES = pathlib.Path(__file__).resolve().parents[2] / "recipes"

TURNS = [{"role": "user", "content": "Anna ran to the barn.\n\nWhere is Anna?"}, {"role": "assistant", "content": "In the barn."},
         {"role": "user", "content": "Who ran?"}]
RENDERED = "Anna ran to the barn.\n\nWhere is Anna?\nAnswer: In the barn.<|endoftext|>\n\nWho ran?\nAnswer:"


def run(*words, cwd=None):
    return subprocess.run([MAKAR, *map(str, words)], capture_output=True, text=True, timeout=240, cwd=cwd)


def records(*words):
    done = run("data", "world", *words)
    check(done.returncode == 0, f"data world {' '.join(map(str, words))}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def forms(folder):
    fields = {"text": "text", "instructions": "messages", "preferences": "rejected", "ranked": "ranks", "rewards": "answer",
              "questions": "events", "prompts": "messages"}
    for form, field in fields.items():
        made = records("--form", form, "-n", 20, "--split", "test")
        check(len(made) == 20 and all(field in r for r in made), f"{form}: 20 records with {field}")
    whole = run("data", "world", "--form", "rewards", "-n", 30, "--seed", 4).stdout
    parts = "".join(run("data", "world", "--form", "rewards", "-n", 10, "--first", at, "--seed", 4).stdout for at in (0, 10, 20))
    check(whole == parts, "parts made with --first and -n concatenate to the whole")
    path = folder / "new/folder/a.jsonl"
    check(run("data", "world", "--form", "rewards", "-n", 30, "--seed", 4, "-o", path).returncode == 0, "writes a file")
    check(path.read_text() == whole, "a file has the same bytes")
    for count, to in ((3, ">"), (3000, ">"), (3, "-o"), (3000, "-o")):  # small outputs fail at the end, large ones on the way
        words = [MAKAR, "data", "world", "-n", str(count), "-q"]
        with open("/dev/full", "w") as full:
            done = subprocess.run(words + ([] if to == ">" else ["-o", "/dev/full"]), stdout=full if to == ">" else None, stderr=subprocess.PIPE, text=True)
        check(done.returncode == 1 and ("No space left" in done.stderr or "cannot be written" in done.stderr), f"{count} {to}: {done.returncode} {done.stderr}")
    check(pathlib.Path("/dev/full").is_char_device(), "a device stays a device")
    for words, part in ((["--form", "tex"], "did you mean 'text'"), (["--split", "dev"], "expected train, test, names"), (["-n", 0], "1 or more"),
                        (["--events", 99], "3 to 40"), (["--seed", -1], "0 or more"), (["--form", "text", "extra"], "")):
        done = run("data", "world", *words)
        check(done.returncode == 2 and part in done.stderr, f"{words}: {done.returncode} {done.stderr}")


def checker(folder):
    made = records("--form", "rewards", "-n", 200, "--split", "test", "--seed", 4)
    answers = folder / "answers.jsonl"

    def score(lines, *words):
        answers.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        done = run("data", "world", "check", "--answers", answers, "--json", *words)
        return json.loads(done.stdout) if done.stdout else {"answers": 0, "failed": done.stderr, "code": done.returncode}

    got = score([{"id": r["id"], "answer": r["answer"]} for r in made])
    check((got["answers"], got["exact"], got["normalized"]) == (200, 200, 200), f"right answers: {got}")
    check(set(got["kinds"]) == {r["kind"] for r in made}, "kinds are counted")
    got = score([{"id": r["id"], "answer": r["answer"].lower().rstrip(".")} for r in made])
    check(got["exact"] == 0 and got["normalized"] == 200, f"normalized answers: {got}")
    shifted = [{"id": r["id"], "answer": other["answer"]} for r, other in zip(made, made[1:])]
    got = score(shifted, "--show", 3)
    check(got["normalized"] < 20 and len(got["wrong"]) == 3, f"answers of other questions: {got}")
    check("expected " in got["wrong"][0] and "answers.jsonl:" in got["wrong"][0], f"wrong answers are shown: {got['wrong']}")
    generated = [{"answers": [{"text": r["answer"], "ids": [1]}], "usage": {}} for r in made]
    got = score(generated[10:], "--split", "test", "--seed", 4, "--first", 10)
    check(got["exact"] == 190, f"answers of makar generate by line: {got}")
    hostile = ["\n", "{\n", "[1]\n", "\"x\"\n", {"id": "world4-test-1-7-99999999999999999999", "answer": "x"}, {"id": {}, "answer": "x"},
               {"answer": None}, {"answers": [{}]}, {"id": "x" * 100000, "answer": "y"}, {"id": made[0]["id"], "answer": "x" * 1000000}]
    got = score(hostile)
    check(got["answers"] == 1 and got["exact"] == 0 and got["bad_records"] == 8, f"hostile lines: {got}")
    got = score(["{\n"])
    check(run("data", "world", "check", "--answers", answers).returncode == 1, f"a file without answers: {got}")
    check(run("data", "world", "check", "--answers", folder / "absent").returncode == 1, "a file that is not there")
    check(run("data", "world", "check").returncode == 2, "--answers is required")
    questions = [json.loads(line) for line in run("data", "world", "--form", "rewards", "-n", 8, "--split", "test").stdout.splitlines()]
    for name, texts in (("right", [q["answer"] for q in questions]), ("mixed", [q["answer"] if i < 4 else "What?" for i, q in enumerate(questions)])):
        (folder / name).write_text("".join(json.dumps({"id": q["id"], "answer": text}) + "\n" for q, text in zip(questions, texts)))
    words = ("data", "world", "check", "--answers", folder / "right", "--against", folder / "mixed")
    got = json.loads(run(*words, "--json").stdout)["against"]
    check((got["better"], got["worse"], got["both_right"], got["win_rate"]) == (4, 0, 4, 0.75), f"win rate: {got}")
    check("better 4, worse 0, equal 4 (4 right, 0 right among other words, 0 wrong); win rate 75.0 %" in run(*words).stdout, "win rate as text")
    lines = (folder / "mixed").read_text().split("\n")
    (folder / "mixed").write_text("\n".join(reversed(lines[:8])))
    got = json.loads(run(*words, "--json").stdout)["against"]
    check((got["better"], got["worse"], got["both_right"]) == (4, 0, 4), f"answers are paired by id: {got}")
    (folder / "mixed").write_text("\n".join(lines[:5]))
    check("has answers to 5 questions" in run(*words).stderr, "files of different questions")


def kinds(folder):
    """--kinds: only these questions, in every form; ids hold them, so that answers are checked without options."""
    all_kinds = {r["kind"] for r in records("--form", "questions", "-n", 3000)}
    check(len(all_kinds) == 33, f"33 kinds: {len(all_kinds)}")
    for kind in sorted(all_kinds):
        made = records("--form", "rewards", "-n", 5, "--kinds", kind, "--events", 3, "--split", "test")
        check({r["kind"] for r in made} == {kind}, f"--kinds {kind}: {[r['kind'] for r in made]}")
    made = records("--form", "rewards", "-n", 200, "--kinds", "job,age", "--seed", 9)
    check({r["kind"] for r in made} == {"job", "age"}, "both kinds")
    (folder / "kinds.jsonl").write_text("".join(json.dumps({"id": r["id"], "answer": r["answer"]}) + "\n" for r in made))
    got = json.loads(run("data", "world", "check", "--answers", folder / "kinds.jsonl", "--json").stdout)
    check(got["exact"] == 200, f"checked by id: {got}")
    (folder / "lines.jsonl").write_text("".join(json.dumps({"answer": r["answer"]}) + "\n" for r in made))
    got = json.loads(run("data", "world", "check", "--answers", folder / "lines.jsonl", "--kinds", "job,age", "--seed", 9, "--json").stdout)
    check(got["exact"] == 200, f"checked by line: {got}")
    for id_ in (made[0]["id"] + "-1", made[0]["id"].rsplit("-", 1)[0] + "-0", made[0]["id"].rsplit("-", 1)[0] + "-9999999999999999"):
        (folder / "bad.jsonl").write_text(json.dumps({"id": id_, "answer": "x"}) + "\n")
        check(run("data", "world", "check", "--answers", folder / "bad.jsonl").returncode == 1, f"a wrong id: {id_}")
    done = run("data", "world", "--kinds", "jobs")
    check(done.returncode == 2 and "did you mean 'job'" in done.stderr, f"an unknown kind: {done.stderr}")


def recipes(folder):
    """One step of each recipe, on a little data, then an answer for each prompt."""
    for form, name, split in (("text", "text", "train"), ("text", "text-test", "test"), ("instructions", "chat", "train"), ("instructions", "chat-test", "test")):
        records("--form", form, "-n", 60, "--split", split, "-o", folder / f"runs/world-data/{name}.jsonl")
    small = [f"config={RECIPES}/configs/world.json", "vocab_size=600"]
    for command, recipe, extra in (("pretrain", "world.yaml", small), ("sft", "world-chat.yaml", [f"chat_template={RECIPES}/configs/world_chat.jinja"])):
        done = run(command, RECIPES / recipe, "max_steps=1", "warmup_steps=0", "decay_ratio=0", "micro_batch_size=2", *extra, cwd=folder)
        check(done.returncode == 0, f"{recipe}: {done.stderr[-600:]}")
    prompts = folder / "prompts.jsonl"
    records("--form", "prompts", "-n", 5, "--split", "test", "-o", prompts)
    (folder / "turns.json").write_text(json.dumps(TURNS))
    rendered = run("template", "render", "-m", folder / "runs/world-chat", "--messages", folder / "turns.json", "--add-generation-prompt")
    check(rendered.stdout.rstrip("\n") == RENDERED, f"the template of the recipe: {rendered.stdout!r} {rendered.stderr}")
    done = run("generate", "-m", folder / "runs/world-chat", "--jsonl", "-f", prompts, "-n", 8, "--temperature", 0)
    check(done.returncode == 0 and len(done.stdout.splitlines()) == 5, f"five answers: {done.stderr}")
    (folder / "answers.jsonl").write_text(done.stdout)
    done = run("data", "world", "check", "--answers", folder / "answers.jsonl", "--split", "test")
    check(done.returncode == 0 and "all                   5" in done.stdout, f"the answers are counted: {done.stdout}{done.stderr}")


with tempfile.TemporaryDirectory() as scratch:
    forms(pathlib.Path(scratch))
    checker(pathlib.Path(scratch))
    kinds(pathlib.Path(scratch))
    recipes(pathlib.Path(scratch))
sys.exit(f"world: {len(failures)} failures" if failures else 0)
