"""The extent of the tests: most faults in minutes, or everything with `HANDOFFAUDIT_TEST_NIGHTLY=1`."""

import os
from collections.abc import Collection, Iterable
from typing import Any

import pytest

NIGHTLY = os.environ.get("HANDOFFAUDIT_TEST_NIGHTLY") == "1"
KIB = 1024
# Hostile texts: as long as a document may be, or a quarter of that.
LARGE = 1024 * KIB if NIGHTLY else 256 * KIB


def size(nightly: int) -> int:
    """Return the size from which a test measures growth: the nightly size, or a quarter of it by day."""
    return nightly if NIGHTLY else nightly // 4


def examples(nightly: int) -> int:
    """Return the number of examples for Hypothesis: the nightly number, or an eighth and at least 10 by day."""
    return nightly if NIGHTLY else max(10, nightly // 8)


def cases(every: Iterable[Any], by_day: Collection[Any]) -> list[Any]:
    """Return every case as a parameter of a test, those that are not needed by day marked `nightly`."""
    return [case if case in by_day else pytest.param(case, marks=pytest.mark.nightly) for case in every]
