"""Pieces of SVG, a drawing with its words, and the folding of long chains. All senders' text is escaped here."""

import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape

Attribute = str | int | float | None

_SAFE_HREF = ("/", "?", "#", "https://", "http://")

_CONTROL_PICTURES = 0x2400

_PLACEHOLDER = "\ufffd"

# Of printable ASCII, all but `"`, `&`, `'`, `<` and `>`: most of what stands in a drawing.
_PLAIN = re.compile(r"[ !#-%(-;=?-~]*").fullmatch

# Joins emoji and shapes letters of some scripts; every other format character only hides or turns text around.
_JOINERS = "\u200c\u200d"


def visible(text: str) -> str:
    """`text` with what XML forbids, and what would hide or reorder its neighbours, made visible."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def _visible_character(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    match unicodedata.category(character):
        case "Cc" | "Cs" | "Zl" | "Zp":
            return _PLACEHOLDER
        case "Cf" if character not in _JOINERS:
            return _PLACEHOLDER
        case "Cn" if code & 0xFFFE == 0xFFFE:
            return _PLACEHOLDER
        case _:
            return character


def escape_text(text: str) -> str:
    return text if _PLAIN(text) else escape(visible(text), quote=True)


def element(name: str, *children: str, **attributes: Attribute) -> str:
    """An element around children that are markup already; `class_` is written `class`, and `_` within a name `-`."""
    written = "".join(
        [
            f' {_name(key)}="{escape_text(value) if isinstance(value, str) else _value(value)}"'
            for key, value in attributes.items()
            if value is not None
        ]
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


@lru_cache(maxsize=256)
def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")


def _value(value: float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def text(content: str, x: float, y: float, **attributes: Attribute) -> str:
    return element("text", escape_text(content), x=float(x), y=float(y), **attributes)


def link(href: str, label: str, *children: str, class_: str | None = None) -> str:
    """The children as a link named `label`; an address that is not one of a page leaves them bare."""
    if not href.startswith(_SAFE_HREF):
        return element("g", element("title", escape_text(label)), *children, class_=class_)
    return element("a", element("title", escape_text(label)), *children, href=href, aria_label=label, class_=class_)


def columns_of(content: str) -> int:
    """How wide a text stands, in columns of a narrow letter."""
    if content.isascii():
        return len(content)
    return sum(_columns_of_character(character) for character in content)


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(content: str, columns: int) -> str:
    """`content` cut in its middle to so many columns: names of agents differ at either end."""
    # a name may be a megabyte long, or stack marks without end on one letter
    content = visible(content if len(content) <= 2000 else f"{content[:1000]}{content[-1000:]}")
    if columns_of(content) <= columns and len(content) <= 3 * columns:
        return content
    tail = columns // 3
    return f"{_head(content, columns - 1 - tail)}…{_head(content[::-1], tail)[::-1]}"


def _head(content: str, columns: int) -> str:
    width = 0
    for position, character in enumerate(content[: 2 * columns]):
        width += _columns_of_character(character)
        if width > columns:
            return content[:position]
    return content[: 2 * columns]


def tooltip(content: str) -> str:
    """A name in whole for a tooltip, up to what a person would read."""
    return content if len(content) <= 300 else f"{content[:299]}…"


def frame(
    *children: str,
    width: float,
    height: float,
    title: str,
    description: str,
    prefix: str,
    class_: str,
    interactive: bool = False,
) -> str:
    """The `<svg>` itself. Links inside stay reachable only where it is a group and not an image."""
    return element(
        "svg",
        element("title", escape_text(title), id=f"{prefix}-title"),
        element("desc", escape_text(description), id=f"{prefix}-desc"),
        *children,
        xmlns="http://www.w3.org/2000/svg",
        class_=class_,
        viewBox=f"0 0 {_value(float(width))} {_value(float(height))}",
        width=float(width),
        height=float(height),
        role="group" if interactive else "img",
        aria_labelledby=f"{prefix}-title",
        aria_describedby=f"{prefix}-desc",
        font_family="system-ui, sans-serif",
        font_size=13,
    )


@dataclass(frozen=True, slots=True)
class Drawing:
    """`svg` is safe to put into a page as it is: all text in it is escaped, and it carries no script and no style.

    `text` says the same in sentences; where the drawing shows numbers, `columns` and `rows` are its table.
    """

    svg: str
    text: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


FOLDED_PAST = 10

ENDS = 4

_MARKED = 4


def fold_positions(
    length: int,
    marked: Collection[int] = (),
    *,
    past: int = FOLDED_PAST,
    ends: int = ENDS,
    most_marked: int = _MARKED,
) -> Iterator[int | range]:
    """The positions to draw in order, and a range for each fold. What is no longer than `past` is drawn whole; else
    `ends` entries at both ends and the first `most_marked` marked positions stay.

    >>> list(fold_positions(12))
    [0, 1, 2, 3, range(4, 8), 8, 9, 10, 11]
    >>> list(fold_positions(3))
    [0, 1, 2]
    """
    if length <= past:
        yield from range(length)
        return
    kept = {*range(ends), *range(length - ends, length), *sorted(marked)[:most_marked]}
    following = 0
    for position in sorted(kept):
        missing = position - following
        # a fold takes the room of an entry, so folding one saves nothing
        if missing == 1:
            yield following
        elif missing > 1:
            yield range(following, position)
        yield position
        following = position + 1
