"""Charts: stacked bars of states over time, sparklines for lists, and the token budget of a document by section."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from handoffaudit.drawing.svg import (
    FILLS,
    Drawing,
    Mark,
    definitions,
    draw_mark,
    element,
    escape_text,
    frame,
    link,
    paint,
    shorten,
    text,
    tooltip,
)

# The widths in pixels of a chart alone, beside other cards, and on a phone. The page shows a chart without scaling, so
# that the text of the chart has the size of the page's text.
ALONE, BESIDE, NARROW = 1120, 740, 340

_AXIS = "#6e7781"

_LEFT = 46

_LEGEND_LINE = 18

_BOTTOM = 24

_TICKS = 3

# An axis step is one of these numbers times a power of ten.
_ROUND = (1, 2, 3, 4, 5, 6, 8, 10)

_LABEL_ROOM = 92


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar. `label` stands below the bar, `title` names its period, and `parts` holds its numbers by name."""

    label: str
    title: str
    parts: Mapping[str, int] = field(default_factory=dict)
    href: str = ""

    @property
    def total(self) -> int:
        return sum(self.parts.values())


def draw_stacked_bars(
    bars: Sequence[Bar],
    *,
    order: Sequence[str],
    width: int = 720,
    height: int = 220,
    title: str = "Handoffs over time",
    prefix: str = "bars",
    marks: Sequence[Mark] = (),
    labels: Mapping[str, str] | None = None,
) -> Drawing:
    """Draw bars stacked in `order` from the bottom. The legend lists only the names with a number in some bar.

    `labels` maps names that are codes to words.
    """
    label_of = {name: (labels or {}).get(name, name) for name in order}
    names = [name for name in order if any(bar.parts.get(name) for bar in bars)]
    totals = {name: sum(bar.parts.get(name, 0) for bar in bars) for name in names}
    rows = tuple((bar.title, *(f"{bar.parts.get(name, 0):,}" for name in names)) for bar in bars if bar.total)
    words = (
        (f"{title}: " + ", ".join(f"{number:,} {label_of[name]}" for name, number in totals.items()) + ".",)
        if names
        else (f"{title}: nothing in this period.",)
    )
    ticks = _choose_ticks(max((bar.total for bar in bars), default=0))
    legend, top = _draw_legend(totals, label_of, prefix, width)
    plot = _Plot(width, height, top, ticks[-1], len(bars))
    parts = [definitions(prefix, names), legend, _draw_axis(plot, ticks)]
    shown = {name: label_of[name] for name in names}
    parts += [_draw_bar(plot, number, bar, shown, prefix) for number, bar in enumerate(bars) if bar.total]
    parts += _draw_labels(plot, bars)
    parts += [draw_mark(one, plot.left(0) + one.at * plot.pitch * plot.number, top, plot.floor) for one in marks]
    if not names:
        parts.append(
            text("Nothing in this period", width / 2, height / 2, class_="axis-text", fill=_AXIS, text_anchor="middle")
        )
    svg = frame(
        *parts,
        width=width,
        height=height,
        title=title,
        description=" ".join(words),
        prefix=prefix,
        class_="drawing bars",
        interactive=any(bar.href and bar.total for bar in bars) or any(one.href for one in marks),
    )
    return Drawing(svg=svg, text=words, columns=("Period", *shown.values()), rows=rows)


@dataclass(frozen=True, slots=True)
class _Plot:
    width: float
    height: float
    top: float
    highest: int
    number: int

    @property
    def floor(self) -> float:
        return self.height - _BOTTOM

    @property
    def pitch(self) -> float:
        return (self.width - _LEFT - 8) / max(self.number, 1)

    def left(self, number: int) -> float:
        return _LEFT + number * self.pitch

    def tall(self, value: int) -> float:
        return value / self.highest * (self.floor - self.top)


def _choose_ticks(highest: int) -> list[int]:
    """Return 0, the middle and the top of the shortest scale of round numbers that contains `highest`."""
    least = max(math.ceil(highest / (_TICKS - 1)), 1)
    power = 10 ** (len(str(least)) - 1)
    step = next(digit * power for digit in _ROUND if digit * power >= least)
    return [step * tick for tick in range(_TICKS)]


def _draw_axis(plot: _Plot, ticks: Sequence[int]) -> str:
    lines = []
    for tick in ticks:
        y = plot.floor - plot.tall(tick)
        lines.append(
            element(
                "path", d=f"M{_LEFT} {y:.1f}H{plot.width:.0f}", stroke=_AXIS, stroke_opacity=1.0 if not tick else 0.25
            )
        )
        lines.append(
            text(f"{tick:,}", _LEFT - 6, y + 4, class_="axis-text", fill=_AXIS, font_size=11, text_anchor="end")
        )
    return element("g", *lines, class_="axis", aria_hidden="true")


def _draw_bar(plot: _Plot, number: int, bar: Bar, names: Mapping[str, str], prefix: str) -> str:
    left = plot.left(number)
    gap = min(plot.pitch * 0.2, 6.0)
    top = plot.floor
    # The link covers the whole column, because a bar with the value 1 may be one pixel high.
    pieces = [
        element(
            "rect",
            x=left,
            y=plot.top,
            width=plot.pitch,
            height=plot.floor - plot.top,
            fill="none",
            pointer_events="all",
            class_="column-field",
        )
    ]
    for name in names:
        value = bar.parts.get(name, 0)
        if not value:
            continue
        tall = max(plot.tall(value), 1.0)
        top -= tall
        pieces.append(
            element(
                "rect",
                x=left + gap / 2,
                y=top,
                width=max(plot.pitch - gap, 1.0),
                height=tall,
                class_=f"part part-{name}",
                fill=paint(prefix, name),
            )
        )
    summary = ", ".join(f"{bar.parts[name]:,} {label}" for name, label in names.items() if bar.parts.get(name))
    return link(bar.href, f"{bar.title}: {summary}", *pieces, class_="column")


def _draw_labels(plot: _Plot, bars: Sequence[Bar]) -> list[str]:
    if not bars:
        return []
    every = max(1, round(_LABEL_ROOM / plot.pitch + 0.5))
    return [
        text(
            shorten(bar.label, 14),
            plot.left(number) + plot.pitch / 2,
            plot.height - 7,
            class_="axis-text",
            fill=_AXIS,
            font_size=11,
            text_anchor="start" if number == 0 and plot.pitch < _LABEL_ROOM else "middle",
        )
        for number, bar in _select_labels(bars, every)
        if plot.left(number) + plot.pitch / 2 < plot.width - _LABEL_ROOM / 3
    ]


def _select_labels(bars: Sequence[Bar], every: int) -> Iterator[tuple[int, Bar]]:
    """Yield the number of each bar under which its label is written, and the bar.

    Several bars in a row can have the same label. The label is then written once, under the first of these bars that is
    at least `every` bars after the previous written label.
    """
    free, label = 0, None
    for number, bar in enumerate(bars):
        if number >= free and bar.label != label:
            yield number, bar
            free, label = number + every, bar.label


def _draw_legend(totals: Mapping[str, int], labels: Mapping[str, str], prefix: str, width: float) -> tuple[str, float]:
    """Draw the names with their totals, in as many lines as needed, and return the legend with its height."""
    entries: list[str] = []
    x = 0.0
    y = 4
    for name, number in totals.items():
        label = f"{labels[name]} {number:,}"
        wide = 19 + len(label) * 6.8 + 16
        if x and x + wide > width:
            x, y = 0.0, y + _LEGEND_LINE
        entry = (
            element(
                "rect", x=x, y=y, width=14, height=12, rx=2, fill=paint(prefix, name), stroke=FILLS.get(name, _AXIS)
            ),
            text(label, x + 19, y + 10.5, class_="axis-text", fill=_AXIS, font_size=12),
        )
        is_code = labels[name] != name
        entries += [element("g", element("title", escape_text(name)), *entry)] if is_code else entry
        x += wide
    return (element("g", *entries, class_="legend") if entries else ""), y + 30.0


_GAP = 1.5

_LEAST = 1.5


def draw_sparkline(
    numbers: Sequence[int], *, title: str, prefix: str, labels: Sequence[str] = (), width: int = 112, height: int = 28
) -> Drawing:
    """Draw a bar for each number, the last number at the right, in the colour of the surrounding text.

    The text version names each number. `labels` name the bars in the table.
    """
    highest = max(numbers, default=0) or 1
    pitch = width / max(len(numbers), 1)
    floor = element("path", d=f"M0 {height - 0.5}H{width}", stroke="currentColor", stroke_opacity=0.3)
    bars = [
        element(
            "rect",
            x=at * pitch + _GAP / 2,
            y=height - tall,
            width=max(pitch - _GAP, 1.0),
            height=tall,
            fill="currentColor",
            class_="spark-last" if at == len(numbers) - 1 else "spark",
        )
        for at, number in enumerate(numbers)
        if number > 0
        for tall in [max(number / highest * height, _LEAST)]
    ]
    summary = f"{title}: {', '.join(f'{number:,}' for number in numbers) or 'nothing'}."
    svg = frame(
        floor, *bars, width=width, height=height, title=title, description=summary, prefix=prefix, class_="sparkline"
    )
    rows = tuple((label, f"{number:,}") for label, number in zip(labels, numbers, strict=False))
    return Drawing(svg=svg, text=(summary,), columns=("Period", "Number"), rows=rows)


_TEXT = "#6e7781"
_NAME_ROOM = 138.0
_NUMBER_ROOM = 116.0
_PITCH = 26
_NO_TARGET = "none"


@dataclass(frozen=True, slots=True)
class Section:
    """The token count of one section and its target, or None if the section has no target."""

    name: str
    count: int
    target: int | None = None


def draw_token_sections(
    sections: Sequence[Section], *, total: int, budget: int, width: int = 560, prefix: str = "tokens"
) -> Drawing:
    """Draw a bar of all tokens against the budget, and a bar of each section against its target.

    The part over a target is hatched. All bars have the same scale, so that their lengths are comparable.
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
        summary = ", ".join(f"{line.name} by {line.count - (line.target or 0):,}" for line in over)
        words.append(f"Over its target: {summary}.")
    scale = max(max(line.count, line.target or 0) for line in lines)
    drawn = [_draw_section(lines[0], 0, width, scale, prefix)]
    drawn += [
        _draw_section(line, number * _PITCH + 8, width, scale, prefix) for number, line in enumerate(sections, start=1)
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


def _draw_section(line: Section, y: float, width: float, scale: int, prefix: str) -> str:
    room = max(width - _NAME_ROOM - _NUMBER_ROOM, 40.0)
    wide = line.count / scale * room if scale else 0.0
    limit = None if line.target is None or not scale else line.target / scale * room
    within = wide if limit is None else min(wide, limit)
    summary = f"{line.count:,}" + ("" if line.target is None else f" / {line.target:,}")
    parts = [
        element("title", escape_text(f"{tooltip(line.name)}: {summary}")),
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
        parts += _draw_target(limit, wide, y, prefix)
    parts.append(
        text(
            summary, width, y + 16, class_="section-count", fill=FILLS["over"] if is_over else _TEXT, text_anchor="end"
        )
    )
    return element("g", *parts, class_="section is-over" if is_over else "section")


def _draw_target(limit: float, wide: float, y: float, prefix: str) -> list[str]:
    """Draw the mark of a target and the part of the bar beyond the target."""
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
