"""The stretches of time that diagnostics look back over."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Period:
    """`name` as it stands in an address; `step` is how much of it one bar of a chart shows."""

    name: str
    label: str
    length: timedelta
    step: timedelta


PERIODS = {
    period.name: period
    for period in (
        Period("1h", "hour", timedelta(hours=1), timedelta(minutes=2)),
        Period("24h", "24 hours", timedelta(hours=24), timedelta(hours=1)),
        Period("7d", "7 days", timedelta(days=7), timedelta(hours=6)),
    )
}
