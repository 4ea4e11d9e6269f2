"""Where agents stand on a map: in layers in the direction of the work, deterministically, without overlaps."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

# Who hands to whom, and how many handoffs.
Weights = Mapping[tuple[str, str], int]

NODE_HEIGHT: Final = 40.0
_EDGE: Final = 12.0
_ROW_GAP: Final = 26.0
_LINE_ROOM: Final = 9.0
_LANE: Final = 34.0
_WIDEST: Final = 150.0
_LEAST_GAP: Final = 46.0
_LONGEST_STEP: Final = 300.0
# An edge that has less than this share of the largest one does not push its target a layer on.
_MINOR: Final = 0.04
_SWEEPS: Final = 6


class Side(Enum):
    """Of a box, in the direction of the work: where most lines leave, where they enter, and the one beside."""

    LEAVING = 1
    ENTERING = 2
    BESIDE = 3


@dataclass(frozen=True, slots=True)
class Place:
    """The box of one agent. `layer` counts from 0 in the direction of the work."""

    layer: int
    x: float
    y: float
    width: float
    height: float = NODE_HEIGHT

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def centre(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True, slots=True)
class Layout:
    places: dict[str, Place]
    width: float
    height: float
    across: bool


def sides(source: int, target: int) -> tuple[Side, Side]:
    """Where a line from an agent of one layer leaves, and where it enters that of another: on with the work, right back
    to the layer before, or around the boxes."""
    if source < target:
        return Side.LEAVING, Side.ENTERING
    return (Side.ENTERING, Side.LEAVING) if source == target + 1 else (Side.BESIDE, Side.BESIDE)


def lay_out(names: Sequence[str], weights: Weights, width: float, *, across: bool) -> Layout:
    """`across`: layers follow each other from left to right, as many as fit; else from top to bottom."""
    per_layer = 0 if across else max(1, int((width - 2 * _EDGE - 2 * _LANE + 14) // 104))
    most = max(1, int((width - 2 * _EDGE + _LEAST_GAP) // (96 + _LEAST_GAP))) if across else len(names)
    layers = _ordered(_layers(names, weights, most), weights)
    return _in_columns(layers, weights, width) if across else _in_rows(_cut(layers, per_layer), width, per_layer)


def _layers(names: Sequence[str], weights: Weights, most: int) -> list[list[str]]:
    """By the longest way from where the work comes in, against which few handoffs go back."""
    order = {name: place for place, name in enumerate(_sequence(names, weights))}
    largest = max(weights.values(), default=0)
    depth = dict.fromkeys(names, 0)
    for name in sorted(names, key=lambda one: order[one]):
        for (source, target), number in weights.items():
            if target == name and order[source] < order[name] and number >= _MINOR * largest:
                depth[name] = max(depth[name], depth[source] + 1)
    deepest = max(depth.values(), default=0)
    found: list[list[str]] = [[] for _ in range(min(deepest + 1, most))]
    for name in names:
        found[depth[name] * len(found) // (deepest + 1)].append(name)
    return [layer for layer in found if layer]


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
        left = [name for name in left if name not in head and name not in tail]
    return [*head, *tail]


def _ordered(layers: list[list[str]], weights: Weights) -> list[list[str]]:
    """Each layer in the order of what its agents are connected with, so that few lines cross."""
    layers = [sorted(layer, key=lambda name: (-_volume(name, weights), name)) for layer in layers]
    for sweep in range(_SWEEPS):
        place = {name: (row + 0.5) / len(layer) for layer in layers for row, name in enumerate(layer)}
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            layer.sort(key=lambda name: (_pull(name, weights, place), name))
            place |= {name: (row + 0.5) / len(layer) for row, name in enumerate(layer)}
    return layers


def _volume(name: str, weights: Weights) -> int:
    return sum(number for edge, number in weights.items() if name in edge)


def _pull(name: str, weights: Weights, place: Mapping[str, float]) -> float:
    """The middle of its neighbours, each by the volume between."""
    total = weighted = 0.0
    for (source, target), number in weights.items():
        other = target if source == name else source if target == name else name
        if other != name:
            total += number
            weighted += number * place[other]
    return round(weighted / total, 6) if total else place[name]


def _cut(layers: list[list[str]], most: int) -> list[list[str]]:
    return [layer[start : start + most] for layer in layers for start in range(0, len(layer), most)]


def _in_columns(layers: list[list[str]], weights: Weights, width: float) -> Layout:
    room = (width - 2 * _EDGE) / max(len(layers), 1)
    wide = min(_WIDEST, room - _LEAST_GAP) if len(layers) > 1 else _WIDEST
    step = min((width - 2 * _EDGE - wide) / max(len(layers) - 1, 1), _LONGEST_STEP)
    left = (width - wide - step * (len(layers) - 1)) / 2
    tall = _heights(layers, weights)
    heights = [sum(tall[name] for name in layer) + _ROW_GAP * (len(layer) - 1) for layer in layers]
    tallest = max(heights, default=0)
    places = {}
    for column, layer in enumerate(layers):
        y = _LANE + (tallest - heights[column]) / 2
        for name in layer:
            places[name] = Place(column, left + column * step, y, wide, tall[name])
            y += tall[name] + _ROW_GAP
    return Layout(places, width, tallest + 2 * _LANE, across=True)


def _heights(layers: list[list[str]], weights: Weights) -> dict[str, float]:
    """Room for the lines of each side, one below the other."""
    layer_of = {name: number for number, layer in enumerate(layers) for name in layer}
    lines: Counter[tuple[str, Side]] = Counter()
    for source, target in weights:
        if source != target:
            leaves, enters = sides(layer_of[source], layer_of[target])
            lines[source, leaves] += 1
            lines[target, enters] += 1
    most = {name: max(lines[name, Side.LEAVING], lines[name, Side.ENTERING]) for name in layer_of}
    return {name: max(NODE_HEIGHT, _LINE_ROOM * (number + 1)) for name, number in most.items()}


def _in_rows(layers: list[list[str]], width: float, most: int) -> Layout:
    room = (width - 2 * (_EDGE + _LANE)) / most
    wide = room - 14 if most > 1 else min(room, _WIDEST)
    pitch = NODE_HEIGHT + 44
    places = {}
    for row, layer in enumerate(layers):
        left = _EDGE + _LANE + (most - len(layer)) * room / 2 + (room - wide) / 2
        for column, name in enumerate(layer):
            places[name] = Place(row, left + column * room, _EDGE + 12 + row * pitch, wide)
    return Layout(places, width, _EDGE + 12 + max(len(layers), 1) * pitch, across=False)
