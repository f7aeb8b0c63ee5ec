#!/usr/bin/env python3
"""Compares `makar template render` with jinja2 configured as in transformers, on template_cases.txt, template_styles/ and
the templates of MAKAR_GOLDEN_SHARED (default ../shared/golden). Skips (exit 77) where jinja2 is missing.

usage: template_differential.py build/makar [template.jinja ...]"""
import datetime
import glob
import json
import os
import subprocess
import sys

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("jinja2 is not installed; skipped")
    sys.exit(77)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(lineno)

    def _run(self, caller):
        return caller()


def environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return env


HERE = os.path.dirname(os.path.abspath(__file__))
DATA = {
    "messages": [
        {"role": "system", "content": "  Be kind.\n"},
        {"role": "user", "content": "I → ß 'q' \"d\" <|im_end|>"},
        {"role": "assistant", "content": "", "tool_calls": [
            {"type": "function", "id": "c1", "function": {"name": "f", "arguments": {"b": 1.5, "a": [True, None, "é"]}}}]},
        {"role": "tool", "content": "{\"x\": 1}"},
        {"role": "user", "content": [{"type": "text", "text": "part"}, {"type": "image"}]},
    ],
    "tools": [{"type": "function", "function": {"name": "g", "description": "d", "parameters": {
        "type": "object", "properties": {"z": {"type": "string"}, "a": {"enum": [1, 2]}}, "required": ["z"]}}}],
    "variables": {"n": 7, "f": 2.5, "s": "Hello World", "l": [3, 1, 2], "d": {"B": 2, "a": 1}, "empty": [], "t": True, "none_value": None,
                  "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "X", "v": 3}]},
}


def cases():
    with open(os.path.join(HERE, "template_cases.txt"), encoding="utf-8") as f:
        yield from f.read().split("\n=====\n")
    for path in glob.glob(os.path.join(HERE, "template_styles", "*.jinja")):
        yield open(path, encoding="utf-8", newline="").read()
    root = os.environ.get("MAKAR_GOLDEN_SHARED", os.path.join(HERE, "../../../shared/golden"))
    for path in glob.glob(os.path.join(root, "templates", "*.json")):
        yield from json.load(open(path))["templates"].values()
    for path in sys.argv[2:]:
        yield open(path, encoding="utf-8", newline="").read()


def main():
    env = environment()
    requests, expected = [], []
    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    for source in cases():
        for prompt in (False, True):
            for tools in (None, DATA["tools"]):
                for messages in (DATA["messages"], DATA["messages"][:2], DATA["messages"][1:2]):
                    request = {"template": source, "messages": messages, "tools": tools, "documents": None,
                               "add_generation_prompt": prompt, "variables": DATA["variables"], "tokens": tokens}
                    requests.append(request)
                    try:
                        text = env.from_string(source).render(
                            messages=messages, tools=tools, documents=None, add_generation_prompt=prompt,
                            **tokens, **DATA["variables"])
                    except Exception as e:
                        text = e
                    expected.append(text)
    lines = "".join(json.dumps(r) + "\n" for r in requests)
    answers = subprocess.run([sys.argv[1], "template", "render", "--jsonl"], input=lines, capture_output=True, text=True, check=True).stdout
    bad, seen = 0, set()
    for request, want, line in zip(requests, expected, answers.split("\n")):
        got = json.loads(line)
        same = "error" in got if isinstance(want, Exception) else got.get("text") == want
        if not same:
            bad += 1
            if request["template"] not in seen:
                seen.add(request["template"])
                print(f"--- {request['template'][:600]!r}\n    want {want!r}\n    got  {got!r}")
    print(f"{len(requests) - bad} of {len(requests)} agree")
    sys.exit(1 if bad else 0)


main()
