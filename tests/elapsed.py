"""What a test may say of time, where it must: how work grows with its size, or a bound far above what it takes.

How long something takes is measured in `benchmarks/`; here other programs take the processors meanwhile, and machines
are slow. So all of this is time of this process on the processor, and none of it is near a limit.
"""

import gc
import time
from collections.abc import Callable

FACTOR = 16
# Of the factor: 1 is linear, 2 is quadratic. Busy machines make what is linear look like 1.5.
LIMIT = 1.75
TRIES = 5
# What takes longer is not tried again: it is no accident.
NO_ACCIDENT = 20.0
# Hostile inputs take a fraction of a second; what tries each against all others takes minutes.
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
    """How many times as long an input takes that is `factor` times as large as one of `size`.

    It is `factor` for linear work, and its square for quadratic work: what is well below that is not measured again.
    `work_of` makes the input; only the work that it returns is measured. No two inputs are of quite the same size, as
    what is kept from one run would make the next one fast.
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
