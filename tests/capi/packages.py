#!/usr/bin/env python3
"""The installed library as another project finds it, and the Debian package.

usage: packages.py MAKAR BUILD [--library]    BUILD: the build folder; --library: without the Debian package
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/cli"), str(ROOT / "tests/serve")]
from checks import check, failures  # noqa: E402

MAKAR, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
from serving import make_model  # noqa: E402


def run(*arguments, **options):
    result = subprocess.run([str(w) for w in arguments], capture_output=True, text=True, timeout=900, **options)
    check(result.returncode == 0, f"{arguments}: {result.stdout[-400:]} {result.stderr[-800:]}")
    return result


def library(root):
    """cmake --install, then the examples built as a separate project."""
    prefix = root / "prefix"
    run("cmake", "--install", BUILD, "--prefix", prefix, "--component", "library")
    check((prefix / "include/makar.h").is_file() and not (prefix / "include/makar/cli").exists(), "headers of the library only")
    compiler = next(line.split("=", 1)[1] for line in (BUILD / "CMakeCache.txt").read_text().splitlines()
                    if line.startswith("CMAKE_CXX_COMPILER:"))
    run("cmake", "-S", ROOT / "examples", "-B", root / "examples", f"-DCMAKE_PREFIX_PATH={prefix}", "-DEXAMPLES_ALL=OFF",
        f"-DCMAKE_CXX_COMPILER={compiler}")
    if failures:
        return
    run("cmake", "--build", root / "examples")
    model = make_model(root / "model")
    for name in ("generate", "generate_c"):
        done = run(root / f"examples/example_{name}", model, "hello")
        check(done.stdout.strip(), f"{name}: {done}")
    python = next(prefix.rglob("makar.py")).parent
    done = run(sys.executable, "-c", f"import makar; print(makar.Model({str(model)!r}).generate('hello', max_tokens=5))",
               env=dict(os.environ, PYTHONPATH=str(python), MAKAR_LIBRARY=str(next(prefix.rglob("libmakar.so")))))
    check(done.stdout.strip(), "the installed Python module generates text")


def debian(root):
    """make deb with the existing build; the program of the unpacked package runs."""
    if not all(map(shutil.which, ("dpkg-deb", "dpkg-shlibdeps"))):
        print("skipped: no dpkg-dev")
        return
    clone = root / "clone"
    clone.mkdir()
    for name in ("Makefile", "LICENSE", "scripts", "tasks", "recipes", "models"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, clone / name)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, clone / name)
    (clone / "build").mkdir()
    os.symlink(MAKAR, clone / "build/makar")
    run("make", "-o", "build", "deb", cwd=clone)
    packages = list((clone / "build").glob("makar_*.deb"))
    check(len(packages) == 1, f"one package: {packages}")
    if failures:
        return
    run("dpkg-deb", "-x", packages[0], root / "unpacked")
    fields = run("dpkg-deb", "-f", packages[0], "Package", "Version", "Depends").stdout
    check("Package: makar" in fields and "libc6" in fields and "libfmt" in fields, f"the package's fields: {fields}")
    out = run(root / "unpacked/usr/bin/makar", "--version").stdout
    check(out.startswith("makar "), f"the unpacked program: {out}")
    check((root / "unpacked/usr/share/man/man1/makar.1.gz").is_file(), "man pages are compressed")
    check((root / "unpacked/usr/share/makar/tasks").is_dir(), "the tasks are installed")
    names = run("dpkg-deb", "-c", packages[0]).stdout
    check("root/root" in names, "files belong to root")


with tempfile.TemporaryDirectory() as folder:
    if "--library" not in sys.argv:
        debian(pathlib.Path(folder))
    library(pathlib.Path(folder))
sys.exit("\n".join(failures) if failures else 0)
