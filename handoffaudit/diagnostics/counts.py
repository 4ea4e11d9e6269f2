"""Counts per hour of what was found of handoff files and of what logs say, kept in the transaction that stores it."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from handoffaudit.diagnostics.models import HealthCount, LogCount
from handoffaudit.handoffs import db


class HealthKey(NamedTuple):
    """What a handoff file's report, or a health line, is counted under. `hour`: of its time, in UTC. `reason` is empty
    where the file was used, `fallback` where the response's text was not tried."""

    hour: datetime
    agent: str
    phase: str
    runtime: str
    source: str
    reason: str
    fallback: str


class LogKey(NamedTuple):
    """What a log line is counted under; see `LogCount`."""

    hour: datetime
    kind: str
    event: str
    level: str
    component: str


HealthDeltas = Counter[HealthKey]

LogDeltas = Counter[LogKey]

_HEALTH = db.Columns.of(HealthCount, "tenant", *HealthKey._fields, "number")

_LOG = db.Columns.of(LogCount, "tenant", *LogKey._fields, "number")


def hour_of(at: datetime) -> datetime:
    """The hour that a UTC time falls into."""
    return at.replace(minute=0, second=0, microsecond=0)


def count_health(tenant_id: int, deltas: HealthDeltas) -> None:
    """Adds to `HealthCount`, always in the same order, so that two workers never wait for each other in a circle. Texts
    must be storable, and as short as their columns."""
    db.add_to_counts(_HEALTH, [[tenant_id, *place, number] for place, number in sorted(deltas.items()) if number])


def count_lines(tenant_id: int, deltas: LogDeltas) -> None:
    """The same of `LogCount`. In a transaction with the other, it comes after it."""
    db.add_to_counts(_LOG, [[tenant_id, *place, number] for place, number in sorted(deltas.items()) if number])
