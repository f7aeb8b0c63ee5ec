"""What the checkers of this folder share: the self-test with planted faults, and the command line."""
import pathlib
import sys
import tempfile


def self_test(tool, files, faults, check):
    """Shows that check(root) accepts the tree `files` ({name: text}) and reports every fault.

    A fault is (name, text, expected part of an error): the tree with that file added or replaced."""
    for fault in [None, *faults]:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {**files, **({fault[0]: fault[1]} if fault else {})}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            errors = check(root)
        if fault is None and errors:
            sys.exit(f"{tool}: a correct tree was refused: {errors}")
        if fault is not None and not any(fault[2] in e for e in errors):
            sys.exit(f"{tool}: a planted fault was not caught: {fault[1]!r} (expected {fault[2]!r}, got {errors})")
    print(f"{tool}: {len(faults)} planted faults caught, a correct tree accepted")


def main(check, run_self_test, report):
    """usage: TOOL [ROOT], or TOOL --self-test. check(root) returns (errors, number of things seen)."""
    if "--self-test" in sys.argv:
        return run_self_test()
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2])
    errors, seen = check(root)
    for error in errors:
        print(error)
    if errors or not seen:
        sys.exit(f"{pathlib.Path(sys.argv[0]).stem}: {len(errors)} errors, {seen} checked")
    print(report.format(seen))
