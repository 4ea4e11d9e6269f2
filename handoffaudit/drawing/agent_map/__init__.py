"""Map of routes: agents are boxes, and routes are lines whose width shows the number of handoffs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

from handoffaudit.drawing.agent_map.geometry import ARROW, Place, Way, Ways, lay_out
from handoffaudit.drawing.svg import Drawing, element, frame, link, shorten, text, tooltip

# A route with a lower acceptance rate is marked.
LOW_SHARE: Final = 0.8

_INK = "#1f2328"

_LINE = "#6e7781"

_LOW = "#d1242f"

_PAPER = "#ffffff"

_THINNEST, _THICKEST = 1.25, 8.0

# A loop is thinner, because there is little room above its box.
_THICKEST_LOOP = 3.0

_COLUMN = 7.2

_MARK = 7.0


@dataclass(frozen=True, slots=True)
class MapEdge:
    """A route.

    `share` is the acceptance rate from 0 to 1, or None if no handoff was judged. `time` is the median duration as text.
    """

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
    def share_text(self) -> str:
        """Return the acceptance rate as text. Only exact shares show as 100 % or 0 %, as in tables."""
        if self.share is None:
            return "none judged"
        percent = 100 * self.share
        return f"{percent if self.share in (0, 1) else min(max(percent, 0.1), 99.9):.1f} %"

    @property
    def description(self) -> str:
        time = f", median {self.time}" if self.time else ""
        accepted = "none judged" if self.share is None else f"{self.share_text} accepted"
        return (
            f"{tooltip(self.source)} to {tooltip(self.target)}: {_pluralize(self.number, 'handoff')}, {accepted}{time}"
        )


@dataclass(frozen=True, slots=True)
class MapAgent:
    """An agent with its number of handoffs, sent and received. `folded` marks a box for several agents."""

    name: str
    number: int
    href: str = ""
    folded: bool = False


def _pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 route` or `1,200 routes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def draw_agent_map(
    agents: Sequence[MapAgent],
    edges: Sequence[MapEdge],
    *,
    width: int = 960,
    across: bool = True,
    prefix: str = "map",
) -> Drawing:
    """Draw a map of routes. `agents` must include all agents of `edges`; the table lists the edges in their order.

    With `across`, the map runs from left to right; otherwise, from top to bottom. The drawing omits handoffs between
    the agents of one folded box, because a loop at the box would look like an agent that hands over to itself. The text
    counts the omitted handoffs.
    """
    weights = {(edge.source, edge.target): edge.number for edge in edges}
    layout = lay_out([agent.name for agent in agents], weights, width, across=across)
    most = max((edge.number for edge in edges), default=1)
    ways = Ways(layout, weights)
    folded = {agent.name for agent in agents if agent.folded}
    within = sum(edge.number for edge in edges if edge.source == edge.target and edge.source in folded)
    lines = [edge for edge in edges if edge.source != edge.target or edge.source not in folded]
    # Thin lines are drawn last: a wide line would hide them.
    drawn = [
        _draw_edge(edge, ways, most) for edge in sorted(lines, key=lambda one: (-one.number, one.source, one.target))
    ]
    boxes = [_draw_box(agent, layout.places[agent.name]) for agent in agents]
    low = [edge for edge in lines if edge.is_low]
    # A line from or to a box of several agents stands for several routes.
    noun = "line" if folded else "route"
    words = (
        f"{_pluralize(len(agents) - len(folded), 'agent')}{' and a box of others' if folded else ''}, "
        f"{_pluralize(len(edges), noun)}, {_pluralize(sum(edge.number for edge in edges), 'handoff')}."
        + (
            f" Dashed, with a cross: {_pluralize(len(low), noun)} with less than {LOW_SHARE * 100:.0f} % accepted."
            if low
            else ""
        )
        + (f" Not drawn: {_pluralize(within, 'handoff')} between agents in the same box." if within else ""),
    )
    svg = frame(
        *drawn,
        *boxes,
        width=layout.width,
        height=layout.height,
        title="Map of routes between agents",
        description=" ".join(words),
        prefix=prefix,
        class_="drawing map",
        interactive=True,
    )
    rows = tuple(
        (edge.source, edge.target, f"{edge.number:,}", edge.share_text, edge.time or "unknown") for edge in edges
    )
    return Drawing(svg, words, ("Source", "Target", "Handoffs", "Accepted", "Median time"), rows)


def _draw_box(agent: MapAgent, place: Place) -> str:
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
            shorten(agent.name, columns),
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
    label = f"{tooltip(agent.name)}: {_pluralize(agent.number, 'handoff')} sent and received"
    return link(agent.href, label, *parts, class_="map-agent is-folded" if agent.folded else "map-agent")


def _draw_edge(edge: MapEdge, ways: Ways, most: int) -> str:
    thickest = _THICKEST_LOOP if edge.source == edge.target else _THICKEST
    wide = _THINNEST + (thickest - _THINNEST) * sqrt(edge.number / most)
    way = ways.of((edge.source, edge.target), wide)
    path = way.path
    colour = _LOW if edge.is_low else _LINE
    parts = [
        element("path", d=path, fill="none", stroke="transparent", stroke_width=14, class_="map-field"),
        element(
            "path",
            d=path,
            fill="none",
            stroke=colour,
            stroke_width=wide,
            stroke_opacity=0.75,
            stroke_dasharray="7 4" if edge.is_low else None,
            class_="map-line",
        ),
        _draw_head(way, colour, wide),
    ]
    if edge.is_low:
        parts.append(_draw_cross(way))
    return link(edge.href, edge.description, *parts, class_="map-edge is-low" if edge.is_low else "map-edge")


def _draw_head(way: Way, colour: str, wide: float) -> str:
    """Draw an arrow head that reaches from the end of the line to the box."""
    (x, y), (along, across) = way.end, way.direction
    length, half = ARROW + wide / 2, 3.5 + wide / 2
    tip = (x + along * length, y + across * length)
    left = (x - across * half, y + along * half)
    right = (x + across * half, y - along * half)
    points = "L".join(f"{a:.1f} {b:.1f}" for a, b in (tip, left, right))
    return element("path", d=f"M{points}Z", fill=colour, class_="map-head")


def _draw_cross(way: Way) -> str:
    x, y = way.marked_at
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


__all__ = ["LOW_SHARE", "MapAgent", "MapEdge", "draw_agent_map"]
