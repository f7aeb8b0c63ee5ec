#!/usr/bin/env python3
"""Images in requests: the same answer in every dialect and on the command line; unreadable images are refused with the name of the field.

usage: images_api.py MAKAR
"""
import base64
import json
import pathlib
import subprocess
import sys
import tempfile

from serving import Server, check, failures

from image_models import make_model, pattern, png

MAKAR = str(pathlib.Path(sys.argv[1]).resolve())
ONE, TWO = (base64.b64encode(png(pattern(40, 30, seed))).decode() for seed in (2, 6))
SAMPLING = {"temperature": 0, "seed": 1}


def url(data, kind="png"):
    return f"data:image/{kind};base64,{data}"


def openai(*parts):
    return {"messages": [{"role": "user", "content": list(parts)}], "max_tokens": 8, **SAMPLING}


def image(data):
    return {"type": "image_url", "image_url": {"url": url(data)}}


def text(words):
    return {"type": "text", "text": words}


def ask(server, body):
    status, answer = server.post("/v1/chat/completions", body)
    check(status == 200, f"an image is accepted: {status} {json.dumps(answer)[:300]}")
    return answer["choices"][0]["message"]["content"] if status == 200 else None, answer.get("usage", {})


def dialects(server, root):
    expected, usage = ask(server, openai(image(ONE), text("what?")))
    prompt = len("USER: \nwhat? ASSISTANT:") + 9
    check(usage["prompt_tokens"] == prompt, f"an image has nine tokens: {usage}")
    (root / "one.png").write_bytes(base64.b64decode(ONE))
    done = subprocess.run([MAKAR, "generate", "-m", str(server.model), "--chat", "--image", str(root / "one.png"), "-n", "8", "what?"],
                          capture_output=True, text=True)
    check(done.stdout.rstrip("\n") == expected.rstrip("\n"),
          f"the command line gives the same answer: {expected!r} {done.stdout!r} {done.stderr}")
    check(ask(server, openai(image(TWO), text("what?")))[0] != expected, "another image, another answer")
    check(ask(server, openai(text("what?"), image(ONE)))[0] == expected, "the template places the image")
    _, events = server.stream("/v1/chat/completions", openai(image(ONE), text("what?")))
    streamed = "".join(c["delta"].get("content") or "" for e in events if e != "[DONE]" for c in e["choices"])
    check(streamed == expected, "a stream has the same text")

    source = {"type": "base64", "media_type": "image/png", "data": ONE}
    body = {"messages": [{"role": "user", "content": [{"type": "image", "source": source}, text("what?")]}], "max_tokens": 8, **SAMPLING}
    status, answer = server.post("/v1/messages", body)
    check(status == 200 and answer["content"][0]["text"] == expected, f"Anthropic: {status} {answer}")
    status, answer = server.post("/v1/messages/count_tokens", body)
    check(answer.get("input_tokens") == prompt, f"tokens are counted with images: {answer}")

    options = {"num_predict": 8, **SAMPLING}
    status, answer = server.post("/api/chat", {"messages": [{"role": "user", "content": "what?", "images": [ONE]}], "stream": False, "options": options})
    check(status == 200 and answer["message"]["content"] == expected, f"Ollama's chat: {status} {answer}")
    status, answer = server.post("/api/generate", {"prompt": "what?", "images": [ONE], "stream": False, "options": options})
    check(status == 200 and answer["response"] == expected, f"Ollama's generate: {status} {answer}")
    check("vision" in server.post("/api/show", {"model": server.name})[1].get("capabilities", []), "Ollama's show lists the capability vision")

    item = {"role": "user", "content": [{"type": "input_image", "image_url": url(ONE)}, {"type": "input_text", "text": "what?"}]}
    status, answer = server.post("/v1/responses", {"input": [item], "max_output_tokens": 8, **SAMPLING})
    check(status == 200 and answer["output"][0]["content"][0]["text"] == expected, f"responses: {status} {answer}")
    status, more = server.post("/v1/responses", {"input": "and?", "previous_response_id": answer.get("id"), "max_output_tokens": 4, **SAMPLING})
    check(status == 200, f"a stored conversation keeps its image: {status} {more}")

    _, usage = ask(server, openai(image(ONE), image(TWO), text("a or b?")))
    check(usage["prompt_tokens"] == len("USER: \n\na or b? ASSISTANT:") + 18, f"two images: {usage}")
    longer = openai(image(ONE), text("what?"))
    longer["messages"] += [{"role": "assistant", "content": "it"}, {"role": "user", "content": "sure?"}]
    check(ask(server, longer)[0] is not None, "a conversation continues after an image")


def refusals(server):
    def refused(body, part, param, path="/v1/chat/completions"):
        status, answer = server.post(path, body)
        error = answer.get("error", {})
        message = error if isinstance(error, str) else error.get("message", "")
        where = "" if isinstance(error, str) else error.get("param")
        check(400 <= status < 500 and part in message, f"expected '{part}': {status} {answer}")
        check(param is None or where == param, f"expected param {param}: {answer}")

    place = "messages[0].content[0].image_url.url"
    remote = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
    refused(openai(remote), "does not fetch images", place)
    refused(openai({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}), "does not fetch images", place)
    refused(openai({"type": "image_url", "image_url": {"url": "data:image/png,abc"}}), "base64", place)
    refused(openai({"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}), "not valid base64", place)
    refused(openai({"type": "image_url", "image_url": 7}), "expected a data URL", "messages[0].content[0].image_url")
    refused(openai({"type": "image_url"}), "expected a data URL", "messages[0].content[0].image_url")
    refused(openai(image(base64.b64encode(b"not an image").decode())), "not a JPEG, PNG or WebP image", place)
    refused(openai(image(ONE[:200])), "cannot be read", place)
    refused(openai(*[image(ONE)] * 17), "at most 16 images", None)
    refused(openai(*[image(ONE)] * 15), "tokens", "messages")  # 135 tokens, the context has 128
    oversized = bytearray(base64.b64decode(ONE))
    oversized[16:24] = b"\0\0\xff\xff\0\0\xff\xff"
    refused(openai(image(base64.b64encode(bytes(oversized)).decode())), "PNG", place)
    system = {"messages": [{"role": "system", "content": [image(ONE)]}, {"role": "user", "content": "x"}]}
    refused(system, "only user messages may have images", "messages[0].content")
    anthropic = {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}]}], "max_tokens": 4}
    refused(anthropic, "does not fetch images", None, "/v1/messages")
    anthropic["messages"][0]["content"][0]["source"] = {"type": "file", "file_id": "x"}
    refused(anthropic, "expected base64", None, "/v1/messages")
    refused({"messages": [{"role": "user", "content": "x", "images": "y"}]}, "expected a list", None, "/api/chat")
    refused({"prompt": "x", "images": [3]}, "expected base64", None, "/api/generate")


def captions(server, root):
    """A model that only describes images: a message with one image and no text."""
    (root / "two.png").write_bytes(base64.b64decode(TWO))
    done = subprocess.run([MAKAR, "caption", "-m", str(server.model), str(root / "two.png"), "-n", "8"], capture_output=True, text=True)
    expected = done.stdout.strip()
    caption, usage = ask(server, openai(image(TWO)))
    check(expected != "" and caption is not None and caption.strip() == expected,
          f"the command line gives the same caption: {caption!r} {expected!r} {done.stderr}")
    check(usage.get("prompt_tokens") == 0, f"the prompt has no tokens: {usage}")
    status, answer = server.post("/api/generate", {"prompt": "", "images": [TWO], "stream": False, "options": {"num_predict": 8, **SAMPLING}})
    check(status == 200 and answer["response"].strip() == expected, f"Ollama's generate: {status} {answer}")
    source = {"type": "base64", "media_type": "image/png", "data": TWO}
    status, answer = server.post("/v1/messages", {"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}], "max_tokens": 8, **SAMPLING})
    check(status == 200 and answer["content"][0]["text"].strip() == expected, f"Anthropic: {status} {answer}")
    for body, part in ((openai(image(TWO), text("what?")), "send one message with one image and no text"), (openai(text("what?")), "image"),
                       (openai(image(TWO), image(ONE)), "several are given")):
        status, answer = server.post("/v1/chat/completions", body)
        check(400 <= status < 500 and part in answer["error"]["message"], f"expected '{part}': {status} {answer}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        with Server(MAKAR, model=make_model("llava", root / "llava")) as server:
            dialects(server, root)
            refusals(server)
        with Server(MAKAR, model=make_model("vit-gpt2-captions", root / "captions")) as server:
            captions(server, root)
        with Server(MAKAR) as server:
            status, answer = server.post("/v1/chat/completions", openai(image(ONE), text("what?")))
            check(status == 400 and "reads only text" in answer["error"]["message"], f"a text model refuses images: {status} {answer}")
        with Server(MAKAR, model=make_model("clip", root / "clip")) as server:
            status, answer = server.post("/v1/embeddings", {"input": ["a cat"]})
            done = subprocess.run([MAKAR, "embed", "-m", str(root / "clip"), "--json", "a cat"], capture_output=True, text=True)
            pairs = zip(answer["data"][0]["embedding"], json.loads(done.stdout)["embedding"], strict=True)
            check(status == 200 and all(abs(a - b) < 1e-7 for a, b in pairs), f"CLIP embeds texts as on the command line: {status}")
            status, answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 2})
            check(400 <= status < 500, f"CLIP generates no text: {status} {answer}")


main()
sys.exit(1 if failures else 0)
