"""A document that is not JSON: its lines around the spot where reading stopped."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from handoffaudit.dashboard.readable import cut, readable, weight

RAW_SHOWN = 40_000
_RAW_WEIGHT = 60_000
_LINES_AROUND = 6
_COLUMNS_AROUND = 160
_BOM = b"\xef\xbb\xbf"


class Placed(Protocol):
    """An issue that may say where reading stopped."""

    @property
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """`at`: the character where reading stopped, on the line that has it; `before` and `after` stand around it."""

    number: int
    before: str
    at: str = ""
    after: str = ""
    is_spot: bool = False


@dataclass(frozen=True, slots=True)
class Excerpt:
    lines: Sequence[Line]
    line: int
    column: int


def excerpt(original: bytes, found: Iterable[Placed]) -> Excerpt | None:
    """None where no issue says where reading stopped."""
    spot = next((issue.metadata for issue in found if "offset" in issue.metadata), None)
    if spot is None:
        return None
    text = original.removeprefix(_BOM).decode(errors="replace")
    offset = min(int(spot["offset"]), len(text))
    lines = text.split("\n")
    number = text.count("\n", 0, offset)
    start = offset - (text.rfind("\n", 0, offset) + 1)
    first = max(0, number - _LINES_AROUND)
    shown = [
        _spot_line(position + 1, line, start) if position == number else Line(position + 1, cut(line, _COLUMNS_AROUND))
        for position, line in enumerate(lines[first : number + _LINES_AROUND + 1], start=first)
    ]
    return Excerpt(shown, number + 1, start + 1)


def _spot_line(number: int, line: str, column: int) -> Line:
    first = max(0, column - _COLUMNS_AROUND)
    before = ("…" if first else "") + readable(line[first:column])
    return Line(
        number,
        before=before,
        at=readable(line[column : column + 1]) or "⏎",
        after=cut(line[column + 1 :], _COLUMNS_AROUND),
        is_spot=True,
    )


def raw_text(original: bytes) -> tuple[str, int]:
    """The document as text up to what a page may show, and how many bytes are left out."""
    length = RAW_SHOWN
    text = readable(original[:length].decode(errors="replace"))
    while weight(text) > _RAW_WEIGHT:
        length //= 2
        text = readable(original[:length].decode(errors="replace"))
    return text, max(len(original) - length, 0)
