"""Where each lane and each handoff of a trace stands: lanes from top to bottom, time from left to right."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from handoffaudit.drawing.svg import columns_of, visible

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
    """`shown_width` is seen without scrolling. `middles`: of each slot, the fold's too; `of_place`: of each handoff
    that is drawn, by its place."""

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
        """The baseline of the numbers above the lanes."""
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
