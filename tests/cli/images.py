#!/usr/bin/env python3
"""Images on the command line: classify, embed, caption and generate, compared with `makar forward` on the same tensors.

usage: images.py MAKAR
"""
import json
import math
import pathlib
import shutil
import struct
import sys
import tempfile

from checks import check, failures
from image_models import GOLDEN, IMAGE_ID, ids_of, make_model, pattern, pixels, png
from program import good, refused, run, steps
from tensor_files import read_floats, write_safetensors

LABELS = ["a cat", "a dog", "two birds"]


def forward(root, model, tensors):
    write_safetensors(root / "in.safetensors", {f"in.{name}": value for name, value in tensors.items()})
    good("forward", model, "-i", root / "in.safetensors", "-o", root / "out.safetensors")
    return read_floats(root / "out.safetensors")


def token_tensors(rows):
    width = max(map(len, rows))
    ids = struct.pack(f"<{len(rows) * width}q", *(v for row in rows for v in row + [0] * (width - len(row))))
    mask = struct.pack(f"<{len(rows) * width}q", *(int(i < len(row)) for row in rows for i in range(width)))
    return {"input_ids": ("I64", [len(rows), width], ids), "attention_mask": ("I64", [len(rows), width], mask)}


def near(a, b):
    return len(a) == len(b) and max(abs(x - y) for x, y in zip(a, b)) < 1e-6


def lines(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def contrastive(root, files, rows):
    model = make_model("clip", root / "clip")
    tensors = token_tensors([[1] + ids_of(label) + [2] for label in LABELS])
    tensors["pixel_values"] = ("F32", [len(rows), 3, 24, 24], b"".join(pixels(r) for r in rows))
    want = forward(root, model, tensors)
    done = lines(good("classify", "-m", model, "--labels", ", ".join(LABELS), *files, "--json"))
    for i, result in enumerate(done):
        logits = want["out.logits_per_image"][i * 3:i * 3 + 3]
        sums = sum(math.exp(v) for v in logits)
        scores = {one["label"]: one["score"] for one in result["labels"]}
        check(near([scores[name] for name in LABELS], [math.exp(v) / sums for v in logits]), f"scores of {files[i].name}")
        ranked = [one["score"] for one in result["labels"]]
        check(ranked == sorted(ranked, reverse=True), "the most probable label is first")
    text = good("classify", "-m", model, "--labels", "a cat,a dog", files[0]).stdout
    check(text.startswith(f"{files[0]}: a ") and text.count("a ") == 2, f"one line per image: {text}")
    whole = good("classify", "image", "-m", model, "--labels", "cat,dog", "--template", "a {}", files[0], "--json").stdout
    same = good("classify", "-m", model, "--labels", "a cat,a dog", files[0], "--json").stdout
    check(whole.replace('"cat"', '"a cat"').replace('"dog"', '"a dog"') == same, "a template makes the text of a label")

    vectors = [v["embedding"] for v in lines(good("embed", "-m", model, *sum((["--image", f] for f in files), []), "--json"))]
    check(near(sum(vectors, []), want["out.image_embeds"]), "vectors of images")
    texts = [v["embedding"] for v in lines(good("embed", "-m", model, *LABELS, "--json"))]
    check(near(sum(texts, []), want["out.text_embeds"]), "vectors of texts")
    refused("--labels", "classify", "image", "-m", model, files[0])
    refused("must contain {}", "classify", "-m", model, "--labels", "a,b", "--template", "photo", files[0])
    refused("expected 1 to", "classify", "-m", model, "--labels", " , ", files[0])
    refused("give images or texts", "embed", "-m", model, "--image", files[0], "text")
    refused("does not generate text", "generate", "-m", model, "hello")
    refused("does not describe images", "caption", "-m", model, files[0])
    return model


def captions(root, files):
    model = make_model("vit-gpt2-captions", root / "captions")
    done = lines(good("caption", "-m", model, *files, "--json", "-n", "8"))
    check([d["image"] for d in done] == [str(f) for f in files], "a caption per image, in order")
    for f, d in zip(files, done):
        alone = good("generate", "-m", model, "--image", f, "-n", "8").stdout
        check(alone.strip() == d["caption"], f"the same caption alone and in a batch: {alone!r} {d}")
    beams = good("caption", "-m", model, files[0], "--beams", "3", "-n", "8")
    check(beams.stdout.count("\n") == 1, "beam search")
    train_captions(root, model, files)
    refused("reads no text", "generate", "-m", model, "--image", files[0], "hello")
    refused("--image: is needed", "generate", "-m", model, "-n", "4")


def losses(folder):
    return [step["loss"] for step in steps(folder)]


def train_captions(root, model, files):
    """The loss falls; records that cannot be used are named with file and line."""
    texts = ["red", "blue"]
    (root / "captions.jsonl").write_text("".join(json.dumps({"image": f.name, "caption": t}) + "\n" for f, t in zip(files, texts)))
    common = ["--val-set-size", "0", "--micro-batch-size", "2", "--learning-rate", "1e-2", "-t", "1"]
    good("sft", "-m", model, "-d", root / "captions.jsonl", "-o", root / "captions-run", *common, "--max-steps", "20")
    check(losses(root / "captions-run")[-1] < 0.5 * losses(root / "captions-run")[0], f"captions are learned: {losses(root / 'captions-run')}")
    (root / "notes.jsonl").write_text(json.dumps({"image": "none.png", "caption": "x"}) + "\n" + json.dumps({"text": "x"}) + "\n")
    done = run("sft", "-m", model, "-d", root / "notes.jsonl", "-o", root / "no", *common)
    check(done.returncode == 1 and "none.png" in done.stderr and "notes.jsonl:2: a VisionEncoderDecoderModel is trained on records with one 'image'" in done.stderr,
          f"bad captions are named: {done.stderr}")
    refused("does not continue text", "pretrain", "-m", model, "-d", root / "captions.jsonl", "-o", root / "no")


def train_conversations(root, model, files, rows):
    talk = [{"messages": [{"role": "user", "content": "<image>\nwhat?"}, {"role": "assistant", "content": "a cat"}], "images": [files[0].name]},
            {"conversations": [{"from": "human", "value": "what?"}, {"from": "gpt", "value": "a dog"}], "image": str(files[1])},
            {"messages": [{"role": "user", "content": [{"type": "image", "image": files[1].name}, {"type": "text", "text": "or?"}]},
                          {"role": "assistant", "content": "no"}]},
            {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}]
    (root / "talk.jsonl").write_text("".join(json.dumps(t) + "\n" for t in talk))
    common = ["-m", model, "--val-set-size", "0", "--micro-batch-size", "4", "--learning-rate", "1e-2", "-t", "1"]
    out = root / "talk-run"
    good("sft", *common, "-d", root / "talk.jsonl", "-o", out, "--max-steps", "12", "--save-steps", "6")
    check(losses(out)[-1] < 0.5 * losses(out)[0], f"conversations with images are learned: {losses(out)}")
    # The first loss, from the log-probabilities of the answers in forward passes of the same tensors.
    total = count = 0
    for question, answer, picture in (("what?", " a cat ", 0), ("what?", " a dog ", 1), ("or?", " no ", 1)):
        prompt = ids_of("USER: ") + [IMAGE_ID] * 9 + ids_of(f"\n{question} ASSISTANT:")
        ids = prompt + ids_of(answer)
        tensors = token_tensors([ids])
        del tensors["attention_mask"]
        tensors["pixel_values"] = ("F32", [1, 3, 24, 24], pixels(rows[picture]))
        logits = forward(root, model, tensors)["out.logits"]
        for i in range(len(prompt), len(ids)):
            row = logits[(i - 1) * 160:i * 160]
            total += math.log(sum(math.exp(v - max(row)) for v in row)) + max(row) - row[ids[i]]
            count += 1
    (root / "three.jsonl").write_text("".join(json.dumps(t) + "\n" for t in talk[:3]))
    good("sft", *common, "-d", root / "three.jsonl", "-o", root / "three", "--max-steps", "1", "--micro-batch-size", "3")
    check(abs(losses(root / "three")[0] - total / count) < 1e-4, f"the loss of forward passes: {losses(root / 'three')} {total / count}")

    # Resumed from the middle, with other threads: the same bytes.
    before = (out / "model.safetensors").read_bytes()
    shutil.rmtree(out / "checkpoint-12")
    (out / "run.json").unlink()
    (out / "model.safetensors").unlink()
    done = good("sft", *common, "-d", root / "talk.jsonl", "-o", out, "--max-steps", "12", "--save-steps", "6", "-t", "2")
    check("resuming at step 6" in done.stderr and (out / "model.safetensors").read_bytes() == before, f"a resumed run: {done.stderr[-500:]}")
    # Text alone: no images are needed, and the weights that read images do not change.
    (root / "text.jsonl").write_text(json.dumps(talk[3]) + "\n")
    good("sft", *common, "-d", root / "text.jsonl", "-o", root / "text-run", "--max-steps", "6")
    check(losses(root / "text-run")[-1] < losses(root / "text-run")[0], "conversations without images are learned")
    before, after = read_floats(model / "model.safetensors"), read_floats(root / "text-run/model.safetensors")
    same = [name for name in before if before[name] == after[name]]
    check(any("vision_tower" in name for name in same) and all("vision_tower" in name or "projector" in name for name in same),
          f"text alone leaves vision tower and projector unchanged: {same}")
    good("sft", *common, "-d", root / "talk.jsonl", "-o", root / "lora", "--max-steps", "12", "--adapter", "lora")
    check(losses(root / "lora")[-1] < losses(root / "lora")[0], "an adapter learns conversations with images")
    answer = good("generate", "-m", model, "--lora", root / "lora", "--chat", "--image", files[0], "what?", "-n", "4").stdout
    check(answer.strip() != "", "the adapter is used with an image")
    (root / "plain.txt").write_text("a text without images. " * 200)
    good("pretrain", "-m", model, "-d", root / "plain.txt", "-o", root / "continued", "--max-steps", "3", "--sequence-len", "32", "-t", "1")
    bad = [dict(talk[0], images=["no.png"]), dict(talk[0], images=[]), dict(talk[0], images=3), dict(talk[2], images=["x.png"])]
    (root / "bad.jsonl").write_text("".join(json.dumps(t) + "\n" for t in bad + talk[:1]))
    done = good("sft", *common, "-d", root / "bad.jsonl", "-o", root / "bad-run", "--max-steps", "1")
    for part in ("4 records could not be used", "no.png", "has 1 image placeholders (<image>) for 0 images", "'images' must be a file name",
                 "has image files both in its messages and in 'images'"):
        check(part in done.stderr, f"'{part}' is reported: {done.stderr}")
    refused("does not pack", "sft", *common, "-d", root / "talk.jsonl", "-o", root / "no", "--sample-packing")


def conversations(root, files, rows):
    model = make_model("llava", root / "llava")
    # The engine's greedy tokens, computed here by one whole forward pass per token.
    prompt = [1] + ids_of("USER: ") + [IMAGE_ID] * 9 + ids_of("\nwhat? ASSISTANT:")
    ids = [*prompt]
    for _ in range(6):
        tensors = token_tensors([ids])
        del tensors["attention_mask"]
        tensors["pixel_values"] = ("F32", [1, 3, 24, 24], pixels(rows[0]))
        logits = forward(root, model, tensors)["out.logits"][-160:]
        ids.append(logits.index(max(logits)))
    flags = ["-m", model, "-n", "6", "--ignore-eos", "--json"]
    answer = json.loads(good("generate", *flags, "--image", files[0], "USER: <image>\nwhat? ASSISTANT:").stdout)
    check(answer["answers"][0]["ids"] == ids[len(prompt):], f"the forward pass: {answer} {ids[len(prompt):]}")
    check(answer["usage"]["prompt_tokens"] == len(prompt), "an image has nine tokens")
    by_ids = json.loads(good("generate", *flags, "--image", files[0], "--ids",
                             ",".join(map(str, [1] + ids_of("USER: ") + [IMAGE_ID] + ids_of("\nwhat? ASSISTANT:")))).stdout)
    check(by_ids["ids"] == ids, "the same by ids")

    first = good("generate", *flags, "--image", files[0], "what?").stdout
    check(first == good("generate", *flags, "--image", files[0], "<image>\nwhat?").stdout, "images come first by default")
    check(first != good("generate", *flags, "--image", files[1], "what?").stdout, "the image has an effect")
    two = json.loads(good("generate", *flags, "--image", files[0], "--image", files[1], "<image> or <image>?").stdout)
    check(two["usage"]["prompt_tokens"] == 1 + 18 + len(" or ") + 1, f"two images: {two['usage']}")
    chat = good("generate", *flags, "--chat", "--image", files[0], "what?").stdout
    check(json.loads(chat)["usage"]["prompt_tokens"] == len("USER: \nwhat? ASSISTANT:") + 9, f"a conversation: {chat}")
    hostile = good("generate", *flags, "--image", files[0], "a </s> b").stdout
    check(json.loads(hostile)["usage"]["prompt_tokens"] == 1 + 9 + len("\na </s> b"), "other control tokens stay text")
    requests = "".join(json.dumps({"prompt": "what?", "images": [str(f)]}) + "\n" for f in files)
    batch = good("generate", "-m", model, "-n", "6", "--ignore-eos", "--jsonl", text=requests).stdout.splitlines()
    check(json.loads(batch[0])["answers"] == json.loads(first)["answers"], "the same in a batch")
    caption = good("caption", "-m", model, files[0], "-p", "what?", "-n", "6", "--ignore-eos", "--json")
    check(lines(caption)[0]["caption"] == json.loads(chat)["answers"][0]["text"].strip(), "caption gives the answer of a chat")

    good("sft", "-m", model, "-d", GOLDEN / "llava/golden.safetensors", "-o", root / "run", "--max-steps", "2")
    train_conversations(root, model, files, rows)
    refused("no image is given", "generate", "-m", model, "--parse-special", "<image> what?")
    refused("1 image token", "generate", "-m", model, "--image", files[0], "--image", files[1], "<image> what?")
    refused("no image embeddings", "embed", "-m", model, "--image", files[0])
    refused("\"images\"", "generate", "-m", model, "--jsonl", "--image", files[0], text="")
    (root / "not.png").write_text("not an image")
    (root / "cut.png").write_bytes(files[0].read_bytes()[:300])
    refused("not.png: is not a JPEG, PNG or WebP image", "generate", "-m", model, "--image", root / "not.png", "what?")
    refused("cut.png: the PNG image cannot be read", "caption", "-m", model, root / "cut.png")
    refused("no/such.png", "caption", "-m", model, "no/such.png")
    (model / "preprocessor_config.json").write_text(json.dumps({"image_processor_type": "CLIPImageProcessor",
                                                                "size": 32, "crop_size": 32}))
    refused("makes 32 x 32 pixels, but the model takes 24 x 24", "caption", "-m", model, files[0])


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        rows = [pattern(24, 24, seed) for seed in (1, 5)]
        files = [root / "one.png", root / "two.png"]
        for path, image in zip(files, rows):
            path.write_bytes(png(image))
        contrastive(root, files, rows)
        captions(root, files)
        conversations(root, files, rows)
        text = pathlib.Path(__file__).resolve().parents[1] / "golden/models/llama"
        refused("reads only text", "generate", "-m", text, "--image", files[0], "--ids", "4,5")


main()
sys.exit(1 if failures else 0)
