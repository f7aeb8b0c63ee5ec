#!/usr/bin/env python3
"""Compiles the kernels of the other architecture for that target, without linking.

usage: other_isa.py COMPILER [--self-test]        skips compilers that cannot target another machine (exit 77)
"""
import concurrent.futures
import glob
import os
import platform
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
VNNI = [*AVX512, "-mavx512vnni"]
STAND_INS = ["-include", ROOT + "/tests/kernels/stand_ins/instructions.h"]
# Options and files of each set, as in cmake/isa.cmake; NAME_stand_in: for the tests, without its instructions.
SETS = {
    "x86_64": {"avx2": AVX2, "avxvnni": [*AVX2, "-mavxvnni"], "avx512": AVX512, "avx512vnni": VNNI,
               "amx": [*VNNI, "-mamx-tile", "-mamx-int8", "-mamx-bf16"], "avxvnni_stand_in": [*AVX2, *STAND_INS],
               "avx512vnni_stand_in": [*AVX512, *STAND_INS], "amx_stand_in": [*AVX512, *STAND_INS]},
    "aarch64": {"neon": ["-march=armv8.2-a+fp16+dotprod"]},
}
FILES = {"avxvnni": ["quant*", "overlay/*"], "avx512vnni": ["quant*", "overlay/*"], "amx": ["amx/*"],
         "avxvnni_stand_in": ["quant"], "avx512vnni_stand_in": ["quant"], "amx_stand_in": ["amx/*"]}


def command(compiler, target, isa, source):
    """Uses the C library headers of this machine: they differ between the architectures only in what kernels do not use."""
    verbose = subprocess.run([compiler, "-xc++", "-E", "-v", os.devnull], capture_output=True, text=True).stderr
    listed = verbose.split("search starts here:")[-1].split("End of search")[0].split("\n")
    folders = [line.strip() for line in listed if line.startswith(" ") and "clang" not in line]
    return [compiler, f"--target={target}-linux-gnu", "-std=c++20", "-fsyntax-only", "-w", "-I", ROOT + "/src",
            *(word for folder in folders for word in ("-isystem", folder)), *SETS[target][isa],
            f"-DMAKAR_ISA={isa}", f"-DMAKAR_ISA_{isa.removesuffix('_stand_in')}=1", source]


def kernels(isa):
    folder = ROOT + "/src/kernels/cpu/isa/"
    return sorted(path for pattern in FILES.get(isa, ["*"]) for path in glob.glob(folder + pattern + ".cpp"))


def compile_errors(compiler, target, sources):
    """-> the first error of each file that does not compile; sources(isa) lists the files of an instruction set."""
    jobs = [(isa, source) for isa in SETS[target] for source in sources(isa)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda job: subprocess.run(command(compiler, target, *job), capture_output=True, text=True), jobs)
    return [f"{isa}: {next((line for line in run.stderr.splitlines() if ' error: ' in line), source)}"
            for (isa, source), run in zip(jobs, results) if run.returncode]


def main(compiler, self_test):
    target = "aarch64" if platform.machine() in ("x86_64", "amd64") else "x86_64"
    with tempfile.TemporaryDirectory() as folder:
        trial = folder + "/trial.cpp"
        open(trial, "w").write("#include <vector>\nstd::vector<float> v;\n")
        if compile_errors(compiler, target, lambda isa: [trial]):
            print(f"skipped: {compiler} does not compile for {target}")
            return 77
        if self_test:
            open(trial, "w").write("#ifndef MAKAR_ISA_portable\nconstexpr int kTwice = 1, kTwice = 2;\n#endif\n")
            return 0 if compile_errors(compiler, target, lambda isa: [trial]) else 1
    errors = compile_errors(compiler, target, kernels)
    print("\n".join(errors) or f"kernels compile for {', '.join(SETS[target])}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--self-test" in sys.argv))
