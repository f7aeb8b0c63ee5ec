"""check() for the tests in Python: unless `ok`, prints and records `what`, the expectation or the fault."""

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)
