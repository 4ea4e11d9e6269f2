"""What lines of logs are searched for."""

import re
from dataclasses import dataclass
from datetime import datetime

from handoffaudit.diagnostics.logs.facets import LONGEST_VALUE, Facets
from handoffaudit.validation.loglines import BadLine, Kind, Line
from handoffaudit.validation.loglines.aspects import agents_of, events_of, level_of, phase_of, trace_of
from handoffaudit.validation.text import clean, is_uuid

# Written in one way only, and short enough to be compared at full length.
_PLAIN = re.compile(rf"[A-Za-z0-9_.:-]{{1,{LONGEST_VALUE - 1}}}")
HEALTH_KINDS = frozenset({Kind.HEALTH.value, Kind.OLDER.value})


@dataclass(frozen=True, slots=True)
class Query:
    """What is empty or None narrows nothing. `text` stands anywhere in the line, in any case. `agent` is also a gate's
    component, `event` also a reason, `trace` also a run; `kind` is a `Kind`, and `health` has the older form too.
    `since` is inclusive, `until` exclusive."""

    text: str = ""
    agent: str = ""
    phase: str = ""
    kind: str = ""
    event: str = ""
    level: str = ""
    trace: str = ""
    source: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("agent", "phase", "trace"):
            object.__setattr__(self, name, clean(getattr(self, name), LONGEST_VALUE))

    @property
    def kinds(self) -> frozenset[str]:
        return HEALTH_KINDS if self.kind == Kind.HEALTH else frozenset({self.kind} if self.kind else ())

    @property
    def trace_spellings(self) -> tuple[str, ...]:
        """The trace as it is written, and a UUID also in lower and in upper case: log lines keep what was written."""
        return (self.trace, self.trace.lower(), self.trace.upper()) if is_uuid(self.trace) else (self.trace,)

    def may_match(self, facets: Facets) -> bool:
        """Whether a block with these facets may have such a line."""
        return (
            _may(self.kinds, facets.kinds)
            and _may((self.agent,), facets.agents)
            and _may((self.phase,), facets.phases)
            and _may((self.event,), facets.events)
            and _may((self.level,), facets.levels)
            and _may(self.trace_spellings, facets.traces)
        )

    def may_stand_in(self, text: bytes) -> bool:
        """Whether the text of a block may have such a line: cheap, where reading all its lines is not."""
        if self.text and self.text.casefold() not in text.decode(errors="replace").casefold():
            return False
        # With escapes a value can be written in other letters than its own.
        asked = ((self.agent,), (self.phase,), self.trace_spellings)
        plain = (values for values in asked if all(_PLAIN.fullmatch(value) for value in values))
        return b"\\u" in text or all(any(value.encode() in text for value in values) for values in plain)

    def matches(self, line: Line) -> bool:
        """Whether what the line says fits; its text and its time are looked at elsewhere."""
        if self.kinds and line.kind not in self.kinds:
            return False
        if isinstance(line, BadLine):
            return not any((self.agent, self.phase, self.event, self.level, self.trace))
        return (
            (not self.agent or self.agent in _cut(agents_of(line)))
            and (not self.phase or self.phase in _cut((phase_of(line),)))
            and (not self.event or self.event in events_of(line))
            and (not self.level or self.level == level_of(line))
            and (not self.trace or not set(self.trace_spellings).isdisjoint(_cut((trace_of(line),))))
        )


def _cut(values: tuple[str, ...]) -> list[str]:
    return [clean(value, LONGEST_VALUE) for value in values]


def _may(wanted: "frozenset[str] | tuple[str, ...]", there: frozenset[str] | None) -> bool:
    asked = [value for value in wanted if value]
    return not asked or there is None or not there.isdisjoint(asked)
