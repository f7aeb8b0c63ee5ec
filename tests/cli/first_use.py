#!/usr/bin/env python3
"""The command line for new users: names of options, help, warnings, short contexts, empty answers, scores of long texts,
speculative decoding.

usage: first_use.py MAKAR
"""
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "serve"))
from serving import GOLDEN, Server, check, failures, make_model  # noqa: E402

MAKAR = sys.argv[1]


def run(*arguments, text="", **environment):
    done = subprocess.run([MAKAR, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=900,
                          env=dict(os.environ, **environment))
    return done.returncode, done.stdout, done.stderr


def check_short_context(root):
    model = make_model(root / "short", positions=64)
    code, out, err = run("generate", "-m", model, "abcd")
    check(code == 0, f"the default length is cut to the context: {err}")
    code, _, err = run("generate", "-m", model, "--ids", "5,6,7", "--json")
    check(code == 0, f"the same for token ids: {err}")
    code, _, err = run("generate", "-m", model, "abcd", "-n", "100")
    check(code == 1 and "exceed the context of 64" in err and "--max-tokens" in err, f"an explicit length is an error: {err}")
    code, _, err = run("generate", "-m", model, "a" * 65)
    check(code == 1 and "has 65 tokens, the context holds 64" in err, f"a prompt that is too long: {err}")
    code, out, err = run("generate", "-m", model, "--jsonl", text='{"prompt": "abcd", "max_tokens": 100}\n')
    check(code == 0 and "answers" in out, f"a request is cut as the server does: {out} {err}")


def check_empty_answer(root):
    model = make_model(root / "ends")
    _, out, _ = run("generate", "-m", model, "hello", "-n", "1", "--json")
    first = json.loads(out)["answers"][0]["ids"][0]
    config = json.loads((model / "config.json").read_text())
    config["eos_token_id"] = first
    (model / "config.json").write_text(json.dumps(config))
    tokenizer = json.loads((model / "tokenizer.json").read_text())
    end = next(token for token, id in tokenizer["model"]["vocab"].items() if id == first)
    tokenizer["added_tokens"].insert(0, {"id": first, "content": end, "special": True, "normalized": False})
    (model / "tokenizer.json").write_text(json.dumps(tokenizer))
    code, out, err = run("generate", "-m", model, "hello")
    check(code == 0 and out.strip() == "", f"the answer is empty: {out!r}")
    check("the answer is empty: the model ended it with its first token" in err and "try --chat" in err, f"and says why: {err!r}")
    _, _, err = run("generate", "-m", model, "hello", "-n", "20", "--ignore-eos")
    check("empty" not in err, f"an answer with text has no such note: {err!r}")


def check_names(root, model):
    for arguments in (["inspect", model], ["inspect", "-m", model], ["inspect", "--model", model]):
        code, out, err = run(*arguments)
        check(code == 0 and "LlamaForCausalLM" in out, f"{arguments}: {err}")
    code, _, err = run("inspect", model, "--positions", "5", "--layer", "1")
    check(code == 2 and "--layer: needs --attention" in err, f"--layer with --positions: {err}")
    for i, arguments in enumerate((["-m", GOLDEN, root / "q0.gguf"], [GOLDEN, root / "q1.gguf"],
                                   [root / "q2.gguf", "-m", GOLDEN], [GOLDEN, "-o", root / "q3.gguf"])):
        code, _, err = run("quantize", *arguments, "--type", "q8_0")
        check(code == 0 and (root / f"q{i}.gguf").exists(), f"quantize {arguments}: {err}")
    code, _, err = run("convert", "-m", GOLDEN, "-o", root / "c.gguf")
    check(code == 0 and (root / "c.gguf").exists(), f"convert -m -o: {err}")
    _, by_word, _ = run("generate", "-m", model, "hello", "-n", "4")
    _, by_option, _ = run("generate", "-m", model, "-p", "hello", "-n", "4")
    (root / "prompt.txt").write_text("hello")
    _, by_file, _ = run("generate", "-m", model, "-f", root / "prompt.txt", "--max-new-tokens", "4")
    check(by_word and by_word == by_option == by_file, f"three ways to give a prompt: {by_word!r} {by_option!r} {by_file!r}")
    code, _, err = run("generate", "-m", model, "-p", "hello", "world")
    check(code == 2 and "one of PROMPT, --prompt" in err, f"but one at a time: {err}")
    _, by_environment, _ = run("generate", "hello", "-n", "4", MAKAR_MODEL=str(model))
    check(by_environment == by_word, "the model from the environment")
    _, old, _ = run("generate", "hello", MAKAR_MODEL=str(model), MAKAR_N_PREDICT="4")
    check(old == by_word, "an older name of an option works in the environment too")
    for flag in ("--answers", "--n", "--num-return-sequences"):
        _, out, err = run("generate", "-m", model, "hello", "-n", "3", flag, "2", "--temp", "1", "--json")
        check(len(json.loads(out)["answers"]) == 2, f"{flag}: {err}")
    (root / "text.txt").write_text("some words")
    code, with_option, err = run("score", "-m", model, "-f", root / "text.txt")
    _, with_word, _ = run("score", "-m", model, root / "text.txt")
    check(code == 0 and with_option == with_word, f"score -f: {err}")
    code, _, err = run("chat", model, text="/quit\n")
    check(code == 0, f"chat MODEL: {err}")
    code, _, err = run("fill", "-m", model, "-f", root / "text.txt")
    check(code == 1 and "masked-word head" in err, f"fill -f reaches the model: {err}")
    code, _, err = run("classify", "run", "-m", model, "-f", root / "text.txt")
    check(code == 1 and "does not classify" in err, f"classify run -f reaches the model: {err}")
    # A folder of models: by name, and listed.
    store = root / "store"
    (store / "someone").mkdir(parents=True)
    os.symlink(model, store / "someone" / "tiny")
    code, out, err = run("inspect", "someone/tiny", MAKAR_MODELS=str(store))
    check(code == 0 and "LlamaForCausalLM" in out, f"a model by its name: {err}")
    code, out, _ = run("list", "--json", MAKAR_MODELS=str(store))
    check(code == 0 and json.loads(out)["name"] == "someone/tiny", f"makar list: {out}")
    code, out, _ = run("list", MAKAR_MODELS=str(root / "nothing"))
    check(code == 0 and "makar pull" in out, f"makar list without models: {out}")


def check_no_effect(root, model):
    command = ["generate", "-m", model, "hello", "-n", "2"]
    for flags, named in [(["--top-k", "5"], "--top-k"), (["--top-p", "0.5", "--seed", "3"], "--top-p"),
                         (["--seed", "3"], "--seed"), (["--beams", "2", "--temp", "1"], "--temperature"),
                         (["--draft-max", "3"], "--draft-max"), (["--length-penalty", "2"], "--length-penalty"),
                         (["--temp", "1", "--mirostat-tau", "3"], "--mirostat-tau"), (["--sinks", "2"], "--sinks"),
                         (["--chat-template", "x"], "--chat-template"), (["--mbr-metric", "bleu"], "--mbr-metric")]:
        code, _, err = run(*command, *flags)
        check(code == 0 and f"warning: {named} has no effect" in err, f"{flags}: {err!r}")
    for flags in (["--temp", "1", "--top-k", "5", "--top-p", "0.5", "--seed", "3"], ["--penalty-alpha", "0.6", "--top-k", "4"],
                  ["--beams", "2", "--length-penalty", "2"], ["--lookup", "--draft-max", "3"], ["--repeat-penalty", "1.1"]):
        code, _, err = run(*command, *flags)
        check(code == 0 and "no effect" not in err, f"{flags} have an effect: {err!r}")
    for flags in (["--answers", "2"], ["--best-of", "3"], ["--mbr", "3"], ["--answers", "2", "--temp", "1", "--top-k", "1"]):
        code, _, err = run(*command, *flags)
        check(code == 2 and "same answer every time" in err, f"{flags}: {err!r}")
    code, _, err = run("chat", model, "--answers", "3", text="hello\n")
    check(code == 2 and "one answer per message" in err, f"chat gives one answer: {err!r}")


def check_suggestions(root, model):
    schema = root / "schema.json"
    schema.write_text('{"type": "boolean"}')
    code, _, err = run("generate", "-m", model, "hello", "--json-schema", schema)
    check(code == 1 and f"write --json-schema @{schema}" in err, f"a file given as a schema: {err!r}")
    code, out, err = run("generate", "-m", model, "hello", "--json-schema", f"@{schema}")
    check(code == 0 and out.strip() in ("true", "false"), f"and read: {out!r} {err!r}")
    (root / "g.gbnf").write_text('root ::= "yes"')
    code, _, err = run("generate", "-m", model, "hello", "--grammar", root / "g.gbnf")
    check(code == 1 and "--grammar @" in err, f"a file given as a grammar: {err!r}")
    code, _, err = run("convert", model, root / "x.gguf", "--outtype", "q4_k_m")
    check(code == 2 and "makar quantize FROM TO.gguf --type q4_k_m" in err, f"convert names quantize: {err!r}")
    messages = root / "chat.json"
    messages.write_text(json.dumps({"messages": [{"role": "user", "content": "hi"}], "tools": [{"name": "t"}]}))
    (root / "plain.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    code, out, err = run("template", "render", "--template", root / "plain.jinja", "--messages", messages)
    check(code == 0 and out == "hi" and "tools have no effect" in err, f"tools that a template ignores: {err!r}")


def check_scores(root):
    model = make_model(root / "scored", positions=64)
    text = "The quick brown fox jumps over the lazy dog. " * 7  # 315 bytes, one token each
    (root / "long.txt").write_text(text)
    code, out, err = run("score", "-m", model, root / "long.txt", "--json")
    check(code == 0, f"a text beyond the context: {err}")
    whole = json.loads(out)
    check(whole["windows"] > 5 and whole["tokens"] in (314, 315), f"windows: {whole['windows']}, {whole['tokens']} tokens")
    _, out, _ = run("score", "-m", model, "--completion", text[:60], "--json")
    first = json.loads(out)
    check([t["logprob"] for t in first["token_logprobs"]][:50] == [t["logprob"] for t in whole["token_logprobs"]][:50],
          "the first window scores as a text by itself")
    check(math.isclose(whole["logprob"], sum(t["logprob"] for t in whole["token_logprobs"]), rel_tol=1e-6), "the sum")
    _, out, _ = run("score", "-m", model, root / "long.txt", "--json", "--stride", "16")
    closer = json.loads(out)
    check(closer["windows"] > whole["windows"] and closer["tokens"] == whole["tokens"], "--stride")
    code, _, err = run("score", "-m", model, root / "long.txt", "--stride", "64")
    check(code == 1 and "stride" in err, f"a stride of the whole context: {err}")
    code, out, _ = run("score", "-m", model, "--completion", "hello", "--top", "2")
    lines = out.splitlines()
    check(code == 0 and all(re.search(r'\| ".*" -?\d', line) for line in lines[:-1]) and len(lines) >= 5, f"--top in text: {out}")
    code, out, err = run("perplexity", "-m", model, root / "long.txt")
    check(code == 0 and len(out.splitlines()) == 1 and f"perplexity {whole['perplexity']:.4f}" in out, f"perplexity: {out} {err}")
    (root / "longer.txt").write_text(text * 10)
    _, _, err = run("perplexity", "-m", model, root / "longer.txt")
    check("scoring 100%" in err, f"progress: {err!r}")


def check_speculation(model):
    command = ["generate", "-m", model, "abcabcabcabcabcabc", "-n", "24"]
    _, plain, err = run(*command)
    check("speculative" not in err, f"nothing is said without it: {err!r}")
    for flags in (["--lookup"], ["--model-draft", model]):
        code, out, err = run(*command, *flags)
        check(code == 0 and out == plain, f"{flags}: the same answer")
        found = re.search(r"speculative decoding: (\d+) of (\d+) drafted tokens accepted", err)
        check(found and int(found[1]) <= int(found[2]), f"{flags}: acceptance is shown: {err!r}")
        if flags[0] == "--model-draft":
            check(found and found[1] == found[2] != "0", f"a draft model that is the model itself is always right: {err!r}")
    lines = "".join(json.dumps({"prompt": p, "max_tokens": 12}) + "\n" for p in ("abcabc", "hello", "xyzxyz"))
    _, one, _ = run("generate", "-m", model, "--jsonl", text=lines)
    _, drafted, _ = run("generate", "-m", model, "--jsonl", "--model-draft", model, text=lines)
    texts = lambda out: [json.loads(line)["answers"] for line in out.splitlines()]  # noqa: E731
    check(texts(one) == texts(drafted) and len(texts(one)) == 3, "several requests with a draft model each")
    body = {"prompt": "abcabcabcabc", "max_tokens": 16, "temperature": 0}
    answers = []
    for flags in ([], ["--model-draft", str(model)], ["--lookup"]):
        with Server(MAKAR, *flags, model=model) as server:
            status, answer = server.post("/v1/completions", body)
            check(status == 200, f"serve {flags}: {answer}")
            answers.append(answer["choices"][0]["text"])
    check(answers[0] == answers[1] == answers[2], f"serve: the same answer with drafts: {answers}")
    code, _, err = run("serve", "-m", model, "--draft-max", "1000")
    check(code == 2 and "--draft-max" in err, f"bounds in serve: {err!r}")


def check_seeds_of_lines(model):
    """Equal prompts on several lines get different answers, which depend neither on the batch nor on the other lines."""
    lines = "".join(json.dumps({"prompt": "abc", "max_tokens": 16}) + "\n" for _ in range(6))
    texts = lambda *words, text=lines: [json.loads(line)["answers"][0]["text"] for line in run(  # noqa: E731
        "generate", "-m", model, "--jsonl", "--temperature", "1", "--seed", "5", *words, text=text)[1].splitlines()]
    together = texts()
    check(len(set(together)) > 3, f"the lines differ: {together}")
    check(texts("--parallel", "1") == together, "one at a time: the same answers")
    _, alone, _ = run("generate", "-m", model, "abc", "-n", "16", "--temperature", "1", "--seed", "5", "--json")
    check(json.loads(alone)["answers"][0]["text"] == together[0], f"the first line has the seed of the command: {alone}")
    same = texts(text="".join(json.dumps({"prompt": "abc", "max_tokens": 16, "seed": 5}) + "\n" for _ in range(3)))
    check(same == together[:1] * 3, f"a seed in the request: {same}")


def check_help():
    _, top, _ = run("--help")
    headings = re.findall(r"^([A-Z][a-z ]+)$", top, re.M)
    check(headings[:4] == ["Get a model", "Prepare data", "Train", "Convert and compress"], f"makar --help by stages: {headings}")
    for name in re.findall(r"^  ([a-z]+) {2,}", top, re.M):
        if name == "version":
            continue
        below = re.findall(r"^  ([a-z]+) {2,}", run(name, "--help")[1], re.M) if "SUBCOMMAND" in run(name, "--help")[1] else []
        for path, width in [([name, *sub], w) for sub in ([], *([s] for s in below)) for w in (80, 120)]:
            code, out, err = run(*path, "--help", COLUMNS=str(width))
            check(code == 0, f"{path} --help: {err}")
            longest = max((line for line in out.splitlines() if not line.startswith("example:")), key=len)
            check(len(longest) <= width, f"{path} --help at {width}: {len(longest)} {longest!r}")
    _, out, _ = run("generate", "--help")
    for heading in ("Model", "Prompt", "Output", "Sampling", "Limits", "Performance"):
        check(re.search(rf"^{heading}$", out, re.M), f"generate --help has the heading {heading}")
    headings = re.findall(r"^([A-Z][a-z]+)$", out, re.M)
    check(headings[0] == "Model" and headings[-3:] == ["Search", "Limits", "Performance"], f"in this order: {headings}")
    check(re.search(r"^  -m, --model MODEL ", out, re.M), "the short name, then the main name")
    check("[also --n-predict, --max-new-tokens]" in re.sub(r"\s+", " ", out), "synonyms after the help")
    check("MAKAR_MODEL for --model" in re.sub(r"\s+", " ", out), "names of environment variables")
    joined = re.sub(r"\s+", " ", out)
    check(joined.count("(default ") > 20 and joined.count("(default 256)") == 1, "defaults, once each")
    _, narrow, _ = run("generate", "--help", COLUMNS="60")
    check(max(map(len, narrow.splitlines()[:-2])) <= 60, "60 columns")
    _, _, err = run("generate", "--temprature", "1")
    check("--temperature" in err, f"a misspelt option: {err!r}")


with tempfile.TemporaryDirectory() as folder:
    root = pathlib.Path(folder)
    tiny = make_model(root / "tiny")
    check_short_context(root)
    check_empty_answer(root)
    check_names(root, tiny)
    check_no_effect(root, tiny)
    check_suggestions(root, tiny)
    check_scores(root)
    check_speculation(tiny)
    check_seeds_of_lines(tiny)
    check_help()
sys.exit("\n".join(failures) if failures else 0)
