"""In which order agents and passing lines stand in each layer of a map, so that few lines cross."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from handoffaudit.drawing.agent_map.layers import Weights

_SWEEPS: Final = 6


class Lane(NamedTuple):
    """Where a line passes a layer between its ends. `source` is empty where lines to the same agent share it. Looked up
    thousands of times for a map: a tuple's hash is the fastest."""

    source: str
    target: str
    layer: int


# An agent, or a line that passes.
Item = str | Lane
Neighbours = Mapping[Item, Sequence[tuple[Item, int]]]


def neighbours_of(weights: Weights, lanes: Mapping[tuple[str, str], Sequence[Lane]]) -> Neighbours:
    """What each is connected with, and by how many handoffs."""
    found: dict[Item, list[tuple[Item, int]]] = {}
    for (source, target), number in weights.items():
        way: list[Item] = [source, *lanes[source, target], target]
        for one, other in pairwise(way):
            found.setdefault(one, []).append((other, number))
            found.setdefault(other, []).append((one, number))
    return found


def in_order(
    rows: Sequence[Sequence[str]], lanes: Mapping[tuple[str, str], Sequence[Lane]], neighbours: Neighbours
) -> list[list[Item]]:
    """Each layer with its lanes, by the places of what they are connected with, back and forth."""
    passing = {lane: None for some in lanes.values() for lane in some}
    layers: list[list[Item]] = [[*row] for row in rows]
    for lane in passing:
        layers[lane.layer].append(lane)
    for layer in layers:
        layer.sort(key=lambda item: (-sum(number for _, number in neighbours.get(item, ())), _name(item)))
    place = {item: at for layer in layers for item, at in _places(layer)}
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda item: (_pull(item, neighbours, place), _name(item)))
            place.update(_places(layer))
    return layers


def _places(layer: Sequence[Item]) -> list[tuple[Item, float]]:
    return [(item, (row + 0.5) / len(layer)) for row, item in enumerate(layer)]


def _name(item: Item) -> tuple[str, str]:
    return (item, "") if isinstance(item, str) else (item.target, item.source)


def _pull(item: Item, neighbours: Neighbours, place: Mapping[Item, float]) -> float:
    """The middle of its neighbours, each by the volume between."""
    total = weighted = 0.0
    for other, number in neighbours.get(item, ()):
        if other != item:
            total += number
            weighted += number * place[other]
    return round(weighted / total, 6) if total else place[item]
