"""Which way the lines of a map take: out of one box, through the room that they have between, into another."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from handoffaudit.drawing.agent_map.layers import Weights
from handoffaudit.drawing.agent_map.layout import Layout, Place, Side, sides

Point = tuple[float, float]
Edge = tuple[str, str]

# An arrow stands between the end of its line and the box.
ARROW: Final = 7.0
_BULGE: Final = 34.0


@dataclass(frozen=True, slots=True)
class Curve:
    """A cubic one from `start` to `end` by two points that pull it."""

    start: Point
    first: Point
    second: Point
    end: Point

    def at(self, part: float) -> Point:
        """The point after that part of the way, from 0 to 1."""
        rest = 1 - part
        weights = (rest**3, 3 * rest * rest * part, 3 * rest * part * part, part**3)
        points = (self.start, self.first, self.second, self.end)
        x, y = (sum(one * point[axis] for one, point in zip(weights, points, strict=True)) for axis in (0, 1))
        return x, y


@dataclass(frozen=True, slots=True)
class Way:
    """Curves with straight lines between them."""

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
        """Nearer to the source, so that a mark stands apart from that of the way back."""
        return self.curves[0].at(0.38 if len(self.curves) == 1 else 0.6)

    @property
    def direction(self) -> Point:
        """Of its end, of length 1."""
        last = self.curves[-1]
        x, y = last.end[0] - last.second[0], last.end[1] - last.second[1]
        length = sqrt(x * x + y * y) or 1.0
        return x / length, y / length


class Ways:
    """Of all lines of a layout: where they leave and enter boxes side by side, in the order of where they go to."""

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
            # There and back side by side, in the same order at both ends.
            some.sort(key=lambda one: (self._across(one), self._sides(one[0])[0].value))
            for number, one in enumerate(some):
                self._along[one] = (number + 1) / (len(some) + 1)

    def of(self, edge: Edge, wide: float) -> Way:
        """`wide`: of the line, whose arrow is larger the wider it is."""
        source, target = self._layout.places[edge[0]], self._layout.places[edge[1]]
        gap = ARROW + wide / 2
        if edge[0] == edge[1]:
            x, y = source.right - 14, source.y
            return Way((Curve((x - 36, y), (x - 36, y - 24), (x, y - 28), (x, y - gap)),))
        leaves, enters = self._sides(edge)
        start = self._port(source, leaves, self._along[edge, True], 0)
        end = self._port(target, enters, self._along[edge, False], gap)
        if source.layer == target.layer:
            return Way((self._round(start, end),))
        between: list[Point] = [start]
        for lane in self._layout.passes.get(edge, ()):
            middle = lane.centre if self._layout.across else lane.middle
            near, far = (lane.x, lane.right) if self._layout.across else (lane.y, lane.bottom)
            between += [(near, middle), (far, middle)] if leaves is Side.LEAVING else [(far, middle), (near, middle)]
        between.append(end)
        return Way(tuple(self._curve(one, other) for one, other in zip(between[::2], between[1::2], strict=True)))

    def _sides(self, edge: Edge) -> tuple[Side, Side]:
        return sides(self._layout.places[edge[0]].layer, self._layout.places[edge[1]].layer)

    def _across(self, end_of: tuple[Edge, bool]) -> tuple[float, str]:
        """Where an end that leaves goes to, and one that enters comes from, beside the direction of the work."""
        edge, leaving = end_of
        lanes: Sequence[Place] = self._layout.passes.get(edge, ())
        name = edge[1] if leaving else edge[0]
        place = self._layout.places[name] if not lanes else lanes[0] if leaving else lanes[-1]
        return (place.centre if self._layout.across else place.middle), name

    def _port(self, place: Place, side: Side, along: float, gap: float) -> Point:
        """In the direction of the work, and beside it."""
        if self._layout.across:
            return (place.right + gap if side is Side.LEAVING else place.x - gap), place.y + place.height * along
        return (place.bottom + gap if side is Side.LEAVING else place.y - gap), place.x + place.width * along

    def _curve(self, start: Point, end: Point) -> Curve:
        pull = (end[0] - start[0]) * 0.5
        points = (start, (start[0] + pull, start[1]), (end[0] - pull, end[1]), end)
        return Curve(*(self._turned(point) for point in points))

    def _round(self, start: Point, end: Point) -> Curve:
        """Out of the layer and back into it."""
        out = max(start[0], end[0]) + _BULGE
        return Curve(*(self._turned(point) for point in (start, (out, start[1]), (out, end[1]), end)))

    def _turned(self, point: Point) -> Point:
        return point if self._layout.across else (point[1], point[0])
