"""How much the tests try: what finds most faults in minutes, or with `HANDOFFAUDIT_TEST_NIGHTLY=1` all of it."""

import os

NIGHTLY = os.environ.get("HANDOFFAUDIT_TEST_NIGHTLY") == "1"
KIB = 1024
# Hostile texts: as long as a document may be, or a quarter of that.
LARGE = 1024 * KIB if NIGHTLY else 256 * KIB


def size(nightly: int) -> int:
    """Return from what size a test measures growth: a quarter by day of the size at night."""
    return nightly if NIGHTLY else nightly // 4


def examples(nightly: int) -> int:
    """Return how many examples Hypothesis tries of the number that it tries at night."""
    return nightly if NIGHTLY else max(10, nightly // 4)
