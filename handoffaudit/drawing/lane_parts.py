"""Layout and shapes of a lanes drawing. The styles of a page override the colour attributes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from handoffaudit.drawing.svg import columns_of, element, escape_text, link, shorten, text, tooltip, visible

_COLUMN = 7.4

_LONGEST_NAME = 24

_SHORT_NAME = 13

_SHORTEST_NAME = 7

_SMALL = 500

_NARROWEST, _WIDEST = 26.0, 64.0

_FOLD_WIDTH = 92.0

_LANE, _CLOSE_LANE = 40.0, 30.0

_CLOSE_FROM = 10

_EDGE = 8.0

_BRACKET = 20.0

_NUMBERS = 24.0

_LEGEND = 34.0


@dataclass(slots=True)
class Layout:
    """The layout of a lanes drawing.

    A slot is the column of one handoff, or a fold: one column for several handoffs that are not drawn. `shown_width` is
    the width that is visible without scrolling. `middles` holds the middle of each slot. `of_place` holds the middle of
    the slot of each handoff, by the position of the handoff in the trace.
    """

    width: float
    shown_width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    pitch: float
    columns: int
    row_of: dict[str, int]
    lane_height: float
    middles: list[float] = field(default_factory=list)
    of_place: dict[int, float] = field(default_factory=dict)

    def y(self, row: int) -> float:
        return self.top + (row + 0.5) * self.lane_height

    @property
    def numbers_at(self) -> float:
        """Return the baseline of the numbers above the lanes."""
        return self.top - 9


def lay_out(
    slots: Sequence[int | range], names: Sequence[str], width: float, *, has_loop: bool, has_long: bool
) -> Layout:
    widest = max((columns_of(visible(name[: 2 * _LONGEST_NAME])) for name in names), default=0)
    columns = min(max(widest, _SHORTEST_NAME), _SHORT_NAME if width < _SMALL else _LONGEST_NAME)
    left = _EDGE + columns * _COLUMN + 14
    folds = sum(isinstance(slot, range) for slot in slots)
    number = max(len(slots) - folds, 1)
    room = width - left - _EDGE - folds * _FOLD_WIDTH
    pitch = min(max(room / number, _NARROWEST), _WIDEST)
    top = _EDGE + _NUMBERS + _BRACKET * (has_loop + has_long)
    lane_height = _CLOSE_LANE if len(names) > _CLOSE_FROM else _LANE
    bottom = top + max(len(names), 1) * lane_height
    layout = Layout(
        width=width,
        shown_width=width,
        height=bottom + _LEGEND,
        left=left,
        right=left,
        top=top,
        bottom=bottom,
        pitch=pitch,
        columns=columns,
        row_of={name: row for row, name in enumerate(names)},
        lane_height=lane_height,
    )
    for slot in slots:
        wide = _FOLD_WIDTH if isinstance(slot, range) else pitch
        layout.middles.append(layout.right + wide / 2)
        for place in slot if isinstance(slot, range) else (slot,):
            layout.of_place[place] = layout.middles[-1]
        layout.right += wide
    layout.width = max(width, layout.right + _EDGE)
    return layout


INK = "#1f2328"

PAPER = "#ffffff"

LINE = "#8c959f"

QUIET = "#6e7781"

GOOD = "#1a7f37"

WAIT = "#9a6700"

WRONG = "#d1242f"

_ROUND = 6.5

_HATCH = 7

_LEGEND_LINE = 20

_LEGEND_ROOM = 480

_UNDECIDED = frozenset({"held", "rejected"})

_DECISIONS = ("approved", "declined")

# Each state has its own combination of shape and mark, so that readers can tell states apart without colours.
_MARKS = {
    "accepted": ("ring", "M-3 0l2 2.4 4-4.6", GOOD),
    "approved": ("shield", "M-3 0l2 2.4 4-4.6", GOOD),
    "held": ("ring", "M-1.7 -2.8v5.6M1.7 -2.8v5.6", WAIT),
    "rejected": ("square", "M-2.6 -2.6l5.2 5.2M2.6 -2.6l-5.2 5.2", WRONG),
    "declined": ("diamond", "M-2.4 -2.4l4.8 4.8M2.4 -2.4l-4.8 4.8", WRONG),
    "superseded": ("ring", "M-4.5 4.5l9 -9", QUIET),
}

_WAITING = ("ring", "M0 -3V0.3l2.2 1.4", QUIET)

_SHAPES = {
    "ring": f"M0 {-_ROUND}a{_ROUND} {_ROUND} 0 1 0 0.01 0Z",
    "square": "M-6 -6H6V6H-6Z",
    "diamond": "M0 -8L8 0 0 8 -8 0Z",
    "shield": "M-6 -6.5H6V1C6 5 3 7 0 8 -3 7 -6 5 -6 1Z",
}


class Shown(Protocol):
    """The properties of a handoff that its column shows."""

    @property
    def number(self) -> int: ...
    @property
    def state(self) -> str: ...
    @property
    def is_origin(self) -> bool: ...
    @property
    def carries(self) -> bool: ...
    @property
    def calls(self) -> int: ...


def definitions(prefix: str, states: Iterable[str]) -> str:
    """Return the definitions of a drawing: the hatch pattern, and a mark for each state, which the arrows refer to."""
    hatch = element(
        "pattern",
        element(
            "path",
            d=f"M-1 {_HATCH + 1}L{_HATCH + 1} -1M-1 1L1 -1M{_HATCH - 1} {_HATCH + 1}L{_HATCH + 1} {_HATCH - 1}",
            class_="lane-hatch",
            stroke=WAIT,
            stroke_width=1.2,
            fill="none",
        ),
        id=f"{prefix}-hatch",
        width=_HATCH,
        height=_HATCH,
        patternUnits="userSpaceOnUse",
    )
    return element("defs", hatch, *(_draw_mark(state, id=f"{prefix}-{state}") for state in states))


def _draw_mark(state: str, **attributes: str) -> str:
    shape, mark, colour = _MARKS.get(state, _WAITING)
    return element(
        "g",
        element("path", d=_SHAPES[shape], fill=PAPER, stroke=colour, stroke_width=1.6, class_="lane-shape"),
        element("path", d=mark, fill="none", stroke=colour, stroke_width=1.5, class_="lane-mark"),
        class_=f"lane-state lane-state--{state}",
        **attributes,
    )


def group_arrows(arrows: Iterable[str]) -> str:
    """Return the arrows with the attributes that they share."""
    return element(
        "g",
        *arrows,
        fill="none",
        stroke=INK,
        stroke_width=1.6,
        stroke_linejoin="round",
        pointer_events="all",
        font_size=11,
        text_anchor="middle",
    )


def draw_lane(layout: Layout, row: int, name: str) -> str:
    y = layout.y(row)
    line = element(
        "path", d=f"M{layout.left:.0f} {y:.1f}H{layout.right:.0f}", class_="lane-line", stroke=LINE, stroke_opacity=0.55
    )
    label = text(
        shorten(name, layout.columns), layout.left - 12, y + 4.5, class_="lane-name", fill=INK, text_anchor="end"
    )
    return element("g", element("title", escape_text(tooltip(name))), label, line, class_="lane")


def draw_held(layout: Layout, row: int, start: float, end: float) -> str:
    y = layout.y(row)
    return element(
        "path",
        d=f"M{start:.1f} {y:.1f}H{end:.1f}",
        class_="lane-held",
        stroke=QUIET,
        stroke_width=5,
        stroke_opacity=0.45,
    )


def draw_band(layout: Layout, middle: float, prefix: str) -> str:
    """Draw the background of a handoff that inherits an ungrounded value."""
    return element(
        "rect",
        x=middle - layout.pitch / 2 + 1,
        y=layout.top,
        width=layout.pitch - 2,
        height=layout.bottom - layout.top,
        class_="lane-tainted",
        fill=f"url(#{prefix}-hatch)",
        fill_opacity=0.5,
    )


def draw_arrow(
    layout: Layout, middle: float, rows: tuple[int, int], one: Shown, label: str, *, href: str, prefix: str
) -> str:
    start, end = layout.y(rows[0]), layout.y(rows[1])
    # The link covers the whole column.
    field = element(
        "rect",
        x=middle - layout.pitch / 2,
        y=layout.numbers_at - 14,
        width=layout.pitch,
        height=layout.bottom - layout.numbers_at + 14,
        stroke="none",
        class_="lane-field",
    )
    number = text(str(one.number), middle, layout.numbers_at, class_="lane-number", fill=QUIET, stroke="none")
    way = element("path", d=_arrow_path(middle, start, end), class_="lane-arrow")
    state = element("use", href=f"#{prefix}-{one.state}", x=round(middle, 1), y=round(start, 1))
    parts = [field, *([_draw_origin(layout, middle)] if one.is_origin else []), number, way, state]
    kinds = ["lane-step", *(["is-origin"] if one.is_origin else []), *(["is-tainted"] if one.carries else [])]
    return link(href, label, *parts, class_=" ".join(kinds))


def _draw_origin(layout: Layout, middle: float) -> str:
    """Draw a flag around the number."""
    y = layout.numbers_at - 4
    return element(
        "path",
        d=f"M{middle - 11:.1f} {y - 9:.1f}h22v13.5l-11 6.5-11-6.5Z",
        class_="lane-origin",
        fill=PAPER,
        stroke=WRONG,
        stroke_width=1.6,
        stroke_linejoin="round",
    )


def _arrow_path(middle: float, start: float, end: float) -> str:
    if start == end:
        y = start
        return (
            f"M{middle + 5:.1f} {y - 5:.1f}c9 -9 9 19 1 11.5"
            f"M{middle + 11:.1f} {y + 8:.1f}L{middle + 5:.1f} {y + 6:.1f}L{middle + 7.5:.1f} {y + 12:.1f}"
        )
    way = 1 if end > start else -1
    head = end - 6 * way
    return (
        f"M{middle:.1f} {start + 8 * way:.1f}V{end:.1f}"
        f"M{middle - 4.5:.1f} {head:.1f}L{middle:.1f} {end:.1f}L{middle + 4.5:.1f} {head:.1f}"
    )


def draw_bracket(layout: Layout, first: int, last: int, label: str, row: int) -> str:
    """Draw a bracket over the columns from one handoff to another."""
    start, end = layout.of_place[first] - layout.pitch / 2 + 3, layout.of_place[last] + layout.pitch / 2 - 3
    y = 14.0 + 20 * row
    is_loop = label == "loop"
    line = element(
        "path",
        d=f"M{start:.1f} {y + 6:.1f}v-5H{end:.1f}v5",
        fill="none",
        stroke=WRONG if is_loop else WAIT,
        stroke_width=1.5,
        stroke_dasharray=None if is_loop else "5 3",
        class_="lane-bracket",
    )
    name = text(label, start + 2, y - 3, fill=WRONG if is_loop else WAIT, font_size=11, class_="lane-bracket-name")
    return element("g", line, name, class_="lane-loop" if is_loop else "lane-long")


def draw_fold(layout: Layout, middle: float, label: str, number: int, href: str) -> str:
    parts = (
        element(
            "rect",
            x=middle - 41,
            y=layout.top,
            width=82,
            height=layout.bottom - layout.top,
            rx=8,
            fill=PAPER,
            stroke=LINE,
            stroke_dasharray="2 4",
            class_="lane-fold-field",
        ),
        text(
            f"… {number} more",
            middle,
            (layout.top + layout.bottom) / 2 + 4,
            fill=INK,
            text_anchor="middle",
            class_="lane-name",
        ),
    )
    if href:
        return link(href, f"Show {label}", *parts, class_="lane-fold")
    return element("g", element("title", label), *parts, class_="lane-fold")


def draw_legend(layout: Layout, prefix: str, arrows: Sequence[Shown]) -> str:
    """Draw a legend of the marks in use, and increase the layout's height by each line after the first.

    The height includes room for the marks of decisions on undecided handoffs, so that a page with live updates does not
    move when a reviewer decides.
    """
    states = dict.fromkeys(one.state for one in arrows)
    entries = [(state, state) for state in states]
    entries += [("", "introduces an ungrounded value")] if any(one.is_origin for one in arrows) else []
    entries += [("/", "inherits an ungrounded value")] if any(one.carries for one in arrows) else []
    entries += [("·", "tool results before")] if any(one.calls for one in arrows) else []
    decisions = [state for state in _DECISIONS if state not in states] if not _UNDECIDED.isdisjoint(states) else []
    start = layout.left if layout.width - layout.left > _LEGEND_ROOM else 4.0
    parts, x, y = [], start, layout.bottom + 22
    for kind, label in [*entries, *((None, state) for state in decisions)]:
        wide = 19 + len(label) * 7.0 + 14
        if x > start and x + wide > layout.shown_width:
            x, y = start, y + _LEGEND_LINE
            layout.height += _LEGEND_LINE
        parts += [] if kind is None else [_draw_sign(kind, x, y, prefix), _draw_label(label, x + 19, y)]
        x += wide
    return element("g", *parts, class_="lane-legend")


def _draw_sign(kind: str, x: float, y: float, prefix: str) -> str:
    """Draw the mark of a state, of an introduced value (empty kind), an inherited value (`/`) or tool results (`·`)."""
    if kind == "":
        return element(
            "path",
            d=f"M{x:.1f} {y - 11:.1f}h14v8l-7 5-7-5Z",
            fill=PAPER,
            stroke=WRONG,
            stroke_width=1.6,
            stroke_linejoin="round",
            class_="lane-origin",
        )
    if kind == "/":
        return element("rect", x=x, y=y - 11, width=14, height=14, fill=f"url(#{prefix}-hatch)", class_="lane-tainted")
    if kind == "·":
        return _draw_dot(x + 7, y - 4)
    return _draw_mark(kind, transform=f"translate({x + 7:.1f} {y - 4:.1f})")


def draw_calls(layout: Layout, middle: float, row: int) -> str:
    """Draw the mark of tool results on the lane `row`, left of the handoff that follows the results."""
    return _draw_dot(middle - layout.pitch * 0.36, layout.y(row))


def _draw_dot(x: float, y: float) -> str:
    return element("circle", cx=round(x, 1), cy=round(y, 1), r=3.5, fill=PAPER, stroke=INK, class_="lane-calls")


def _draw_label(label: str, x: float, y: float) -> str:
    return text(label, x, y, fill=QUIET, font_size=12, class_="lane-number")
