"""Reports on rule codes: how often, from which agents, since when, and whether reviewers agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from django.db.models import F, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import noise
from handoffaudit.diagnostics.file_tally import Change
from handoffaudit.diagnostics.noise import CodeDecisions
from handoffaudit.diagnostics.periods import Window
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.db import TimeStep
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Finding, Handoff, HourlyTotal
from handoffaudit.handoffs.outcome_sums import sum_outcomes
from handoffaudit.handoffs.rates import FINAL, Share

MOST_SOURCES = 12
MOST_CODES = 10
MOST_AGENTS = 5
NEWEST = 10


@dataclass(frozen=True, slots=True)
class CodeAgents:
    """A code, how many handoffs have it, and the source agents of most of these handoffs."""

    code: str
    number: int
    agents: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class TimeBucket:
    since: datetime
    until: datetime
    number: int


@dataclass(frozen=True, slots=True)
class CodeReport:
    """The report of one code in a window.

    `change` is the share of final attempts that have the code, now and before; a smaller share is better. `first` is
    the first handoff ever that has the code.
    """

    code: str
    window: Window
    change: Change
    sources: Sequence[tuple[str, int]]
    types: Sequence[tuple[str, int]]
    over_time: Sequence[TimeBucket]
    decided: CodeDecisions
    first: Handoff | None
    newest: Sequence[Handoff]

    @property
    def number(self) -> int:
        """Return how many handoffs have the code, superseded attempts included, as the list of handoffs counts them."""
        return sum(one.number for one in self.over_time)


def top_codes(tenant: Tenant, window: Window) -> list[CodeAgents]:
    """Return the codes that most handoffs have, with the agents of these handoffs."""
    most = stats.count_top_codes(tenant, window.since, window.until, MOST_CODES)
    agents: dict[str, list[tuple[str, int]]] = {code: [] for code, _ in most}
    found = sum_outcomes(tenant, window.since, window.until, "code", "source_agent_id", codes=list(agents))
    for (code, source), sums in found.items():
        if len(agents[code]) < MOST_AGENTS:
            agents[code].append((source, sums.total))
    return [CodeAgents(code, number, agents[code]) for code, number in most]


def load_report(tenant: Tenant, code: str, window: Window) -> CodeReport:
    now = _share(tenant, code, window.since, window.until)
    return CodeReport(
        code=code,
        window=window,
        change=Change(now, _share(tenant, code, window.before_since, window.before_until)),
        sources=_by(tenant, code, window, "source_agent_id"),
        types=_by(tenant, code, window, "handoff_type"),
        over_time=_over_time(tenant, code, window),
        decided=noise.code_decisions(tenant, code, window.since, window.until),
        first=_first(tenant, code),
        newest=queries.list_handoffs(tenant, Filters(code=code), limit=NEWEST).items,
    )


def is_known(tenant: Tenant, code: str) -> bool:
    """Return whether any handoff ever had the code."""
    return Finding.objects.filter(tenant=tenant, code=code).exists()


def _share(tenant: Tenant, code: str, since: datetime, until: datetime) -> Share:
    """Return the share of final attempts that have the code, among those received in that time."""
    rows = HourlyTotal.objects.filter(
        tenant=tenant, hour__gte=since, hour__lt=until, code__in=("", code), state__in=FINAL
    )
    sums = dict(rows.order_by().values_list("code").annotate(sum=Sum("number")))
    return Share(sums.get(code, 0), sums.get("", 0))


def _by(tenant: Tenant, code: str, window: Window, column: str) -> list[tuple[str, int]]:
    found = sum_outcomes(tenant, window.since, window.until, column, codes=[code])
    return [(name, sums.total) for (name,), sums in islice(found.items(), MOST_SOURCES)]


def _over_time(tenant: Tenant, code: str, window: Window) -> list[TimeBucket]:
    seconds = int(window.step.total_seconds())
    rows = HourlyTotal.objects.filter(tenant=tenant, hour__gte=window.since, hour__lt=window.until, code=code)
    stepped = rows.order_by().annotate(step=TimeStep(F("hour"), seconds=seconds))
    found = dict(stepped.values_list("step").annotate(sum=Sum("number")))
    return [
        TimeBucket(since, until, found.get(int(since.timestamp()) // seconds, 0)) for since, until in window.stretches()
    ]


def _first(tenant: Tenant, code: str) -> Handoff | None:
    """Return the first handoff with the code: ids are in the order of time, so the index begins with that handoff."""
    pk = Finding.objects.filter(tenant=tenant, code=code).order_by("handoff_id").values_list("handoff_id").first()
    return queries.of_tenant(tenant).filter(pk=pk[0]).first() if pk else None
