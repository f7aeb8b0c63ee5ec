"""Shared by the benchmarks on words and data: the assets, the common options, and the books as one text."""
import argparse
import os
import re
import tarfile


HERE = os.path.dirname(os.path.abspath(__file__))
ASSETS = os.environ.get("MAKAR_ASSETS", os.path.join(HERE, "../../../shared/assets"))


def parser(doc):
    out = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    out.add_argument("--makar", default=os.path.join(HERE, "../../build/makar"))
    out.add_argument("--threads", type=int, default=2)
    out.add_argument("--json", action="store_true")
    return out


def unpack(name, folder):
    with tarfile.open(f"{ASSETS}/{name}") as tar:
        tar.extractall(folder)


def book_texts():
    """The texts of the assets' 125 books, in the order of their file names."""
    with tarfile.open(f"{ASSETS}/train/classic_books_125.tgz") as tar:
        for member in sorted((m for m in tar.getmembers() if m.name.endswith(".md")), key=lambda m: m.name):
            yield tar.extractfile(member).read().decode(errors="replace")


def write_books(path, megabytes, plain):
    """The books in lower case: letters only (`plain`), or with blanks around punctuation, as in SST-2 and TREC."""
    left = int(megabytes * 1e6)
    with open(path, "w") as out:
        for text in book_texts():
            text = text.lower()
            text = re.sub(r"[^a-z\n]+", " ", text) if plain else re.sub(r"([^\w\s])", r" \1 ", text)
            out.write(text[:left])
            left -= len(text)
            if left <= 0:
                return
