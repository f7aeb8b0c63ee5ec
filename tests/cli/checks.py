"""What the tests of commands share: claims that are counted when they fail."""

failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAIL", what)
