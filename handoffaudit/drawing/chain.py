"""Drawing of a handoff chain: agents in order, then the target, with arcs back to earlier positions of the target."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from handoffaudit.drawing.chain_parts import (
    Box,
    Layout,
    draw_arc,
    draw_connector,
    draw_fold,
    draw_limit_line,
    draw_node,
    draw_target,
    lay_out,
)
from handoffaudit.drawing.svg import (
    ENDS,
    FOLDED_PAST,
    Drawing,
    columns_of,
    element,
    fold_positions,
    frame,
    shorten,
    text,
    tooltip,
    visible,
)

_LONGEST_NAME = 20
_SHORTEST_NAME = 7
_NAMES_IN_TEXT = 200
_ARCS = 3
_DESCRIPTION = 2000
_DECLARED = "Declared by the sender"
_DERIVED = "Derived by the server"


@dataclass(frozen=True, slots=True)
class Chain:
    """The content of a chain drawing. Positions count from 0.

    `loop` holds the positions of the target in the chain, and `over_from` the first position past the approval length.
    `declared` is true if `agents` is the sender's chain, and false if it is the server's. If the two chains differ,
    `other` is the chain that is not in `agents`; `loop` and `over_from` are about `agents`.
    """

    agents: tuple[str, ...]
    target: str
    loop: tuple[int, ...] = ()
    over_from: int | None = None
    other: tuple[str, ...] | None = None
    declared: bool = True

    @classmethod
    def of_verdict(cls, facts: Mapping[str, Any]) -> "Chain":
        """Return the chain from the stored `chain` of a verdict."""
        declared, shown = tuple(facts["declared"]), tuple(facts["shown"])
        derived = None if facts["derived"] is None else tuple(facts["derived"])
        # If an ancestor is missing, the server knows only the end of the chain.
        agree = derived is None or derived == declared or not declared
        if derived and not facts["derived_complete"]:
            agree = agree or declared[-len(derived) :] == derived
        is_declared = shown == declared
        return cls(
            agents=shown,
            target=facts["target"],
            loop=tuple(facts["loop"]),
            over_from=facts["over_from"],
            other=None if agree else derived if is_declared else declared,
            declared=is_declared,
        )


def draw_chain(
    shown: Chain,
    *,
    is_folded: bool = True,
    href: str = "",
    width: int = 960,
    prefix: str = "chain",
    standalone: bool = False,
    ends: int = ENDS,
) -> Drawing:
    """Draw the chain.

    `href` is the link that opens the folds. `standalone` makes an image without links. `ends` is the number of agents
    that a fold leaves visible at each end.
    """
    lanes = _lanes(shown)
    words = tuple(sentence for lane in lanes for sentence in _words(lane))
    drawn: list[str] = []
    top = 0.0
    for number, lane in enumerate(lanes):
        markup, height = _draw(
            lane, width, ends if is_folded else 0, href="" if standalone else href, prefix=f"{prefix}-{number}"
        )
        drawn.append(element("g", markup, transform=f"translate(0 {top:.0f})"))
        top += height
    svg = frame(
        *drawn,
        width=width,
        height=top,
        title=_title(shown),
        description=" ".join(words)[:_DESCRIPTION],
        prefix=prefix,
        class_="drawing chain",
        interactive=not standalone and bool(href) and is_folded and any(needs_fold(lane.agents) for lane in lanes),
    )
    return Drawing(svg=svg, text=words)


def needs_fold(agents: Sequence[str]) -> bool:
    return len(agents) > FOLDED_PAST


@dataclass(frozen=True, slots=True)
class _Lane:
    """One chain of a drawing. `differs` holds the positions where the other chain has another agent."""

    agents: tuple[str, ...]
    target: str
    loop: tuple[int, ...] = ()
    over_from: int | None = None
    caption: str = ""
    differs: frozenset[int] = frozenset()


def _lanes(shown: Chain) -> list[_Lane]:
    loop = tuple(sorted(shown.loop))
    if shown.other is None:
        caption = "" if shown.declared else _DERIVED
        return [_Lane(shown.agents, shown.target, loop, shown.over_from, caption=caption)]
    captions = (_DECLARED, _DERIVED) if shown.declared else (_DERIVED, _DECLARED)
    differs = _find_differences(shown.other, shown.agents)
    return [
        _Lane(shown.agents, shown.target, loop, shown.over_from, caption=captions[0]),
        _Lane(shown.other, shown.target, caption=captions[1], differs=differs),
    ]


def _find_differences(other: Sequence[str], shown: Sequence[str]) -> frozenset[int]:
    return frozenset(position for position, name in enumerate(other) if shown[position : position + 1] != (name,))


def _draw(lane: _Lane, width: int, ends: int, *, href: str, prefix: str) -> tuple[str, float]:
    """Draw one chain and return its markup and height. If `ends` is 0, nothing is folded."""
    # The last agent before the limit stays visible, so that the limit line is between two agents.
    limit = () if not lane.over_from else (lane.over_from - 1, lane.over_from)
    marked = {*lane.loop[:_ARCS], *limit}
    length = len(lane.agents)
    slots = list(fold_positions(length, marked, ends=ends) if ends else range(length))
    layout = lay_out(slots, width, _name_columns(lane, slots), has_arcs=bool(lane.loop), caption=bool(lane.caption))
    parts = [text(lane.caption, 2, 16, class_="chain-caption", fill="#6e7781")] if lane.caption else []
    parts += [
        draw_connector(layout, before, after) for before, after in zip(layout.boxes, layout.boxes[1:], strict=False)
    ]
    for slot, box in zip(slots, layout.boxes, strict=False):
        parts.append(_draw_slot(lane, slot, box, layout, href))
    if lane.over_from is not None and lane.over_from in layout.of_position:
        parts.append(draw_limit_line(layout.of_position[lane.over_from], lane.over_from))
    parts.append(_draw_target_box(lane, layout))
    for number, position in enumerate(lane.loop[:_ARCS]):
        if position in layout.of_position:
            parts.append(draw_arc(layout, layout.of_position[position], number, f"{prefix}-loop-{number}"))
    return "".join(parts), layout.height


def _draw_slot(lane: _Lane, slot: int | range, box: Box, layout: Layout, href: str) -> str:
    if isinstance(slot, range):
        is_over = lane.over_from is not None and slot.start >= lane.over_from
        return draw_fold(box, len(slot), href, is_over=is_over)
    name = lane.agents[slot]
    return draw_node(
        box,
        shorten(name, layout.columns) or "(no name)",
        tooltip(name),
        slot + 1,
        is_loop=slot in lane.loop,
        is_over=lane.over_from is not None and slot >= lane.over_from,
        differs=slot in lane.differs,
    )


def _draw_target_box(lane: _Lane, layout: Layout) -> str:
    name = shorten(lane.target, layout.columns) or "(no name)"
    return draw_target(layout.boxes[-1], name, tooltip(lane.target), is_loop=bool(lane.loop))


def _name_columns(lane: _Lane, slots: Sequence[int | range]) -> int:
    names = [lane.target, *(lane.agents[slot] for slot in slots if isinstance(slot, int))]
    widest = max(columns_of(visible(name[: 2 * _LONGEST_NAME])) for name in names)
    return min(max(widest, _SHORTEST_NAME), _LONGEST_NAME)


def _title(lane: Chain) -> str:
    number = len(lane.agents)
    return f"Chain of {number} {'agent' if number == 1 else 'agents'}, with the target {tooltip(lane.target)}"


def _words(lane: _Lane) -> list[str]:
    listed = " ".join(
        f"{position}. {visible(tooltip(name))}" for position, name in enumerate(lane.agents[:_NAMES_IN_TEXT], start=1)
    )
    if len(lane.agents) > _NAMES_IN_TEXT:
        listed += f" … and {len(lane.agents) - _NAMES_IN_TEXT} more"
    start = f"{lane.caption}: " if lane.caption else ""
    sentences = [f"{start}{listed or 'no agents'} → target {visible(tooltip(lane.target))}."]
    if lane.loop:
        places = ", ".join(str(position + 1) for position in lane.loop[:_NAMES_IN_TEXT])
        sentences.append(f"The target is already in the chain, at position {places}.")
    if lane.over_from is not None:
        sentences.append(f"From position {lane.over_from + 1} on, the chain is past the approval length.")
    return sentences
