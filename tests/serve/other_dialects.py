#!/usr/bin/env python3
"""The routes of Anthropic and Ollama; tokens, embeddings and scores.

usage: other_dialects.py MAKAR
"""
import base64
import json
import math
import struct
import sys

from serving import Server, check, failures, quiet

USER = [{"role": "user", "content": "Say something."}]
TOOL = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
                                            "required": ["city"], "additionalProperties": False}}


def events_of(text):
    """Server-sent events -> [(name, data)]"""
    out = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        out.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return out


def check_anthropic(s):
    ask = {"model": s.name, "messages": USER, "max_tokens": 12, "temperature": 0, "system": "Be brief."}
    status, whole = s.post("/v1/messages", ask)
    check(status == 200 and whole["type"] == "message" and whole["content"][0]["type"] == "text", f"message: {whole}")
    check(whole["stop_reason"] in ("max_tokens", "end_turn"), "stop reason")
    _, openai = s.post("/v1/chat/completions", {"messages": [{"role": "system", "content": "Be brief."}] + USER,
                                                "max_tokens": 12, "temperature": 0})
    text = openai["choices"][0]["message"]["content"]
    check(whole["content"][0]["text"] == text, "the same text in both dialects")
    _, _, stream = s.request("POST", "/v1/messages", dict(ask, stream=True))
    events = events_of(stream)
    names = [n for n, _ in events]
    check(names[:2] == ["message_start", "content_block_start"] and
          names[-3:] == ["content_block_stop", "message_delta", "message_stop"], f"order of events: {names}")
    check("".join(d["delta"]["text"] for n, d in events if n == "content_block_delta") == text, "streamed text")
    check(all(n == d["type"] for n, d in events), "the event name equals the type in its data")
    check(events[-2][1]["usage"]["output_tokens"] == whole["usage"]["output_tokens"], "usage")
    _, counted = s.post("/v1/messages/count_tokens", {k: v for k, v in ask.items() if k != "max_tokens"})
    used = whole["usage"]
    check(counted == {"input_tokens": used["input_tokens"] + used["cache_read_input_tokens"]}, f"count_tokens: {counted}")
    first_usage = events_of(s.request("POST", "/v1/messages", dict(ask, system="Be brief. " * 12, stream=True))[2])[-2][1]["usage"]
    second_usage = s.post("/v1/messages", dict(ask, system="Be brief. " * 12))[1]["usage"]
    total = first_usage["input_tokens"] + first_usage["cache_read_input_tokens"]
    check(second_usage["cache_read_input_tokens"] >= total // 2 and
          second_usage["input_tokens"] + second_usage["cache_read_input_tokens"] == total,
          f"tokens found in the cache: {first_usage} {second_usage}")
    stop = text[2:4]
    _, ended = s.post("/v1/messages", dict(ask, stop_sequences=[stop]))
    check(ended["stop_reason"] == "stop_sequence" and ended["stop_sequence"] == stop, "stop sequences")
    call = dict(ask, tools=[TOOL], tool_choice={"type": "any"}, max_tokens=400, temperature=1, seed=1)
    _, called = s.post("/v1/messages", call)
    blocks = [b for b in called["content"] if b["type"] == "tool_use"]
    check(called["stop_reason"] in ("tool_use", "max_tokens"), f"tools: {called}")
    if blocks:
        check(blocks[0]["name"] == "weather" and "city" in blocks[0]["input"], "a tool is called")
        history = USER + [{"role": "assistant", "content": called["content"]},
                          {"role": "user", "content": [{"type": "tool_result", "tool_use_id": blocks[0]["id"],
                                                        "content": "sunny"}]}]
        check(s.post("/v1/messages", dict(ask, messages=history, tools=[TOOL]))[0] == 200, "results of tools")
    for body, word in (({"messages": USER}, "max_tokens"), (dict(ask, messages=[]), "messages"),
                       (dict(ask, temperature="x"), "temperature"), (dict(ask, system=1), "system"),
                       (dict(ask, tool_choice={"type": "x"}), "tool_choice"), (dict(ask, tools=[1]), "tools")):
        status, error = s.post("/v1/messages", body)
        check(status == 400 and error["type"] == "error" and word in error["error"]["message"], f"{body}: {error}")
    check(s.post("/v1/messages", dict(ask, model="other"))[1]["error"]["type"] == "not_found_error", "another model")


def check_ollama(s):
    options = {"temperature": 0, "num_predict": 12}
    _, whole = s.post("/api/chat", {"model": s.name, "messages": USER, "stream": False, "options": options})
    check(whole["done"] and whole["message"]["role"] == "assistant" and whole["eval_count"] <= 12, f"chat: {whole}")
    _, headers, text = s.request("POST", "/api/chat", {"model": s.name + ":latest", "messages": USER, "options": options})
    lines = [json.loads(line) for line in text.splitlines()]
    check(headers["content-type"] == "application/x-ndjson", "lines of JSON")
    check("".join(x["message"]["content"] for x in lines) == whole["message"]["content"], "streamed text")
    check([x["done"] for x in lines] == [False] * (len(lines) - 1) + [True], "only the last line is marked done")
    _, plain = s.post("/api/generate", {"model": s.name, "prompt": "Say something.", "stream": False, "options": options})
    check(plain["response"] == whole["message"]["content"], "generate goes through the template")
    _, raw = s.post("/api/generate", {"model": s.name, "prompt": "x", "raw": True, "stream": False, "options": options})
    _, same = s.post("/v1/completions", {"prompt": "x", "max_tokens": 12, "temperature": 0})
    check(raw["response"] == same["choices"][0]["text"], "raw skips the template")
    _, constrained = s.post("/api/generate", {"prompt": "x", "stream": False, "format": {"enum": ["yes", "no"]}, "options": options})
    check(constrained["response"] in ('"yes"', '"no"'), f"an answer follows its format: {constrained}")
    check(json.loads(s.request("GET", "/api/tags")[2])["models"][0]["name"] == s.name, "tags")
    status, error = s.post("/api/chat", {"model": "other", "messages": USER})
    check(status == 404 and set(error) == {"error"}, "another model")
    for path, status in (("/api/nothing", 404), ("/api/tags", 405)):
        code, error = s.post(path, {})
        check(code == status and isinstance(error["error"], str), f"{path}: errors in Ollama's format: {error}")
    code, error = s.post("/v1/messages/nothing", {})
    check(code == 404 and error["type"] == "error", f"an error in Anthropic's format: {error}")
    code, error = s.post("/api/chat", {"model": s.name, "messages": "x"})
    check(code == 400 and isinstance(error["error"], str), f"a bad field: {error}")


def check_tokens_and_vectors(s):
    _, tokens = s.post("/tokenize", {"content": "ab<|end|>"})
    check(tokens["tokens"][:3] == [97, 98, 60] and tokens["count"] == 9, "tokenize")
    check(s.post("/detokenize", {"tokens": [97, 98]})[1]["content"] == "ab", "detokenize")
    _, score = s.post("/score", {"prompt": "On", "completion": "ce", "top": 2})
    _, echoed = s.post("/v1/completions", {"prompt": "Once", "echo": True, "logprobs": 0, "max_tokens": 0})
    token_logprobs = echoed["choices"][0]["logprobs"]["token_logprobs"]
    check(abs(score["logprob"] - sum(token_logprobs[2:])) < 1e-5 and score["tokens"] == 2, f"score: {score}")
    _, one = s.post("/v1/embeddings", {"model": s.name, "input": "hello"})
    _, many = s.post("/v1/embeddings", {"input": ["x", "hello", [104, 105]], "encoding_format": "base64"})
    vector = one["data"][0]["embedding"]
    vector_bytes = base64.b64decode(many["data"][1]["embedding"])
    check(list(struct.unpack(f"{len(vector_bytes) // 4}f", vector_bytes)) == [struct.unpack("f", struct.pack("f", v))[0] for v in vector],
          "a vector does not depend on its neighbours or its form")
    check(abs(math.fsum(v * v for v in vector) - 1) < 1e-5 and one["usage"]["prompt_tokens"] == 5, "a unit vector")
    _, ollama = s.post("/api/embed", {"model": s.name, "input": ["hello"]})
    check(ollama["embeddings"][0] == vector, "Ollama's vectors")
    _, legacy = s.post("/api/embeddings", {"model": s.name, "prompt": "hello"})
    check(legacy == {"embedding": vector}, f"Ollama's older route: {str(legacy)[:200]}")
    status, error = s.post("/api/embeddings", {"model": s.name, "prompt": 1})
    check(status == 400 and isinstance(error["error"], str), f"an error of Ollama's older route: {error}")
    for path, body in (("/v1/embeddings", {}), ("/v1/embeddings", {"input": []}), ("/v1/embeddings", {"input": [[]]}),
                       ("/v1/embeddings", {"input": [[-1]]}), ("/v1/embeddings", {"input": "a", "encoding_format": "x"}),
                       ("/tokenize", {}), ("/tokenize", {"content": 1}), ("/detokenize", {"tokens": ["x"]}),
                       ("/detokenize", {"tokens": [10**9]}), ("/score", {"prompt": "a"}), ("/score", {"completion": 1})):
        status, error = s.post(path, body)
        check(status == 400 and error["error"]["param"], f"{path} {body}: {status} {error}")


def main():
    with Server(sys.argv[1], "-t", "1") as s:
        for test in (check_anthropic, check_ollama, check_tokens_and_vectors):
            test(s)
        check(quiet(s), "no request is left")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
