#!/usr/bin/env python3
"""Broken and malicious data: errors with file and line, bounded memory; on a full disk only the new checkpoint is lost.

usage: hostile_data.py MAKAR
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from checks import check, failures

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"

# AddressSanitizer keeps freed memory in a quarantine: make it small.
os.environ.setdefault("ASAN_OPTIONS", "quarantine_size_mb=1:thread_local_quarantine_size_kb=16")
# Runs the program; prints its peak memory in MiB and returns its exit code.
MEASURE = ("import resource, subprocess, sys\n"
           "code = subprocess.run(sys.argv[1:]).returncode\n"
           "print('peak memory', resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, file=sys.stderr)\n"
           "sys.exit(code)")


def run(makar, *words, **more):
    return subprocess.run([sys.executable, "-c", MEASURE, makar, *map(str, words)], capture_output=True, text=True, errors="replace",
                          timeout=900, **more)


def memory(done):
    return int(done.stderr.rsplit("peak memory", 1)[1])


def reports(done, *parts):
    text = done.stdout + done.stderr
    return all(part in text for part in parts) and "internal error" not in text and done.returncode in (0, 1, 2)


def records(makar, folder, base, bert):
    """Files with a bad record and the location that the warning must name; the good record is still trained on."""
    good = json.dumps({"messages": [{"role": "user", "content": "a b"}, {"role": "assistant", "content": "b a"}]}) + "\n"
    cases = {
        "nul.jsonl": (b"\x00\x00\x00\n" + good.encode(), "nul.jsonl:1"),
        "utf8.jsonl": (good.encode() + b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}\n', "utf8.jsonl:2"),
        "broken.jsonl": (good.encode() + b'{"messages": [\n', "broken.jsonl:2"),
        "schema.jsonl": (good.encode() + b'{"colour": "blue", "size": 3}\n', "schema.jsonl:2"),
        "types.jsonl": (good.encode() + b'{"messages": "hello"}\n', "types.jsonl:2"),
        "deep.jsonl": (good.encode() + b"[" * 100000 + b"\n", "deep.jsonl:2"),
    }
    for name, (data, place) in cases.items():
        (folder / name).write_bytes(data)
        done = run(makar, "sft", "-m", base, "-d", folder / name, "--val-set-size", 0, "--max-steps", 1, "--sequence-len", 128, "-o", folder / f"run-{name}")
        check(done.returncode == 0 and reports(done, place, "1 record could not be used"), f"{name}: {done.returncode} {done.stderr[-400:]}")
    for name, data, part in (("empty.jsonl", b"", "no conversation"), ("only.jsonl", b"{}\n", "no conversation"),
                             ("cut.jsonl.gz", b"\x1f\x8b\x08\x00\x00\x00", "cut.jsonl.gz")):
        (folder / name).write_bytes(data)
        done = run(makar, "sft", "-m", base, "-d", folder / name, "--max-steps", 1, "-o", folder / "no")
        check(done.returncode == 1 and reports(done, part), f"{name}: {done.returncode} {done.stderr[-400:]}")
    # Labels: a class that only the validation data has; labels of other types.
    (folder / "labels.jsonl").write_text("".join(json.dumps({"text": "a b", "label": i % 2}) + "\n" for i in range(20)))
    (folder / "held.jsonl").write_text(json.dumps({"text": "a b", "label": 7}) + "\n" + json.dumps({"text": "a b", "label": 1}) + "\n")
    done = run(makar, "classify", "train", "-m", bert, "-d", folder / "labels.jsonl", "--val-datasets", folder / "held.jsonl", "--max-steps", 1, "-o", folder / "run-labels")
    check(reports(done, "held.jsonl:1"), f"a label out of range: {done.returncode} {done.stderr[-400:]}")
    (folder / "bad-labels.jsonl").write_text("".join(json.dumps({"text": "a b", "label": v}) + "\n" for v in ([1], {"x": 2}, None)))
    done = run(makar, "classify", "train", "-m", bert, "-d", folder / "bad-labels.jsonl", "--max-steps", 1, "-o", folder / "no")
    check(done.returncode == 1 and reports(done, "bad-labels.jsonl"), f"labels of wrong types: {done.returncode} {done.stderr[-400:]}")
    print("records: warnings with file and line")


def long_line(makar, folder, base):
    path = folder / "long.jsonl"
    with open(path, "wb") as f:  # 1 GiB in one line; the file is sparse
        f.write(b'{"text": "')
        f.truncate(1 << 30)
    with open(path, "ab") as f:
        f.write(b'"}\n{"text": "a b a b"}\n')
    done = run(makar, "data", "stats", path)
    check(done.returncode == 0 and reports(done, "long.jsonl:1"), f"a line of 1 GiB: {done.returncode} {(done.stdout + done.stderr)[-400:]}")
    check(memory(done) < 400, f"a line of 1 GiB took {memory(done)} MiB")
    done = run(makar, "sft", "-m", base, "-d", path, "--max-steps", 1, "-o", folder / "run-long")
    check(reports(done, "long.jsonl:1") and memory(done) < 400, f"a line of 1 GiB in training: {memory(done)} MiB {done.stderr[-300:]}")
    path.unlink()
    print("a line of 1 GiB: skipped")


def growing(makar, folder, base, bert):
    """Twenty times as many examples need about the same memory."""
    question = "a b " * 60
    kinds = {
        "conversations": (["sft", "-m", base, "--sequence-len", 256],
                          lambda i: {"messages": [{"role": "user", "content": f"a b {i} " * 20}, {"role": "assistant", "content": "b a " * 40}]}),
        "labels": (["classify", "train", "-m", bert, "--max-length", 256], lambda i: {"text": f"a b {i} " * 40, "label": i % 3}),
        "questions": (["classify", "train", "-m", bert, "--max-length", 64, "--stride", 16],
                      lambda i: {"question": f"{i} a", "context": question, "answers": {"text": ["a"], "answer_start": [0]}}),
        "pairs": (["pretrain", "--model-type", "bart", "--objective", "seq2seq", "--tokenizer", "char", "--layers", 1, "--width", 16, "--heads", 1,
                   "--sequence-len", 200], lambda i: {"source": f"a b {i} " * 20, "target": f"b {i} " * 20}),
    }
    for kind, (words, record) in kinds.items():
        peaks = []
        for name, count in (("few", 2000), ("many", 40000)):
            with open(folder / f"{name}.jsonl", "w") as f:
                f.writelines(json.dumps(record(i)) + "\n" for i in range(count))
            done = run(makar, *words, "-d", folder / f"{name}.jsonl", "--val-set-size", 0.001, "--max-steps", 1, "--micro-batch-size", 1, "-q",
                       "-o", folder / f"run-{kind}-{name}")
            check(done.returncode == 0, f"{kind}, {name}: {done.stderr[-300:]}")
            peaks.append(memory(done))
        check(peaks[1] < peaks[0] + 60, f"20 times the {kind}: {peaks} MiB")
        print(f"2,000 {kind} {peaks[0]} MiB, 40,000 {peaks[1]} MiB")


def small_disk(makar, folder):
    """A disk of 1500 KiB, if mounting is allowed."""
    model, disk = GOLDEN / "models/gpt2", folder / "disk"
    disk.mkdir()
    words = [makar, "sft", "-m", model, "-d", model / "golden.safetensors", "learning_rate=1e-3", "save_steps=2", "max_steps=40", "save_total_limit=40", "-t", "1",
             "-q", "-o", disk / "run"]
    script = 'mount -t tmpfs -o size=1500k none "$0" || exit 77; shift; "$@"; code=$?; ls "$0"/run "$0"/run/checkpoint-*; exit $code'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, str(disk), "-", *map(str, words)], capture_output=True, text=True, timeout=600)
    if done.returncode == 77 or "unshare" in done.stderr:
        print("a small disk: skipped, mounting is not allowed")
        return
    check(done.returncode == 1 and "No space left" in done.stderr and "older ones are untouched" in done.stderr, f"a small disk: {done.returncode} {done.stderr[-300:]}")
    check("checkpoint-2" in done.stdout and "complete.json" in done.stdout and ".tmp" not in done.stdout, f"what stays on a full disk: {done.stdout}")
    print("a small disk: the older checkpoints stay complete")


def main():
    makar = str(pathlib.Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "texts.txt").write_text("a b b a a b\n" * 400)
        base, bert = folder / "base", folder / "bert"
        for out, kind, tokenizer in ((base, "llama", "bpe"), (bert, "bert", "wordpiece")):
            done = run(makar, "pretrain", "-d", folder / "texts.txt", "--model-type", kind, "--layers", 1, "--width", 32, "--heads", 2, "--tokenizer", tokenizer,
                       "--vocab-size", 300, "--sequence-len", 256, "--micro-batch-size", 1, "--max-steps", 2, "-o", out, "-q")
            check(done.returncode == 0, f"{kind}: {done.stderr}")
        records(makar, folder, base, bert)
        small_disk(makar, folder)
        growing(makar, folder, base, bert)
        long_line(makar, folder, base)
        shutil.rmtree(folder / "no", ignore_errors=True)
    if failures:
        sys.exit(f"{len(failures)} failures")


if __name__ == "__main__":
    main()
