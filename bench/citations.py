#!/usr/bin/env python3
"""Asks questions over an index of text files and checks every source and citation against the bytes of the files.

usage: citations.py MAKAR INDEX MODEL [ASK OPTIONS ...] < questions

One question per line. The index must have been built from UTF-8 text or Markdown files that have not moved since.
"""
import collections
import json
import pathlib
import subprocess
import sys
import time

makar, index, model, *options = sys.argv[1:]
total = collections.Counter()
wrong = []
for question in filter(None, map(str.strip, sys.stdin)):
    begin = time.time()
    done = subprocess.run([makar, "ask", index, "-m", model, "--json", *options, question], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    answer = json.loads(done.stdout)
    total["questions"] += 1
    total["answered"] += answer["answered"]
    files = {}
    for span in answer["sources"] + [c for s in answer["sentences"] for c in s["citations"]]:
        data = files.setdefault(span["document"], pathlib.Path(span["document"]).read_bytes())
        text = span.get("text", span.get("quote"))
        total["places"] += 1
        total["quotes"] += "quote" in span
        if data[span["begin"]:span["end"]].decode() != text:
            wrong.append((question, span))
    for sentence in answer["sentences"]:
        total["sentences"] += 1
        total["supported"] += bool(sentence["citations"])
        for c in sentence["citations"]:  # a quote is part of the source that it names
            source = answer["sources"][c["source"] - 1]
            if not (source["document"] == c["document"] and source["begin"] <= c["begin"] and c["end"] <= source["end"]):
                wrong.append((question, c))
    print(f"{time.time() - begin:6.1f} s  {question}  ->  {answer['answer'][:100]!r}  sources {len(answer['sources'])}, groundedness {answer.get('groundedness')}", flush=True)
for question, span in wrong:
    print("WRONG", question, span)
print(json.dumps({**total, "wrong": len(wrong)}))
sys.exit(1 if wrong else 0)
