#!/usr/bin/env python3
"""Commands with real weights: the output is compared with recorded results. Skipped without the weights.

usage: real_weights.py MAKAR ASSETS        (ASSETS: MAKAR_ASSETS, or the folder given)
"""
import csv
import io
import json
import lzma
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

MAKAR = sys.argv[1]
ASSETS = os.environ.get("MAKAR_ASSETS", sys.argv[2])
WEIGHTS = os.path.join(ASSETS, "weights")
if not os.path.isdir(WEIGHTS):
    print(f"no real weights at {WEIGHTS}")
    sys.exit(77)
failures = []


def run(*arguments, text=None):
    data = text.encode() if text is not None else None
    done = subprocess.run([MAKAR, *arguments], input=data, capture_output=True, timeout=900)
    if done.returncode != 0:
        failures.append(f"{' '.join(arguments)[:120]}: {done.stderr.decode()[:300]}")
    return done.stdout.decode()


def expect(what, condition, detail=""):
    print(("ok    " if condition else "FAIL  ") + what)
    if not condition:
        failures.append(f"{what}: {detail}")


def unpacked(name, scratch):
    """A copy of a folder of weights with its .xz files unpacked."""
    to = os.path.join(scratch, name)
    shutil.copytree(os.path.join(WEIGHTS, name), to)
    for file in os.listdir(to):
        if file.endswith(".xz"):
            with lzma.open(os.path.join(to, file)) as packed, open(os.path.join(to, file[:-3]), "wb") as plain:
                shutil.copyfileobj(packed, plain)
    return to


def stories(scratch):
    folder = os.path.join(WEIGHTS, "stories260K")
    run("convert", f"{folder}/stories260K.bin", f"{scratch}/stories", "--tokenizer", f"{folder}/tok512.bin")
    want = open(f"{folder}/expected_greedy_200.txt", encoding="utf-8").read()
    got = run("generate", "-m", f"{scratch}/stories", "", "-n", "200")
    expect("stories260K writes the recorded story", got == want + "\n", got[-80:])
    run("convert", f"{scratch}/stories", f"{scratch}/stories.gguf", "--outtype", "f32")
    got = run("generate", "-m", f"{scratch}/stories.gguf", "", "-n", "200")
    expect("and the same from GGUF", got == want + "\n", got[-80:])


def minimind(scratch):
    folder = unpacked("minimind2-small", scratch)
    got = run("generate", "-m", folder, "--chat", "What is the capital of France?", "-n", "40")
    expect("MiniMind2 answers as recorded", got == "The capital of France is Paris.\n", got)
    schema = '{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name","age"]}'
    got = run("generate", "-m", folder, "--chat", "A person as JSON", "--json-schema", schema, "-n", "80")
    try:
        person = json.loads(got)
        expect("and writes JSON that follows a schema", isinstance(person["name"], str) and isinstance(person["age"], int), got)
    except ValueError:
        expect("and writes JSON that follows a schema", False, got)
    requests = "\n".join(['{"prompt": "Tell me a story", "n_predict": 20}',
                      '{"prompt": "Tell me a story", "max_tokens": 20, "beams": 4, "num_beam_groups": 2, "diversity_penalty": 1.0, "n": 4}',
                      '{"prompt": "Tell me a story", "max_tokens": 20, "penalty_alpha": 0.6, "top_k": 4}',
                      '{"prompt": "Tell me a story", "max_tokens": 20, "mbr": 6, "mbr_metric": "bleu", "temperature": 0.9}',
                      '{"prompt": "Tell me a story", "max_tokens": 20, "stop_below": 0.3}',
                      '{"prompt": "x", "beams": 4, "num_beam_groups": 3}'])
    answers = [json.loads(line) for line in run("generate", "-m", folder, "--chat", "--jsonl", text=requests + "\n").splitlines()]
    expect("each request chooses its decoding method", [len(a.get("answers", [])) for a in answers] == [1, 4, 1, 1, 1, 0], answers)
    expect("groups of beams differ", len({a["text"] for a in answers[1]["answers"]}) > 1, answers[1])
    expect("and errors stay with their line", answers[5].get("error", {}).get("line") == 6, answers[5])
    long = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "600", "-c", "128", "--context-policy", "sinks")
    expect("a story continues beyond its context", len(long) > 100, long)
    want = run("score", "-m", folder, "--prompt", "The capital of France is", "--completion", " Paris.", "--json")
    for kind in ("f16", "q8_0"):
        got = run("score", "-m", folder, "--prompt", "The capital of France is", "--completion", " Paris.", "--json", "--cache-type", kind)
        difference = abs(json.loads(got)["logprob"] - json.loads(want)["logprob"])
        expect(f"a cache of {kind} changes little", difference < 0.1, difference)
    plain = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7")
    drafted = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7", "-md", folder)
    expect("a draft model changes nothing", plain == drafted, (plain, drafted))
    drafted = run("generate", "-m", folder, "--chat", "Tell me a story", "-n", "60", "--temp", "0.8", "--seed", "7", "--lookup")
    expect("prompt lookup changes nothing", plain == drafted, (plain, drafted))
    output = run("chat", "-m", folder, "--temp", "0", "-n", "3", "--logprobs", "2", text="What is the capital of France?\n")
    expect("chat --logprobs shows the alternatives of each token", len(re.findall(r" %  \|", output)) == 3, output)


def minilm():
    folder = os.path.expanduser("~/.cache/makar-assets/all-MiniLM-L6-v2")
    if not os.path.isdir(folder):
        print("skip  all-MiniLM-L6-v2 has not been fetched")
        return
    mine = json.loads(run("embed", "-m", folder, "hello world", "--json"))["embedding"]
    want = json.load(open(f"{WEIGHTS}/checks/all-MiniLM-L6-v2.hello_world.json"))
    want = want if isinstance(want, list) else want.get("embedding") or next(iter(want.values()))
    dot = sum(a * b for a, b in zip(mine, want))
    cosine = dot / math.sqrt(sum(a * a for a in mine) * sum(b * b for b in want))
    expect("all-MiniLM-L6-v2 reproduces the recorded vector", cosine >= 0.9999, cosine)
    stsb(folder)


def tinyllama():
    """Worked example 15: a language model orders sentences by probability."""
    folder = os.path.expanduser("~/.cache/makar-assets/tinyllama-1.1b-chat")
    if not os.path.isdir(folder):
        print("skip  tinyllama-1.1b-chat has not been fetched")
        return
    requests = [("", "John bought a book"), ("", "book bought a John"), ("", "book a John bought"),
            ("John bought", " eggs at the corner store."), ("John bought", " vehicle at the corner store.")]
    lines = "".join(json.dumps({"prompt": before, "completion": text}) + "\n" for before, text in requests)
    model = next(os.path.join(folder, f) for f in os.listdir(folder) if f.endswith(".gguf"))
    scores = [json.loads(line)["logprob"] for line in run("score", "-m", model, "--jsonl", text=lines).splitlines()]
    expect("sentences are ordered by probability", len(scores) == 5 and scores[0] > scores[1] > scores[2], scores)
    expect("eggs are bought at the corner store, vehicles less", len(scores) == 5 and scores[3] > scores[4], scores)


def ranks(values):
    """Ranks in ascending order; ties get their mean."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    out = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end < len(order) and values[order[end]] == values[order[at]]:
            end += 1
        for i in order[at:end]:
            out[i] = (at + end - 1) / 2
        at = end
    return out


def spearman(a, b):
    a, b = ranks(a), ranks(b)
    mean = (len(a) - 1) / 2
    product = sum((x - mean) * (y - mean) for x, y in zip(a, b))
    return product / math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))


def stsb(folder):
    """The published figure of all-MiniLM-L6-v2 on the test pairs of STS-B is 0.8203."""
    archive = os.path.join(ASSETS, "eval", "stsb.tgz")
    if not os.path.exists(archive):
        print("skip  STS-B is absent")
        return
    with tarfile.open(archive) as packed:
        text = packed.extractfile("stsb/stsb-en-test.csv").read().decode()
    pairs = list(csv.reader(io.StringIO(text)))
    lines = [side.replace("\n", " ") for pair in pairs for side in pair[:2]]
    out = run("embed", "-m", folder, "--json", text="\n".join(lines) + "\n")
    vectors = [json.loads(line)["embedding"] for line in out.splitlines()]
    expect("a vector for each of the sentences", len(vectors) == 2 * len(pairs), len(vectors))
    if len(vectors) == 2 * len(pairs):
        mine = [sum(x * y for x, y in zip(vectors[i], vectors[i + 1])) for i in range(0, len(vectors), 2)]
        found = spearman(mine, [float(pair[2]) for pair in pairs])
        expect(f"STS-B test: Spearman {found:.4f}", abs(found - 0.8203) < 0.002, found)


def with_memory(*arguments):
    """The output of a command and its peak memory in megabytes."""
    with tempfile.TemporaryFile() as out:
        child = subprocess.Popen([MAKAR, *arguments], stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        return child.returncode, out.read().decode(), usage.ru_maxrss * 1024 / 1e6


def memory(scratch):
    folder = os.path.join(scratch, "minimind2-small")
    requests = os.path.join(scratch, "requests.jsonl")
    with open(requests, "w") as file:
        for seed in range(16):
            file.write(json.dumps({"prompt": "Tell me a long story", "seed": seed, "max_tokens": 300}) + "\n")
    command = ("generate", "-m", folder, "--chat", "-t", "2", "--temp", "0.8")
    _, _, single_peak = with_memory(*command, "Tell me a long story", "-n", "1")
    many = (*command, "--jsonl", "-f", requests)
    answers_of = lambda out: [json.loads(line).get("answers") for line in out.splitlines()]
    _, unlimited, peak = with_memory(*many)
    budget = math.ceil(peak) - 10
    _, limited, limited_peak = with_memory(*many, "--mem-budget", str(budget))
    print(f"      {single_peak:.0f} MB for one token, {peak:.0f} for sixteen answers, {limited_peak:.0f} within {budget}")
    expect("sixteen answers need memory", peak > single_peak + 25, (single_peak, peak))
    expect("--mem-budget is not exceeded", limited_peak <= budget, (limited_peak, budget))
    expect("--mem-budget changes no answer", None not in answers_of(limited) and answers_of(limited) == answers_of(unlimited), limited[:300])
    for kind in ("f16", "q8_0"):
        _, _, small = with_memory(*many, "--cache-type", kind)
        print(f"      {small:.0f} MB with {kind}")
        expect(f"a cache of {kind} is smaller", small < peak - 2, (single_peak, small, peak))
        peak = small


with tempfile.TemporaryDirectory() as scratch:
    stories(scratch)
    minimind(scratch)
    memory(scratch)
    minilm()
    tinyllama()
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
