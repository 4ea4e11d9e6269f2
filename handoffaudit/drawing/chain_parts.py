"""Layout and shapes of a chain drawing. The styles of a page override the colour attributes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from handoffaudit.drawing.svg import element, escape_text, link, text

_COLUMN = 7.4

_PADDING = 22

NODE_HEIGHT = 40

GAP = 30

_TARGET_GAP = 24

_ROW_GAP = 34

_ARC_ROOM = 30

_EDGE = 10

_LANE = 26

_CAPTION = 26

_FOLD_WIDTH = 112


@dataclass(frozen=True, slots=True)
class Box:
    row: int
    x: float
    y: float
    width: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + NODE_HEIGHT

    @property
    def centre(self) -> float:
        return self.y + NODE_HEIGHT / 2


@dataclass(slots=True)
class Layout:
    """The layout of a chain drawing.

    `boxes` holds a box for each slot and, at the end, the target's box. `of_position` holds the box of each drawn
    agent.
    """

    width: float
    columns: int
    boxes: list[Box] = field(default_factory=list)
    of_position: dict[int, Box] = field(default_factory=dict)
    height: float = 0


def lay_out(slots: Sequence[int | range], width: float, columns: int, *, has_arcs: bool, caption: bool) -> Layout:
    """Place the slots in rows of `width`, and the target after the last agent, at a distance."""
    node_width = min(columns * _COLUMN + _PADDING, width - 2 * (_EDGE + _LANE))
    layout = Layout(width, columns)
    top = (_CAPTION if caption else 0) + (_ARC_ROOM if has_arcs else 8)
    pitch = NODE_HEIGHT + _ROW_GAP + (14 if has_arcs else 0)
    left = _EDGE
    right = width - _EDGE - _LANE
    x = float(left)
    row = 0
    sizes = [_FOLD_WIDTH if isinstance(slot, range) else node_width for slot in slots]
    for number, size in enumerate([*sizes, node_width]):
        is_target = number == len(sizes)
        start = x + (_TARGET_GAP if is_target and x > left else 0)
        if x > left and start + size > right:
            row += 1
            x = start = float(left + _LANE)
        box = Box(row, start, top + row * pitch, size)
        layout.boxes.append(box)
        if not is_target and isinstance(slot := slots[number], int):
            layout.of_position[slot] = box
        x = box.right + GAP
    layout.height = layout.boxes[-1].bottom + 26
    return layout


INK = "#1f2328"

PAPER = "#ffffff"

LINE = "#6e7781"

WRONG = "#d1242f"

WRONG_PAPER = "#ffebe9"

OVER = "#9a6700"

OVER_PAPER = "#fff8c5"

TARGET_PAPER = "#ddf4ff"

TARGET = "#0969da"

_ROUND = 8

_ARROW = 6


def draw_node(box: Box, name: str, title: str, position: int, *, is_loop: bool, is_over: bool, differs: bool) -> str:
    kinds = {"loop": is_loop, "over": is_over, "differs": differs}
    paper, line = (WRONG_PAPER, WRONG) if is_loop else (OVER_PAPER, OVER) if is_over or differs else (PAPER, LINE)
    label = f"{position}. {title}"
    label += ", the target" if is_loop else ""
    label += ", past the approval length" if is_over else ""
    label += ", differs between the two chains" if differs else ""
    return element(
        "g",
        element("title", escape_text(label)),
        _draw_rectangle(box, paper, line, dashes="5 3" if is_over or differs else None, thick=is_loop),
        _draw_name(box, name),
        _draw_label_below(box, str(position)),
        class_=" ".join(["chain-node", *(f"is-{kind}" for kind, holds in kinds.items() if holds)]),
    )


def draw_target(box: Box, name: str, title: str, *, is_loop: bool) -> str:
    paper, line = (WRONG_PAPER, WRONG) if is_loop else (TARGET_PAPER, TARGET)
    return element(
        "g",
        element("title", escape_text(f"Target: {title}")),
        _draw_rectangle(box, paper, line, round_=NODE_HEIGHT / 2, thick=True),
        _draw_name(box, name),
        _draw_label_below(box, "target"),
        class_="chain-target is-loop" if is_loop else "chain-target",
    )


def draw_fold(box: Box, number: int, href: str, *, is_over: bool) -> str:
    label = f"{number} more agents" + (", past the approval length" if is_over else "")
    paper, line = (OVER_PAPER, OVER) if is_over else (PAPER, LINE)
    parts = (_draw_rectangle(box, paper, line, dashes="2 4"), _draw_name(box, f"… {number} more …"))
    class_ = "chain-fold is-over" if is_over else "chain-fold"
    if href:
        return link(href, f"Show {label}", *parts, class_=class_)
    return element("g", element("title", label), *parts, class_=class_)


def draw_connector(layout: Layout, before: Box, after: Box) -> str:
    """Draw the line from one box to the next, or from the end of a row to the start of the next row."""
    is_target = after is layout.boxes[-1]
    if before.row == after.row:
        path = f"M{before.right:.0f} {before.centre:.0f}H{after.x - 2:.0f}"
    else:
        turn = before.bottom + 22
        path = (
            f"M{before.right:.0f} {before.centre:.0f}h{GAP / 3:.0f}V{turn:.0f}"
            f"H{after.x - 16:.0f}V{after.centre:.0f}H{after.x - 2:.0f}"
        )
    return element(
        "path",
        d=f"{path}{_head_path(after.x - 2, after.centre)}",
        class_="chain-handover" if is_target else "chain-line",
        fill="none",
        stroke=TARGET if is_target else LINE,
        stroke_width=2 if is_target else 1.5,
        stroke_linejoin="round",
    )


def _head_path(x: float, y: float) -> str:
    return f"M{x - _ARROW:.0f} {y - _ARROW / 2 - 1:.0f}L{x:.0f} {y:.0f}L{x - _ARROW:.0f} {y + _ARROW / 2 + 1:.0f}"


def draw_arc(layout: Layout, place: Box, number: int, identifier: str) -> str:
    """Draw the arc from the target back to an earlier position of the target."""
    target = layout.boxes[-1]
    start = target.middle - 8 * number
    end = place.middle
    if place.row == target.row:
        height = min(24.0, 14.0 + number * 4)
        top = place.y - height
        path = (
            f"M{start:.0f} {target.y:.0f}C{start:.0f} {top - 8:.0f} {end:.0f} {top - 8:.0f} {end:.0f} {place.y - 3:.0f}"
        )
    else:
        lane = layout.width - 6 - 5 * number
        above_target = target.y - 9 - 3 * number
        above_place = place.y - 14 - 3 * number
        path = (
            f"M{start:.0f} {target.y:.0f}V{above_target:.0f}H{lane:.0f}V{above_place:.0f}H{end:.0f}V{place.y - 3:.0f}"
        )
    head = f"M{end - 5:.0f} {place.y - 9:.0f}L{end:.0f} {place.y - 2:.0f}L{end + 5:.0f} {place.y - 9:.0f}"
    return element(
        "path",
        d=path + head,
        id=identifier,
        class_="chain-loop",
        fill="none",
        stroke=WRONG,
        stroke_width=2,
        stroke_linejoin="round",
        stroke_linecap="round",
    )


def draw_limit_line(first_over: Box, limit: int) -> str:
    """Draw the line before the first agent past the approval length."""
    x = first_over.x - GAP / 2
    return element(
        "g",
        element("title", f"Chains of more than {limit} agents need approval"),
        element(
            "path",
            d=f"M{x:.0f} {first_over.y - 6:.0f}V{first_over.bottom + 3:.0f}",
            stroke=OVER,
            stroke_width=2,
            stroke_dasharray="3 3",
        ),
        text(f"limit {limit}", x, first_over.bottom + 14, fill=OVER, font_size=11, text_anchor="middle"),
        class_="chain-limit",
    )


def _draw_rectangle(
    box: Box, paper: str, line: str, *, dashes: str | None = None, round_: float = _ROUND, thick: bool = False
) -> str:
    return element(
        "rect",
        x=box.x,
        y=box.y,
        width=box.width,
        height=NODE_HEIGHT,
        rx=round_,
        fill=paper,
        stroke=line,
        stroke_width=2 if thick else 1.5,
        stroke_dasharray=dashes,
    )


def _draw_name(box: Box, name: str) -> str:
    return text(name, box.middle, box.centre + 4.5, class_="chain-name", fill=INK, text_anchor="middle")


def _draw_label_below(box: Box, label: str) -> str:
    return text(
        label, box.middle, box.bottom + 14, class_="chain-number", fill=LINE, font_size=11, text_anchor="middle"
    )
