"""Gaps in the ids of events, for scans that must miss no event.

An id can be missing for a while, because transactions do not commit in the order of their ids. A gap is the first and
the last missing id, and the time at which they were found missing, in seconds since 1970.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from django.db.models import Q

# An event that is still missing after this time will never appear, because no transaction with events takes so long.
GAP_SECONDS: float = 120.0

MOST_GAPS: Final = 200

Gap = tuple[int, int, float]


def match_gaps(gaps: Iterable[Gap]) -> Q:
    """Return the condition for events whose ids are in a gap."""
    condition = Q()
    for first, last, _ in gaps:
        condition |= Q(id__gte=first, id__lte=last)
    return condition


def find_missing(reached: int, ids: Sequence[int], now: float) -> list[Gap]:
    """Return the gaps between these ids, which follow `reached` in rising order."""
    return [(before + 1, after - 1, now) for before, after in pairwise([reached, *ids]) if after - before > 1]


def close_gaps(gaps: Iterable[Gap], came: Iterable[int], now: float) -> list[Gap]:
    """Return the gaps that still have missing events, without gaps older than `GAP_SECONDS`."""
    there, left = set(came), []
    for first, last, at in gaps:
        if now - at > GAP_SECONDS:
            continue
        inside = sorted(one for one in there if first <= one <= last)
        left += [(low + 1, high - 1, at) for low, high in pairwise([first - 1, *inside, last + 1]) if high - low > 1]
    return left
