"""The golden models that read images, with a tokenizer of characters and a chat template; and small PNG files."""
import json
import pathlib
import shutil
import struct
import zlib

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden/models"
MEAN, DEVIATION = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGE_ID = 159
TEMPLATE = ("{% for m in messages %}{{ m.role.upper() + ': ' }}"
            "{% for part in m.content | selectattr('type', 'equalto', 'image') %}{{ '<image>\n' }}{% endfor %}"
            "{% for part in m.content | selectattr('type', 'equalto', 'text') %}{{ part.text + ' ' }}{% endfor %}{% endfor %}"
            "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}")


def tokenizer(model):
    """A token per character: ids from 3, in the order of their codes. CLIP's texts have a start and an end."""
    letters = [chr(c) for c in range(33, 127)] + ["\u0120", "\u010a"]
    vocab = {"<pad>": 0, "<s>": 1, "</s>": 2, **{letter: 3 + i for i, letter in enumerate(letters)}}
    special = {0: "<pad>", 1: "<s>", 2: "</s>", **({IMAGE_ID: "<image>"} if model == "llava" else {})}
    around = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    if model == "clip":
        around.append({"SpecialToken": {"id": "</s>", "type_id": 0}})
    known = {name: {"id": name, "ids": [id], "tokens": [name]} for id, name in special.items() if id in (1, 2)}
    return {"version": "1.0",
            "added_tokens": [{"id": id, "content": name, "special": True, "normalized": False} for id, name in special.items()],
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False},
            "post_processor": {"type": "TemplateProcessing", "single": around, "pair": around, "special_tokens": known},
            "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocab, "merges": []}}


def ids_of(text):
    ids = {chr(c): 3 + i for i, c in enumerate(range(33, 127))} | {" ": 97, "\n": 98}
    return [ids[c] for c in text]


def make_model(name, folder):
    """Copies golden/models/NAME: clip, llava or vit-gpt2-captions."""
    shutil.copytree(GOLDEN / name, folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(name)))
    fields = {"bos_token": "<s>", "eos_token": "</s>"}
    if name == "llava":
        fields["chat_template"] = TEMPLATE
    (folder / "tokenizer_config.json").write_text(json.dumps(fields))
    return folder


def pattern(width, height, seed):
    """RGB rows of an image."""
    return [[((x * (7 + seed) + y * 3) % 256, (y * (11 + seed)) % 256, (x * y + 40 * seed) % 256) for x in range(width)]
            for y in range(height)]


def png(rows):
    """The bytes of an RGB image."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)
    lines = b"".join(b"\0" + bytes(v for pixel in row for v in pixel) for row in rows)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def to_f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def pixels(rows, mean=MEAN, deviation=DEVIATION):
    """pixel_values of an image that already has the size of the model's input, [3, height, width], as little-endian bytes."""
    out = []
    for c in range(3):
        for row in rows:
            for pixel in row:
                scaled = to_f32(pixel[c] * (1 / 255))
                out.append((to_f32(scaled - to_f32(mean[c]))) / to_f32(deviation[c]))
    return struct.pack(f"<{len(out)}f", *out)
