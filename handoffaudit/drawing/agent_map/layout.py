"""Where agents stand on a map, and where lines pass between them: deterministically, without overlaps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from handoffaudit.drawing.agent_map.layers import Weights, layers
from handoffaudit.drawing.agent_map.order import Item, Lane, in_order, neighbours_of
from handoffaudit.drawing.agent_map.spread import Column, aligned

NODE_HEIGHT: Final = 40.0
_EDGE: Final = 12.0
# Above the first box: a line of an agent to itself.
_LOOP: Final = 26.0
# Beside the last layer: lines within it.
_BRACKET: Final = 34.0
_ROW_GAP: Final = 26.0
_LINE_ROOM: Final = 9.0
_WIDEST: Final = 150.0
_LEAST_GAP: Final = 46.0
_LONGEST_STEP: Final = 300.0
_PITCH: Final = NODE_HEIGHT + 44


class Side(Enum):
    """Of a box, in the direction of the work."""

    LEAVING = 1
    ENTERING = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The box of one agent, or the room of a line that passes. `layer` counts from 0 in the direction of the work."""

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
    """`passes`: for each edge over layers between, the room that its line has in each, from the source on."""

    places: dict[str, Place]
    passes: dict[tuple[str, str], tuple[Place, ...]]
    width: float
    height: float
    across: bool


def sides(source: int, target: int) -> tuple[Side, Side]:
    """Where a line from an agent of one layer leaves, and where it enters that of another: on with the work, back, or
    round to one of its own layer."""
    if source == target:
        return Side.LEAVING, Side.LEAVING
    return (Side.LEAVING, Side.ENTERING) if source < target else (Side.ENTERING, Side.LEAVING)


def lay_out(names: Sequence[str], weights: Weights, width: float, *, across: bool) -> Layout:
    """`across`: layers follow each other from left to right, as many as fit; else from top to bottom."""
    weights = dict(sorted(weights.items()))
    if across:
        rows = layers(sorted(names), weights, max(1, int((width - 2 * _EDGE + _LEAST_GAP) // (96 + _LEAST_GAP))))
    else:
        per_row = max(1, int((width - 2 * _EDGE + 14) // 130))
        rows = [
            layer[start : start + per_row]
            for layer in layers(sorted(names), weights, len(names))
            for start in range(0, len(layer), per_row)
        ]
    lanes = _lanes(rows, weights, bundled=not across)
    neighbours = neighbours_of(weights, lanes)
    ordered = in_order(rows, lanes, neighbours)
    if across:
        return _in_columns(_Map(ordered, lanes, neighbours, weights, width))
    return _in_rows(_Map(ordered, lanes, neighbours, weights, width))


def _lanes(rows: Sequence[Sequence[str]], weights: Weights, *, bundled: bool) -> dict[tuple[str, str], list[Lane]]:
    """Of each edge, one for each layer between its ends; `bundled`: lines to the same agent share theirs."""
    layer_of = {name: number for number, row in enumerate(rows) for name in row}
    found = {}
    for source, target in weights:
        start, end = layer_of[source], layer_of[target]
        step = 1 if end > start else -1
        found[source, target] = [
            Lane("" if bundled else source, target, layer) for layer in range(start + step, end, step)
        ]
    return found


@dataclass(frozen=True, slots=True)
class _Map:
    """All that is placed, layer by layer in order, and what belongs to it."""

    layers: list[list[Item]]
    lanes: dict[tuple[str, str], list[Lane]]
    neighbours: Mapping[Item, Sequence[tuple[Item, int]]]
    weights: Weights
    width: float

    def agents(self) -> Iterator[tuple[int, str]]:
        for number, layer in enumerate(self.layers):
            yield from ((number, item) for item in layer if isinstance(item, str))

    def laid_out(self, boxes: Mapping[Item, Place], height: float, *, across: bool) -> Layout:
        places = {item: place for item, place in boxes.items() if isinstance(item, str)}
        passes = {edge: tuple(boxes[lane] for lane in lanes) for edge, lanes in self.lanes.items() if lanes}
        return Layout(places, passes, self.width, height, across)


def _in_columns(of: _Map) -> Layout:
    number = len(of.layers)
    last = {item for item in of.layers[-1] if isinstance(item, str)} if of.layers else set()
    end = _BRACKET if any({*edge} <= last and edge[0] != edge[1] for edge in of.weights) else _EDGE
    room = (of.width - _EDGE - end) / max(number, 1)
    wide = min(_WIDEST, room - _LEAST_GAP) if number > 1 else _WIDEST
    step = min((of.width - _EDGE - end - wide) / max(number - 1, 1), _LONGEST_STEP)
    left = max(_EDGE, (of.width - wide - step * (number - 1)) / 2 - (end - _EDGE) / 2)
    tall = _heights(of)
    columns = [Column(layer, [tall.get(item, 6.0) for item in layer], _ROW_GAP, 14.0, 4.0) for layer in of.layers]
    centres = aligned(columns, of.neighbours, max((column.length for column in columns), default=0))
    boxes: dict[Item, Place] = {}
    for place, column in enumerate(columns):
        for item, size in zip(column.items, column.sizes, strict=True):
            boxes[item] = Place(place, left + place * step, _EDGE + _LOOP + centres[item] - size / 2, wide, size)
    bottom = max((box.bottom for box in boxes.values()), default=0)
    return of.laid_out(boxes, bottom + _EDGE, across=True)


def _heights(of: _Map) -> dict[Item, float]:
    """Room for the lines of each side, one below the other."""
    layer_of = {name: number for number, name in of.agents()}
    lines: Counter[tuple[str, Side]] = Counter()
    for source, target in of.weights:
        if source != target:
            leaves, enters = sides(layer_of[source], layer_of[target])
            lines[source, leaves] += 1
            lines[target, enters] += 1
    most = {name: max(lines[name, Side.LEAVING], lines[name, Side.ENTERING]) for name in layer_of}
    return {name: max(NODE_HEIGHT, _LINE_ROOM * (number + 1)) for name, number in most.items()}


def _in_rows(of: _Map) -> Layout:
    room = of.width - 2 * _EDGE
    wide = min((_box_width(layer, room) for layer in of.layers), default=_WIDEST)
    columns = [
        Column(layer, [wide if isinstance(item, str) else 5.0 for item in layer], 14.0, 8.0, 4.0) for layer in of.layers
    ]
    centres = aligned(columns, of.neighbours, room)
    boxes: dict[Item, Place] = {}
    for row, column in enumerate(columns):
        for item, size in zip(column.items, column.sizes, strict=True):
            boxes[item] = Place(row, _EDGE + centres[item] - size / 2, _LOOP + row * _PITCH, size)
    return of.laid_out(boxes, _LOOP + max(len(of.layers), 1) * _PITCH, across=False)


def _box_width(layer: Sequence[Item], room: float) -> float:
    """What is left for each box where lines pass, too."""
    boxes = sum(isinstance(item, str) for item in layer)
    taken = Column(layer, [0.0 if isinstance(item, str) else 5.0 for item in layer], 14.0, 8.0, 4.0).length
    return min(_WIDEST, (room - taken) / boxes)
