#!/usr/bin/env python3
"""The output filter of a server and the disclosure header: whole and streamed answers of every API end at the same place.

usage: output_filter.py MAKAR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from serving import Server, check, failures

MAKAR = sys.argv[1]
BODY = {"prompt": "abc", "max_tokens": 200, "temperature": 0}
MESSAGES = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 200, "temperature": 0}


def classifier(folder, texts):
    """A classifier that labels the given texts as toxic."""
    lines = [{"text": t, "label": "toxic"} for t in texts] + [{"text": "plain words of a page", "label": "neutral"}] * len(texts)
    (folder / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    subprocess.run([MAKAR, "classify", "train", "--method", "logistic", "-d", folder / "t.jsonl", "-o", folder / "tox.json", "-C", "100"],
                   check=True, capture_output=True)
    return folder / "tox.json"


def check_unfiltered(s):
    status, headers, text = s.request("POST", "/v1/completions", BODY)
    check(status == 200 and headers.get("ai-disclosure") == 'mode=ai-originated, model="tiny", provider="makar"', f"disclosure: {headers}")
    headers, _ = s.stream("/v1/chat/completions", MESSAGES)
    check("ai-disclosure" in headers, "disclosure of a stream")
    status, headers, _ = s.request("GET", "/v1/models")
    check("ai-disclosure" not in headers, "a list of models has no disclosure")
    plain = json.loads(text)["choices"][0]
    check(plain["finish_reason"] in ("stop", "length"), f"an unfiltered answer: {plain}")
    chat = s.post("/v1/chat/completions", MESSAGES)[1]["choices"][0]["message"]["content"]
    return plain["text"], chat


def check_filtered(s, plain, chat):
    choice = s.post("/v1/completions", BODY)[1]["choices"][0]
    check(choice["finish_reason"] == "content_filter", f"filtered: {choice}")
    check(len(choice["text"]) < len(plain) and plain.startswith(choice["text"]), "the answer is a prefix of the unfiltered one")
    _, events = s.stream("/v1/completions", BODY)
    pieces = [e["choices"][0] for e in events if e != "[DONE]" and e["choices"]]
    check("".join(p["text"] for p in pieces) == choice["text"], "a stream ends at the same place")
    check(pieces[-1]["finish_reason"] == "content_filter", f"the end of a stream: {pieces[-1]}")
    answer = s.post("/v1/chat/completions", MESSAGES)[1]["choices"][0]
    check(answer["finish_reason"] == "content_filter" and chat.startswith(answer["message"]["content"] or ""), f"chat: {answer}")
    answer = s.post("/v1/messages", dict(MESSAGES, model="tiny"))[1]
    check(answer["stop_reason"] == "refusal", f"Anthropic: {answer}")
    answer = s.post("/api/chat", dict(model="tiny", messages=MESSAGES["messages"], stream=False,
                                      options={"temperature": 0, "num_predict": 200}))[1]
    check(answer["done_reason"] == "content_filter", f"Ollama: {answer}")
    answer = s.post("/v1/responses", {"input": "abc", "max_output_tokens": 200, "temperature": 0})[1]
    check(answer["status"] == "incomplete" and answer["incomplete_details"]["reason"] == "content_filter", f"responses: {answer}")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    with Server(MAKAR) as server:
        texts = check_unfiltered(server)
        response = server.post("/v1/responses", {"input": "abc", "max_output_tokens": 200, "temperature": 0})[1]
    response_texts = [part["text"] for item in response["output"] for part in item.get("content", [])]
    with Server(MAKAR, "--output-filter", str(classifier(folder, [*texts, *response_texts]))) as server:
        check_filtered(server, *texts)
    (folder / "none.json").write_text("{}")
    done = subprocess.run([MAKAR, "serve", "-m", "x", "--output-filter", folder / "none.json", "--filter-threshold", "2"],
                          capture_output=True, text=True)
    check(done.returncode == 2 and "--filter-threshold" in done.stderr, f"a wrong threshold: {done.stderr}")
print(f"{len(failures)} failures")
sys.exit(1 if failures else 0)
