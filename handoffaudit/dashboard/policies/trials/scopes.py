"""On which handoffs a draft can be tried."""

from dataclasses import dataclass
from datetime import timedelta

from handoffaudit.handoffs.dry_runs import run

ALL_TYPES = "all"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which handoffs a draft is tried on: the last `most` of those received within `within`."""

    words: str
    most: int = run.MOST
    within: timedelta | None = None


SCOPES = {
    "50": Scope("the last 50 handoffs", most=50),
    "200": Scope("the last 200 handoffs", most=200),
    "1000": Scope("the last 1,000 handoffs", most=1000),
    "24h": Scope("the last 24 hours", within=timedelta(hours=24)),
    "7d": Scope("the last 7 days", within=timedelta(days=7)),
    "30d": Scope("the last 30 days", within=timedelta(days=30)),
}
USUAL = "200"
# Where the model is asked, each handoff costs; the first is the usual one.
MODEL_SCOPES = {
    "50": SCOPES["50"],
    "10": Scope("the last 10 handoffs", most=10),
    "200": SCOPES["200"],
    "500": Scope("the last 500 handoffs", most=500),
}
