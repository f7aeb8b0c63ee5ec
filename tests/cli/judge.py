#!/usr/bin/env python3
"""makar judge, makar detect and makar card on the command line.

usage: judge.py MAKAR
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from checks import check, failures

MAKAR = os.path.abspath(sys.argv[1])
WORLD_MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/world.gguf"


def run(*arguments, timeout=300):
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def make_model(folder):
    text = folder / "page.txt"
    text.write_text("".join(chr(c) for c in range(32, 127)) + "\n" + "Which is a? Answer: a, b, c or d.\n" * 60)
    code, _, err = run("pretrain", "--datasets", text, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 200, "-o",
                       folder / "model")
    check(code == 0, f"a model: {err[-300:]}")
    return folder / "model"


def check_judge(folder, model):
    (folder / "q.txt").write_text("1?\n2?\n3?\n")
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "b.txt").write_text("one\n22\n3\n")
    base = ("-m", model, "--prompts", folder / "q.txt", "--hyp", folder / "a.txt")
    code, out, err = run("judge", "pairwise", *base, "--hyp", folder / "b.txt", "--json")
    check(code == 0, f"pairs: {err}")
    report = json.loads(out)
    check(report["win"] + report["tie"] + report["loss"] == 3 and len(report["items"]) == 3, f"a verdict for each pair: {out}")
    check(report["items"][0]["outcomes"] == ["tie"] and abs(report["items"][0]["preference"] - 0.5) < 1e-12, "equal answers are a tie")
    # The same pair the other way round has the opposite verdict.
    code, out, _ = run("judge", "pairwise", "-m", model, "--prompts", folder / "q.txt", "--hyp", folder / "b.txt", "--hyp",
                       folder / "a.txt", "--json")
    other = json.loads(out)
    check(other["win"] == report["loss"] and other["loss"] == report["win"] and other["flip_rate"] == report["flip_rate"], "symmetry")
    first, again = [run("judge", "pairwise", *base, "--hyp", folder / "b.txt", "--seeds", 5, "--explain", 4)[1] for _ in range(2)]
    check(first == again and "flip rate" in first, f"the same seed gives the same verdicts: {first}")
    code, out, err = run("judge", "score", *base, "--json", "--steps")
    report = json.loads(out) if code == 0 else {}
    check(code == 0 and 1 <= report["score"] <= 5 and abs(sum(report["items"][0]["probabilities"]) - 1) < 1e-12, f"scores: {err}")
    (folder / "s.jsonl").write_text('{"answer": "It is a. It is b.", "samples": ["It is a.", "a or b"]}\n')
    selfcheck = ("judge", "selfcheck", "-m", model, "--hyp", f"{folder}/s.jsonl:answer", "--samples", f"{folder}/s.jsonl:samples")
    code, out, err = run(*selfcheck, "--json")
    check(code == 0 and len(json.loads(out)["items"][0]) == 2, f"selfcheck: {err}")
    check(run(*selfcheck, "--method", "words")[0] == 0, "selfcheck by words")
    check(run(*selfcheck[:2], *selfcheck[4:], "--method", "words")[0] == 0, "words need no model")
    code, _, err = run(*selfcheck[:2], *selfcheck[4:])
    check(code == 2 and "--model" in err, f"a judge needs a model: {err}")
    code, out, err = run(*selfcheck, "--method", "bertscore", "--json")
    check(code == 0 and json.loads(out)["items"][0][0]["inconsistency"] < json.loads(out)["items"][0][1]["inconsistency"],
          f"selfcheck by BERTScore: {out} {err}")
    output = folder / "bert.json"
    first, again = [run(*selfcheck, "--method", "bertscore", "--json", "--output", output)[1] for _ in range(2)]
    lines = (folder / "bert.json.cache").read_text().splitlines()
    check(first == again == out and len(lines) == 1, f"the scores of an answer are cached: {lines}")
    damaged = {key: ["x"] if isinstance(value, list) else value for key, value in json.loads(lines[0]).items()}
    (folder / "bert.json.cache").write_text(json.dumps(damaged) + "\n")
    check(run(*selfcheck, "--method", "bertscore", "--json", "--output", output)[1] == out, "a damaged cache is not used")
    code, _, err = run(*selfcheck, "--method", "bert")
    check(code == 2 and "bertscore" in err, f"an unknown kind: {err}")
    code, out, err = run("judge", "qualities", *base)
    check(code == 0 and out.startswith("sensible") and "grounded" not in out, f"qualities: {out} {err}")
    code, _, err = run("judge", "qualities", "-m", model, "--hyp", folder / "a.txt")
    check(code == 2 and "--prompts" in err, f"no questions: {err}")
    code, out, err = run("judge", "qualities", *base, "--sources", folder / "b.txt", "--json")
    check(code == 0 and {"grounded", "informative", "ssi"} <= set(json.loads(out)), f"qualities with sources: {out} {err}")
    code, out, err = run("judge", "qag", "-m", model, "--documents", folder / "q.txt", "--hyp", folder / "a.txt", "--questions", 2)
    check(code == 0 and out.startswith("coverage"), f"qag: {err}")
    code, _, err = run("judge", "pairwise", *base)
    check(code == 2 and "expected 2 inputs, got 1" in err, f"one system: {err}")
    (folder / "short.txt").write_text("one\n")
    code, _, err = run("judge", "score", "-m", model, "--prompts", folder / "q.txt", "--hyp", folder / "short.txt")
    check(code == 1 and "short.txt" in err, f"different lengths: {err}")
    code, _, err = run("judge", "qualities", *base, "--sources", folder / "short.txt")
    check(code == 1 and "short.txt" in err, f"sources of another length: {err}")


def check_watermark(folder, model):
    texts = {}
    for key in ("", "secret"):
        mark = ("--watermark-key", key, "--watermark-delta", 4) if key else ()
        code, out, err = run("generate", "-m", model, "a", "-n", 150, "--temperature", 1, "--seed", 3, "--ignore-eos", "--json", *mark)
        check(code == 0, f"generate: {err}")
        texts[key] = json.loads(out)["answers"][0]["text"]
    (folder / "w.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts.values()))
    found = lambda key: [json.loads(line) for line in run("detect", "-m", model, "--text", f"{folder}/w.jsonl:text", "--watermark-key",
                                                          key, "--json")[1].splitlines()]
    right, wrong = found("secret"), found("other")
    check(not right[0]["watermarked"] and right[1]["watermarked"] and right[1]["p"] < 1e-6, f"the key finds it: {right}")
    check(not wrong[1]["watermarked"], f"another key does not: {wrong}")
    code, out, err = run("detect", "-m", model, "--text", f"{folder}/w.jsonl:text", "--human", folder / "page.txt", "--json")
    check(code == 0 and {"log_rank", "curvature", "threshold", "flagged", "false_positives"} <= set(json.loads(out.splitlines()[0])), f"without a key: {err}")
    check(run("detect", "-m", model, "--text", folder / "q.txt", "--false-positives", 2)[0] == 2, "a rate above 1")
    (folder / "empty.txt").write_text("")
    code, _, err = run("detect", "-m", model, "--text", folder / "empty.txt")
    check(code == 1 and "has no texts" in err, f"nothing to detect: {err}")


def check_card(folder, model):
    (folder / "r.json").write_text('{"results": {"piqa": {"acc,none": 0.5}}}')
    (folder / "m.json").write_text('{"data": "a page of letters", "energy": "1 Wh"}')
    (folder / "t.csv").write_text("rater,system,point,score\nx,toy,energy,4\n")
    code, _, err = run("card", "-m", model, "--name", "toy", "--results", folder / "r.json", "--manifest", folder / "m.json", "--ratings",
                       folder / "t.csv", "-o", folder / "CARD.md")
    card = (folder / "CARD.md").read_text() if code == 0 else ""
    check("| piqa | acc,none | 0.5000 |" in card and "| energy | 1 Wh |" in card and "| energy | 4.00 |" in card, f"a card: {card} {err}")
    (folder / "t.csv").write_text("rater,system,point,score\nx,toy,energie,4\n")
    code, _, err = run("card", "-m", model, "--ratings", folder / "t.csv")
    check(code == 1 and "t.csv:2" in err and "did you mean 'energy'" in err, f"a wrong point: {err}")


def check_people(folder, model):
    (folder / "study.jsonl").write_text("".join(json.dumps({"prompt": f"q{i}", "answers": ["good", "bad"], "systems": ["x", "y"]}) + "\n"
                                                for i in range(6)))
    (folder / "study.ratings.jsonl").write_text("".join(json.dumps({"rater": rater, "item": i, "ranks": [1, 2] if i else [2, 1]}) + "\n"
                                                        for rater in ("ann", "bob") for i in range(6)))
    code, out, err = run("judge", "people", folder / "study.jsonl", "--preferences", folder / "pairs.jsonl", "--output", folder / "p.json")
    check(code == 0 and "kappa 1.0000" in out and "x: 10 wins, 0 ties, 2 losses" in out, f"people: {out} {err}")
    pairs = [json.loads(line) for line in (folder / "pairs.jsonl").read_text().splitlines()]
    check([p["chosen"] for p in pairs] == ["bad"] + ["good"] * 5, f"pairs: {pairs}")
    code, out, err = run("dpo", "-m", model, "--datasets", folder / "pairs.jsonl", "--max-steps", 1, "-o", folder / "aligned")
    check(code == 0, f"makar dpo reads the pairs: {err[-300:]}")
    code, out, err = run("eval", "compare", folder / "p.json", folder / "p.json")
    check(code == 0 and "study/x win_rate,none" in out, f"makar eval compare reads the results: {out} {err}")
    (folder / "one.jsonl").write_text(json.dumps({"prompt": "Where is Anna?", "answers": ["Here."]}) + "\n")
    (folder / "one.ratings.jsonl").write_text(json.dumps({"rater": "ann", "item": 0, "scales": [{"usefulness": 1}], "critique": "say where"}) + "\n")
    code, out, err = run("judge", "people", folder / "one.jsonl", "--critiques", folder / "critiques.jsonl")
    check(code == 0 and json.loads((folder / "critiques.jsonl").read_text())["critique"] == "say where", f"critiques: {out} {err}")
    code, out, err = run("data", "feedback", folder / "critiques.jsonl", "--form", "pairs", "--model", WORLD_MODEL)
    pairs = [json.loads(line) for line in out.splitlines()]
    check(code == 0 and [p["rejected"][0]["content"] for p in pairs] == ["Here."], f"the model's revision is better than the answer: {pairs} {err}")
    (folder / "study.ratings.jsonl").write_text('{"rater": "ann", "item": 7, "ranks": [1, 2]}\n')
    code, _, err = run("judge", "people", folder / "study.jsonl")
    check(code == 1 and "study.ratings.jsonl:1" in err and "0 to 5" in err, f"a wrong item: {err}")


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    trained = make_model(root)
    check_judge(root, trained)
    check_watermark(root, trained)
    check_card(root, trained)
    check_people(root, trained)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
