"""Hourly counts of handoff files and of log lines, updated in the transaction that stores the data."""

from collections import Counter
from datetime import datetime
from typing import NamedTuple

from handoffaudit.diagnostics.models import HealthCount, LogCount
from handoffaudit.handoffs import db


class HealthKey(NamedTuple):
    """The key under which a file report or a health line is counted.

    `hour` is the hour of its time, in UTC. `reason` is empty if the file was used, `fallback` if the response text was
    not tried.
    """

    hour: datetime
    agent: str
    phase: str
    runtime: str
    source: str
    reason: str
    fallback: str


class LogKey(NamedTuple):
    """The key under which a log line is counted; see `LogCount`."""

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
    """Return the start of the hour of a UTC time."""
    return at.replace(minute=0, second=0, microsecond=0)


def count_health(tenant_id: int, deltas: HealthDeltas) -> None:
    """Add to `HealthCount`, always in the same order, so that two workers never wait for each other in a circle.

    Texts must be storable, and as short as their columns.
    """
    db.add_to_counts(_HEALTH, [[tenant_id, *place, number] for place, number in sorted(deltas.items()) if number])


def count_lines(tenant_id: int, deltas: LogDeltas) -> None:
    """Add to `LogCount` in the same way. In a transaction with `count_health`, call this second."""
    db.add_to_counts(_LOG, [[tenant_id, *place, number] for place, number in sorted(deltas.items()) if number])
