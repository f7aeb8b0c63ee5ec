#!/usr/bin/env python3
"""Compares decoding and preprocessing with Pillow and a plain reimplementation of the image processors of transformers:
random sizes, formats and settings. Skipped without Pillow.

usage: differential.py TOOL [COUNT]    (TOOL: the program image_pixels)
"""
import array
import hashlib
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile

try:
    from PIL import Image
except ImportError:
    system = "/usr/bin/python3"
    if sys.executable != system and os.path.exists(system):  # python3-pil belongs to the system's Python
        os.execv(system, [system, *sys.argv])
    print("no Pillow")
    sys.exit(77)

TOOL = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 24
CLIP = ([0.48145466, 0.4578275, 0.40821073], [0.26862954, 0.26130258, 0.27577711])


def picture(mode, width, height):
    bands = {"P": 1}.get(mode, len(mode))
    base = Image.frombytes("L", (7, 5), bytes(random.randrange(256) for _ in range(35)))
    parts = [base.rotate(90 * b).resize((width, height), Image.BICUBIC) for b in range(bands)]
    image = parts[0] if bands == 1 else Image.merge(mode, parts)
    return image.quantize(20) if mode == "P" else image


def settings():
    kind = random.choice(["CLIPImageProcessor", "ViTImageProcessor", "DeiTImageProcessor", "LlavaImageProcessor"])
    config = {"image_processor_type": kind, "resample": random.randrange(6)}
    side = random.randrange(5, 60)
    if kind.startswith(("CLIP", "Llava")):
        config["size"] = random.choice([side, {"shortest_edge": side}])
    else:
        config["size"] = random.choice([side, {"height": side, "width": side + 3}])
    config["do_center_crop"] = random.random() < 0.5
    config["crop_size"] = {"height": random.randrange(4, 70), "width": random.randrange(4, 70)}
    config["do_normalize"] = random.random() < 0.8
    if kind.startswith("Llava"):
        config["do_pad"] = random.random() < 0.5
    if random.random() < 0.5:
        config["image_mean"], config["image_std"] = CLIP
    else:
        config["image_mean"], config["image_std"] = [0.5] * 3, [0.5, 0.4, 0.3]
    return config


def to_f32(value):
    return array.array("f", [value])[0]


def crop(image, height, width):
    """center_crop of transformers: pads with zeros, more of them above and to the left."""
    top, left = (image.height - height) // 2, (image.width - width) // 2
    page_height, page_width = max(height, image.height), max(width, image.width)
    down, right = math.ceil((page_height - image.height) / 2), math.ceil((page_width - image.width) / 2)
    page = Image.new("RGB", (page_width, page_height))
    page.paste(image, (right, down))
    top, left = top + down, left + right
    return page.crop((left, top, left + width, top + height))


def reference(path, config):
    image = Image.open(path).convert("RGB")
    if config.get("do_pad") and image.width != image.height:
        side = max(image.size)
        page = Image.new("RGB", (side, side), tuple(int(m * 255) for m in config["image_mean"]))
        page.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        image = page
    size = config["size"]
    clip = config["image_processor_type"].startswith(("CLIP", "Llava"))
    if isinstance(size, int):
        size = {"shortest_edge": size} if clip else {"height": size, "width": size}
    if "shortest_edge" in size:
        short, long = min(image.size), max(image.size)
        other = int(size["shortest_edge"] * long / short)
        new = (size["shortest_edge"], other) if image.width <= image.height else (other, size["shortest_edge"])
    else:
        new = (size["width"], size["height"])
    image = image.resize(new, config["resample"])
    if config["do_center_crop"]:
        image = crop(image, config["crop_size"]["height"], config["crop_size"]["width"])
    values = array.array("f")
    for band in range(3):
        table = []
        for v in range(256):
            x = to_f32(v * (1 / 255))
            if config["do_normalize"]:
                x = to_f32(to_f32(x - to_f32(config["image_mean"][band])) / to_f32(config["image_std"][band]))
            table.append(x)
        values.extend(table[v] for v in image.getdata(band))
    return f"{image.width}x{image.height} {hashlib.sha256(values.tobytes()).hexdigest()}"


def main():
    random.seed(5)
    differing = compared = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for i in range(COUNT):
            config = settings()
            (folder / "c.json").write_text(json.dumps(config))
            paths = []
            for j in range(8):
                mode, kind = random.choice([("RGB", "jpg"), ("L", "jpg"), ("CMYK", "jpg"), ("RGB", "png"), ("RGBA", "png"),
                                            ("P", "png"), ("LA", "png"), ("RGB", "webp"), ("RGBA", "webp")])
                image = picture(mode, random.randrange(1, 200), random.randrange(1, 200))
                options = {"quality": random.randrange(20, 100)} if kind != "png" else {}
                if kind == "jpg":
                    options.update(subsampling=random.randrange(3), progressive=random.random() < 0.5)
                paths.append(folder / f"{j}.{kind}")
                image.save(paths[-1], **options)
            result = subprocess.run([TOOL, folder / "c.json", *paths], capture_output=True, text=True, check=True)
            for path, line in zip(paths, result.stdout.splitlines(), strict=True):
                compared += 1
                expected = reference(path, config)
                if expected != line:
                    differing += 1
                    print(f"{path.name} {Image.open(path).size} {Image.open(path).mode} {config}: {line}, expected {expected}")
    print(f"{compared} images, {differing} differ")
    return 1 if differing else 0


sys.exit(main())
