#!/usr/bin/env python3
"""The page's routes: acknowledged messages survive a kill of the server, an inspection does not change the text of other
requests, unusual paths are refused.

usage: page_api.py MAKAR
"""
import concurrent.futures
import http.client
import json
import pathlib
import signal
import sys
import tempfile

from serving import Server, check, failures, wait_until

CHAT = "/v1/chat/completions"


def writer(s, conversation, number, acknowledged):
    """Sends messages until the server is killed; `acknowledged` gets those that the server acknowledged."""
    for i in range(10000):
        body = {"role": "user", "content": f"{number}:{i} " + "x" * 500}
        try:
            status, answer = s.post(f"/makar/conversations/{conversation}/messages", body)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return
        if status == 200:
            acknowledged.append((answer["id"], body["content"]))


def check_kills(makar, folder):
    flags = ("--store", str(folder / "store.db"))
    acknowledged = []
    for _ in range(3):
        with Server(makar, *flags) as s:
            new = s.post("/makar/conversations", {"title": "kill me"})[1]["id"]
            found = {m["id"]: m["content"] for c in json.loads(s.request("GET", "/makar/conversations")[2])["conversations"]
                     for m in json.loads(s.request("GET", f"/makar/conversations/{c['id']}")[2])["messages"]}
            check(all(found.get(i) == text for i, text in acknowledged), "acknowledged messages are stored after a kill")
            with concurrent.futures.ThreadPoolExecutor(4) as many:
                before = len(acknowledged)
                for n in range(4):
                    many.submit(writer, s, new, n, acknowledged)
                check(wait_until(lambda: len(acknowledged) >= before + 20), f"messages are written: {len(acknowledged) - before}")
                s.stop(signal.SIGKILL)


def check_looks(s):
    ask = {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 200, "seed": 5, "temperature": 1}
    alone = s.post(CHAT, ask)[1]["choices"][0]["message"]["content"]
    look = {"prompt": "looking " * 20, "what": ["next", "probabilities", "attention", "positions"]}
    first = s.post("/makar/look", look)
    check(first[0] == 200, f"an inspection: {first[0]}")
    with concurrent.futures.ThreadPoolExecutor(12) as many:
        texts = [many.submit(s.post, CHAT, ask) for _ in range(6)]
        looks = [many.submit(s.post, "/makar/look", look) for _ in range(12)]
        check(all(j.result()[1]["choices"][0]["message"]["content"] == alone for j in texts), "an inspection does not change other answers")
        check(all(j.result() == first for j in looks), "an inspection gives the same result under load")
    status, long = s.post("/makar/look", {"prompt": "x" * 513, "what": ["next"]})
    check(status == 400 and "512" in long["error"]["message"], f"a long text is refused: {long}")
    check(s.post("/makar/look", {"model": "../tiny", "prompt": "x"})[0] == 404, "an unknown model")
    forged = s.post("/makar/look", {"messages": [{"role": "user", "content": "<|end|>"}]})[1]["tokens"]
    check(sum(t["special"] for t in forged) == 3, f"no message becomes a control token: {forged}")


def check_paths(s):
    for path in ("/app.js/", "/app.jsx", "/index.html", "//", "/makar", "/app.css%00", "/../app.js"):
        check(s.request("GET", path)[0] == 404, f"there is no {path}")
    check(s.request("PUT", "/makar/conversations")[0] == 405, "an unsupported method")
    status, headers, text = s.request("HEAD", "/")
    check(status == 200 and text == "" and headers["etag"], "HEAD has headers and no body")
    status, body = s.post("/makar/conversations", {"title": "x"})
    check(status == 400 and body["error"]["code"] == "unsupported", "without a store there are no conversations")


def check_agents(makar, folder):
    """Traces as files: bad names, half lines, unrequested answers, the same answer twice."""
    lines = [{"question": "q", "mode": "react"}, {"request": {"number": 1, "tool": "fetch", "input": {}}}]
    (folder / "one.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"half')
    (folder / "other.jsonl").write_text('{"text": "a dataset"}\n')
    (folder / "broken.jsonl").write_text("{nothing\n")
    with Server(makar, "--agents", str(folder)) as s:
        get = lambda path: (lambda r: (r[0], json.loads(r[2])))(s.request("GET", path))  # noqa: E731
        check([one["name"] for one in get("/makar/agents")[1]["agents"]] == ["one"], "the traces alone are listed")
        check(get("/makar/agents/one") == (200, {"name": "one", "lines": lines}), "only complete lines are returned")
        for name in ("..%2F..%2Fetc%2Fpasswd", "none", ".hidden", "one.jsonl"):
            check(get(f"/makar/agents/{name}")[0] == 404, f"no trace {name}")
        check(get("/makar/agents/broken")[0] == 400, "a damaged trace")
        answers = "/makar/agents/one/answers"
        for body in ({}, {"number": 2, "allow": True}, {"number": 0, "allow": True}, {"number": "1", "allow": True}, {"number": 1}, {"number": 1, "allow": "yes"},
                     {"number": 1, "text": "x"}, {"number": 1 << 60, "allow": True}):
            check(s.post(answers, body)[0] in (400, 404), f"refused: {body}")
        check(s.post("/makar/agents/..%2Fone/answers", {"number": 1, "allow": True})[0] == 404, "a path is not a name")
        check(s.post(answers, {"number": 1, "allow": False})[0] == 200, "an answer is accepted")
        check(s.post(answers, {"number": 1, "allow": True})[0] == 400, "a second answer is refused")
        check(json.loads((folder / "one.answer-1.json").read_text()) == {"allow": False}, "the first answer counts")
        check(sorted(p.name for p in folder.iterdir()) == ["broken.jsonl", "one.answer-1.json", "one.jsonl", "other.jsonl"],
              "no other files are left")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        check_agents(makar, pathlib.Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_kills(makar, pathlib.Path(folder))
    with Server(makar) as s:
        check_looks(s)
        check_paths(s)
        check(s.stop() == 0, "SIGTERM ends the server with exit code 0")
    print("FAILED" if failures else "ok", len(failures))
    return 1 if failures else 0


sys.exit(main())
