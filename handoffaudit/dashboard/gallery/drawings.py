"""A drawing of each kind, made by the code that the pages draw with."""

from dataclasses import dataclass

from handoffaudit.drawing.agent_map import MapAgent, MapEdge, agent_map
from handoffaudit.drawing.chain import Chain, chain
from handoffaudit.drawing.charts import ALONE, NARROW, Bar, sparkline, stacked_bars
from handoffaudit.drawing.lanes import Arrow, lanes
from handoffaudit.drawing.svg import Drawing
from handoffaudit.drawing.tokens import Section, token_sections

_STATES = ("accepted", "approved", "held", "rejected", "declined")
_DAYS = ((41, 2, 3, 9, 1), (52, 0, 4, 7, 0), (38, 3, 2, 12, 2), (47, 1, 6, 5, 1), (60, 2, 1, 4, 0), (33, 4, 8, 15, 3))
_ROUND = ("planner", "researcher", "writer", "researcher")
_LONG = tuple(f"agent_{number}" for number in range(1, 15))


@dataclass(frozen=True, slots=True)
class Example:
    """A drawing with the module that draws it and when to use it; `narrow`: for a phone, where it is another one."""

    name: str
    module: str
    use: str
    wide: Drawing
    narrow: Drawing | None = None


def examples() -> list[Example]:
    return [
        _chains("Chain", "Who handed to whom on the way to one handoff, with the arc of a loop.", _ROUND, "writer"),
        _chains("Long chain", "More than ten agents fold in the middle; the limit is marked.", _LONG, "writer", 5),
        _lanes(),
        _map(),
        _tokens(),
        _spark(),
    ]


def bars(width: int, prefix: str) -> Drawing:
    """The chart of states over time."""
    days = [
        Bar(f"{number} Mar", f"{number} March", dict(zip(_STATES, day, strict=True)))
        for number, day in enumerate(_DAYS, start=1)
    ]
    return stacked_bars(days, order=_STATES, width=width, height=200, title="Handoffs by state", prefix=prefix)


def charts() -> dict[str, Drawing]:
    return {"chart": bars(ALONE, "gallery-bars-wide"), "narrow_chart": bars(NARROW, "gallery-bars-narrow")}


def _chains(name: str, use: str, agents: tuple[str, ...], target: str, over: int | None = None) -> Example:
    loop = tuple(place for place, agent in enumerate(agents) if agent == target)
    shown = Chain(agents=agents, target=target, loop=loop, over_from=over)
    prefix = f"gallery-{'long' if over else 'chain'}"
    return Example(
        name,
        "drawing/chain.py",
        use,
        chain(shown, width=900, prefix=prefix),
        chain(shown, width=NARROW, prefix=f"{prefix}-narrow"),
    )


def _lanes() -> Example:
    arrows = [
        Arrow(1, "planner", "researcher", "accepted"),
        Arrow(2, "researcher", "writer", "held", told="1 finding", is_origin=True),
        Arrow(3, "writer", "researcher", "rejected", told="2 findings", carries=True, loops=True),
    ]
    use = "A piece of work over time: agents as lanes, where a wrong value came in, and who carried it on."
    return Example("Lanes", "drawing/lanes.py", use, lanes(arrows, width=640, prefix="gallery-lanes", standalone=True))


def _map() -> Example:
    agents = [MapAgent("planner", 64), MapAgent("researcher", 91), MapAgent("writer", 43)]
    edges = [
        MapEdge("planner", "researcher", 48, 0.96, "2 s"),
        MapEdge("researcher", "writer", 27, 0.63, "9 s"),
        MapEdge("writer", "planner", 16, 1.0, "1 s"),
    ]
    use = "Who hands to whom: wider for more, dashed with a cross where less than 80 % is accepted."
    wide = agent_map(agents, edges, width=700, prefix="gallery-map")
    return Example(
        "Agent map",
        "drawing/agent_map/map.py",
        use,
        wide,
        agent_map(agents, edges, width=NARROW, across=False, prefix="gallery-map-narrow"),
    )


def _tokens() -> Example:
    sections = [Section("context", 1_840, 1_500), Section("data", 910, 1_200), Section("evidence", 420)]
    use = "A token budget by section; what is over its target is hatched."
    drawn = [
        token_sections(sections, total=3_170, budget=4_000, width=width, prefix=f"gallery-tokens-{width}")
        for width in (640, NARROW)
    ]
    return Example("Token sections", "drawing/tokens.py", use, *drawn)


def _spark() -> Example:
    days = (0, 2, 1, 4, 3, 0, 0, 5, 9, 7, 6, 12, 4, 8)
    use = "A trend in a line of a list, in the colour of its text; its numbers stand beside it."
    return Example(
        "Sparkline", "drawing/sparkline.py", use, sparkline(days, title="Handoffs a day", prefix="gallery-spark")
    )
