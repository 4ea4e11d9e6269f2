"""Hourly counts of handoff files and of log lines, updated in the transaction that stores the data."""

from collections import Counter
from datetime import datetime
from typing import Final, NamedTuple

from handoffaudit.diagnostics.models import HealthCount, LogCount
from handoffaudit.handoffs.counts import Aggregate


class HealthKey(NamedTuple):
    """The key under which a file report or a health line is counted.

    `hour` is the hour of the report or line, in UTC. `reason` is empty if the file was used. `fallback` is empty if the
    response text was not tried.
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

HEALTH_COUNTS: Final = Aggregate(HealthCount, ("tenant", *HealthKey._fields))

LOG_COUNTS: Final = Aggregate(LogCount, ("tenant", *LogKey._fields))


def count_health(tenant_id: int, deltas: HealthDeltas) -> None:
    """Add the numbers to `HealthCount`. Texts must be storable and fit into their columns."""
    HEALTH_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})


def count_lines(tenant_id: int, deltas: LogDeltas) -> None:
    """Add the numbers to `LogCount`. In a transaction that also calls `count_health`, call this function second."""
    LOG_COUNTS.add({(tenant_id, *place): (number,) for place, number in deltas.items()})
