"""check() for the tests in Python: prints `what`, the expectation or the fault, and records it as a failure unless `ok`."""

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)
