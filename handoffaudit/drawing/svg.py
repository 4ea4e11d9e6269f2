"""SVG elements with escaped text, the result type of all drawings, and the folding of long sequences."""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from itertools import cycle

Attribute = str | int | float | None

_SAFE_HREF = ("/", "?", "#", "https://", "http://")

_CONTROL_PICTURES = 0x2400

_PLACEHOLDER = "\ufffd"

# Printable ASCII without `"`, `&`, `'`, `<` and `>`: most text in a drawing needs no escaping.
_PLAIN = re.compile(r"[ !#-%(-;=?-~]*").fullmatch

# Joiners combine emoji and shape the letters of some scripts. All other format characters only hide or reorder text.
_JOINERS = "\u200c\u200d"


def visible(text: str) -> str:
    """Replace characters that XML forbids, or that hide or reorder text, with visible characters."""
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
    """Return an element that contains `children`, which are markup.

    `class_` becomes `class`, and `_` in an attribute name becomes `-`.
    """
    written = "".join([_attribute(key, value) for key, value in attributes.items() if value is not None])
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


# The cache helps because the elements of a drawing share most attributes, and the drawings of a page share most
# positions.
@lru_cache(maxsize=8192, typed=True)
def _attribute(key: str, value: str | float) -> str:
    name = key.rstrip("_").replace("_", "-")
    return f' {name}="{escape_text(value) if isinstance(value, str) else _value(value)}"'


def _value(value: float) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return str(value)


def text(content: str, x: float, y: float, **attributes: Attribute) -> str:
    return element("text", escape_text(content), x=float(x), y=float(y), **attributes)


def link(href: str, label: str, *children: str, class_: str | None = None) -> str:
    """Return the children as a link with a label. Omit the link if `href` is not the address of a page."""
    if not href.startswith(_SAFE_HREF):
        return element("g", element("title", escape_text(label)), *children, class_=class_)
    return element("a", element("title", escape_text(label)), *children, href=href, aria_label=label, class_=class_)


def columns_of(content: str) -> int:
    """Return the width of a text in columns. A column is as wide as a narrow letter."""
    if content.isascii():
        return len(content)
    return sum(_columns_of_character(character) for character in content)


def _columns_of_character(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shorten(content: str, columns: int) -> str:
    """Cut `content` in the middle to `columns`, because names of agents may differ at either end."""
    # A name may be a megabyte long, and a letter may have any number of combining marks.
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
    """Cut a name for a tooltip to 300 characters."""
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
    """Return the `<svg>` element. An interactive drawing has the role `group`, because `img` would hide its links."""
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
    """The result of a drawing.

    `svg` is safe in a page: all text is escaped, and there is no script and no style. `text` is the text version. For a
    chart of numbers, `columns` and `rows` hold its table.
    """

    svg: str
    text: tuple[str, ...]
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on the time axis of a chart; `at` is its place, from 0 at the start of the chart to 1 at its end."""

    at: float
    title: str
    href: str = ""


def draw_mark(one: Mark, x: float, top: float, floor: float) -> str:
    """Draw a mark as a dashed line with a flag. The field around the flag is large enough to be clicked."""
    return link(
        one.href,
        one.title,
        element("rect", x=x - 12, y=top - 22, width=24, height=24, fill="none", pointer_events="all"),
        element("path", d=f"M{x:.1f} {floor:.1f}V{top - 4:.1f}", stroke="#6e7781", stroke_dasharray="3 3"),
        element("path", d=f"M{x:.1f} {top - 12:.1f}l8 4-8 4Z", fill="#6e7781"),
        class_="chart-mark",
    )


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
    """Yield in order the positions to draw, and a range for each fold.

    A sequence of at most `past` entries has no fold. In longer sequences, `ends` entries at each end and the first
    `most_marked` marked positions stay visible.

    >>> list(fold_positions(12))
    [0, 1, 2, 3, range(4, 8), 8, 9, 10, 11]
    >>> list(fold_positions(3))
    [0, 1, 2]
    """
    if length <= past:
        yield from range(length)
        return
    shown = {*range(ends), *range(length - ends, length), *sorted(marked)[:most_marked]}
    following = 0
    for position in sorted(shown):
        missing = position - following
        # A fold is as wide as one entry, so folding a single entry saves nothing.
        if missing == 1:
            yield following
        elif missing > 1:
            yield range(following, position)
        yield position
        following = position + 1


FILLS = {
    "accepted": "#1a7f37",
    "approved": "#4ac26b",
    "held": "#bf8700",
    "rejected": "#d1242f",
    "declined": "#a40e26",
    "received": "#6e7781",
    "validating": "#6e7781",
    "superseded": "#8c959f",
    "over": "#d1242f",
    "answered": "#1a7f37",
    "cached": "#4ac26b",
    "skipped": "#8c959f",
    "failed": "#d1242f",
    "used": "#1a7f37",
    "file_missing": "#d1242f",
    "json_parse_error": "#bf8700",
    "schema_invalid": "#8250df",
    "other": "#8c959f",
    "blocked": "#d1242f",
    "handoffs": "#4f6bd8",
    "introduced": "#d1242f",
    "inherited": "#bf8700",
}

_MARKS = {
    "approved": ("M0 3H6",),
    "held": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
    "rejected": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "declined": ("M-1 1L1 -1M0 6L6 0M5 7L7 5", "M0 0L6 6"),
    "received": ("M3 0V6",),
    "validating": ("M3 0V6", "M0 3H6"),
    "superseded": ("M0 0L6 6",),
    "over": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "cached": ("M0 3H6",),
    "skipped": ("M0 0L6 6",),
    "failed": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "file_missing": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "json_parse_error": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
    "schema_invalid": ("M3 0V6",),
    "other": ("M0 0L6 6",),
    "blocked": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "introduced": ("M-1 1L1 -1M0 6L6 0M5 7L7 5",),
    "inherited": ("M1.5 1.5h1.5M4.5 4.5h1.5",),
}

_SIZE = 6

_OTHER = "#57606a"

# Names that are not in `FILLS` get these colours and marks in turn, so that such names differ from each other.
_SPARE = ((_OTHER, ()), ("#4f6bd8", ("M3 0V6",)), ("#bf8700", ("M0 3H6",)), ("#8250df", ("M0 0L6 6",)))


def definitions(prefix: str, names: Iterable[str]) -> str:
    """Return the fill patterns for `names`. The IDs of the patterns begin with `prefix`."""
    spare = cycle(_SPARE)
    patterns = [
        _pattern(prefix, name, *((FILLS[name], _MARKS.get(name, ())) if name in FILLS else next(spare)))
        for name in names
    ]
    return element("defs", *patterns) if patterns else ""


def paint(prefix: str, name: str) -> str:
    """Return the value of a `fill` attribute that refers to the pattern for `name`."""
    return f"url(#{prefix}-fill-{name})"


def _pattern(prefix: str, name: str, colour: str, paths: Iterable[str]) -> str:
    marks = [
        element("path", d=path, stroke="#ffffff", stroke_opacity=0.75, stroke_width=1.2, fill="none") for path in paths
    ]
    return element(
        "pattern",
        element("rect", width=_SIZE, height=_SIZE, fill=colour, class_=f"fill-{name}"),
        *marks,
        id=f"{prefix}-fill-{name}",
        width=_SIZE,
        height=_SIZE,
        patternUnits="userSpaceOnUse",
    )
