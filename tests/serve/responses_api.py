#!/usr/bin/env python3
"""/v1/responses: answers whole and streamed, tools and schemas, stored conversations.

usage: responses_api.py MAKAR
"""
import json
import sys

from serving import Server, check, failures, metric

PATH = "/v1/responses"
ASK = {"input": "Say something.", "max_output_tokens": 12, "temperature": 0}
TOOL = {"type": "function", "name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"],
    "additionalProperties": False}}
NO_BLANKS = {"32": -100, "10": -100, "9": -100, "13": -100}


def text_of(response):
    return "".join(p["text"] for item in response["output"] if item["type"] == "message" for p in item["content"])


def stream(s, body):
    """The events of a stream, after checks that hold for every stream."""
    _, headers, text = s.request("POST", PATH, dict(body, stream=True))
    check(headers["content-type"] == "text/event-stream", "stream type")
    events = []
    for block in text.strip().split("\n\n"):
        name, data = block.split("\n", 1)
        data = json.loads(data.removeprefix("data: "))
        check(name == "event: " + data["type"], "the event name equals the type in its data")
        events.append(data)
    check([e["sequence_number"] for e in events] == list(range(len(events))), "events are numbered")
    check([e["type"] for e in events[:2]] == ["response.created", "response.in_progress"], "the first two events")
    return events


def same_answer(a, b):
    """Whether two answers are equal but for ids and times."""
    drop = ("id", "created_at", "call_id", "cached_tokens")
    plain = lambda v: ({k: plain(x) for k, x in v.items() if k not in drop} if isinstance(v, dict)  # noqa: E731
                       else [plain(x) for x in v] if isinstance(v, list) else v)
    return plain(a) == plain(b)


def check_texts(s):
    status, whole = s.post(PATH, dict(ASK, metadata={"a": "b"}))
    check(status == 200 and whole["object"] == "response" and whole["metadata"] == {"a": "b"}, f"response: {whole}")
    _, chat = s.post("/v1/chat/completions", {"messages": [{"role": "user", "content": ASK["input"]}],
                                              "max_tokens": 12, "temperature": 0})
    check(text_of(whole) == chat["choices"][0]["message"]["content"], "the same text as a chat")
    check(whole["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"] and
          whole["usage"]["output_tokens"] == chat["usage"]["completion_tokens"], "usage")
    check(whole["status"] == "incomplete" and whole["incomplete_details"] == {"reason": "max_output_tokens"},
          "an answer truncated by its length is incomplete")
    events = stream(s, dict(ASK, metadata={"a": "b"}))
    kinds = [e["type"].removeprefix("response.") for e in events]
    check(kinds[2:4] == ["output_item.added", "content_part.added"] and
          kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "incomplete"], f"order: {kinds}")
    deltas = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    check(deltas == text_of(whole) == events[-4]["text"], "streamed text")
    check(same_answer(events[-1]["response"], whole), "a stream ends with the whole response")
    _, short = s.post(PATH, dict(ASK, stop=[text_of(whole)[4:6]]))
    check(short["status"] == "completed" and short["incomplete_details"] is None, "an answer that a stop string ends is completed")
    _, instructed = s.post(PATH, dict(ASK, instructions="Answer."))
    check(instructed["instructions"] == "Answer." and instructed["usage"]["input_tokens"] == whole["usage"]["input_tokens"] + 9,
          "instructions are a system message")
    parts = [{"role": "user", "content": [{"type": "input_text", "text": "Say "}, {"type": "input_text", "text": "something."}]}]
    _, items = s.post(PATH, dict(ASK, input=parts))
    check(text_of(items) == text_of(whole), "the same answer to a list of items as to a text")
    _, scored = s.post(PATH, dict(ASK, include=["message.output_text.logprobs"], top_logprobs=2))
    logprobs = scored["output"][0]["content"][0]["logprobs"]
    check(bytes(b for t in logprobs for b in t["bytes"]).decode(errors="replace") == text_of(whole) and
          all(len(t["top_logprobs"]) == 2 for t in logprobs), "log-probabilities")
    streamed = [t for e in stream(s, dict(ASK, include=["message.output_text.logprobs"], top_logprobs=2))
                if e["type"] == "response.output_text.delta" for t in e["logprobs"]]
    check(streamed == logprobs, "streamed log-probabilities")


def check_formats(s):
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    _, answer = s.post(PATH, {"input": "x", "max_output_tokens": 200, "seed": 3, "logit_bias": NO_BLANKS,
                            "text": {"format": {"type": "json_schema", "name": "x", "schema": schema}}})
    check(json.loads(text_of(answer))["n"] in (1, 2), f"an answer follows its schema: {answer}")
    for choice in ("required", {"type": "function", "name": "weather"}):
        ask = {"input": "Weather?", "tools": [TOOL], "tool_choice": choice, "max_output_tokens": 300, "seed": 1,
               "logit_bias": NO_BLANKS}
        _, called = s.post(PATH, ask)
        call = called["output"][0]
        check(call["type"] == "function_call" and call["name"] == "weather" and
              "city" in json.loads(call["arguments"]), f"a call: {called}")
        check(called["status"] == "completed" and called["tools"] == [TOOL], "a call is complete")
        events = stream(s, ask)
        kinds = [e["type"].removeprefix("response.") for e in events]
        check(kinds[2:] == ["output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
                            "output_item.done", "completed"], f"events of a call: {kinds}")
        check(events[2]["item"]["arguments"] == "" and events[4]["arguments"] == call["arguments"], "streamed arguments")
    history = [{"role": "user", "content": "Weather?"}, call,
               {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}]
    status, after = s.post(PATH, dict(ASK, input=history, tools=[TOOL]))
    check(status == 200 and after["usage"]["input_tokens"] > called["usage"]["input_tokens"], f"results of tools: {after}")
    status, after = s.post(PATH, dict(ASK, previous_response_id=called["id"], input=history[2:], tools=[TOOL]))
    check(status == 200 and text_of(after), "results of tools for a stored call")


def check_stored(s):
    _, first = s.post(PATH, ASK)
    _, second = s.post(PATH, dict(ASK, input="And?", previous_response_id=first["id"]))
    _, same = s.post(PATH, dict(ASK, input=[{"role": "user", "content": ASK["input"]}, first["output"][0],
                                            {"role": "user", "content": "And?"}]))
    check(text_of(second) == text_of(same) and same_answer(second["usage"], same["usage"]), "previous_response_id continues the conversation")
    check(second["previous_response_id"] == first["id"], "the response names its predecessor")
    check(json.loads(s.request("GET", f"{PATH}/{first['id']}")[2]) == first, "a response is stored")
    items = json.loads(s.request("GET", f"{PATH}/{second['id']}/input_items")[2])
    check(items["data"] == [{"role": "user", "content": "And?"}], f"its input is stored: {items}")
    _, unstored = s.post(PATH, dict(ASK, store=False))
    check(s.request("GET", f"{PATH}/{unstored['id']}")[0] == 404, "store: false stores nothing")
    status, _, text = s.request("DELETE", f"{PATH}/{first['id']}")
    check(status == 200 and json.loads(text)["deleted"], "a response is deleted")
    check(s.request("DELETE", f"{PATH}/{first['id']}")[0] == 404, "a second deletion fails")
    status, error = s.post(PATH, dict(ASK, previous_response_id=second["id"]))
    check(status == 404 and error["error"]["param"] == "previous_response_id" and first["id"] in error["error"]["message"],
          f"a conversation with a gap: {error}")
    for path in ("/v1/responses/..%2f..%2fetc", "/v1/responses/", "/v1/responses/x/y"):
        check(s.request("GET", path)[0] == 404, path)


def check_truncation(s):
    long = [{"role": "user", "content": "x" * 900}, {"role": "assistant", "content": "y"}] * 3 + \
        [{"role": "user", "content": "Say something."}]
    status, error = s.post(PATH, dict(ASK, input=long))
    check(status == 400 and error["error"]["code"] == "context_length_exceeded", f"a conversation that is too long is refused: {error}")
    _, truncated = s.post(PATH, dict(ASK, input=long, truncation="auto"))
    _, same = s.post(PATH, dict(ASK, input=long[2:]))
    check(text_of(truncated) == text_of(same) and same_answer(truncated["usage"], same["usage"]),
          "only as many of the oldest turns as necessary are dropped")
    used = same["usage"]
    check(0 <= used["input_tokens"] - used["input_tokens_details"]["cached_tokens"] <= 2 * 96, f"the prompt is cached: {used}")
    status, error = s.post(PATH, dict(ASK, input="x" * 4000, truncation="auto"))
    check(status == 400, "a single message that does not fit is an error")


def check_errors(s):
    for extra, param in (({"input": 1}, "input"), ({"input": []}, "input"), ({"input": [1]}, "input[0]"),
                         ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
                         ({"input": [{"role": "user"}]}, "input[0].content"),
                         ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].image_url"),
                         ({"input": [{"type": "function_call", "call_id": "1"}]}, "input[0].name"),
                         ({"tools": [{"type": "web_search"}]}, "tools[0].type"), ({"tools": {}}, "tools"),
                         ({"tools": [TOOL], "tool_choice": {"type": "file_search"}}, "tool_choice.type"),
                         ({"background": True}, "background"), ({"conversation": "c"}, "conversation"),
                         ({"prompt": {"id": "p"}}, "prompt"), ({"truncation": "x"}, "truncation"),
                         ({"include": ["everything"]}, "include"), ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
                         ({"text": {"format": {"type": "json_schema"}}}, "text.format.schema"),
                         ({"max_output_tokens": 0}, "max_output_tokens"), ({"store": 1}, "store"),
                         ({"metadata": 1}, "metadata"), ({"temperature": "x"}, "temperature")):
        status, error = s.post(PATH, dict(ASK, **extra))
        check(status == 400 and error["error"]["param"] == param, f"{extra}: {status} {error}")
    check(s.post(PATH, dict(ASK, model="other"))[0] == 404, "another model")
    check(s.post(PATH, dict(ASK, previous_response_id="resp_none"))[0] == 404, "a response that is not stored")


def main():
    with Server(sys.argv[1], "-t", "1") as s:
        for test in (check_texts, check_formats, check_stored, check_truncation, check_errors):
            test(s)
        check(metric(s, "num_requests_in_flight") == 0, "no request is left")
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
