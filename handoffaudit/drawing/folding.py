"""Which entries of a long chain are drawn, and where it is folded."""

from collections.abc import Collection, Iterator

FOLDED_PAST = 10
_HEAD = 4
_TAIL = 4
_MARKED = 4


def folded(length: int, marked: Collection[int] = ()) -> Iterator[int | range]:
    """The positions to draw in order, and a range for each fold. Both ends and the marked positions stay.

    >>> list(folded(12))
    [0, 1, 2, 3, range(4, 8), 8, 9, 10, 11]
    >>> list(folded(3))
    [0, 1, 2]
    """
    if length <= FOLDED_PAST:
        yield from range(length)
        return
    kept = {*range(_HEAD), *range(length - _TAIL, length), *sorted(marked)[:_MARKED]}
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
