#!/usr/bin/env python3
"""makar eval on the command line: results and samples files, kill and resume, bad usage, and every task on real data.

usage: eval.py MAKAR        (real data: MAKAR_ASSETS, default ../shared/assets; that part is skipped without it)
"""
import gzip
import http.server
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from checks import check, failures

MAKAR = os.path.abspath(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("MAKAR_ASSETS", ROOT.parent / "shared" / "assets"))

TASK = r"""
task: letters
dataset_kwargs: {data_files: {test: letters.jsonl}}
output_type: multiple_choice
doc_to_text: "Which is {{ letter }}?\nAnswer:"
doc_to_choice: "{{ choices }}"
doc_to_target: answer
metric_list: [{metric: acc}, {metric: acc_norm}]
metadata: {version: 3}
"""


def run(*arguments, timeout=300):
    done = subprocess.run([MAKAR, *map(str, arguments)], capture_output=True, text=True, timeout=timeout)
    return done.returncode, done.stdout, done.stderr


def make_model(folder):
    """A model trained for a few steps."""
    text = folder / "page.txt"
    text.write_text("".join(chr(c) for c in range(32, 127)) + "\n" + "Which is a? Answer: a, b, c or d.\n" * 60)
    code, _, err = run("pretrain", "--datasets", text, "--tokenizer", "char", "--max-steps", 3, "--sequence-len", 32,
                       "-o", folder / "model")
    check(code == 0, f"pretrain: {err[-300:]}")
    return folder / "model"


def check_run(folder, model):
    (folder / "letters.yaml").write_text(TASK)
    lines = [json.dumps({"letter": chr(97 + i % 26), "choices": [chr(97 + (i * k) % 26) * k for k in (1, 2, 3)], "answer": i % 3})
             for i in range(1500)]
    (folder / "letters.jsonl").write_text("\n".join(lines) + "\n")
    base = ("eval", "-m", model, "--tasks", folder / "letters.yaml", "--data", folder, "--num-fewshot", 2, "--log-samples")
    code, out, err = run(*base, "--output", folder / "whole")
    check(code == 0 and "| letters" in out and "acc_norm" in out, f"a run: {err[-300:]}")
    results = json.loads((folder / "whole/results.json").read_text())
    samples = [json.loads(line) for line in (folder / "whole/samples_letters.jsonl").read_text().splitlines()]
    check(len(samples) == 1500 and samples[7]["doc_id"] == 7, "one sample per document")
    acc = sum(s["acc"] for s in samples) / 1500
    check(abs(results["results"]["letters"]["acc,none"] - acc) < 1e-12, "acc is the mean of the samples")
    by_hand = sum(max(range(3), key=lambda i: s["resps"][i][0][0]) == s["target"] for s in samples) / 1500
    check(abs(acc - by_hand) < 1e-12, "acc follows from the log-likelihoods")
    check(results["versions"]["letters"] == 3 and results["n-shot"]["letters"] == 2, "version and shots")

    # One of the log-likelihoods, by makar score.
    sample = samples[5]
    arguments = sample["arguments"]["gen_args_1"]
    code, out, err = run("score", "-m", model, "-p", arguments["arg_0"], "--completion", arguments["arg_1"], "--json")
    check(code == 0 and json.loads(out)["logprob"] == sample["resps"][1][0][0], "the same bits as makar score")

    # Killed as soon as some documents are finished, then started again.
    cache = folder / "killed/results.json.cache"
    process = subprocess.Popen([MAKAR, *map(str, base), "--output", str(folder / "killed")], stderr=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL)
    end = time.time() + 120
    while time.time() < end and not (cache.exists() and cache.stat().st_size > 0):
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = cache.read_bytes().count(b"\n")
    check(process.returncode == -signal.SIGKILL and 0 < finished < 1500, f"killed with {finished} documents finished")
    check(not (folder / "killed/results.json").exists(), "no results of a killed run")
    code, _, err = run(*base, "--output", folder / "killed")
    check(code == 0 and f"{finished} finished documents" in err, f"the run resumes: {err[-300:]}")
    for name in ("results.json", "samples_letters.jsonl"):
        check((folder / "killed" / name).read_bytes() == (folder / "whole" / name).read_bytes(), f"the same bytes of {name}")

    code, out, _ = run(*base[:-1], "--limit", 10, "--json")
    check(code == 0 and json.loads(out)["n-samples"]["letters"] == {"original": 1500, "effective": 10}, "--limit")


def check_usage(folder, model):
    code, out, _ = run("eval", "ls", "--include-path", ROOT / "tasks")
    check(code == 0 and "mmlu" in out and "gsm8k" in out, "the list of tasks")
    code, _, err = run("eval", "-m", model, "--tasks", "mmlo", "--include-path", ROOT / "tasks")
    check(code == 2 and "did you mean 'mmlu'" in err, f"a wrong task: {err}")
    (folder / "broken.yaml").write_text("task: broken\nmetrics: [acc]\n")
    code, _, err = run("eval", "-m", model, "--tasks", folder / "broken.yaml")
    check(code == 2 and "broken.yaml:2: unknown key 'metrics'" in err, f"a broken task: {err}")
    code, _, err = run("eval", "-m", model, "--tasks", folder / "letters.yaml", "--data", folder / "none")
    check(code == 1 and "letters.jsonl" in err and "no such file" in err, f"missing data: {err}")
    code, _, err = run("eval", "-m", model, "--tasks", folder / "letters.yaml", "--log-samples")
    check(code == 2 and "--output" in err, f"samples without an output folder: {err}")
    code, _, err = run("eval", "-m", model, "--tasks", ",")
    check(code == 2 and "--tasks" in err, f"no task: {err}")


class Server(http.server.BaseHTTPRequestHandler):
    """An OpenAI-compatible server with known answers: each word of a prompt after the first has its length, negated, as log-probability."""
    requests = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Server.requests.append((self.path, body))
        if len(Server.requests) == 1:  # the client tries again
            self.send_response(503)
            self.end_headers()
            return
        if self.path == "/v1/chat/completions":
            answer = {"choices": [{"message": {"content": f"{len(body['messages'])} b STOP x"}}]}
        elif body.get("echo"):
            words = re.findall(r"\S+\s*", body["prompt"])
            offsets = [sum(map(len, words[:i])) for i in range(len(words))]
            logprobs = [None] + [-float(len(w.strip())) for w in words[1:]]
            answer = {"choices": [{"text": body["prompt"], "logprobs": {
                "tokens": words, "token_logprobs": logprobs, "text_offset": offsets,
                "top_logprobs": [None] + [{w: l} for w, l in zip(words[1:], logprobs[1:])]}}]}
        else:
            answer = {"choices": [{"text": SOLUTIONS.get(body["prompt"], " b STOP x")}]}
        data = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


SOLUTIONS = {}


def check_url(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    (folder / "short.yaml").write_text('task: short\ndataset_kwargs: {documents: [{q: one, a: longer}, {q: two, a: b}]}\n'
                                       'output_type: multiple_choice\ndoc_to_text: "{{ q }}:"\ndoc_to_choice: [longer, b]\n'
                                       "doc_to_target: a\n")
    code, out, err = run("eval", "-m", url, "--tasks", folder / "short.yaml", "--json", "--output", folder / "url", "--log-samples",
                         "--model-name", "m", "--requests", 1)
    check(code == 0 and json.loads(out)["results"]["short"]["acc,none"] == 0.5, f"log-likelihoods from a server: {err}")
    samples = [json.loads(line) for line in (folder / "url/samples_short.jsonl").read_text().splitlines()]
    check([r[0][0] for r in samples[0]["resps"]] == [-6, -1], f"the words after the context are scored: {samples[0]['resps']}")
    check(Server.requests[0][1]["model"] == "m", "the name of the model")
    (folder / "said.yaml").write_text('task: said\ndataset_kwargs: {documents: [{q: one, a: "3 b "}, {q: two, a: x}]}\n'
                                      'description: "Rules"\ndoc_to_text: "{{ q }}"\ndoc_to_target: a\n'
                                      'generation_kwargs: {until: [STOP]}\n')
    base = ("eval", "-m", url, "--tasks", folder / "said.yaml", "--json", "--num-fewshot", 1)
    code, out, err = run(*base, "--apply-chat-template", "--output", folder / "flat")
    messages = Server.requests[-1][1]["messages"]
    check(code == 0 and [m["role"] for m in messages] == ["system", "user"], f"examples in the user's message: {messages} {err}")
    code, out, err = run(*base, "--apply-chat-template", "--fewshot-as-multiturn", "--system-instruction", "Be brief.", "--output",
                         folder / "turns")
    messages = Server.requests[-1][1]["messages"]
    check(code == 0 and [m["role"] for m in messages] == ["system", "user", "assistant", "user"], f"examples as turns: {messages}")
    check(messages[0]["content"] == "Be brief.\n\nRules" and messages[-1]["content"] in ("one", "two"), f"{messages}")
    code, _, err = run("eval", "-m", url, "--tasks", folder / "short.yaml", "--apply-chat-template")
    check(code == 1 and "--apply-chat-template" in err, f"no log-likelihoods of conversations: {err}")
    code, _, err = run("eval", "-m", url, "--tasks", folder / "said.yaml", "--fewshot-as-multiturn")
    check(code == 2 and "needs --apply-chat-template" in err, err)
    return url


def check_compare(folder, model):
    lines = [json.dumps({"letter": chr(97 + i % 26), "choices": ["a", "bb"], "answer": i % 2}) for i in range(40)]
    (folder / "letters.jsonl").write_text("\n".join(lines) + "\n")
    for name, shots in (("zero", 0), ("three", 3)):
        run("eval", "-m", model, "--tasks", folder / "letters.yaml", "--data", folder, "--num-fewshot", shots, "--log-samples",
            "--output", folder / name)
    code, out, err = run("eval", "compare", folder / "zero", folder / "three", "--svg", folder / "c.svg", "--json")
    check(code == 0 and (folder / "c.svg").read_text().startswith("<svg"), f"a comparison: {err}")
    score = next(s for s in json.loads(out)["scores"] if s["metric"] == "acc,none")
    values = [[json.loads(line)["acc"] for line in (folder / n / "samples_letters.jsonl").read_text().splitlines()]
              for n in ("zero", "three")]
    difference = (sum(values[1]) - sum(values[0])) / 40
    check(abs(score["models"][1]["difference"] - difference) < 1e-12, "the difference of the means")
    only = [sum(a == x and b == 1 - x for a, b in zip(*values)) for x in (1, 0)]
    p = min(1, 2 * sum(math.comb(sum(only), k) for k in range(min(only) + 1)) / 2 ** sum(only))
    check(abs(score["models"][1]["mcnemar_p"] - p) < 1e-9 and score["models"][1]["test"] == "bootstrap", f"paired tests: {score}")
    check(run("eval", "compare", folder / "zero")[0] == 2, "two results are needed")
    (folder / "no.json").write_text("[]")
    code, _, err = run("eval", "compare", folder / "zero", folder / "no.json")
    check(code == 1 and "is not a results file" in err, err)


# Documents in the form of datasets that are not among the assets: file, documents, and the prompt of the first one with its choices or target.
FABRICATED = {
    "hellaswag": ("hellaswag/hellaswag_val.jsonl",
                  [{"activity_label": "Cooking", "ctx_a": "A man stirs.", "ctx_b": "he", "endings": ["eats.", "flies.", "b", "c"], "label": 0}],
                  "Cooking: A man stirs. He", ["eats.", "flies.", "b", "c"]),
    "race": ("race/test.jsonl", [{"article": "It rains.", "question": "What?", "options": ["sun", "rain", "x", "y"], "answer": "B"}],
             "Article: It rains.\n\nQuestion: What?\nAnswer:", 1),
    "triviaqa": ("triviaqa/validation.jsonl", [{"question": f"Who {i}?", "answer": {"aliases": ["Ann", "Anna"]}} for i in range(7)], None,
                 ["Ann", "Anna"]),
    "squad": ("squad/dev-v1.1.json",
              {"version": "1.1", "data": [{"title": "t", "paragraphs": [{"context": "Red is a colour.", "qas": [
                  {"id": "1", "question": "Which?", "answers": [{"text": "Red", "answer_start": 0}, {"text": "red", "answer_start": 0}]}]}]}]},
              None, ["Red", "red"]),
    "squad_v2": ("squad_v2/dev-v2.0.json",
                 {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "Red is a colour.", "qas": [
                     {"id": "1", "question": "What?", "answers": [], "is_impossible": True},
                     {"id": "2", "question": "Which?", "answers": [{"text": "Red", "answer_start": 0}], "is_impossible": False}]}]}]},
                 None, ["unanswerable"]),
    "rte": ("rte/validation.jsonl", [{"sentence1": "A cat sat.", "sentence2": "A cat moved.", "label": 1}],
            "A cat sat.\nQuestion: A cat moved. True or False?\nAnswer:", 1),
    "mrpc": ("mrpc/validation.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 1}, {"sentence1": "a", "sentence2": "c", "label": 0}],
             None, 1),
    "qqp": ("qqp/validation.jsonl", [{"question1": "Who?", "question2": "Who is it?", "label": 1}],
            "Question 1: Who?\nQuestion 2: Who is it?\nQuestion: Do both questions ask the same thing?\nAnswer:", 1),
    "wnli": ("wnli/validation.jsonl", [{"sentence1": "The cup fell on it, so it broke.", "sentence2": "The cup broke.", "label": 0}],
             "The cup fell on it, so it broke.\nQuestion: The cup broke. True or False?\nAnswer:", 0),
    "qnli": ("qnli/validation.jsonl", [{"question": "Who?", "sentence": "Ann.", "label": 0}],
             "Who?\nAnn.\nQuestion: Does this response answer the question?\nAnswer:", 0),
    "mnli": ("mnli/validation.jsonl", [{"premise": "p", "hypothesis": "h", "label": 2}], "p\nQuestion: h True, False or Neither?\nAnswer:", 2),
    "snli": ("snli/snli_1.0_dev.jsonl", [{"sentence1": "a car sped past a bunch of people",
                                          "sentence2": "a man is driving along a quiet road", "gold_label": "contradiction"}], None, 2),
    "safetybench": ("safetybench/test_en.jsonl", [{"question": "Safe?", "options": ["yes", "no"], "category": "c", "answer": 1}],
                    "Question: Safe?\nOptions:\n(A) yes\n(B) no\nAnswer: (", 1),
    "alpaca_eval": ("alpaca_eval/alpaca_eval.json", [{"instruction": "Say hi.", "output": "hi"}], "Say hi.", "hi"),
    "abstraction_corpus": ("abstraction_corpus/evaluation/00576224.json",
                           {"train": [{"input": [[1, 0]], "output": [[0, 1]]}], "test": [{"input": [[2, 0], [0, 2]], "output": [[0, 2], [2, 0]]}]},
                           "Input:\n1 0\nOutput:\n0 1\n\nInput:\n2 0\n0 2\nOutput:\n", "0 2\n2 0"),
    "realtoxicityprompts": ("realtoxicityprompts/prompts.jsonl", [{"prompt": {"text": "So if"}, "challenging": False}], "So if", ""),
}


def check_fabricated(folder, model):
    data = folder / "fabricated"
    for name, (file, documents, prompt, target) in FABRICATED.items():
        (data / file).parent.mkdir(parents=True, exist_ok=True)
        whole = json.dumps(documents)
        (data / file).write_text(whole if file.endswith(".json") else "".join(json.dumps(d) + "\n" for d in documents))
        code, _, err = run("eval", "-m", model, "--tasks", ROOT / f"tasks/{name}.yaml", "--data", data, "--limit", 2, "--num-fewshot", 0,
                           "--output", data / "out" / name, "--log-samples")
        check(code == 0, f"{name}: {err[-400:]}")
        if code:
            continue
        sample = json.loads((data / f"out/{name}/samples_{name}.jsonl").read_text().splitlines()[0])
        arguments = sample["arguments"]
        if prompt is not None:
            check(arguments["gen_args_0"]["arg_0"] == prompt, f"{name}: the prompt {arguments['gen_args_0']['arg_0']!r}")
        if name == "hellaswag":
            check([arguments[f"gen_args_{i}"]["arg_1"] for i in range(4)] == [" " + t for t in target], f"{name}: choices {arguments}")
        else:
            check(sample["target"] == target, f"{name}: the target {sample['target']!r}")
    for number in (1, 2, 3):
        (data / f"anli/R{number}").mkdir(parents=True)
        (data / f"anli/R{number}/test.jsonl").write_text('{"context": "c", "hypothesis": "h", "label": "n"}\n')
    code, out, err = run("eval", "-m", model, "--tasks", ROOT / "tasks/anli.yaml", "--data", data, "--json")
    check(code == 0 and len(json.loads(out)["n-samples"]) == 3, f"anli has three rounds: {err[-300:]}")


def check_reports(folder, model):
    """Subcommands on a small model: perturbed questions, matrix, safety, prompts."""
    (folder / "people.yaml").write_text("""
task: people
dataset_kwargs: {documents: [{q: "He is not a doctor.", g: a, l: 0}, {q: "She is a BIG doctor.", g: b, l: 1}, {q: "It is.", g: b, l: 0}]}
output_type: multiple_choice
doc_to_text: "{{ q }} Yes or no?"
doc_to_choice: ["yes", "no"]
doc_to_target: l
metric_list: [{metric: acc}]
metadata: {version: 1, group_field: g}
""")
    base = ("-m", model, "--tasks", folder / "people.yaml")
    for kind, expected_prompt in (("gender", "She is not a doctor. Yes or no?"), ("contractions", "He isn't a doctor. Yes or no?")):
        code, _, err = run("eval", *base, "--perturb", kind, "--output", folder / kind, "--log-samples")
        prompt = json.loads((folder / kind / "samples_people.jsonl").read_text().splitlines()[0])["arguments"]["gen_args_0"]["arg_0"]
        check(code == 0 and prompt == expected_prompt, f"--perturb {kind}: {prompt} {err}")
    code, _, err = run("eval", *base, "--perturb", "typo")
    check(code == 2 and "did you mean 'typos'" in err, f"a wrong perturbation: {err}")

    words = ["stupid awful"] * 20 + ["kind clever nice"] * 20
    (folder / "tox.jsonl").write_text("".join(json.dumps({"text": t, "label": "toxic" if t[0] == "s" else "neutral"}) + "\n" for t in words))
    code, _, err = run("classify", "train", "--method", "logistic", "--balanced", "-d", folder / "tox.jsonl", "-o", folder / "tox.json")
    check(code == 0, f"a classifier: {err}")
    code, out, err = run("classify", "run", folder / "tox.json", "--perspective", "--text", "you stupid")
    scores = json.loads(out)["attributeScores"] if code == 0 else {}
    check(scores and scores["TOXICITY"]["summaryScore"]["value"] > 0.5, f"--perspective: {out} {err}")

    for name in ("one", "two"):
        code, out, err = run("eval", "matrix", *base, "--classifier", folder / "tox.json", "--output", folder / name, "--svg", folder / "m.svg")
        check(code == 0 and "| people" in out and (folder / "m.svg").read_text().startswith("<svg"), f"a matrix: {out} {err[-300:]}")
    check((folder / "one/matrix.json").read_bytes() == (folder / "two/matrix.json").read_bytes(), "the same bytes")
    code, out, err = run("eval", "matrix", "--compare", folder / "one", "--compare", folder / "two")
    check(code == 0 and out.count("mean 0.500") == 2, f"win rates of equal models: {out} {err}")
    (folder / "bad").mkdir()
    (folder / "bad/matrix.json").write_text("{}")
    code, _, err = run("eval", "matrix", "--compare", folder / "bad")
    check(code == 1 and "is not a matrix" in err, err)

    code, out, err = run("eval", "safety", *base[:3], f"{folder / 'people.yaml'},refusals,toxicity_prompts", "--include-path", ROOT / "tasks",
                         "--limit", 2, "--classifier", folder / "tox.json", "--control", "none,reject,rewrite,steer", "--output", folder / "safe")
    check(code == 0 and "## Control of toxicity" in out and "| steer |" in out and "| b |" in out, f"safety: {out[-500:]} {err[-300:]}")
    report = json.loads((folder / "safe/safety.json").read_text())
    check({"toxicity", "toxicity_difference", "control", "bias", "refusals", "consistency"} <= set(report), f"sections: {list(report)}")
    code, out, err = run("generate", "-m", model, "Which is", "-n", 8, "--temperature", 1, "--control", "steer", "--block", 4, "--classifier",
                         folder / "tox.json", "--json")
    check(code == 0 and json.loads(out)["rejected"] is False and json.loads(out)["text"], f"a controlled answer: {out} {err}")
    code, _, err = run("generate", "-m", model, "Which is", "--control", "reject")
    check(code == 2 and "--classifier" in err, err)
    code, _, err = run("eval", "safety", *base, "--control", "reject")
    check(code == 2 and "--classifier" in err, err)

    code, out, err = run("eval", "ab", *base, "--doc-to-text", "{{ q }}", "--save", folder / "values.json", "--json")
    check(code == 0 and json.loads(out)["documents"] == 3, f"two prompts: {out} {err[-300:]}")
    code, out, err = run("eval", "ab", *base, "--doc-to-text", "{{ q }}", "--check", folder / "values.json")
    check(code == 0 and "B - A +0.0000" in out, f"no regression: {out} {err}")
    (folder / "docs.yaml").write_text((folder / "people.yaml").read_text().replace(
        '{q: "It is.", g: b, l: 0}', ", ".join('{q: "It is %d.", g: b, l: 0}' % i for i in range(30))))
    code, _, err = run("eval", "ab", "-m", model, "--tasks", folder / "docs.yaml", "--save", folder / "values.json")
    saved = json.loads((folder / "values.json").read_text())
    saved["values"] = {key: 1 - value for key, value in saved["values"].items()}
    worse = sum(saved["values"].values()) > 22  # the inverted scores are much better than the run's
    (folder / "values.json").write_text(json.dumps(saved))
    code, _, err = run("eval", "ab", "-m", model, "--tasks", folder / "docs.yaml", "--check", folder / "values.json")
    check(code == (1 if worse else 0) and ("regression" in err) == worse, f"a regression file: {code} {err}")


def check_assets(folder, url):
    if not (ASSETS / "eval").is_dir():
        print(f"no datasets at {ASSETS}: that part is skipped")
        return
    data = folder / "data"
    names = ["mmlu", "piqa", "truthfulqa", "gsm8k", "commonsense_llm_adapters", "crows_pairs", "winobias", "nq_open", "squad_xquad",
             "sst2", "cola", "stsb", "rt_polarity", "trec_qc", "hate_speech", "math", "bbh", "bbq", "stereoset", "anthropic_evals",
             "dialogsum", "self_instruct_user", "humaneval", "mbpp", "mt_bench"]
    archives = [ASSETS / "eval" / f"{name}.tgz" for name in names]
    for archive in archives + [ASSETS / "train/wikitext-2-raw.tgz", ASSETS / "train/multi30k.tgz"]:
        with tarfile.open(archive) as packed:
            packed.extractall(data)
    stories = ASSETS / "weights/stories260K"
    run("convert", stories / "stories260K.bin", folder / "stories", "--tokenizer", stories / "tok512.bin")
    with open(data / "wikitext-2-raw/wiki.test.raw", encoding="utf-8") as whole:
        text = whole.read(20000)
    (data / "wikitext-2-raw/wiki.test.raw").write_text(text, encoding="utf-8")
    for path in sorted((ROOT / "tasks").glob("*.yaml")):
        if path.stem in FABRICATED or path.stem == "anli":
            continue
        code, out, err = run("eval", "-m", folder / "stories", "--tasks", path, "--data", data, "--limit", 2, "--num-fewshot",
                             0 if path.stem.startswith("gsm8k") else 1, "--confirm-run-unsafe-code", "--json", "--output", folder / path.stem, "--log-samples")
        check(code == 0, f"{path.stem}: {err[-400:]}")
        if code:
            continue
        results = json.loads(out)
        for task, scores in results["results"].items():
            for key, value in scores.items():
                if key == "alias" or "stderr" in key or value is None:  # None: the correlation of a constant
                    continue
                if "perplexity" in key or "bits" in key:
                    check(value > 0, f"{task} {key} {value}")
                elif key.startswith(("bleu,", "chrf,", "ter,", "words,")):
                    check(value >= 0, f"{task} {key} {value}")
                else:
                    check(-1 <= value <= 1, f"{task} {key} {value}")
        expected = {"mmlu": 57, "bbh": 27, "bbh_cot": 27, "bbq": 6}.get(path.stem, 1)
        check(len(results["n-samples"]) == expected, f"{path.stem}: {len(results['n-samples'])} tasks")
    sample = json.loads((folder / "mmlu/samples_mmlu_anatomy.jsonl").read_text().splitlines()[0])
    prompt = sample["arguments"]["gen_args_0"]["arg_0"]
    check(prompt.startswith("The following are multiple choice questions (with answers) about anatomy.\n\n"), prompt[:80])
    check(prompt.count("\nAnswer:") == 2 and prompt.endswith("\nAnswer:"), prompt[-80:])
    sample = json.loads((folder / "arc_easy/samples_arc_easy.jsonl").read_text().splitlines()[1])
    check(len(sample["resps"]) == 4 and sample["arguments"]["gen_args_1"]["arg_1"] == " breathing mask", sample["arguments"])
    prompt = json.loads((folder / "bbh_cot/samples_bbh_cot_snarks.jsonl").read_text().splitlines()[0])["arguments"]["gen_args_0"]["arg_0"]
    check(prompt.startswith("Determine which of two sentences is sarcastic") and "canary" not in prompt, prompt[:100])
    # The authors' solutions pass their tests.
    with gzip.open(data / "humaneval/HumanEval.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            problem = json.loads(line)
            SOLUTIONS[problem["prompt"]] = problem["canonical_solution"]
    code, out, err = run("eval", "-m", url, "--tasks", ROOT / "tasks/humaneval.yaml", "--data", data, "--limit", 40,
                         "--confirm-run-unsafe-code", "--json")
    check(code == 0 and json.loads(out)["results"]["humaneval"]["pass@1,none"] == 1, f"solutions of HumanEval: {out[:300]} {err}")
    code, _, err = run("eval", "-m", folder / "stories", "--tasks", "humaneval", "--include-path", ROOT / "tasks", "--data", data)
    check(code == 1 and "--confirm-run-unsafe-code" in err, f"programs run only if allowed: {err}")


with tempfile.TemporaryDirectory() as scratch:
    root = pathlib.Path(scratch)
    trained = make_model(root)
    check_run(root, trained)
    check_reports(root, trained)
    check_fabricated(root, trained)
    check_usage(root, trained)
    address = check_url(root)
    check_compare(root, trained)
    check_assets(root, address)
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
