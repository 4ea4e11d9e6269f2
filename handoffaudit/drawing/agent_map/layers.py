"""Which agents of a map stand beside each other: layers in the direction of the work, with few lines back."""

from collections.abc import Mapping, Sequence
from typing import Final

# Who hands to whom, and how many handoffs.
Weights = Mapping[tuple[str, str], int]

# Where there are more layers than have room, an edge with less than this share of the largest one makes none.
_MINOR: Final = 0.04


def layers(names: Sequence[str], weights: Weights, most: int) -> list[list[str]]:
    """At most so many, by the longest way from where the work comes in."""
    order = _sequence(names, weights)
    rank = {name: place for place, name in enumerate(order)}
    forward = {edge: number for edge, number in weights.items() if rank[edge[0]] < rank[edge[1]]}
    depth = _depths(order, forward)
    if max(depth.values(), default=0) >= most:
        largest = max(weights.values(), default=0)
        forward = {edge: number for edge, number in forward.items() if number >= _MINOR * largest}
        depth = _depths(order, forward)
    _tighten(order, forward, depth)
    deepest = max(depth.values(), default=0)
    found: list[list[str]] = [[] for _ in range(min(deepest + 1, most))]
    for name in names:
        found[depth[name] * len(found) // (deepest + 1)].append(name)
    return [layer for layer in found if layer]


def _depths(order: Sequence[str], forward: Weights) -> dict[str, int]:
    """`forward` has no circles: it goes with the order."""
    sources: dict[str, list[str]] = {name: [] for name in order}
    for source, target in forward:
        sources[target].append(source)
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = max((depth[source] + 1 for source in sources[name]), default=0)
    return depth


def _tighten(order: Sequence[str], forward: Weights, depth: dict[str, int]) -> None:
    """Who hands on more than it gets stands right before the first one that it hands to: lines are shorter."""
    targets: dict[str, list[str]] = {name: [] for name in order}
    surplus = dict.fromkeys(order, 0)
    for (source, target), number in forward.items():
        targets[source].append(target)
        surplus[source] += number
        surplus[target] -= number
    for name in reversed(order):
        if targets[name] and surplus[name] > 0:
            depth[name] = max(depth[name], min(depth[target] for target in targets[name]) - 1)


def _sequence(names: Sequence[str], weights: Weights) -> list[str]:
    """A sequence in which few handoffs go back (Eades, Lin and Smyth): who only hands on first, who only gets last."""
    left = sorted(names)
    head: list[str] = []
    tail: list[str] = []
    while left:
        here = set(left)
        given = dict.fromkeys(left, 0)
        got = dict.fromkeys(left, 0)
        for (source, target), number in weights.items():
            if source != target and source in here and target in here:
                given[source] += number
                got[target] += number
        sinks = [name for name in left if not given[name] and got[name]]
        sources = [name for name in left if not got[name]]
        if sources:
            head += sources
        elif sinks:
            tail[:0] = sinks
        else:
            head.append(max(left, key=lambda name: (given[name] - got[name], name)))
        placed = {*head, *tail}
        left = [name for name in left if name not in placed]
    return [*head, *tail]
