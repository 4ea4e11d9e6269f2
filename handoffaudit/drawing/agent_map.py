"""A map of who hands to whom: agents as boxes, handoffs as lines as wide as there are many of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from handoffaudit.drawing.agent_map_layout import Layout, Place, Side, lay_out, sides
from handoffaudit.drawing.drawing import Drawing
from handoffaudit.drawing.svg import element, frame, link, shortened, text, titled

# Below it, a share is marked.
LOW_SHARE: Final = 0.8
_INK = "#1f2328"
_LINE = "#6e7781"
_LOW = "#d1242f"
_PAPER = "#ffffff"
_THINNEST, _THICKEST = 1.25, 8.0
_COLUMN = 7.2
_ARROW = 7.0
_MARK = 7.0


@dataclass(frozen=True, slots=True)
class MapEdge:
    """`share` accepted, from 0 to 1; None: nothing was judged. `told` says it in words; `time` is how long it took."""

    source: str
    target: str
    number: int
    share: float | None
    time: str = ""
    href: str = ""

    @property
    def is_low(self) -> bool:
        return self.share is not None and self.share < LOW_SHARE

    @property
    def share_told(self) -> str:
        """100 only where it is all of them, 0 only where it is none: as tables have it."""
        if self.share is None:
            return "none judged"
        percent = 100 * self.share
        return f"{percent if self.share in (0, 1) else min(max(percent, 0.1), 99.9):.1f} %"

    @property
    def told(self) -> str:
        time = f", median {self.time}" if self.time else ""
        accepted = "none judged" if self.share is None else f"{self.share_told} accepted"
        return f"{titled(self.source)} to {titled(self.target)}: {self.number:,} handed over, {accepted}{time}"


@dataclass(frozen=True, slots=True)
class MapAgent:
    """`number` of handoffs from it and to it. `folded`: it stands for several."""

    name: str
    number: int
    href: str = ""
    folded: bool = False


def _number(number: int, noun: str) -> str:
    """`1 way`, `1,200 ways`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def agent_map(
    agents: Sequence[MapAgent],
    edges: Sequence[MapEdge],
    *,
    width: int = 960,
    across: bool = True,
    prefix: str = "map",
) -> Drawing:
    """Edges are drawn in the order given; all their agents must be among `agents`."""
    weights = {(edge.source, edge.target): edge.number for edge in edges}
    layout = lay_out([agent.name for agent in agents], weights, width, across=across)
    most = max((edge.number for edge in edges), default=1)
    ports = _Ports(layout, edges)
    # Thin lines last: a wide one would hide them.
    drawn = [_edge(edge, ports, most) for edge in sorted(edges, key=lambda one: (-one.number, one.source, one.target))]
    boxes = [_box(agent, layout.places[agent.name]) for agent in agents]
    low = [edge for edge in edges if edge.is_low]
    words = (
        f"{_number(len(agents), 'agent')}, {_number(len(edges), 'way')} between them, "
        f"{_number(sum(edge.number for edge in edges), 'handoff')}."
        + (f" Dashed, with a cross: {len(low):,} with less than {LOW_SHARE * 100:.0f} % accepted." if low else ""),
    )
    svg = frame(
        *drawn,
        *boxes,
        width=layout.width,
        height=layout.height,
        title="Map of who hands to whom",
        description=" ".join(words),
        prefix=prefix,
        class_="drawing map",
        interactive=True,
    )
    rows = tuple(
        (edge.source, edge.target, f"{edge.number:,}", edge.share_told, edge.time or "unknown") for edge in edges
    )
    return Drawing(svg, words, ("Source", "Target", "Handoffs", "Accepted", "Median time"), rows)


def _box(agent: MapAgent, place: Place) -> str:
    columns = int((place.width - 14) / _COLUMN)
    parts = [
        element(
            "rect",
            x=place.x,
            y=place.y,
            width=place.width,
            height=place.height,
            rx=8,
            fill=_PAPER,
            stroke=_LINE,
            stroke_width=1.25,
            stroke_dasharray="3 4" if agent.folded else None,
        ),
        text(
            shortened(agent.name, columns),
            place.middle,
            place.centre - 3,
            class_="map-name",
            fill=_INK,
            font_size=12.5,
            text_anchor="middle",
        ),
        text(
            f"{agent.number:,}",
            place.middle,
            place.centre + 12,
            class_="map-number",
            fill=_LINE,
            font_size=11,
            text_anchor="middle",
        ),
    ]
    label = f"{titled(agent.name)}: {agent.number:,} handoffs from it and to it"
    return link(agent.href, label, *parts, class_="map-agent is-folded" if agent.folded else "map-agent")


class _Ports:
    """Where lines leave and enter boxes: side by side, in the order of where they go to."""

    def __init__(self, layout: Layout, edges: Sequence[MapEdge]) -> None:
        self.layout = layout
        at_side: dict[tuple[str, Side], list[tuple[MapEdge, bool]]] = {}
        for edge in edges:
            if edge.source != edge.target:
                leaves, enters = self.sides(edge)
                at_side.setdefault((edge.source, leaves), []).append((edge, True))
                at_side.setdefault((edge.target, enters), []).append((edge, False))
        self._along: dict[tuple[str, str, bool], float] = {}
        for some in at_side.values():
            # There and back side by side, in the same order at both ends.
            some.sort(key=self._order)
            for number, (edge, leaving) in enumerate(some):
                self._along[edge.source, edge.target, leaving] = (number + 1) / (len(some) + 1)

    def _order(self, one: tuple[MapEdge, bool]) -> tuple[tuple[float, float, str], int]:
        edge, leaving = one
        return self._across(edge.target if leaving else edge.source), self.sides(edge)[0].value

    def sides(self, edge: MapEdge) -> tuple[Side, Side]:
        return sides(self.layout.places[edge.source].layer, self.layout.places[edge.target].layer)

    def leaves(self, edge: MapEdge) -> float:
        """How far along its side, from 0 to 1."""
        return self._along[edge.source, edge.target, True]

    def enters(self, edge: MapEdge) -> float:
        return self._along[edge.source, edge.target, False]

    def _across(self, name: str) -> tuple[float, float, str]:
        place = self.layout.places[name]
        return (place.centre, place.x, name) if self.layout.across else (place.middle, place.y, name)


@dataclass(frozen=True, slots=True)
class _Way:
    """A cubic curve from `start` to `end` by two points that pull it."""

    start: tuple[float, float]
    first: tuple[float, float]
    second: tuple[float, float]
    end: tuple[float, float]

    @property
    def path(self) -> str:
        (a, b), (c, d), (e, f), (g, h) = self.start, self.first, self.second, self.end
        return f"M{a:.1f} {b:.1f}C{c:.1f} {d:.1f} {e:.1f} {f:.1f} {g:.1f} {h:.1f}"

    def at(self, part: float) -> tuple[float, float]:
        """The point after that part of the way, from 0 to 1."""
        rest = 1 - part
        weights = (rest**3, 3 * rest * rest * part, 3 * rest * part * part, part**3)
        points = (self.start, self.first, self.second, self.end)
        x, y = (sum(one * point[axis] for one, point in zip(weights, points, strict=True)) for axis in (0, 1))
        return x, y

    @property
    def direction(self) -> tuple[float, float]:
        """Of its end, of length 1."""
        x, y = self.end[0] - self.second[0], self.end[1] - self.second[1]
        length = sqrt(x * x + y * y) or 1.0
        return x / length, y / length


def _edge(edge: MapEdge, ports: _Ports, most: int) -> str:
    wide = _THINNEST + (_THICKEST - _THINNEST) * sqrt(edge.number / most)
    way = _way(edge, ports, wide)
    colour = _LOW if edge.is_low else _LINE
    parts = [
        element("path", d=way.path, fill="none", stroke="transparent", stroke_width=14, class_="map-field"),
        element(
            "path",
            d=way.path,
            fill="none",
            stroke=colour,
            stroke_width=wide,
            stroke_opacity=0.75,
            stroke_dasharray="7 4" if edge.is_low else None,
            class_="map-line",
        ),
        _head(way, colour, wide),
    ]
    if edge.is_low:
        parts.append(_cross(way))
    return link(edge.href, edge.told, *parts, class_="map-edge is-low" if edge.is_low else "map-edge")


def _way(edge: MapEdge, ports: _Ports, wide: float) -> _Way:
    source, target = ports.layout.places[edge.source], ports.layout.places[edge.target]
    gap = _ARROW + wide / 2
    if edge.source == edge.target:
        x, y = source.right - 14, source.y
        return _Way((x - 16, y), (x - 24, y - 22), (x + 12, y - 22), (x, y - gap))
    sides = ports.sides(edge)
    points = _Points(source, target, ports.leaves(edge), ports.enters(edge), gap)
    if sides[0] is Side.BESIDE:
        return points.under() if ports.layout.across else points.beside()
    forward = sides[0] is Side.LEAVING
    return points.across(forward=forward) if ports.layout.across else points.down(forward=forward)


@dataclass(frozen=True, slots=True)
class _Points:
    """A line from one box to another, by how far along their sides it leaves and enters; `gap` has its arrow."""

    source: Place
    target: Place
    leaves: float
    enters: float
    gap: float

    def across(self, *, forward: bool) -> _Way:
        """From side to side, to the right or back."""
        source, target = self.source, self.target
        y, end_y = source.y + source.height * self.leaves, target.y + target.height * self.enters
        x, end_x = (source.right, target.x - self.gap) if forward else (source.x, target.right + self.gap)
        pull = (end_x - x) * 0.45
        return _Way((x, y), (x + pull, y), (end_x - pull, end_y), (end_x, end_y))

    def down(self, *, forward: bool) -> _Way:
        source, target = self.source, self.target
        x, end_x = source.x + source.width * self.leaves, target.x + target.width * self.enters
        y, end_y = (source.bottom, target.y - self.gap) if forward else (source.y, target.bottom + self.gap)
        pull = (end_y - y) * 0.45
        return _Way((x, y), (x, y + pull), (end_x, end_y - pull), (end_x, end_y))

    def under(self) -> _Way:
        """Below the boxes, and up into the target."""
        source, target = self.source, self.target
        start = (source.x + source.width * self.leaves, source.bottom)
        end = (target.x + target.width * self.enters, target.bottom + self.gap)
        dip = max(start[1], end[1]) + 24 + 4 * abs(source.layer - target.layer)
        return _Way(start, (start[0], dip), (end[0], dip), end)

    def beside(self) -> _Way:
        """Out to the right of the boxes, and back into the target."""
        source, target = self.source, self.target
        start = (source.right, source.y + source.height * self.leaves)
        end = (target.right + self.gap, target.y + target.height * self.enters)
        out = max(source.right, target.right) + 30
        return _Way(start, (out, start[1]), (out, end[1]), end)


def _head(way: _Way, colour: str, wide: float) -> str:
    """An arrow whose tip stands past the end of the line, at the box."""
    (x, y), (along, across) = way.end, way.direction
    length, half = _ARROW + wide / 2, 3.5 + wide / 2
    tip = (x + along * length, y + across * length)
    left = (x - across * half, y + along * half)
    right = (x + across * half, y - along * half)
    points = "L".join(f"{a:.1f} {b:.1f}" for a, b in (tip, left, right))
    return element("path", d=f"M{points}Z", fill=colour, class_="map-head")


def _cross(way: _Way) -> str:
    # Nearer to the source, so that it stands apart from that of the way back.
    x, y = way.at(0.38)
    arm = _MARK * 0.45
    left, right, top, bottom = x - arm, x + arm, y - arm, y + arm
    return element(
        "g",
        element("circle", cx=x, cy=y, r=_MARK, fill=_PAPER, stroke=_LOW, stroke_width=1.5),
        element(
            "path",
            d=f"M{left:.1f} {top:.1f}L{right:.1f} {bottom:.1f}M{right:.1f} {top:.1f}L{left:.1f} {bottom:.1f}",
            stroke=_LOW,
            stroke_width=1.75,
        ),
        class_="map-mark",
    )
