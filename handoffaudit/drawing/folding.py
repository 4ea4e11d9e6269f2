"""Which entries of a long chain are drawn, and where it is folded."""

from collections.abc import Collection, Iterator

FOLDED_PAST = 10
ENDS = 4
_MARKED = 4


def folded(
    length: int,
    marked: Collection[int] = (),
    *,
    past: int = FOLDED_PAST,
    ends: int = ENDS,
    most_marked: int = _MARKED,
) -> Iterator[int | range]:
    """The positions to draw in order, and a range for each fold. What is no longer than `past` is drawn whole; else
    `ends` entries at both ends and the first `most_marked` marked positions stay.

    >>> list(folded(12))
    [0, 1, 2, 3, range(4, 8), 8, 9, 10, 11]
    >>> list(folded(3))
    [0, 1, 2]
    """
    if length <= past:
        yield from range(length)
        return
    kept = {*range(ends), *range(length - ends, length), *sorted(marked)[:most_marked]}
    following = 0
    for position in sorted(kept):
        missing = position - following
        # a fold takes the room of an entry, so folding one saves nothing
        if missing == 1:
            yield following
        elif missing > 1:
            yield range(following, position)
        yield position
        following = position + 1
