#!/usr/bin/env python3
"""makar prompt on the command line: show, run, test with versions, tune, bad usage.

usage: prompt.py MAKAR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import check, failures

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "serve"))
from serving import make_model  # noqa: E402

MAKAR = os.path.abspath(sys.argv[1])
FEW = """name: translate
version: 2
example: "{{word}} in English is {{output}}."
examples:
- {word: Maison, output: house}
- {word: Chat, output: cat}
input: "{{word}} in English is"
indicator: ":"
separator: " "
max_tokens: 8
"""


def run(*arguments):
    done = subprocess.run([MAKAR, "prompt", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    few = root / "few.yaml"
    few.write_text(FEW)
    model = make_model(root / "tiny", positions=512)
    code, out, err = run("show", few, "--set", "word=Chien")
    check(code == 0 and out == "Maison in English is house. Chat in English is cat. Chien in English is:\n", f"show: {out} {err}")
    code, out, err = run("run", few, "-m", model, "--set", "word=Chien", "--json", "--trace", "--temp", 0)
    check(code == 0, f"run: {err}")
    first = json.loads(out)
    check(first["version"] == "2" and first["replies"][0]["sent"].endswith("Chien in English is:") and first["usage"]["completion_tokens"] <= 8, f"run: {first}")
    # The same as makar generate on the text.
    code, out, _ = run("run", few, "-m", model, "--set", "word=Chien", "--raw", "--temp", 0, "--json", "--trace")
    raw = json.loads(out)["replies"][0]["text"]
    done = subprocess.run([MAKAR, "generate", "-m", str(model), "-n", "8", "--temp", "0", "--json", json.loads(out)["replies"][0]["sent"]],
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and json.loads(done.stdout)["answers"][0]["text"] == raw, f"the same as generate: {raw!r} {done.stdout[:300]}")
    (root / "rows.jsonl").write_text('{"word": "Un"}\n{"word": "Deux"}\n')
    code, out, _ = run("run", few, "-m", model, "--input", root / "rows.jsonl", "--json", "--temp", 0)
    check(code == 0 and len(out.splitlines()) == 2, "one output per record")

    # A schema is enforced, whatever the weights are.
    (root / "schema.yaml").write_text("""input: "{{q}}"\nschema: '{"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false}'\n""")
    for seed in range(3):
        code, out, err = run("run", root / "schema.yaml", "-m", model, "--set", "q=x", "--seed", seed, "--temp", 1)
        check(code == 0 and isinstance(json.loads(out)["ok"], bool), f"schema: {out} {err}")
    # Every technique runs, with bounded replies.
    for technique, max_replies in (("chain-of-thought", 2), ("self-consistency", 6), ("self-ask", 8), ("least-to-most", 8)):
        (root / "t.yaml").write_text(f"input: 'Q: {{{{q}}}}'\ntechnique: {technique}\nsamples: 3\nfollow_ups: 3\nmax_tokens: 10\n")
        code, out, err = run("run", root / "t.yaml", "-m", model, "--set", "q=23 x 47", "--json", "--trace", "--temp", 1, "--seed", 5)
        check(code == 0 and 1 <= len(json.loads(out)["replies"]) <= max_replies, f"{technique}: {out[:200]} {err}")
        again = run("run", root / "t.yaml", "-m", model, "--set", "q=23 x 47", "--json", "--trace", "--temp", 1, "--seed", 5)[1]
        check(again == out, f"{technique}: the same seed gives the same")

    # Tests, versions, exit codes. The reply to this prompt is fixed at temperature 0.
    few.write_text(FEW + f"tests:\n- {{name: same, fields: {{word: Chien}}, lacks: zzzzzzzz}}\n")
    code, out, err = run("test", few, "-m", model, "--temp", 0, "--save", root / "v2.json")
    check(code == 0 and "1 of 1 pass" in out and json.loads((root / "v2.json").read_text())["version"] == "2", f"tests: {out} {err}")
    few.write_text(FEW.replace("version: 2", "version: 3") + "tests:\n- {name: same, fields: {word: Chien}, contains: impossible text}\n- {name: new, fields: {word: Un}, contains: impossible}\n")
    code, out, _ = run("test", few, "-m", model, "--temp", 0)
    check(code == 1 and "FAIL same" in out, "a failing test")
    code, out, _ = run("test", few, "-m", model, "--temp", 0, "--baseline", root / "v2.json", "--json")
    check(code == 1 and json.loads(out)["regressed"] == 1, f"a regression: {out}")
    few.write_text(FEW + "tests:\n- {name: new, fields: {word: Un}, contains: impossible}\n")
    code, out, _ = run("test", few, "-m", model, "--temp", 0, "--baseline", root / "v2.json")
    check(code == 0, "a new test that fails is no regression")

    # Tuning writes the next version, which runs.
    (root / "dev.jsonl").write_text('{"word": "Chien", "output": "dog"}\n{"word": "Eau", "output": "water"}\n')
    (root / "instructions.txt").write_text("Translate into English.\nBe brief.\n")
    code, out, err = run("tune", few, "-m", model, "--data", root / "dev.jsonl", "--instructions", root / "instructions.txt", "--trials", 2, "--shots", 1,
                         "--temp", 0, "-o", root / "next.yaml", "--json")
    check(code == 0 and len(json.loads(out)["tried"]) == 5 and "version: 3" in (root / "next.yaml").read_text(), f"tune: {out} {err}")
    code, out, err = run("show", root / "next.yaml", "--set", "word=Chien")
    check(code == 0 and out.rstrip().endswith("Chien in English is:"), f"the next version: {out} {err}")

    for flags, what, expected in ((["show", few, "--set", "word"], "NAME=VALUE", 2), (["show", few], "word", 1), (["run", few, "--set", "word=x"], "--model", 2),
                                  (["show", root / "none.yaml"], "none.yaml", 1), (["tune", few, "-m", model, "--data", "x", "-o", "y", "--metric", "exat"], "did you mean 'exact'", 2),
                                  (["shw"], "did you mean 'show'", 2)):
        code, _, err = run(*flags)
        check(code == expected and what in err, f"{flags}: {code} {err}")
    (root / "bad.yaml").write_text("input: x\n\nshot: 3\n")
    code, _, err = run("show", root / "bad.yaml")
    check(code == 1 and "bad.yaml:3" in err and "did you mean 'shots'" in err, f"a bad key: {err}")
sys.exit(1 if failures else 0)
