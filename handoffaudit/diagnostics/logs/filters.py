"""Filters of log lines, orders of imports, and the facets of blocks, with which a search skips blocks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime

import orjson
from django import forms

from handoffaudit.filter_fields import UNTIL, ChoiceFilter, MomentFilter, Order, SinceFilter, SortFilter, TextFilter
from handoffaudit.filter_set import FilterSet, declare
from handoffaudit.handoffs.filters import NEWEST, OLDEST
from handoffaudit.validation.logs.lines import (
    KIND_TEXTS,
    BadLine,
    Kind,
    Line,
    agents_of,
    events_of,
    level_of,
    parse_level,
    phase_of,
    trace_of,
)
from handoffaudit.validation.text import clean, is_uuid

# A block stores no list of more values than this. Such a list could be as long as the block, and save nothing.
MOST_VALUES = 100

LONGEST_VALUE = 200


@dataclass(frozen=True, slots=True)
class Facets:
    """The values in the lines of a block. Each set is complete, or None if there are too many values."""

    kinds: frozenset[str] | None = frozenset()
    agents: frozenset[str] | None = frozenset()
    phases: frozenset[str] | None = frozenset()
    events: frozenset[str] | None = frozenset()
    levels: frozenset[str] | None = frozenset()
    traces: frozenset[str] | None = frozenset()

    def __or__(self, other: "Facets") -> "Facets":
        return Facets(*(_unite(getattr(self, one.name), getattr(other, one.name)) for one in fields(Facets)))

    def dump(self) -> str:
        return orjson.dumps({one.name: _sort_values(getattr(self, one.name)) for one in fields(Facets)}).decode()

    @classmethod
    def load(cls, text: str) -> "Facets":
        found = orjson.loads(text) if text else {}
        return cls(*(_set(found.get(one.name)) for one in fields(Facets)))


def limit_values(values: Iterable[str]) -> frozenset[str] | None:
    """Return the values that are not empty, each cut to `LONGEST_VALUE`, or None if there are too many values."""
    found = frozenset(values)
    if len(found) > 2 * MOST_VALUES:
        return None
    kept = frozenset(clean(value, LONGEST_VALUE) for value in found if value)
    return kept if len(kept) <= MOST_VALUES else None


def _unite(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    return None if one is None or other is None else limit_values(one | other)


def _sort_values(values: frozenset[str] | None) -> list[str] | None:
    return None if values is None else sorted(values)


def _set(values: list[str] | None) -> frozenset[str] | None:
    return None if values is None else frozenset(values)


# A value that matches has only one spelling in a log line, and is short enough to be compared without cutting it.
_PLAIN = re.compile(rf"[A-Za-z0-9_.:-]{{1,{LONGEST_VALUE - 1}}}")

HEALTH_KINDS = frozenset({Kind.HEALTH.value, Kind.OLDER.value})


KINDS = {kind.value: text.title for kind, text in KIND_TEXTS.items()}

IMPORT_ORDERS = {
    NEWEST: Order("Newest first", ("-id",)),
    OLDEST: Order("Oldest first", ("id",)),
    "log": Order("Log, A to Z", ("source", "id")),
    "-log": Order("Log, Z to A", ("-source", "-id")),
    "-size": Order("Largest first", ("-size", "-id")),
    "size": Order("Smallest first", ("size", "id")),
    "-bad": Order("Most bad lines first", ("-bad", "-id")),
    "bad": Order("Fewest bad lines first", ("bad", "id")),
}


@dataclass(frozen=True, slots=True)
class ImportOrder(FilterSet):
    """The order of the list of imports."""

    sort: str = declare(SortFilter("Order", f"{', '.join(IMPORT_ORDERS)}.", orders=IMPORT_ORDERS, usual=NEWEST))


LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class LogQuery(FilterSet):
    """A search for log lines; empty text and None filter nothing.

    `text` matches any part of the line and ignores case. `agent` also matches a gate's component, `event` also a
    reason, `trace` also a run. `kind` is a `Kind`; `health` includes the older form. `since` is inclusive, `until`
    exclusive.
    """

    text: str = declare(
        TextFilter(
            "Text",
            "Text in the line, ignoring case.",
            name="q",
            widget=forms.TextInput(attrs={"type": "search", "data-key": "/", "placeholder": "Any part of a line"}),
        )
    )
    kind: str = declare(ChoiceFilter("Kind", f"{', '.join(Kind)}; health includes the older form.", choices=KINDS))
    event: str = declare(
        TextFilter("Event or reason", "An event type, or a reason.", example="file_missing", widget=forms.Select())
    )
    agent: str = declare(TextFilter("Agent or component", "The agent, or the component of a gate."))
    phase: str = declare(TextFilter("Phase", "The phase of the run."))
    level: str = declare(
        TextFilter(
            "Level", "error, warning, info, debug", choices={level: level for level in LEVELS}, widget=forms.Select()
        )
    )
    trace: str = declare(TextFilter("Trace or run", "A `trace_id`, or the run of a health line."))
    source: str = declare(TextFilter("Log", "The name of the log."))
    since: datetime | None = declare(SinceFilter())
    until: datetime | None = declare(
        MomentFilter("Until", UNTIL, widget=forms.TextInput(attrs={"placeholder": "2026-02-15"}))
    )
    period: str = ""

    def __post_init__(self) -> None:
        for name in ("agent", "phase", "level", "trace"):
            object.__setattr__(self, name, clean(getattr(self, name), LONGEST_VALUE))
        object.__setattr__(self, "level", parse_level(self.level))

    @property
    def kinds(self) -> frozenset[str]:
        return HEALTH_KINDS if self.kind == Kind.HEALTH else frozenset({self.kind} if self.kind else ())

    @property
    def trace_spellings(self) -> tuple[str, ...]:
        """Return the trace as given and, for a UUID, in lower and upper case, because log lines may have either."""
        return (self.trace, self.trace.lower(), self.trace.upper()) if is_uuid(self.trace) else (self.trace,)

    def may_match(self, facets: Facets) -> bool:
        """Return whether a block with these facets may have a matching line."""
        return (
            _may(self.kinds, facets.kinds)
            and _may((self.agent,), facets.agents)
            and _may((self.phase,), facets.phases)
            and _may((self.event,), facets.events)
            and _may((self.level,), facets.levels)
            and _may(self.trace_spellings, facets.traces)
        )

    def may_stand_in(self, text: bytes) -> bool:
        """Return whether the text of a block may have a matching line, without reading its lines."""
        if self.text and self.text.casefold() not in text.decode(errors="replace").casefold():
            return False
        # A text with escapes may contain a value in another spelling, so it always may have a matching line.
        spellings = ((self.agent,), (self.phase,), self.trace_spellings)
        plain = (values for values in spellings if all(_PLAIN.fullmatch(value) for value in values))
        return b"\\u" in text or all(any(value.encode() in text for value in values) for values in plain)

    def matches(self, line: Line) -> bool:
        """Return whether the fields of the line match. The search itself checks the log, the text and the time."""
        if self.kinds and line.kind not in self.kinds:
            return False
        if isinstance(line, BadLine):
            return not any((self.agent, self.phase, self.event, self.level, self.trace))
        return (
            (not self.agent or self.agent in _cut(agents_of(line)))
            and (not self.phase or self.phase in _cut((phase_of(line),)))
            and (not self.event or self.event in events_of(line))
            and (not self.level or self.level in _cut((level_of(line),)))
            and (not self.trace or not set(self.trace_spellings).isdisjoint(_cut((trace_of(line),))))
        )


def _cut(values: tuple[str, ...]) -> list[str]:
    return [clean(value, LONGEST_VALUE) for value in values]


def _may(wanted: "frozenset[str] | tuple[str, ...]", there: frozenset[str] | None) -> bool:
    values = [value for value in wanted if value]
    return not values or there is None or not there.isdisjoint(values)
