"""Drawing of a trace over time: each agent is a lane, and each handoff is a numbered arrow between two lanes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

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
from handoffaudit.drawing.svg import Drawing, fold_positions, frame, tooltip, visible
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
    `is_origin` is true if the handoff introduces a wrong value, and `carries` if it inherits a wrong value. `loops`,
    `long` and `over` say which findings its chain has. `calls` counts the tool results since the handoff before.
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
        title=f"{len(arrows)} handoffs between {len(names)} agents, over time",
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
