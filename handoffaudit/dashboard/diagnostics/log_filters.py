"""What log lines are narrowed by, read from an address and written back to one."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.http import QueryDict

from handoffaudit.dashboard.chips import PERIODS, Chip
from handoffaudit.dashboard.diagnostics.log_rows import KIND_NAMES
from handoffaudit.dashboard.readable import readable
from handoffaudit.diagnostics.logs.filters import LogQuery
from handoffaudit.handoffs.filters import FilterError, Filters
from handoffaudit.validation.formats.file_report import Fallback, Reason
from handoffaudit.validation.logs.lines import GATE_EVENTS, TRACE_EVENTS

FIELDS = {
    "q": "text",
    "kind": "kind",
    "event": "event",
    "agent": "agent",
    "phase": "phase",
    "level": "level",
    "trace": "trace",
    "source": "source",
}
_LABELS = {
    "q": "Text",
    "kind": "Kind",
    "event": "Event or reason",
    "agent": "Agent or component",
    "phase": "Phase",
    "level": "Level",
    "trace": "Trace or run",
    "source": "Log",
}
LEVELS = ("debug", "info", "warning", "error")
EVENTS = {
    "Reasons": [one.value for one in Reason],
    "Fallback": [one.value for one in Fallback],
    "Gate events": list(GATE_EVENTS),
    "Trace events": list(TRACE_EVENTS),
}
MOST_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class LogFilters:
    """`times` has since, until and the period that was asked for, as the list of handoffs has them."""

    query: LogQuery
    times: Filters

    @classmethod
    def from_query(cls, params: QueryDict | Mapping[str, str]) -> "LogFilters":
        """Raises `BadFilter`."""
        texts = {field: params.get(name, "").strip() for name, field in FIELDS.items()}
        for name, field in FIELDS.items():
            if "\x00" in texts[field] or len(texts[field]) > MOST_CHARACTERS:
                raise FilterError(name, texts[field][:40], f"use a text of at most {MOST_CHARACTERS} characters.")
        if texts["kind"] and texts["kind"] not in KIND_NAMES:
            raise FilterError("kind", texts["kind"], f"use one of {', '.join(KIND_NAMES)}.")
        times = Filters.from_query({name: params.get(name, "") for name in ("since", "until")})
        return cls(LogQuery(**texts, since=times.since, until=times.until), times)

    def to_query(self) -> str:
        pairs = {name: getattr(self.query, field) for name, field in FIELDS.items() if getattr(self.query, field)}
        return "&".join(part for part in (urlencode(pairs), self.times.to_query()) if part)

    def chips(self) -> Iterator[Chip]:
        """Each filter in force, with the query that leaves it out."""
        for name, field in FIELDS.items():
            if value := getattr(self.query, field):
                shown = KIND_NAMES[value] if name == "kind" else readable(value)
                without = replace(self, query=_without(self.query, field))
                yield Chip(_LABELS[name], shown, without.to_query())
        times = self.times
        if times.since:
            since = PERIODS.get(times.period) or times.period or f"{times.since:%Y-%m-%d %H:%M}"
            yield Chip("Since", since, replace(self, times=replace(times, since=None, period="")).to_query())
        if times.until:
            without = replace(self, times=replace(times, until=None))
            yield Chip("Until", f"{times.until:%Y-%m-%d %H:%M}", without.to_query())


def _without(query: LogQuery, field: str) -> LogQuery:
    nothing: dict[str, Any] = {field: ""}
    return replace(query, **nothing)
