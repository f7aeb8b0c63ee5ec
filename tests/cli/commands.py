#!/usr/bin/env python3
"""Commands of the program: help, bad usage, and generation compared with the golden fixtures.

usage: commands.py MAKAR GOLDEN_FOLDER
"""
import json
import os
import re
import subprocess
import sys
import tempfile

MAKAR, GOLDEN = sys.argv[1], sys.argv[2]
failures = []


def run(*arguments, text=None):
    done = subprocess.run([MAKAR, *arguments], input=text, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def expect(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def commands():
    code, out, _ = run("--help")
    expect("makar --help", code == 0, code)
    return re.findall(r"^  ([a-z]+) {2,}", out, re.M)


def check_usage(name):
    code, out, _ = run(name, "--help")
    expect(f"{name} --help", code == 0 and "usage: makar " + name in out, out[:200])
    code, out, err = run(name, "--no-such-flag")
    expect(f"{name} --no-such-flag", code == 2 and "makar" in err, (code, err[:200]))


def check_generation():
    golden = json.load(open(f"{GOLDEN}/models/llama/golden.json"))
    for case in golden["generate"]:
        args = case["args"]
        ids = ",".join(map(str, case["input_ids"][0]))
        flags = ["-n", str(args["max_new_tokens"]), "--beams", str(args["num_beams"]),
                 "--n", str(args.get("num_return_sequences", 1)), "--length-penalty", str(args.get("length_penalty", 1.0)),
                 "--repeat-penalty", str(args.get("repetition_penalty", 1.0)),
                 "--no-repeat-ngram-size", str(args.get("no_repeat_ngram_size", 0))]
        if args.get("early_stopping"):
            flags += ["--early-stopping", "yes"]
        code, out, err = run("generate", "-m", f"{GOLDEN}/models/llama", "--ids", ids, "--json", *flags)
        expect("generate " + " ".join(flags), code == 0, err)
        if code != 0:
            continue
        answer = json.loads(out)
        got = answer.get("answers", [answer["ids"]])
        expect("answers of " + " ".join(flags), len(got) == len(case["sequences"]), got)
        prompt_tokens = len(case["input_ids"][0])
        for mine, want in zip(got, case["sequences"]):  # sequences are padded after the end token
            expect("generate " + " ".join(flags), len(mine) > prompt_tokens and mine == want[:len(mine)], (mine, want))


def check_errors():
    model = f"{GOLDEN}/models/llama"
    for arguments, code in [(["generate", "-m", "/no/such/folder", "--ids", "1"], 1),
                            (["generate", "-m", model, "--ids", "1,x"], 2),
                            (["generate", "-m", model, "--ids", "99999"], 1),
                            (["generate", "-m", model, "--ids", "1", "-n", "0"], 2),
                            (["generate", "-m", model, "--ids", "1", "--beams", "2", "--n", "3"], 2),
                            (["generate", "-m", model, "--ids", "1", "--top-p", "7"], 2),
                            (["generate", "-m", model, "--ids", "1", "--beams", "4", "--beam-groups", "3"], 2),
                            (["generate", "-m", model, "--ids", "1", "--penalty-alpha", "0.6"], 2),
                            (["generate", "-m", model, "--ids", "1", "--early-stopping", "maybe"], 2),
                            (["generate", "-m", model, "--ids", "1", "--mbr", "4"], 2),
                            (["generate", "-m", model, "--ids", "1", "--mbr-metric", "taste"], 2),
                            (["generate", "-m", model, "--ids", "1", "--mbr-metric", "embedding"], 2),
                            (["generate", "-m", model, "--ids", "1", "--lora", "/no/such/adapter"], 1),
                            (["generate", "-m", model, "--ids", "1", "--cache-type", "q3"], 2),
                            (["generate", "-m", model, "--ids", "1", "--context-policy", "hope"], 2),
                            (["generate", "-m", f"{GOLDEN}/models/gpt2", "--ids", "1", "--context-policy", "sinks"], 2),
                            (["generate", "-m", model, "--ids", "1", "--mem-budget", "-1"], 2),
                            (["generate", "-m", model, "--ids", "1", "--mem-budget", "0.000001"], 1),
                            (["generate", "-m", model, "--ids", "1", "-n", "100000"], 1),
                            (["generate", "-m", model, "a text without a tokenizer"], 1),
                            (["chat", "-m", model], 1),
                            (["fill", "-m", model, "x"], 1),
                            (["embed", "-m", model, "x"], 1),
                            (["translate", "-m", model, "x"], 1),
                            (["bench", "-m", model, "-p", "100000000"], 2),
                            (["nonsense"], 2)]:
        got, _, err = run(*arguments, text="")
        expect(" ".join(arguments), got == code and err.startswith("makar: "), (got, err[:300]))


def check_decoding_modes():
    model = f"{GOLDEN}/models/llama"
    for flags, count, length in [(["--cache-type", "f16"], 1, 20), (["-ctk", "q8_0", "-ctv", "f16"], 1, 20),
                                 (["--beams", "4", "--beam-groups", "2", "--diversity-penalty", "1", "--n", "4"], 4, 20),
                                 (["--penalty-alpha", "0.6", "--top-k", "4"], 1, 20),
                                 (["--best-of", "5", "--temp", "1", "--n", "2"], 2, 20),
                                 (["--context-policy", "sinks", "--ctx-size", "40"], 1, 300),
                                 (["--context-policy", "truncate-left", "--ctx-size", "40"], 1, 300),
                                 (["--max-time", "0.000001"], 1, 1)]:
        code, out, err = run("generate", "-m", model, "--ids", "5,6,7", "-n", str(length), "--json", *flags)
        expect("generate " + " ".join(flags), code == 0, err)
        if code == 0:
            answer = json.loads(out)
            answers = answer.get("answers", [answer["ids"]])
            expect("answers of " + " ".join(flags), len(answers) == count, answers)
            expect("length of " + " ".join(flags), all(4 <= len(a) <= 3 + length for a in answers), answers)


def with_memory(*arguments):
    """The output of a command and its peak memory in bytes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # AddressSanitizer keeps freed memory in a quarantine: make it small.
        environment = dict(os.environ, ASAN_OPTIONS="quarantine_size_mb=1:thread_local_quarantine_size_kb=16")
        child = subprocess.Popen([MAKAR, *arguments], stdout=out, stderr=err, env=environment)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        return child.returncode, out.read().decode(), err.read().decode(), usage.ru_maxrss * 1024


def check_memory_budget():
    command = ("generate", "-m", f"{GOLDEN}/models/llama", "--ids", "5,6,7", "-n", "120", "--n", "600", "--temp", "1", "--json")
    _, unlimited, _, unlimited_peak = with_memory(*command)
    _, _, err, _ = with_memory(*command, "--mem-budget", "1")
    minimum = re.search(r"give at least (\d+)", err)
    expect("the error of a small budget says how much is enough", minimum, err[:300])
    if not minimum:
        return
    budget = int(minimum.group(1)) + 1
    code, limited, err, peak = with_memory(*command, "--mem-budget", str(budget))
    expect("the smallest budget is enough", code == 0, err[:300])
    expect("--mem-budget changes no answer", limited == unlimited, limited[:200])
    # A sanitizer needs memory itself.
    slack = 1.25 if os.environ.get("MAKAR_SANITIZE") else 1
    expect("--mem-budget is not exceeded", peak <= budget * 1e6 * slack < unlimited_peak, (peak, budget, unlimited_peak))


def check_messages():
    _, _, err = run("generate", "-m", f"{GOLDEN}/models/llama", "--ids", "1", "--lora", "/no/such/adapter")
    expect("a missing adapter is named as one", "/no/such/adapter: no such adapter" in err, err[:300])


names = commands()
expect("commands", len(names) > 10, names)
for each in names:
    if each != "version":
        check_usage(each)
check_generation()
check_decoding_modes()
check_errors()
check_memory_budget()
check_messages()
for failure in failures:
    print(failure)
print(f"{len(names)} commands, {len(failures)} failures")
sys.exit(1 if failures else 0)
