"""When a delivery that failed is tried again, and when it is given up."""

import random
from datetime import timedelta

# After the first try, the second, and so on; after the last it is given up.
PAUSES = (10, 30, 120, 600, 3600, 3 * 3600, 6 * 3600)
TRIES = len(PAUSES) + 1
LONGEST_ASKED = 6 * 3600.0
SPREAD = 0.2
# What could not even be tried for so long, because those before it could not be delivered, is given up.
TOO_OLD = timedelta(days=3)
# After more tries than this, what comes later is no longer held back: one event must not silence a subscriber.
HOLDS_BACK = 4


def pause(tries: int, retry_after: float | None, chance: random.Random) -> timedelta | None:
    """How long to wait after so many tries; None: no more. A receiver may ask for longer, within bounds."""
    if tries >= TRIES:
        return None
    seconds = PAUSES[tries - 1] * chance.uniform(1 - SPREAD, 1 + SPREAD)
    if retry_after is not None:
        seconds = max(seconds, min(retry_after, LONGEST_ASKED))
    return timedelta(seconds=seconds)
