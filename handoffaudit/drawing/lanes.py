"""Drawings of a trace over time: agents as lanes with an arrow for each handoff, a time axis, and a strip of states."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final

from handoffaudit.drawing.lane_parts import (
    Layout,
    definitions,
    draw_arrow,
    draw_band,
    draw_bracket,
    draw_calls,
    draw_fold,
    draw_held,
    draw_lane,
    draw_legend,
    group_arrows,
    lay_out,
)
from handoffaudit.drawing.svg import FILLS, Drawing, element, fold_positions, frame, text, tooltip, visible
from handoffaudit.validation.text import pluralize

FOLDED_PAST = 30
_ENDS = 12
_MARKED = 10
_DESCRIPTION = 2000
_NAMELESS = "(no name)"


@dataclass(frozen=True, slots=True)
class Arrow:
    """A handoff in a trace.

    `number` is the handoff's place in the trace, `note` the text beside its state (`2 findings`), and `href` its page.
    `is_origin` is true if the handoff introduces an ungrounded value, and `carries` if it inherits one. `loops` is true
    if the handoff returns to an agent that had the work. `long` is true if its chain is longer than recommended, and
    `over` if its chain is longer than allowed without approval. `calls` counts the tool results since the previous
    handoff.
    """

    number: int
    source: str
    target: str
    state: str
    href: str = ""
    at: str = ""
    note: str = ""
    is_origin: bool = False
    carries: bool = False
    loops: bool = False
    long: bool = False
    over: bool = False
    calls: int = 0


def draw_lanes(
    arrows: Sequence[Arrow],
    *,
    is_folded: bool = True,
    href: str = "",
    width: int = 1040,
    prefix: str = "lanes",
    standalone: bool = False,
) -> Drawing:
    """Draw the trace.

    `href` is the link that opens the folds. `standalone` makes an image without links. A drawing of many arrows is
    wider than `width`.
    """
    names = tuple(dict.fromkeys(name for one in arrows for name in (one.source, one.target)))
    marked = [place for place, one in enumerate(arrows) if one.is_origin or one.carries]
    whole = range(len(arrows))
    slots = (
        list(fold_positions(len(arrows), marked, past=FOLDED_PAST, ends=_ENDS, most_marked=_MARKED))
        if is_folded
        else list(whole)
    )
    layout = lay_out(slots, names, width, has_loop=any(one.loops for one in arrows), has_long=_first_long(arrows) >= 0)
    words = tuple(_words(arrows, names))
    marks = draw_legend(layout, prefix, arrows)
    svg = frame(
        definitions(prefix, dict.fromkeys(one.state for one in arrows)),
        *_draw_brackets(arrows, layout),
        *(draw_lane(layout, row, name or _NAMELESS) for row, name in enumerate(names)),
        *_draw_holds(arrows, slots, layout),
        *_draw_columns(arrows, slots, layout, prefix, "" if standalone else href, linked=not standalone),
        marks,
        width=layout.width,
        height=layout.height,
        title=f"{pluralize(len(arrows), 'handoff')} between {pluralize(len(names), 'agent')}, over time",
        description=" ".join(words)[:_DESCRIPTION],
        prefix=prefix,
        class_="drawing lanes",
        interactive=not standalone and any(one.href for one in arrows),
    )
    return Drawing(svg=svg, text=words)


def needs_fold(number: int) -> bool:
    return number > FOLDED_PAST


def _first_long(arrows: Sequence[Arrow]) -> int:
    return next((place for place, one in enumerate(arrows) if one.long or one.over), -1)


def _draw_brackets(arrows: Sequence[Arrow], layout: Layout) -> list[str]:
    """Draw the brackets over several columns: one for loops, and one for chains that are too long."""
    loops = [place for place, one in enumerate(arrows) if one.loops]
    parts = [draw_bracket(layout, loops[0], loops[-1], "loop", 0)] if loops else []
    over = [place for place, one in enumerate(arrows) if one.over]
    long = [place for place, one in enumerate(arrows) if one.long]
    row = 1 if loops else 0
    if over:
        parts.append(draw_bracket(layout, over[0], over[-1], "needs approval", row))
    elif long:
        parts.append(draw_bracket(layout, long[0], long[-1], "longer than recommended", row))
    return parts


def _draw_holds(arrows: Sequence[Arrow], slots: Sequence[int | range], layout: Layout) -> list[str]:
    """Draw a line for each agent that had the work between two adjacent handoffs."""
    parts = []
    for before, after in pairwise(slots):
        if isinstance(before, int) and isinstance(after, int) and arrows[before].target == arrows[after].source:
            row = layout.row_of[arrows[before].target]
            parts.append(draw_held(layout, row, layout.of_place[before], layout.of_place[after]))
    return parts


def _draw_columns(
    arrows: Sequence[Arrow], slots: Sequence[int | range], layout: Layout, prefix: str, href: str, *, linked: bool
) -> list[str]:
    parts, steps = [], []
    for slot, middle in zip(slots, layout.middles, strict=True):
        if isinstance(slot, range):
            first, last = arrows[slot[0]].number, arrows[slot[-1]].number
            parts.append(draw_fold(layout, middle, f"{len(slot)} more handoffs, {first} to {last}", len(slot), href))
            continue
        one = arrows[slot]
        if one.carries:
            parts.append(draw_band(layout, middle, prefix))
        rows = layout.row_of[one.source], layout.row_of[one.target]
        if one.calls:
            parts.append(draw_calls(layout, middle, rows[0]))
        address, label = one.href if linked else "", describe_handoff(one)
        steps.append(draw_arrow(layout, middle, rows, one, label, href=address, prefix=prefix))
    return [*parts, group_arrows(steps)]


def describe_handoff(one: Arrow) -> str:
    """Return a sentence that describes the handoff."""
    source, target = (visible(tooltip(name)) or _NAMELESS for name in (one.source, one.target))
    parts = [f"{one.number}. {source} → {target}: {one.state}"]
    parts += [one.note] if one.note else []
    parts += [f"after {pluralize(one.calls, 'tool result')}"] if one.calls else []
    parts += ["introduces an ungrounded value"] if one.is_origin else []
    parts += ["inherits an ungrounded value"] if one.carries else []
    parts += ["returns to an agent that had the work"] if one.loops else []
    parts += ["past the approval length"] if one.over else ["longer than recommended"] if one.long else []
    parts += [one.at] if one.at else []
    return ", ".join(parts)


def _words(arrows: Sequence[Arrow], names: Sequence[str]) -> list[str]:
    listed = ", ".join(visible(tooltip(name)) or _NAMELESS for name in names[:50])
    more = f" and {len(names) - 50} more" if len(names) > 50 else ""
    return [f"Agents: {listed}{more}.", *(f"{describe_handoff(one)}." for one in arrows)]


_LEFT: Final = 58.0
_RIGHT: Final = 10.0
_HEIGHT: Final = 104.0
_TOP: Final = 14.0
_FLOOR: Final = 76.0
_INK: Final = "#6e7781"
# The height of a handoff with few tokens or an unknown number of tokens.
_LEAST: Final = 4.0
_BLOCKED: Final = frozenset({"rejected", "held", "declined"})
_ROOM_OF_A_LABEL: Final = 92.0
_SECONDS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 2_592_000, 7_776_000, 31_536_000),
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A handoff on the axis: its number in the trace, its time, its state and its tokens, None if unknown."""

    number: int
    at: datetime
    state: str
    tokens: int | None = None


def draw_time_axis(moments: Sequence[Moment], *, width: float, prefix: str = "time") -> Drawing:
    """Draw each handoff as a vertical line at its time. The height shows its tokens; dashes mark a blocked handoff.

    All lines of a state are one path element, so that the drawing of a long trace is small.
    """
    ordered = sorted(moments, key=lambda one: (one.at, one.number))
    words = tuple(_describe(ordered))
    if not ordered:
        return Drawing(svg="", text=words)
    start, end = ordered[0].at, ordered[-1].at
    most = max((one.tokens or 0 for one in ordered), default=0)
    scale = (width - _LEFT - _RIGHT) / max((end - start).total_seconds(), 0.001)

    def x(at: datetime) -> float:
        return _LEFT + (at - start).total_seconds() * scale

    lines: dict[str, list[str]] = {}
    for one in ordered:
        tall = _LEAST if not one.tokens else max(_LEAST, one.tokens / most * (_FLOOR - _TOP))
        lines.setdefault(one.state, []).append(f"M{x(one.at):.1f} {_FLOOR:.0f}v{-tall:.1f}")
    parts = [
        element("path", d=f"M{_LEFT - 4:.0f} {_FLOOR:.0f}H{width - _RIGHT + 4:.0f}", stroke=_INK, class_="time-floor"),
        *_draw_scale(most),
        *(_draw_state(state, "".join(paths)) for state, paths in lines.items()),
        *_draw_ticks(start, end, x(end), scale),
    ]
    svg = frame(
        *parts,
        width=width,
        height=_HEIGHT,
        title=f"{pluralize(len(ordered), 'handoff')} over time, with their tokens",
        description=" ".join(words),
        prefix=prefix,
        class_="drawing time-axis",
    )
    return Drawing(svg=svg, text=words)


# The height of each state in a strip, in pixels; every other state has 4. So readers can tell four groups apart without
# colours: rejected and declined handoffs; held handoffs; accepted and approved handoffs; handoffs in other states.
_TALL: Final = {"rejected": 14, "declined": 14, "held": 11, "approved": 8, "accepted": 8}
_STRIP_HEIGHT: Final = 16
_MOST_CELLS: Final = 40
# A superseded handoff comes last, because the attempt that replaced it decides the state of the trace.
GRAVEST: Final = ("rejected", "declined", "held", "received", "validating", "approved", "accepted", "superseded")


def draw_strip(states: Sequence[str], *, width: int = 120, prefix: str = "strip") -> Drawing:
    """Draw a bar for the state of each handoff, in the given order.

    If there are more than 40 handoffs, several handoffs share a bar, which shows their gravest state.
    """
    counts = Counter(states)
    words = (f"{', '.join(f'{counts[state]:,} {state}' for state in GRAVEST if counts[state]) or 'no handoffs'}.",)
    each = -(-len(states) // _MOST_CELLS) or 1
    cells = [min(states[at : at + each], key=GRAVEST.index) for at in range(0, len(states), each)]
    pitch = min(width / max(len(cells), 1), 8.0)
    paths: dict[str, list[str]] = {}
    for number, state in enumerate(cells):
        tall = _TALL.get(state, 4)
        place = f"M{number * pitch:.1f} {_STRIP_HEIGHT}v-{tall}h{max(pitch - 1, 1):.1f}v{tall}Z"
        paths.setdefault(state, []).append(place)
    parts = [
        element("path", d="".join(drawn), fill=FILLS.get(state, _INK), class_=f"fill-{state}")
        for state, drawn in paths.items()
    ]
    svg = frame(
        *parts,
        width=width,
        height=_STRIP_HEIGHT,
        title="States",
        description=words[0],
        prefix=prefix,
        class_="drawing strip",
    )
    return Drawing(svg=svg, text=words)


def _draw_state(state: str, path: str) -> str:
    dashes = "3 2" if state in _BLOCKED else None
    line = element("path", d=path, stroke=_INK, stroke_width=2.5, stroke_dasharray=dashes, fill="none")
    return element("g", line, class_=f"lane-state lane-state--{state}")


def _draw_scale(most: int) -> list[str]:
    if not most:
        return []
    label = f"{most:,}" if most < 100_000 else f"{most // 1000:,} k"
    return [
        text(label, _LEFT - 8, _TOP + 4, class_="axis-text", fill=_INK, font_size=11, text_anchor="end"),
        text("tokens", _LEFT - 8, _TOP + 18, class_="axis-text", fill=_INK, font_size=11, text_anchor="end"),
    ]


def _draw_ticks(start: datetime, end: datetime, last: float, scale: float) -> list[str]:
    """Draw ticks at round times below the axis, as many as fit, and a tick at the start of the trace."""
    span = (end - start).total_seconds()
    most = max(int((last - _LEFT) // _ROOM_OF_A_LABEL), 1)
    step = next((seconds for seconds in _SECONDS if span / seconds <= most), _SECONDS[-1])
    first = datetime.fromtimestamp((int(start.timestamp()) // step + 1) * step, tz=UTC)
    times = [first + timedelta(seconds=step * number) for number in range(most + 1)]
    parts = [_draw_tick(_LEFT, f"{start:%Y-%m-%d %H:%M:%S}", is_first=True)]
    for at in times:
        place = _LEFT + (at - start).total_seconds() * scale
        if at <= end:
            parts.append(_draw_tick(place, _format(at, step)))
    return parts


def _draw_tick(x: float, label: str, *, is_first: bool = False) -> str:
    """Draw a tick with its time. The time of the first tick stands on a separate line, below the round times."""
    y = _FLOOR + (27 if is_first else 14)
    anchor = "start" if is_first else "middle"
    return element(
        "g",
        element("path", d=f"M{x:.1f} {_FLOOR:.0f}v4", stroke=_INK, class_="time-floor"),
        text(label, x, y, class_="axis-text", fill=_INK, font_size=11, text_anchor=anchor),
    )


def _format(at: datetime, step: int) -> str:
    if step >= 86_400:
        return f"{at.day} {at:%b}"
    return f"{at:%H:%M:%S}" if step < 60 else f"{at:%H:%M}"


def _describe(ordered: Sequence[Moment]) -> list[str]:
    if not ordered:
        return ["There are no handoffs."]
    start, end = ordered[0].at, ordered[-1].at
    found = [f"{pluralize(len(ordered), 'handoff')} from {start:%Y-%m-%d %H:%M:%S} to {end:%Y-%m-%d %H:%M:%S} UTC."]
    if len(ordered) > 1:
        before, after = max(pairwise(ordered), key=lambda pair: pair[1].at - pair[0].at)
        pause = format_span((after.at - before.at).total_seconds())
        found.append(f"The longest pause was {pause}, before handoff {after.number}.")
    largest = max(ordered, key=lambda one: one.tokens or 0)
    if largest.tokens:
        known = sum(one.tokens or 0 for one in ordered)
        found.append(f"{known:,} tokens in all, at most {largest.tokens:,} in handoff {largest.number}.")
    return found


def format_span(seconds: float) -> str:
    """Return a time span as text in its largest unit, such as `1.5 h`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 0):.1f} s"
