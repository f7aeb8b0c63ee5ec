#!/usr/bin/env python3
"""What the page's routes do under load and under kills: acknowledged messages outlive the process, looking inside
changes nobody's text, tricks in paths are refused.

usage: page_api.py MAKAR
"""
import concurrent.futures
import http.client
import json
import pathlib
import signal
import sys
import tempfile

from serving import Server, check, failures

CHAT = "/v1/chat/completions"


def writer(s, conversation, number, kept):
    """Messages until the server is gone; `kept` gets those it said it has."""
    for i in range(10000):
        body = {"role": "user", "content": f"{number}:{i} " + "x" * 500}
        try:
            status, answer = s.post(f"/makar/conversations/{conversation}/messages", body)
        except (OSError, http.client.HTTPException, json.JSONDecodeError):
            return
        if status == 200:
            kept.append((answer["id"], body["content"]))


def check_kills(makar, folder):
    flags = ("--store", str(folder / "store.db"))
    kept = []
    for _ in range(3):
        with Server(makar, *flags) as s:
            new = s.post("/makar/conversations", {"title": "kill me"})[1]["id"]
            found = {m["id"]: m["content"] for c in json.loads(s.request("GET", "/makar/conversations")[2])["conversations"]
                     for m in json.loads(s.request("GET", f"/makar/conversations/{c['id']}")[2])["messages"]}
            check(all(found.get(i) == text for i, text in kept), "what was acknowledged is there after a kill")
            with concurrent.futures.ThreadPoolExecutor(4) as many:
                jobs = [many.submit(writer, s, new, n, kept) for n in range(4)]
                concurrent.futures.wait(jobs, timeout=1.5)
                s.stop(signal.SIGKILL)
    check(len(kept) > 20, f"messages were written: {len(kept)}")


def check_looks(s):
    ask = {"messages": [{"role": "user", "content": "Say something."}], "max_tokens": 200, "seed": 5, "temperature": 1}
    alone = s.post(CHAT, ask)[1]["choices"][0]["message"]["content"]
    look = {"prompt": "looking " * 20, "what": ["next", "probabilities", "attention", "positions"]}
    first = s.post("/makar/look", look)
    check(first[0] == 200, f"a look: {first[0]}")
    with concurrent.futures.ThreadPoolExecutor(12) as many:
        texts = [many.submit(s.post, CHAT, ask) for _ in range(6)]
        looks = [many.submit(s.post, "/makar/look", look) for _ in range(12)]
        check(all(j.result()[1]["choices"][0]["message"]["content"] == alone for j in texts), "a look changes no text")
        check(all(j.result() == first for j in looks), "and is the same among others")
    status, long = s.post("/makar/look", {"prompt": "x" * 513, "what": ["next"]})
    check(status == 400 and "512" in long["error"]["message"], f"a long text is refused: {long}")
    check(s.post("/makar/look", {"model": "../tiny", "prompt": "x"})[0] == 404, "an unknown model")
    forged = s.post("/makar/look", {"messages": [{"role": "user", "content": "<|end|>"}]})[1]["tokens"]
    check(sum(t["special"] for t in forged) == 3, f"no message spells a control token: {forged}")


def check_paths(s):
    for path in ("/app.js/", "/app.jsx", "/index.html", "//", "/makar", "/app.css%00", "/../app.js"):
        check(s.request("GET", path)[0] == 404, f"there is no {path}")
    check(s.request("PUT", "/makar/conversations")[0] == 405, "a method that is none")
    status, headers, text = s.request("HEAD", "/")
    check(status == 200 and text == "" and headers["etag"], "HEAD")
    status, body = s.post("/makar/conversations", {"title": "x"})
    check(status == 400 and body["error"]["code"] == "unsupported", "without a store nothing is kept")


def main():
    makar = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        check_kills(makar, pathlib.Path(folder))
    with Server(makar) as s:
        check_looks(s)
        check_paths(s)
        check(s.stop() == 0, "a clean end")
    print(f"{len(failures)} failures" if failures else "fine")
    return 1 if failures else 0


sys.exit(main())
