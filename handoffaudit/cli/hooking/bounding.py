"""A limit of time for what has none of its own."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class OutOfTime(Exception):
    """It took longer than it may."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in its body once `seconds` have passed, also in the middle of a regular expression. One at a
    time, and in the main thread."""
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _ring(_: int, __: FrameType | None) -> None:
    raise OutOfTime
