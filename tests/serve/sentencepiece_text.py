#!/usr/bin/env python3
"""Text of a SentencePiece tokenizer: an answer continues its prompt with the space between them, and text_offset counts
characters of the text. Tools are refused where the chat template has no place for them.

usage: sentencepiece_text.py MAKAR
"""
import json
import pathlib
import subprocess
import sys
import tempfile

from serving import Server, check, failures, make_model

MAKAR = sys.argv[1]


def letters_tokenizer():
    """A tokenizer like Llama 2's: <s> first, spaces are U+2581, the first space is dropped in decoding; each token is one letter."""
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2}
    for code in [0x2581, *range(0x21, 0x7F)]:
        vocab[chr(code)] = len(vocab)
    added = [{"id": i, "content": t, "special": True, "normalized": False} for t, i in list(vocab.items())[:3]]
    return {"version": "1.0", "added_tokens": added,
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "post_processor": {"type": "TemplateProcessing",
                               "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                               "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                               "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "unk_token": "<unk>", "vocab": vocab, "merges": []}}


def make_letters_model(folder):
    model = make_model(folder)
    config = json.loads((model / "config.json").read_text())
    config.update(bos_token_id=1, eos_token_id=2)
    (model / "config.json").write_text(json.dumps(config))
    (model / "tokenizer.json").write_text(json.dumps(letters_tokenizer()))
    (model / "tokenizer_config.json").write_text(json.dumps(
        {"chat_template": "{% for m in messages %}[{{ m.content }}]{% endfor %}", "bos_token": "<s>", "eos_token": "</s>"}))
    return model


def check_completions(s):
    ask = {"prompt": "France", "max_tokens": 4, "temperature": 0, "guided_regex": " [a-z][a-z][a-z]", "logprobs": 1}
    _, whole = s.post("/v1/completions", ask)
    choice = whole["choices"][0]
    check(choice["text"].startswith(" ") and len(choice["text"]) == 4, f"an answer keeps its first space: {choice['text']!r}")
    check(choice["logprobs"]["text_offset"] == [0, 1, 2, 3], f"offsets: {choice['logprobs']}")
    _, echoed = s.post("/v1/completions", dict(ask, echo=True))
    echoed_choice = echoed["choices"][0]
    check(echoed_choice["text"] == "France" + choice["text"], f"echo: {echoed_choice['text']!r}")
    logprobs = echoed_choice["logprobs"]
    check(logprobs["tokens"][0] == "<s>" and len(logprobs["tokens"]) == 12, f"tokens of an echo: {logprobs['tokens']}")
    check(logprobs["text_offset"] == [0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9], f"<s> has no characters in the text: {logprobs['text_offset']}")
    _, events = s.stream("/v1/completions", dict(ask, echo=True))
    pieces = [e["choices"][0] for e in events if e != "[DONE]" and e.get("choices")]
    check("".join(p["text"] for p in pieces) == echoed_choice["text"], "a stream has the same text")
    offsets = [o for p in pieces if p["logprobs"] for o in p["logprobs"]["text_offset"]]
    check(offsets == logprobs["text_offset"], f"streamed offsets: {offsets}")
    _, empty = s.post("/v1/completions", dict(ask, prompt="", max_tokens=3))
    first = empty["choices"][0]
    check(len(first["logprobs"]["tokens"]) == 3 and first["logprobs"]["text_offset"] == [0, 0, 1],
          f"at the start of a text the first space is dropped: {first}")


def check_tools(s):
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    ask = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2, "tools": [tool]}
    status, error = s.post("/v1/chat/completions", ask)
    check(status == 400 and "does not support tools" in error["error"]["message"], f"tools that the template ignores: {error}")
    status, error = s.post("/v1/chat/completions", dict(ask, tool_choice="none"))
    check(status == 200, f"tools that must not be used: {error}")


with tempfile.TemporaryDirectory() as folder:
    model = make_letters_model(pathlib.Path(folder) / "letters")
    out = subprocess.run([MAKAR, "generate", "-m", str(model), "France", "--regex", " [a-z][a-z]", "-n", "3"],
                         capture_output=True, text=True, timeout=120).stdout
    check(out.startswith(" ") and len(out.rstrip("\n")) == 3, f"generate keeps the first space: {out!r}")
    with Server(MAKAR, model=model) as server:
        check_completions(server)
        check_tools(server)
sys.exit("\n".join(failures) if failures else 0)
