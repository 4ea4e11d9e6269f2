"""Sources against targets as a table."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from handoffaudit.dashboard.agents.addresses import address_of
from handoffaudit.dashboard.agents.words import took
from handoffaudit.dashboard.diagnostics.choosing import Links
from handoffaudit.dashboard.readable import cut
from handoffaudit.dashboard.templatetags.shares import told, tone
from handoffaudit.diagnostics.agents import Agents
from handoffaudit.diagnostics.edges import Edge, folded
from handoffaudit.diagnostics.tallies import Share

MOST: Final = 20
# No agent has that name: none is stored with a NUL.
OTHERS: Final = "\x00"
_LONGEST: Final = 24


@dataclass(frozen=True, slots=True)
class Head:
    """`short` for a narrow column; `href` is empty for the others."""

    name: str
    short: str
    href: str


@dataclass(frozen=True, slots=True)
class Cell:
    """`mark`: few were accepted. `href` is empty where it is of several pairs."""

    number: int
    share: Share
    tone: str
    time: str
    href: str
    title: str
    is_self: bool
    undeclared: bool

    @property
    def is_low(self) -> bool:
        return self.tone == "bad"


@dataclass(frozen=True, slots=True)
class Row:
    head: Head
    cells: list[Cell | None]


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: list[Head]
    rows: list[Row]


def matrix(slug: str, found: Agents, links: Links) -> Matrix:
    """At most 20 of each, the others as one; those with the most handoffs first."""
    listed = found.edges.listed
    sources, targets = _most(listed, 0), _most(listed, 1)
    cells: dict[tuple[str, str], Edge] = {}
    for edge in folded(_beside(listed, sources, targets), frozenset({*sources, *targets}), OTHERS):
        cells[edge.source, edge.target] = edge
    columns = [_head(slug, name, links.window.query) for name in targets]
    rows = []
    for source in sources:
        edges = [cells.get((source, target)) for target in targets]
        row = [_cell(found, edge, links) if edge else None for edge in edges]
        rows.append(Row(_head(slug, source, links.window.query), row))
    return Matrix(columns, rows)


def _most(listed: Sequence[Edge], side: int) -> list[str]:
    numbers: dict[str, int] = {}
    for edge in listed:
        name = (edge.source, edge.target)[side]
        numbers[name] = numbers.get(name, 0) + edge.number
    names = sorted(numbers, key=lambda name: (-numbers[name], name))
    return names if len(names) <= MOST else [*names[: MOST - 1], OTHERS]


def _beside(listed: Iterable[Edge], sources: Sequence[str], targets: Sequence[str]) -> list[Edge]:
    """An agent may be one of the others on one side only."""
    as_source, as_target = frozenset(sources), frozenset(targets)
    return [
        Edge(
            edge.source if edge.source in as_source else OTHERS,
            edge.target if edge.target in as_target else OTHERS,
            edge.number,
            edge.judged,
            edge.told,
        )
        for edge in listed
    ]


def _head(slug: str, name: str, query: Mapping[str, str]) -> Head:
    if name == OTHERS:
        return Head("others", "others", "")
    return Head(cut(name, 200), cut(name, _LONGEST), address_of(slug, name, query))


def _cell(found: Agents, edge: Edge, links: Links) -> Cell:
    named = OTHERS not in (edge.source, edge.target)
    time = took(edge.median_seconds)
    undeclared = named and found.is_declared(edge.source, edge.target) is False
    words = [f"{edge.number:,} handed over", f"{told(edge.share)} accepted"]
    words += [f"median {time}"] if time else []
    words += ["not declared"] if undeclared else []
    return Cell(
        edge.number,
        edge.share,
        tone(edge.share),
        time,
        links.handoffs(source=edge.source, target=edge.target) if named else "",
        f"{_told(edge.source)} to {_told(edge.target)}: {', '.join(words)}",
        edge.source == edge.target and named,
        undeclared,
    )


def _told(name: str) -> str:
    return "others" if name == OTHERS else cut(name, 80)
