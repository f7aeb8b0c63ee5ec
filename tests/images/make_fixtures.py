#!/usr/bin/env python3
"""Makes tests/images/fixtures with Pillow: small images of every kind, and the SHA-256 of their RGB bytes in the
original size and resized. Also the seeds of fuzz/corpus/images_decode.

usage: make_fixtures.py    (needs python3-pil; the files in the repository were made with Pillow 9.4.0)
"""
import hashlib
import json
import pathlib
import random
import struct

from PIL import Image

FIXTURES = pathlib.Path(__file__).parent / "fixtures"
CORPUS = FIXTURES.parents[2] / "fuzz/corpus/images_decode"
SIZES = [(10, 10), (40, 9), (7, 33), (23, 17)]


def picture(mode, width=23, height=17, seed=1):
    """Smooth shapes with some noise, so that compression and filters have work to do."""
    random.seed(seed)
    bands = len(mode) if mode in ("L", "LA", "RGB", "RGBA", "CMYK") else 1
    data = bytearray()
    for y in range(height):
        for x in range(width):
            for b in range(bands):
                value = (x * (5 + b) + y * (9 - 2 * b) + (60 if (x - 11) ** 2 + (y - 8) ** 2 < 30 else 0)) % 256
                data.append(min(255, max(0, value + random.randint(-12, 12))))
    return Image.frombytes(mode, (width, height), bytes(data))


def exif_rotated():
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: rotate by 90 degrees to show
    return exif


def files():
    rgb = picture("RGB")
    yield "rgb.png", rgb, {}
    yield "rgba.png", picture("RGBA"), {}
    yield "grey.png", picture("L"), {}
    yield "grey_alpha.png", picture("LA"), {}
    yield "palette.png", rgb.quantize(13), {}
    yield "palette_clear.png", rgb.quantize(5), {"transparency": 2}
    yield "bits.png", picture("L").convert("1"), {}
    yield "grey16.png", Image.frombytes("I;16", (8, 4), struct.pack("<32H", *(i * 37 for i in range(32)))), {}
    yield "gamma.png", rgb, {"pnginfo": gamma()}
    yield "rgb.jpg", rgb, {"quality": 85}
    yield "subsampled.jpg", picture("RGB", 50, 37), {"quality": 60, "subsampling": 2}
    yield "progressive.jpg", picture("RGB", 40, 31), {"quality": 75, "progressive": True}
    yield "grey.jpg", picture("L"), {"quality": 80}
    yield "cmyk.jpg", picture("CMYK"), {"quality": 90}
    yield "rotated.jpg", rgb, {"quality": 85, "exif": exif_rotated()}
    yield "rgb.webp", rgb, {"quality": 80}
    yield "rgba.webp", picture("RGBA"), {"quality": 70}
    yield "lossless.webp", picture("RGBA"), {"lossless": True, "exact": True}
    yield "animated.webp", rgb, {"save_all": True, "append_images": [picture("RGB", seed=2)], "duration": 50}


def gamma():
    from PIL import PngImagePlugin

    info = PngImagePlugin.PngInfo()
    info.add(b"gAMA", struct.pack(">I", 100000))
    return info


def digest(image):
    return hashlib.sha256(image.tobytes()).hexdigest()


def main():
    expected = {}
    for folder in (FIXTURES, CORPUS):
        folder.mkdir(parents=True, exist_ok=True)
    for name, image, options in files():
        image.save(FIXTURES / name, **options)
        (CORPUS / name).write_bytes((FIXTURES / name).read_bytes())
        decoded = Image.open(FIXTURES / name).convert("RGB")
        # One digest per filter, over the sizes.
        resized = [hashlib.sha256(b"".join(decoded.resize(s, f).tobytes() for s in SIZES)).hexdigest() for f in range(6)]
        expected[name] = {"size": decoded.size, "rgb": digest(decoded), "resized": resized}
    (FIXTURES / "expected.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main()
