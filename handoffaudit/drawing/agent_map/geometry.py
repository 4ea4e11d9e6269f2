"""Geometry of an agent map: the positions of the boxes, and the paths of the lines between them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import sqrt
from typing import Final

from handoffaudit.drawing.agent_map.arrangement import (
    Column,
    Item,
    Lane,
    Weights,
    align,
    assign_layers,
    neighbours_of,
    order_items,
)

NODE_HEIGHT: Final = 40.0

_EDGE: Final = 12.0

# Room above the first box for a line from an agent to itself.
_LOOP: Final = 26.0

# Room beside the last layer for lines between its agents.
_BRACKET: Final = 34.0

_ROW_GAP: Final = 26.0

_LINE_ROOM: Final = 9.0

_WIDEST: Final = 150.0

_LEAST_GAP: Final = 46.0

_LONGEST_STEP: Final = 300.0

_PITCH: Final = NODE_HEIGHT + 44


class Side(Enum):
    """A side of a box, relative to the direction of the work."""

    LEAVING = 1
    ENTERING = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The box of one agent, or the room of a passing line. Layers count from 0 in the direction of the work."""

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
    """The layout of a map. `passes` holds the places of each line in the layers that it crosses, in its direction."""

    places: dict[str, Place]
    passes: dict[tuple[str, str], tuple[Place, ...]]
    width: float
    height: float
    across: bool


def choose_sides(source: int, target: int) -> tuple[Side, Side]:
    """Return the sides where a line leaves and enters its boxes. The arguments are the layers of source and target.

    A line follows the direction of the work, goes back, or curves to an agent in the same layer.
    """
    if source == target:
        return Side.LEAVING, Side.LEAVING
    return (Side.LEAVING, Side.ENTERING) if source < target else (Side.ENTERING, Side.LEAVING)


def lay_out(names: Sequence[str], weights: Weights, width: float, *, across: bool) -> Layout:
    """Place agents and lines in a map of `width` pixels.

    With `across`, the layers go from left to right, and `width` limits their number. Else, they go from top to bottom.
    """
    weights = dict(sorted(weights.items()))
    if across:
        rows = assign_layers(sorted(names), weights, max(1, int((width - 2 * _EDGE + _LEAST_GAP) // (96 + _LEAST_GAP))))
    else:
        per_row = max(1, int((width - 2 * _EDGE + 14) // 130))
        rows = [
            layer[start : start + per_row]
            for layer in assign_layers(sorted(names), weights, len(names))
            for start in range(0, len(layer), per_row)
        ]
    lanes = _find_lanes(rows, weights, bundled=not across)
    neighbours = neighbours_of(weights, lanes)
    ordered = order_items(rows, lanes, neighbours)
    if across:
        return _lay_out_columns(_Map(ordered, lanes, neighbours, weights, width))
    return _lay_out_rows(_Map(ordered, lanes, neighbours, weights, width))


def _find_lanes(rows: Sequence[Sequence[str]], weights: Weights, *, bundled: bool) -> dict[tuple[str, str], list[Lane]]:
    """Return the lanes of each edge, one for each layer between its ends.

    With `bundled`, lines to the same agent share a lane.
    """
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
    """All items to place, by layer and in order, with their connections."""

    layers: list[list[Item]]
    lanes: dict[tuple[str, str], list[Lane]]
    neighbours: Mapping[Item, Sequence[tuple[Item, int]]]
    weights: Weights
    width: float

    def agents(self) -> Iterator[tuple[int, str]]:
        for number, layer in enumerate(self.layers):
            yield from ((number, item) for item in layer if isinstance(item, str))

    def to_layout(self, boxes: Mapping[Item, Place], height: float, *, across: bool) -> Layout:
        places = {item: place for item, place in boxes.items() if isinstance(item, str)}
        passes = {edge: tuple(boxes[lane] for lane in lanes) for edge, lanes in self.lanes.items() if lanes}
        return Layout(places, passes, self.width, height, across)


def _lay_out_columns(items: _Map) -> Layout:
    number = len(items.layers)
    last = {item for item in items.layers[-1] if isinstance(item, str)} if items.layers else set()
    end = _BRACKET if any({*edge} <= last and edge[0] != edge[1] for edge in items.weights) else _EDGE
    room = (items.width - _EDGE - end) / max(number, 1)
    wide = min(_WIDEST, room - _LEAST_GAP) if number > 1 else _WIDEST
    step = min((items.width - _EDGE - end - wide) / max(number - 1, 1), _LONGEST_STEP)
    left = max(_EDGE, (items.width - wide - step * (number - 1)) / 2 - (end - _EDGE) / 2)
    tall = _heights(items)
    columns = [Column(layer, [tall.get(item, 6.0) for item in layer], _ROW_GAP, 14.0, 4.0) for layer in items.layers]
    centres = align(columns, items.neighbours, max((column.length for column in columns), default=0))
    boxes: dict[Item, Place] = {}
    for place, column in enumerate(columns):
        for item, size in zip(column.items, column.sizes, strict=True):
            boxes[item] = Place(place, left + place * step, _EDGE + _LOOP + centres[item] - size / 2, wide, size)
    bottom = max((box.bottom for box in boxes.values()), default=0)
    return items.to_layout(boxes, bottom + _EDGE, across=True)


def _heights(items: _Map) -> dict[Item, float]:
    """Return the height of each box. Both sides need room for all their lines, one below the other."""
    layer_of = {name: number for number, name in items.agents()}
    lines: Counter[tuple[str, Side]] = Counter()
    for source, target in items.weights:
        if source != target:
            leaves, enters = choose_sides(layer_of[source], layer_of[target])
            lines[source, leaves] += 1
            lines[target, enters] += 1
    most = {name: max(lines[name, Side.LEAVING], lines[name, Side.ENTERING]) for name in layer_of}
    return {name: max(NODE_HEIGHT, _LINE_ROOM * (number + 1)) for name, number in most.items()}


def _lay_out_rows(items: _Map) -> Layout:
    room = items.width - 2 * _EDGE
    wide = min((_box_width(layer, room) for layer in items.layers), default=_WIDEST)
    columns = [
        Column(layer, [wide if isinstance(item, str) else 5.0 for item in layer], 14.0, 8.0, 4.0)
        for layer in items.layers
    ]
    centres = align(columns, items.neighbours, room)
    boxes: dict[Item, Place] = {}
    for row, column in enumerate(columns):
        for item, size in zip(column.items, column.sizes, strict=True):
            boxes[item] = Place(row, _EDGE + centres[item] - size / 2, _LOOP + row * _PITCH, size)
    return items.to_layout(boxes, _LOOP + max(len(items.layers), 1) * _PITCH, across=False)


def _box_width(layer: Sequence[Item], room: float) -> float:
    """Return the width that the passing lines leave for each box."""
    boxes = sum(isinstance(item, str) for item in layer)
    taken = Column(layer, [0.0 if isinstance(item, str) else 5.0 for item in layer], 14.0, 8.0, 4.0).length
    return min(_WIDEST, (room - taken) / boxes)


Point = tuple[float, float]

Edge = tuple[str, str]

# The length of an arrow head, which fills the gap between the end of its line and the box.
ARROW: Final = 7.0

_BULGE: Final = 34.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic Bézier curve from `start` to `end` with two control points."""

    start: Point
    first: Point
    second: Point
    end: Point

    def at(self, part: float) -> Point:
        """Return the point at the fraction `part` of the curve, from 0 to 1."""
        rest = 1 - part
        weights = (rest**3, 3 * rest * rest * part, 3 * rest * part * part, part**3)
        points = (self.start, self.first, self.second, self.end)
        x, y = (sum(one * point[axis] for one, point in zip(weights, points, strict=True)) for axis in (0, 1))
        return x, y


@dataclass(frozen=True, slots=True)
class Way:
    """The path of a line: curves with straight lines between them."""

    curves: tuple[Curve, ...]

    @property
    def path(self) -> str:
        parts = []
        for number, curve in enumerate(self.curves):
            (a, b), (c, d), (e, f), (g, h) = curve.start, curve.first, curve.second, curve.end
            parts.append(f"{'L' if number else 'M'}{a:.1f} {b:.1f}C{c:.1f} {d:.1f} {e:.1f} {f:.1f} {g:.1f} {h:.1f}")
        return "".join(parts)

    @property
    def end(self) -> Point:
        return self.curves[-1].end

    @property
    def marked_at(self) -> Point:
        """Return the centre of the cross that marks a line with a low acceptance rate.

        The point is nearer to the source than to the target, so that the marks of opposite lines do not overlap.
        """
        return self.curves[0].at(0.38 if len(self.curves) == 1 else 0.6)

    @property
    def direction(self) -> Point:
        """Return the direction of the line at its end as a vector of length 1."""
        last = self.curves[-1]
        x, y = last.end[0] - last.second[0], last.end[1] - last.second[1]
        length = sqrt(x * x + y * y) or 1.0
        return x / length, y / length


class Ways:
    """The paths of all lines of a layout.

    At each side of a box, lines are ordered by the position of the lane or box that comes next on each line.
    """

    def __init__(self, layout: Layout, weights: Weights) -> None:
        self._layout = layout
        at_side: dict[tuple[str, Side], list[tuple[Edge, bool]]] = {}
        for edge in weights:
            if edge[0] != edge[1]:
                leaves, enters = self._sides(edge)
                at_side.setdefault((edge[0], leaves), []).append((edge, True))
                at_side.setdefault((edge[1], enters), []).append((edge, False))
        self._along: dict[tuple[Edge, bool], float] = {}
        for some in at_side.values():
            # Two lines between the same boxes have the same order at both ends, so they run side by side.
            some.sort(key=lambda one: (self._across(one), self._sides(one[0])[0].value))
            for number, one in enumerate(some):
                self._along[one] = (number + 1) / (len(some) + 1)

    def of(self, edge: Edge, wide: float) -> Way:
        """Return the path of an edge. `wide` is the width of the line: a wider line has a larger arrow head."""
        source, target = self._layout.places[edge[0]], self._layout.places[edge[1]]
        gap = ARROW + wide / 2
        if edge[0] == edge[1]:
            x, y = source.right - 14, source.y
            return Way((Curve((x - 36, y), (x - 36, y - 24), (x, y - 28), (x, y - gap)),))
        leaves, enters = self._sides(edge)
        start = self._port(source, leaves, self._along[edge, True], 0)
        end = self._port(target, enters, self._along[edge, False], gap)
        if source.layer == target.layer:
            return Way((self._go_round(start, end),))
        between: list[Point] = [start]
        for lane in self._layout.passes.get(edge, ()):
            middle = lane.centre if self._layout.across else lane.middle
            near, far = (lane.x, lane.right) if self._layout.across else (lane.y, lane.bottom)
            between += [(near, middle), (far, middle)] if leaves is Side.LEAVING else [(far, middle), (near, middle)]
        between.append(end)
        return Way(tuple(self._curve(one, other) for one, other in zip(between[::2], between[1::2], strict=True)))

    def _sides(self, edge: Edge) -> tuple[Side, Side]:
        return choose_sides(self._layout.places[edge[0]].layer, self._layout.places[edge[1]].layer)

    def _across(self, end_of: tuple[Edge, bool]) -> tuple[float, str]:
        """Return the sort key of one end of a line.

        The key is a centre and the agent at the other end. The centre is that of the lane or box that comes next on the
        line, seen from this end. It is measured across the direction of the work.
        """
        edge, leaving = end_of
        lanes: Sequence[Place] = self._layout.passes.get(edge, ())
        name = edge[1] if leaving else edge[0]
        place = self._layout.places[name] if not lanes else lanes[0] if leaving else lanes[-1]
        return (place.centre if self._layout.across else place.middle), name

    def _port(self, place: Place, side: Side, along: float, gap: float) -> Point:
        """Return the point where a line meets a box. `along` is the fraction of the box's side, from 0 to 1."""
        if self._layout.across:
            return (place.right + gap if side is Side.LEAVING else place.x - gap), place.y + place.height * along
        return (place.bottom + gap if side is Side.LEAVING else place.y - gap), place.x + place.width * along

    def _curve(self, start: Point, end: Point) -> Curve:
        pull = (end[0] - start[0]) * 0.5
        points = (start, (start[0] + pull, start[1]), (end[0] - pull, end[1]), end)
        return Curve(*(self._turn(point) for point in points))

    def _go_round(self, start: Point, end: Point) -> Curve:
        """Return a curve that leaves the layer and returns to it."""
        out = max(start[0], end[0]) + _BULGE
        return Curve(*(self._turn(point) for point in (start, (out, start[1]), (out, end[1]), end)))

    def _turn(self, point: Point) -> Point:
        return point if self._layout.across else (point[1], point[0])
