"""check() for all tests in Python: records and prints what failed."""

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)
