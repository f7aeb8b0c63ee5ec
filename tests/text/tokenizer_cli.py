#!/usr/bin/env python3
"""makar tokenizer on the command line: every subcommand, JSON lines, exit codes, bad input. Usage: tokenizer_cli.py MAKAR"""
import json
import os
import subprocess
import sys
import tempfile

MAKAR = os.path.abspath(sys.argv[1])
failures = []


def run(*arguments, stdin=b""):
    result = subprocess.run([MAKAR, "tokenizer", *arguments], input=stdin, capture_output=True, timeout=120)
    return result.returncode, result.stdout, result.stderr.decode()


def expect(good, what):
    if not good:
        failures.append(what)
        print("FAILED:", what)


def expect_error(code, words, *arguments, stdin=b""):
    got, out, stderr = run(*arguments, stdin=stdin)
    expect(got == code, f"{arguments}: exit code {got}, expected {code}; {stderr}")
    for word in words:
        expect(word in stderr, f"{arguments}: '{word}' is not in: {stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        corpus, trained_folder = os.path.join(folder, "corpus.txt"), os.path.join(folder, "trained")
        with open(corpus, "w") as file:
            file.write("the cat sat on the mat\nthe dog saw the cat\n" * 50)
        code, out, stderr = run("train", corpus, "-o", trained_folder, "--vocab-size", "300", "--special", "<|end|>", "--json", "--quiet")
        expect(code == 0 and json.loads(out)["tokens"] <= 300, f"train: {code} {stderr}")
        tokenizer = os.path.join(trained_folder, "tokenizer.json")

        # Any bytes survive encoding and decoding.
        data = bytes(range(256)) + "né\u4e2d\U0001f600<|end|>".encode() + b"\xed\xa0\x80"
        _, ids, _ = run("encode", tokenizer, stdin=data)
        _, back, _ = run("decode", tokenizer, stdin=ids)
        expect(back == data, "bytes survive a round trip")
        end = json.loads(run("encode", tokenizer, "--text", "<|end|>", "--json", "--parse-special")[1])["ids"]
        expect(end == [0] and 0 not in map(int, ids.split()), "special text is plain text without --parse-special")
        expect(run("encode", tokenizer, "--text", "")[:2] == (0, b"\n"), "an empty --text is a text")

        # JSON lines: one answer per line, in order, errors included.
        lines = b'{"text":"the cat"}\nnonsense\n{"text":5}\n{"text":"n\xc3\xa9"}\n{"text":"a","pair":"n\xc3\xa9!"}\n'
        code, out, _ = run("encode", tokenizer, "--jsonl", stdin=lines)
        answers = [json.loads(line) for line in out.splitlines()]
        expect(code == 0 and len(answers) == 5, "one answer per line")
        expect([a.get("error", {}).get("line") for a in answers] == [None, 2, 3, None, None], "errors name their line")
        expect(answers[3]["offsets"][-1][1] == 2 and answers[3]["byte_offsets"][-1][1] == 3, "offsets in code points and in bytes")
        pair = answers[4]
        expect(pair["sequence_ids"] == pair["type_ids"] and pair["offsets"][-1] == [2, 3] and pair["byte_offsets"][-1] == [3, 4],
               "pairs have type ids and offsets into each text")
        decoded = run("decode", tokenizer, "--jsonl", stdin=json.dumps({"ids": answers[0]["ids"]}).encode() + b'\n{"ids":[999999]}\n')[1]
        first, second = map(json.loads, decoded.splitlines())
        expect(first == {"text": "the cat"} and "999999" in second["error"]["message"], "decode --jsonl")
        many = run("encode", tokenizer, "--lines", "--threads", "3", stdin=b"the cat\n" * 500)[1]
        expect(len(set(many.splitlines())) == 1 and many.count(b"\n") == 500, "--lines")

        # A vocabulary of characters splits a text into characters with every pipeline.
        for pipeline in ("none", "whitespace", "bert"):
            letters = os.path.join(folder, "letters-" + pipeline)
            run("train", corpus, "-o", letters, "--model-type", "char", "--pipeline", pipeline,
                "--special", "[CLS]", "--special", "[SEP]", "--quiet")
            got = json.loads(run("encode", letters, "--text", "the cat", "--pieces")[1])
            expect(got == [c for c in "the cat" if c != " " or pipeline == "none"], f"characters, {pipeline}: {got}")
        _, ids, _ = run("encode", os.path.join(folder, "letters-none"), "--text", "the cat")
        expect(run("decode", os.path.join(folder, "letters-none"), stdin=ids)[1] == b"the cat", "characters survive a round trip")

        expect(b"merge" in run("encode", tokenizer, "--text", "the", "--explain")[1], "--explain shows merges")
        info = json.loads(run("info", tokenizer, corpus, "--json")[1])
        expect(info["model"] == "BPE" and info["bytes_per_token"] > 2, "info")
        same = json.loads(run("compare", tokenizer, tokenizer, corpus, "--json")[1])
        expect(same["same_ids"] and same["differences"] == 0, "compare with itself")
        code, _, stderr = run("convert", tokenizer, os.path.join(folder, "again.json"))
        expect(code == 0 and run("compare", tokenizer, os.path.join(folder, "again.json"), corpus)[0] == 0, f"convert: {stderr}")

        expect_error(2, ["encode"], "enocde")
        expect_error(2, ["TOKENIZER"], "encode")
        expect_error(2, ["--text"], "encode", tokenizer, "--texs", "a")
        expect_error(2, ["--max-length"], "encode", tokenizer, "--text", "a", "--max-length", "-3")
        expect_error(2, ["--forbid-special"], "encode", tokenizer, "--text", "a", "--parse-special", "--forbid-special")
        expect_error(1, ["<|end|>"], "encode", tokenizer, "--text", "a<|end|>", "--forbid-special")
        expect_error(1, ["nowhere.json"], "encode", "nowhere.json", "--text", "a")
        expect_error(1, ["byte 2", "'x'"], "decode", tokenizer, stdin=b"1 x")
        expect_error(1, ["999999"], "decode", tokenizer, stdin=b"1 999999")
        expect_error(1, ["tokenizer.json"], "info", folder)
        expect_error(1, ["SentencePiece"], "convert", tokenizer, os.path.join(folder, "x.model"))
        expect_error(1, ["nofile"], "train", "nofile", "-o", trained_folder)
        expect_error(2, ["unigram"], "train", corpus, "-o", trained_folder, "--model-type", "unigrm")
        expect_error(2, ["512M"], "train", corpus, "-o", trained_folder, "--max-memory", "lots")
        expect_error(1, ["64 MiB"], "train", corpus, "-o", trained_folder, "--max-memory", "1M")
        for subcommand in ("train", "encode", "decode", "info", "compare", "convert"):
            code, out, _ = run(subcommand, "--help")
            expect(code == 0 and b"example: " in out, f"{subcommand} --help has an example")
    print("failed" if failures else "all as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
