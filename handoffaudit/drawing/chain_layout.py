"""Where each part of a chain stands: in rows from left to right, with lanes for arcs beside and between them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

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
    """`boxes`: one for each slot, the target's last; `of_position`: the box of each agent that is drawn."""

    width: float
    columns: int
    boxes: list[Box] = field(default_factory=list)
    of_position: dict[int, Box] = field(default_factory=dict)
    height: float = 0


def lay_out(slots: Sequence[int | range], width: float, columns: int, *, has_arcs: bool, caption: bool) -> Layout:
    """Fills rows of `width`; the target stands apart after the last agent."""
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
