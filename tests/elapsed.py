"""Checks of CPU time: how work grows with its size, and bounds far above the usual time.

Durations are measured in `benchmarks/`: during tests, other programs use the processors, and machines are slow. So
these checks use the CPU time of this process, and no check is near its limit.
"""

import gc
import time
from collections.abc import Callable

FACTOR = 16
# The exponent of the factor: 1 is linear, 2 is quadratic. On busy machines linear work looks like 1.5.
LIMIT = 1.75
TRIES = 5
# In CPU seconds: slower work is not tried again, because it is not an accident.
NO_ACCIDENT = 20.0
# In CPU seconds: hostile inputs take a fraction of a second, and quadratic work on them takes minutes.
BOUNDED = 20.0


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of one run, without the garbage collection of other objects of the process."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        started = time.process_time()
        work()
        return time.process_time() - started
    finally:
        if was_enabled:
            gc.enable()


def growth(work_of: Callable[[int], Callable[[], object]], size: int, factor: int = FACTOR) -> float:
    """Return how many times as long an input takes that is `factor` times as large as an input of `size`.

    The result is about `factor` for linear work and its square for quadratic work; a result well below the square is
    not measured again. `work_of` makes the input; only the work that it returns is measured. The sizes of all inputs
    differ a little, because a result cached in one run would make the next run fast.
    """

    def least(size: int, tries: range) -> float:
        return min(cpu_seconds(work_of(size + size * number // 50)) for number in tries)

    small, large = least(size, range(3)), least(size * factor, range(1))
    for number in range(1, TRIES):
        if large <= small * factor**LIMIT or large > NO_ACCIDENT:
            break
        small = min(small, least(size, range(number + 2, number + 3)))
        large = min(large, least(size * factor, range(number, number + 1)))
    return large / small


def grows_linearly(work_of: Callable[[int], Callable[[], object]], size: int, factor: int = FACTOR) -> bool:
    """Return whether the time grows in proportion to the input, up to a logarithm, and not by its square."""
    return growth(work_of, size, factor) <= factor**LIMIT
