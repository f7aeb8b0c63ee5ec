#!/usr/bin/env python3
"""Compares preprocessing with the image processors of transformers themselves (those based on Pillow): random images and
settings, bit for bit. Needs transformers, numpy and Pillow.

usage: check_processors.py TOOL [COUNT]    (TOOL: build/image_pixels)
"""
import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import transformers
from PIL import Image


def processor_class(name):
    """The class that computes with Pillow; newer versions call it NamePil, older ones just Name."""
    return getattr(transformers, name + "Pil", None) or getattr(transformers, name)


def settings():
    side = random.randrange(8, 64)
    kind = random.choice(["CLIPImageProcessor", "ViTImageProcessor", "DeiTImageProcessor"])
    options = {"resample": random.choice([2, 3])}
    if kind == "CLIPImageProcessor":
        options.update(size={"shortest_edge": side}, crop_size={"height": side - 4, "width": side + random.randrange(5)})
    else:
        options.update(size={"height": side, "width": side + 3})
    if kind == "DeiTImageProcessor":
        options.update(crop_size={"height": side - 5, "width": side - 5})
    return processor_class(kind)(**options)


def main():
    random.seed(9)
    tool, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for i in range(count):
            image_processor = settings()
            image_processor.save_pretrained(folder)
            config = json.loads((folder / "preprocessor_config.json").read_text())
            config["image_processor_type"] = config["image_processor_type"].removesuffix("Pil")
            (folder / "c.json").write_text(json.dumps(config))
            mode = random.choice(["RGB", "L", "RGBA"])
            shape = (random.randrange(4, 150), random.randrange(4, 150), len(mode))
            values = np.random.default_rng(i).integers(0, 256, shape, dtype=np.uint8)
            image = Image.fromarray(values.squeeze(-1) if mode == "L" else values, mode)
            image.save(folder / "x.png")
            expected = np.asarray(image_processor(Image.open(folder / "x.png").convert("RGB"), return_tensors="np")["pixel_values"][0], dtype="<f4")
            line = f"{expected.shape[2]}x{expected.shape[1]} {hashlib.sha256(expected.tobytes()).hexdigest()}"
            got = subprocess.run([tool, folder / "c.json", folder / "x.png"], capture_output=True, text=True, check=True).stdout.strip()
            if got != line:
                differing += 1
                print(f"{config}: {got}, expected {line}")
    print(f"transformers {transformers.__version__}: {count} images, {differing} differ")
    return 1 if differing else 0


sys.exit(main())
