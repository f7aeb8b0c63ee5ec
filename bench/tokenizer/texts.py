"""10 MB each of English, code and mixed scripts, created once below build/ from files on this machine."""
import glob
import html
import os
import re
import subprocess
import sys
import tarfile

SIZE = 10_000_000
HANDBOOK = "debian-handbook"  # a book in 26 languages
SCRIPTS = ("ar-MA", "zh-CN", "ru-RU", "ja-JP", "el-GR", "ko-KR", "fa-IR", "zh-TW", "vi-VN", "de-DE")


def english(folder):
    assets = os.environ.get("MAKAR_ASSETS", "../shared/assets")
    books = os.path.join(assets, "train", "classic_books_125.tgz")
    if not os.path.exists(books):
        sys.exit(f"tokenize: {books} is missing; set MAKAR_ASSETS to the folder that has train/classic_books_125.tgz")
    with tarfile.open(books) as archive:
        members = sorted((m for m in archive.getmembers() if m.isfile()), key=lambda m: m.name)
        return [archive.extractfile(m).read().decode("utf-8", "replace") for m in members]


def code(folder):
    """C and C++ headers, Python and JavaScript, alternating."""
    kinds = [sorted(glob.glob(pattern, recursive=True)) for pattern in
             ("/usr/include/**/*.h", "/usr/include/c++/**/*.*", "/usr/lib/python3/**/*.py", folder + "/../peers/node_modules/**/*.ts")]
    parts, size = [], 0
    while any(kinds) and size < SIZE:
        for kind in kinds:
            path = kind.pop(0) if kind else ""
            if os.path.isfile(path) and os.path.getsize(path) < 100_000:
                with open(path, encoding="utf-8", errors="ignore") as file:
                    parts.append(file.read())
                size += len(parts[-1])
    return parts


def mixed(folder):
    """The Debian handbook in ten languages and seven scripts, page by page alternating."""
    if not glob.glob(f"{folder}/{HANDBOOK}*.deb"):
        subprocess.run(["apt-get", "download", "-qq", HANDBOOK], cwd=folder, check=True, stderr=subprocess.DEVNULL)
    if not os.path.isdir(folder + "/usr"):
        subprocess.run(["dpkg", "-x", glob.glob(f"{folder}/{HANDBOOK}*.deb")[0], folder], check=True)
    root = f"{folder}/usr/share/doc/{HANDBOOK}/html"
    lists = [sorted(glob.glob(f"{root}/{language}/*.html")) for language in SCRIPTS]
    pages = [path for turn in zip(*lists) for path in turn]
    parts = []
    for path in pages:
        with open(path, encoding="utf-8") as file:
            body = re.sub(r"(?s)<(script|style).*?</\1>", "", file.read())
        text = html.unescape(re.sub(r"<[^>]*>", "", body))
        parts.append(re.sub(r"[ \t]*\n\s*", "\n", text))
    return parts


def text(name, folder):
    """The path of the text; a source smaller than SIZE is repeated."""
    path = os.path.join(folder, name + ".txt")
    if not os.path.exists(path):
        os.makedirs(folder, exist_ok=True)
        data = "".join({"english": english, "code": code, "mixed": mixed}[name](folder)).replace("\0", "").replace("\r", "")
        data = data.encode()
        if len(data) < SIZE:
            print(f"tokenize: {name} has {len(data)} bytes and is repeated", file=sys.stderr)
        data = (data * (SIZE // len(data) + 1))[:SIZE]
        with open(path, "wb") as file:
            file.write(data.decode("utf-8", "ignore").encode())
    return path
