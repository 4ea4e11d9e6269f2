"""Senders' texts made safe to display, and the lines around the place where a document stops being JSON."""

import json
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

_KEPT = "\n\t\u200c\u200d"

_SHOWN_AS_CODE = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def readable(text: str) -> str:
    """Return the text with control, direction and surrogate characters replaced by their code points, as `⟨U+202E⟩`.

    Line breaks, tabs and the zero-width joiner and non-joiner stay.
    """
    if text.isprintable():
        return text
    return "".join(_readable_character(character) for character in text.replace("\r\n", "\n"))


def _readable_character(character: str) -> str:
    if character in _KEPT or unicodedata.category(character) not in _SHOWN_AS_CODE:
        return character
    return f"⟨U+{ord(character):04X}⟩"


def cut(text: str, length: int) -> str:
    """Return `text` cut to `length` characters and then made readable; `…` marks the cut."""
    return readable(text) if len(text) <= length else f"{readable(text[:length])}…"


def add_breaks(markup: str) -> str:
    """Return an escaped name that may continue on the next line after an underscore, as it may after a hyphen."""
    return markup.replace("_", "_<wbr>")


def as_json(value: Any) -> str:
    """Return a JSON value as text, with quotes so that `"0.8"` differs from 0.8; line breaks stay line breaks."""
    if isinstance(value, str) and "\n" in value:
        return f'"{value}"'
    return json.dumps(value, ensure_ascii=False)


def weight(text: str) -> int:
    """Return how many bytes a readable text takes on a page. One character of a sender can take up to 13 bytes."""
    return len(escape(text).encode("utf-8", "replace"))


RAW_SHOWN = 40_000

_RAW_WEIGHT = 60_000

_LINES_AROUND = 6

_COLUMNS_AROUND = 160

_BOM = b"\xef\xbb\xbf"


class Placed(Protocol):
    """A finding that may say where parsing stopped."""

    @property
    def metadata(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Line:
    """A line of an excerpt.

    On the line where parsing stopped, `is_spot` is true, `at` is the character at that place, and `before` and `after`
    are the text around it. On any other line, `before` is the whole text.
    """

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
    """Return the lines around the place where parsing stopped; None if no finding names that place."""
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
    """Return the document as text, up to the limit of a page, and the number of bytes left out."""
    length = RAW_SHOWN
    text = readable(original[:length].decode(errors="replace"))
    while weight(text) > _RAW_WEIGHT:
        length //= 2
        text = readable(original[:length].decode(errors="replace"))
    return text, max(len(original) - length, 0)
