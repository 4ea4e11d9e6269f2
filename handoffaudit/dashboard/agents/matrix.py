"""Sources against targets as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.agents.addresses import address_of
from handoffaudit.dashboard.agents.words import took
from handoffaudit.dashboard.diagnostics.choosing import Links
from handoffaudit.dashboard.readable import cut
from handoffaudit.dashboard.templatetags.icons import icon
from handoffaudit.dashboard.templatetags.shares import percent, told, tone
from handoffaudit.diagnostics.agents import AgentRoute, Agents, fold_route_sides

MOST: Final = 20
# No agent has that name: none is stored with a NUL.
OTHERS: Final = "\x00"
_LONGEST: Final = 24
_FEW: Final = icon("failed", "few accepted")
_NONE: Final = '<td class="agents-cell agents-cell--none"><span aria-hidden="true">·</span></td>'


@dataclass(frozen=True, slots=True)
class Head:
    """`short` for a narrow column; `href` is empty for the others."""

    name: str
    short: str
    href: str


@dataclass(frozen=True, slots=True)
class Row:
    """`cells` is markup: one template for each of hundreds of them would take most of the page's time."""

    head: Head
    cells: SafeString


@dataclass(frozen=True, slots=True)
class Matrix:
    columns: list[Head]
    rows: list[Row]


def matrix(slug: str, found: Agents, links: Links) -> Matrix:
    """At most 20 of each, the others as one; those with the most handoffs first."""
    listed = found.edges.listed
    sources, targets = _most(listed, 0), _most(listed, 1)
    cells: dict[tuple[str, str], AgentRoute] = {}
    for edge in fold_route_sides(listed, frozenset(sources), frozenset(targets), OTHERS):
        cells[edge.source, edge.target] = edge
    columns = [_head(slug, name, links.window.query) for name in targets]
    rows = []
    for source in sources:
        edges = [cells.get((source, target)) for target in targets]
        markup = "".join(_cell(found, edge, links) if edge else _NONE for edge in edges)
        rows.append(Row(_head(slug, source, links.window.query), mark_safe(markup)))  # noqa: S308 -- _cell escapes
    return Matrix(columns, rows)


def _most(listed: Sequence[AgentRoute], side: int) -> list[str]:
    numbers: dict[str, int] = {}
    for edge in listed:
        name = (edge.source, edge.target)[side]
        numbers[name] = numbers.get(name, 0) + edge.number
    names = sorted(numbers, key=lambda name: (-numbers[name], name))
    return names if len(names) <= MOST else [*names[: MOST - 1], OTHERS]


def _head(slug: str, name: str, query: Mapping[str, str]) -> Head:
    if name == OTHERS:
        return Head("others", "others", "")
    return Head(cut(name, 200), cut(name, _LONGEST), address_of(slug, name, query))


def _cell(found: Agents, edge: AgentRoute, links: Links) -> str:
    named = OTHERS not in (edge.source, edge.target)
    undeclared = named and found.is_declared(edge.source, edge.target) is False
    share = edge.share
    number, time, kind = f"{edge.number:,}", took(edge.median_seconds), tone(share)
    words = [f"{number} handed over", f"{told(share)} accepted"]
    words += [f"median {time}"] if time else []
    words += ["not declared"] if undeclared else []
    way = f"{_told(edge.source)} to {_told(edge.target)}"
    title = f"{way}: {', '.join(words)}"
    href = links.handoffs(source=edge.source, target=edge.target) if named else ""
    classes = f"agents-cell agents-cell--{kind}"
    classes += " agents-cell--self" if named and edge.source == edge.target else ""
    classes += " agents-cell--undeclared" if undeclared else ""
    link = f'<a href="{escape(href)}" aria-label="{number} from {escape(way)}">{number}</a> ' if href else ""
    return (
        f'<td class="{classes}" title="{escape(title)}">'
        + (link or f"<b>{number}</b> ")
        + f'<span class="agents-share">{f"{_FEW} " if kind == "bad" else ""}{percent(share)}</span> '
        + (f'<span class="agents-time">{time}</span> ' if time else "")
        + ('<span class="hidden">not declared</span>' if undeclared else "")
        + "</td>"
    )


def _told(name: str) -> str:
    return "others" if name == OTHERS else cut(name, 80)
