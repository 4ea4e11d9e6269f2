"""Arrangement of an agent map: the layer of each agent, the order in each layer, and the positions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

# The number of handoffs by source and target.
Weights = Mapping[tuple[str, str], int]

# If there are too many layers, edges below this share of the largest edge do not affect the layers.
_MINOR: Final = 0.04


def assign_layers(names: Sequence[str], weights: Weights, most: int) -> list[list[str]]:
    """Return at most `most` layers of agents. The longest path to an agent decides the layer of the agent."""
    order = _order_agents(names, weights)
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
    """Return the length of the longest path to each agent. `forward` has no cycles, because it follows the order."""
    sources: dict[str, list[str]] = {name: [] for name in order}
    for source, target in forward:
        sources[target].append(source)
    depth: dict[str, int] = {}
    for name in order:
        depth[name] = max((depth[source] + 1 for source in sources[name]), default=0)
    return depth


def _tighten(order: Sequence[str], forward: Weights, depth: dict[str, int]) -> None:
    """Shorten lines: move agents that send more than they receive to the layer before their first target."""
    targets: dict[str, list[str]] = {name: [] for name in order}
    surplus = dict.fromkeys(order, 0)
    for (source, target), number in forward.items():
        targets[source].append(target)
        surplus[source] += number
        surplus[target] -= number
    for name in reversed(order):
        if targets[name] and surplus[name] > 0:
            depth[name] = max(depth[name], min(depth[target] for target in targets[name]) - 1)


def _order_agents(names: Sequence[str], weights: Weights) -> list[str]:
    """Order the agents so that few handoffs go backward: pure sources first, pure targets last.

    The method is the heuristic of Eades, Lin and Smyth.
    """
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


_SWEEPS: Final = 6


class Lane(NamedTuple):
    """The place where a line passes a layer between its ends.

    `source` is empty if lines to the same agent share the lane. The class is a tuple because a map looks lanes up
    thousands of times, and tuples hash fastest.
    """

    source: str
    target: str
    layer: int


# The name of an agent, or a passing line.
Item = str | Lane

Neighbours = Mapping[Item, Sequence[tuple[Item, int]]]


def neighbours_of(weights: Weights, lanes: Mapping[tuple[str, str], Sequence[Lane]]) -> Neighbours:
    """Return the neighbours of each item, with the number of handoffs between them."""
    found: dict[Item, list[tuple[Item, int]]] = {}
    for (source, target), number in weights.items():
        way: list[Item] = [source, *lanes[source, target], target]
        for one, other in pairwise(way):
            found.setdefault(one, []).append((other, number))
            found.setdefault(other, []).append((one, number))
    return found


def order_items(
    rows: Sequence[Sequence[str]], lanes: Mapping[tuple[str, str], Sequence[Lane]], neighbours: Neighbours
) -> list[list[Item]]:
    """Order the items of each layer by the positions of their neighbours, in sweeps back and forth."""
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
    """Return the mean position of the item's neighbours, weighted by the number of handoffs."""
    total = weighted = 0.0
    for other, number in neighbours.get(item, ()):
        if other != item:
            total += number
            weighted += number * place[other]
    return round(weighted / total, 6) if total else place[item]


_SPREAD_SWEEPS: Final = 4

# Lines pull more strongly than boxes, because a bent line is harder to follow than a line that enters a box off-centre.
_STRAIGHT: Final = 4.0


@dataclass(frozen=True, slots=True)
class Column:
    """One layer: its items in order with their sizes.

    `boxes`, `beside` and `lines` are the smallest gaps between two boxes, between a box and a line, and between two
    lines.
    """

    items: Sequence[Item]
    sizes: Sequence[float]
    boxes: float
    beside: float
    lines: float

    @property
    def length(self) -> float:
        return sum(self.sizes) + sum(self._gap(number) for number in range(1, len(self.items)))

    def min_distances(self) -> list[float]:
        """Return the smallest distances between the middles of adjacent items."""
        return [
            self.sizes[number - 1] / 2 + self._gap(number) + self.sizes[number] / 2
            for number in range(1, len(self.items))
        ]

    def _gap(self, number: int) -> float:
        agents = sum(isinstance(item, str) for item in self.items[number - 1 : number + 1])
        return (self.lines, self.beside, self.boxes)[agents]


def align(columns: Sequence[Column], neighbours: Neighbours, room: float) -> dict[Item, float]:
    """Return the position of the middle of each item. `room` is at least as long as each column."""
    centres: dict[Item, float] = {}
    for column in columns:
        centres |= _stack(column, room)
    layer_of = {item: number for number, column in enumerate(columns) for item in column.items}
    for sweep in range(_SPREAD_SWEEPS):
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wanted = [_find_wanted_position(item, neighbours, centres, layer_of) for item in column.items]
            pulls = [1.0 if isinstance(item, str) else _STRAIGHT for item in column.items]
            least, most = column.sizes[0] / 2, room - column.sizes[-1] / 2
            found = spread(wanted, column.min_distances(), pulls, least, most)
            centres |= dict(zip(column.items, found, strict=True))
    return centres


def _stack(column: Column, room: float) -> dict[Item, float]:
    at = (room - column.length) / 2 + (column.sizes[0] / 2 if column.sizes else 0)
    found = {}
    for item, further in zip(column.items, [*column.min_distances(), 0.0], strict=True):
        found[item] = at
        at += further
    return found


def _find_wanted_position(
    item: Item, neighbours: Neighbours, centres: Mapping[Item, float], layer_of: Mapping[Item, int]
) -> float:
    near = [(centres[other], number) for other, number in neighbours.get(item, ()) if layer_of[other] != layer_of[item]]
    total = sum(number for _, number in near)
    return sum(centre * number for centre, number in near) / total if total else centres[item]


def spread(
    wanted: Sequence[float], apart: Sequence[float], pulls: Sequence[float], least: float, most: float
) -> list[float]:
    """Return the positions nearest to the wanted positions that keep the order and the distances.

    The pool-adjacent-violators algorithm minimises the squared differences from `wanted`, weighted by `pulls`. `apart`
    holds the smallest distances between neighbours. All positions are between `least` and `most`.
    """
    offsets = [0.0]
    for distance in apart:
        offsets.append(offsets[-1] + distance)
    pools: list[tuple[float, float, int]] = []
    for want, offset, pull in zip(wanted, offsets, pulls, strict=True):
        mean, weight, size = want - offset, pull, 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, size = weight + heavy, size + many
        pools.append((mean, weight, size))
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [min(max(mean, least), most - offsets[-1]) + offset for mean, offset in zip(flat, offsets, strict=True)]
