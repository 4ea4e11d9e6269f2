"""Sums of many log lines: the count of each key, and the names that occur in the lines."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

from handoffaudit.validation.logs.lines import (
    GATE_LEVELS,
    BadLine,
    HealthLine,
    Kind,
    Line,
    agents_of,
    component_of,
    events_of,
    level_of,
    parse_level,
    phase_of,
    trace_of,
)
from handoffaudit.validation.logs.reader import OLDER_FOUND, SAME_EVENT, Fault, read_time
from handoffaudit.validation.times import hour_of

_ALMOST_A_MINUTE: Final = timedelta(seconds=59, microseconds=999_999)

HEALTH_KIND, OLDER_KIND, GATE_KIND, TRACE_KIND = (
    kind.value for kind in (Kind.HEALTH, Kind.OLDER, Kind.GATE, Kind.TRACE)
)

OLDER_REASONS: Final = {found: str(reason or "") for found, reason in OLDER_FOUND.items()}

# Hour in UTC, agent, phase, runtime, source, reason, fallback; an unknown value is empty.
HealthKey = tuple[datetime, str, str, str, str, str, str]

# Hour in UTC, kind, event, level, component. The event of a health line is its reason, and the component its agent. The
# component of a trace line is its phase.
LineKey = tuple[datetime, str, str, str, str]


class Counts:
    """The count of each key in one or several texts.

    A line in the usual spelling is first counted under the texts that the groups of a regular expression match.
    When `health` or `lines` is read, these texts become keys.
    """

    def __init__(self) -> None:
        self._health: Counter[HealthKey] = Counter()
        self._lines: Counter[LineKey] = Counter()
        # Keys in the form that the patterns find: hour and zone first.
        self.healths: Counter[tuple[str, ...]] = Counter()
        self.olders: Counter[tuple[str, ...]] = Counter()
        self.gates: Counter[tuple[str, ...]] = Counter()
        self.traces: Counter[tuple[Any, ...]] = Counter()

    @property
    def health(self) -> Counter[HealthKey]:
        self._settle()
        return self._health

    @property
    def lines(self) -> Counter[LineKey]:
        self._settle()
        return self._lines

    def add_health(self, kind: str, key: HealthKey, number: int = 1) -> None:
        self._health[key] += number
        self._lines[key[0], kind, key[5], "", key[1]] += number

    def add_line(self, key: LineKey, number: int = 1) -> None:
        self._lines[key] += number

    def _settle(self) -> None:
        for (hour, zone, *names), number in self.healths.items():
            agent, phase, runtime, source, reason, fallback = names
            key = (_hour(hour, zone), agent, phase, runtime, source, reason, fallback)
            self.add_health(HEALTH_KIND, key, number)
        for (hour, zone, phase, agent, runtime, json, source), number in self.olders.items():
            reason = OLDER_REASONS[json]
            key = (_hour(hour, zone), agent.strip(), phase.strip(), runtime.strip(), source, reason, "")
            self.add_health(OLDER_KIND, key, number)
        for (hour, zone, event, component), number in self.gates.items():
            name = SAME_EVENT.get(event, event)
            self.add_line((_hour(hour, zone), GATE_KIND, name, GATE_LEVELS.get(name, ""), component.strip()), number)
        for ((hour, zone), (event_type, event, level, phase)), number in self.traces.items():
            name, low = event_type or event, parse_level(level or "")
            self.add_line((_hour(hour, zone), TRACE_KIND, name, low, phase or ""), number)
        for counted in (self.healths, self.olders, self.gates, self.traces):
            counted.clear()


@dataclass(slots=True)
class Tally:
    """The counts of some lines, and the names that occur in the lines.

    Blank lines are not counted, and bad lines have no key. `first_at` is the beginning of the first minute, and
    `last_at` the end of the last. The sets hold the names that occur in any line, and `runs` the runs of health lines.
    Several texts may share `counts`.
    """

    counts: Counts = field(default_factory=Counts, compare=False)
    kinds: Counter[str] = field(default_factory=Counter)
    first_at: datetime | None = None
    last_at: datetime | None = None
    agents: set[str] = field(default_factory=set)
    phases: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)
    levels: set[str] = field(default_factory=set)
    traces: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)

    @property
    def health(self) -> Counter[HealthKey]:
        return self.counts.health

    @property
    def lines(self) -> Counter[LineKey]:
        return self.counts.lines

    @property
    def bad(self) -> int:
        return self.kinds[Kind.BAD]

    def add(self, line: Line) -> None:
        self.kinds[line.kind.value] += 1
        if isinstance(line, BadLine):
            return
        self.span(line.at.replace(second=0, microsecond=0))
        events, level = events_of(line), level_of(line)
        if isinstance(line, HealthLine):
            self.counts.add_health(line.kind.value, key_of(line))
            self.runs.add(line.run_id)
        else:
            event = next(iter(events), "")
            self.counts.add_line((hour_of(line.at), line.kind.value, event, level, component_of(line)))
        self.agents.update(agents_of(line))
        self.phases.add(phase_of(line))
        self.events.update(events)
        self.levels.add(level)
        self.traces.add(trace_of(line))

    def span(self, minute: datetime) -> None:
        """Extend `first_at` and `last_at` to include a minute."""
        if self.first_at is None or minute < self.first_at:
            self.first_at = minute
        last = minute + _ALMOST_A_MINUTE
        if self.last_at is None or last > self.last_at:
            self.last_at = last


def key_of(line: HealthLine) -> HealthKey:
    """Return the key that a health line is counted under."""
    why = (str(line.reason or ""), str(line.fallback or ""))
    return (hour_of(line.at), line.agent, line.phase, line.runtime, str(line.source), *why)


@lru_cache(maxsize=4096)
def _hour(hour: str, zone: str) -> datetime:
    """Return the hour in UTC.

    The offset of the zone must be a whole number of hours. Raises ValueError if the hour is not a valid time.
    """
    at = minute_of(hour, "00", zone)
    if at is None:
        raise ValueError(hour)
    return at


@lru_cache(maxsize=4096)
def minute_of(hour: str, minute: str, zone: str) -> datetime | None:
    """Return the minute in UTC, or None if the values are not a valid time."""
    try:
        return read_time(f"{hour}:{minute}:00{zone}")
    except Fault:
        return None
