"""The extent of the tests: most faults in minutes, or everything with `HANDOFFAUDIT_TEST_NIGHTLY=1`."""

import os

NIGHTLY = os.environ.get("HANDOFFAUDIT_TEST_NIGHTLY") == "1"
KIB = 1024
# Hostile texts: as long as a document may be, or a quarter of that.
LARGE = 1024 * KIB if NIGHTLY else 256 * KIB


def size(nightly: int) -> int:
    """Return the size from which a test measures growth: the nightly size, or a quarter of it by day."""
    return nightly if NIGHTLY else nightly // 4


def examples(nightly: int) -> int:
    """Return the number of examples for Hypothesis: the nightly number, or a quarter and at least 10 by day."""
    return nightly if NIGHTLY else max(10, nightly // 4)
