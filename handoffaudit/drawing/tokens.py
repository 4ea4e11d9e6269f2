"""Drawing of a token budget by section."""

from collections.abc import Sequence
from dataclasses import dataclass

from handoffaudit.drawing.svg import (
    FILLS,
    Drawing,
    definitions,
    element,
    escape_text,
    frame,
    paint,
    shorten,
    text,
    tooltip,
)

_TEXT = "#6e7781"
_NAME_ROOM = 138.0
_NUMBER_ROOM = 116.0
_PITCH = 26
_NO_TARGET = "none"


@dataclass(frozen=True, slots=True)
class Section:
    """The number of tokens of one section, and its target, None for a section without a target."""

    name: str
    count: int
    target: int | None = None


def token_sections(
    sections: Sequence[Section], *, total: int, budget: int, width: int = 560, prefix: str = "tokens"
) -> Drawing:
    """Draw a bar of all tokens against the budget, and a bar of each section against its target.

    The part over a target is hatched. All bars have the scale of the first bar, so that their lengths are comparable.
    """
    lines = [Section("total", total, budget), *sections]
    rows = tuple(
        (line.name, f"{line.count:,}", _NO_TARGET if line.target is None else f"{line.target:,}", _difference(line))
        for line in lines
    )
    over = [line for line in sections if line.target is not None and line.count > line.target]
    words = [
        f"{total:,} tokens of a budget of {budget:,}"
        + (f": {total - budget:,} over." if total > budget else f": {budget - total:,} left.")
    ]
    if over:
        told = ", ".join(f"{line.name} by {line.count - (line.target or 0):,}" for line in over)
        words.append(f"Over its target: {told}.")
    scale = max(max(line.count, line.target or 0) for line in lines)
    drawn = [_section(lines[0], 0, width, scale, prefix)]
    drawn += [
        _section(line, number * _PITCH + 8, width, scale, prefix) for number, line in enumerate(sections, start=1)
    ]
    svg = frame(
        definitions(prefix, ["over"]),
        *drawn,
        width=width,
        height=len(lines) * _PITCH + 12,
        title="Tokens by section",
        description=" ".join(words),
        prefix=prefix,
        class_="drawing tokens",
    )
    return Drawing(svg, tuple(words), ("Section", "Tokens", "Target", "Difference"), rows)


def _difference(line: Section) -> str:
    if line.target is None:
        return ""
    return f"{line.count - line.target:+,}" if line.count > line.target else f"{line.target - line.count:,} left"


def _section(line: Section, y: float, width: float, scale: int, prefix: str) -> str:
    room = max(width - _NAME_ROOM - _NUMBER_ROOM, 40.0)
    wide = line.count / scale * room if scale else 0.0
    limit = None if line.target is None or not scale else line.target / scale * room
    within = wide if limit is None else min(wide, limit)
    told = f"{line.count:,}" + ("" if line.target is None else f" / {line.target:,}")
    parts = [
        element("title", escape_text(f"{tooltip(line.name)}: {told}")),
        text(shorten(line.name, 18), 0, y + 16, class_="section-name", fill=_TEXT),
        element(
            "rect",
            x=_NAME_ROOM,
            y=y + 4,
            width=room,
            height=16,
            rx=2,
            class_="section-room",
            fill=_TEXT,
            fill_opacity=0.12,
        ),
        element("rect", x=_NAME_ROOM, y=y + 4, width=within, height=16, rx=2, class_="section-within", fill="#0969da"),
    ]
    is_over = limit is not None and wide > limit
    if limit is not None:
        parts += _target(limit, wide, y, prefix)
    parts.append(
        text(told, width, y + 16, class_="section-count", fill=FILLS["over"] if is_over else _TEXT, text_anchor="end")
    )
    return element("g", *parts, class_="section is-over" if is_over else "section")


def _target(limit: float, wide: float, y: float, prefix: str) -> list[str]:
    """Draw the mark of a target, and the part of the bar past the target."""
    mark = element(
        "path",
        d=f"M{_NAME_ROOM + limit:.1f} {y + 1:.1f}v22",
        class_="section-target",
        stroke="currentColor",
        stroke_width=2,
    )
    if wide <= limit:
        return [mark]
    over = element(
        "rect",
        x=_NAME_ROOM + limit,
        y=y + 4,
        width=wide - limit,
        height=16,
        class_="section-over",
        fill=paint(prefix, "over"),
        stroke=FILLS["over"],
    )
    return [over, mark]
