"""News of a tenant since yesterday: new rule codes and routes, moved acceptance rates, and saved policies."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from math import sqrt
from typing import Any, Final

from django.db.models import Exists, OuterRef, QuerySet, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.compiled_queries import (
    DAY,
    TENANT,
    TIME,
    ClosedDays,
    CompiledQuery,
    Parameter,
    sum_rows,
)
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyTotal
from handoffaudit.handoffs.rates import Share
from handoffaudit.policy.models import Kind, PolicyVersion

MOST_OF_A_KIND: Final = 5
# For each route, the acceptance rate since yesterday is compared with the rate over this number of preceding days.
DAYS_BEFORE: Final = 14
# A route whose last handoff is older than this counts as new.
DAYS_OF_ROUTES: Final = 30

# The policies by which handoffs are judged. Other policies, such as alert rules, are no news: they would push the
# versions of these policies out of the short list.
JUDGED_BY: Final = (Kind.STRICTNESS, Kind.RULES, Kind.SCHEMAS, Kind.PROMPTS, Kind.ROLES)

_ROUTE: Final = ("source_agent_id", "target_agent_id")
_MOST_ROUTES: Final = 5_000
_MOST_KNOWN: Final = 50_000
_FEWEST_NOW: Final = 20
_FEWEST_BEFORE: Final = 50
_FEWEST_POINTS: Final = 10.0
_LEAST_Z: Final = 3.0

Route = tuple[str, str]


@dataclass(frozen=True, slots=True)
class MovedRate:
    """A route with a changed acceptance rate: the rate of the weeks before yesterday, and the rate since yesterday."""

    source: str
    target: str
    before: Share
    now: Share

    @property
    def has_fallen(self) -> bool:
        return self.now.value < self.before.value


@dataclass(frozen=True, slots=True)
class News:
    """The changes since `since`: numbers of handoffs by new rule code and by new route, moved rates, saved policies.

    Each kind has at most `MOST_OF_A_KIND` entries, the most important first. `is_comparable` is false if the tenant has
    no handoffs from before.
    """

    since: datetime
    is_comparable: bool
    codes: list[tuple[str, int]]
    routes: list[tuple[Route, int]]
    rates: list[MovedRate]
    policies: list[PolicyVersion]

    def __bool__(self) -> bool:
        return bool(self.codes or self.routes or self.rates or self.policies)


def load_news(tenant: Tenant, now: datetime, closed: ClosedDays | None = None) -> News:
    """Return the changes since the beginning of yesterday (UTC). All numbers come from stored counts."""
    day = now.astimezone(UTC).date() - timedelta(days=1)
    since = datetime.combine(day, time(), UTC)
    is_comparable = bool(_EARLIER.rows(tenant=tenant.pk, until=since))
    policies = PolicyVersion.objects.filter(tenant=tenant, kind__in=JUDGED_BY, changed_at__gte=since)
    closed = closed or ClosedDays(tenant.pk, now)
    unseen, moved = _compare_routes(closed, day) if is_comparable else ({}, [])
    return News(
        since=since,
        is_comparable=is_comparable,
        codes=_new_codes(tenant, since) if is_comparable else [],
        routes=_new_routes(tenant, day, unseen),
        rates=_sort_rates(moved),
        policies=list(policies.order_by("-changed_at").defer("content")[:MOST_OF_A_KIND]),
    )


def _new_codes(tenant: Tenant, since: datetime) -> list[tuple[str, int]]:
    found = _NEW_CODES.rows(tenant=tenant.pk, before=since - timedelta(days=1), since=since, day=since.date())
    return [(code, number) for code, number in found]


def _build_new_codes() -> "QuerySet[HourlyTotal, Any]":
    since = Parameter("since", TIME)
    hours = HourlyTotal.objects.filter(tenant=TENANT, number__gt=0).exclude(code="").order_by()
    earlier = DailyCount.objects.filter(tenant=TENANT, code=OuterRef("code"), day__lt=_DAY)
    # Nearly all codes occurred on the day before, too, and need no lookup of earlier days.
    lately = hours.filter(hour__gte=Parameter("before", TIME), hour__lt=since)
    found = hours.filter(hour__gte=since).exclude(code__in=lately.values("code")).filter(~Exists(earlier))
    return found.values_list("code").annotate(sum=Sum("number")).order_by("-sum", "code")[:MOST_OF_A_KIND]


_DAY: Final = Parameter("day", DAY)

_EARLIER: Final = CompiledQuery(
    lambda: HourlyTotal.objects.filter(
        tenant=TENANT, code="", number__gt=0, hour__lt=Parameter("until", TIME)
    ).values_list("pk")[:1]
)

_NEW_CODES: Final = CompiledQuery(_build_new_codes)

# The routes of the weeks before a day.
_ROUTES_BEFORE: Final = CompiledQuery(
    lambda: (
        DailyPair.objects.filter(tenant=TENANT, day__gte=Parameter("first", DAY), day__lt=_DAY)
        .order_by()
        .values_list(*_ROUTE)
        .distinct()[:_MOST_KNOWN]
    )
)


_PAIRS: Final = DailyPair.objects.filter(tenant=TENANT).order_by().values_list(*_ROUTE, *OUTCOMES)
_PAIRS_BEFORE: Final = CompiledQuery(lambda: _PAIRS.filter(day__gte=Parameter("first", DAY), day__lt=_DAY))
_PAIRS_SINCE: Final = CompiledQuery(lambda: _PAIRS.filter(day__gte=_DAY))

# PostgreSQL takes longer to sum the columns than to read the rows, so there are few sums: accepted handoffs, final
# attempts, and all handoffs.
_SUMS: Final = tuple(
    f"CAST(SUM({columns}) AS bigint)"
    for columns in ("accepted", "accepted + decided + stopped", "accepted + decided + stopped + superseded")
)
_MOST_FIRST: Final = f"ORDER BY {_SUMS[2]} DESC LIMIT {_MOST_ROUTES}"


def _compare_routes(closed: ClosedDays, day: date) -> tuple[dict[Route, int], list[MovedRate]]:
    """Count the handoffs of each route that may be new since `day`, and find the routes whose acceptance rate moved.

    A tenant may have thousands of routes, so only the routes with the most handoffs are compared. Handoffs that lack an
    agent are left out.
    """
    first = day - timedelta(days=DAYS_BEFORE)
    before = [_PAIRS_BEFORE.statement(tenant=closed.tenant_id, first=first, day=day)]
    earlier = closed.sum_rows(first, _ROUTE, _SUMS, _PAIRS_BEFORE, lambda: before)
    earlier = sum_rows(before, _ROUTE, _SUMS, _MOST_FIRST) if earlier is None else earlier
    recent = sum_rows([_PAIRS_SINCE.statement(tenant=closed.tenant_id, day=day)], _ROUTE, _SUMS, _MOST_FIRST)
    known = {(source, target): (accepted, final) for source, target, accepted, final, _ in earlier}
    unseen: dict[Route, int] = {}
    moved: list[MovedRate] = []
    for source, target, accepted, final, total in recent:
        if not (source and target):
            continue
        then, of = known.get((source, target), (0, -1))
        if of < 0:
            unseen[source, target] = total
        # Only routes whose rate moved far enough become objects, because a page must not make an object for each route.
        elif 100 * abs(accepted * of - then * final) >= _FEWEST_POINTS * final * of:
            moved.append(MovedRate(source, target, Share(then, of), Share(accepted, final)))
    return unseen, [one for one in moved if has_moved(one.before, one.now)]


def _new_routes(tenant: Tenant, day: date, unseen: Mapping[Route, int]) -> list[tuple[Route, int]]:
    if not any(unseen.values()):
        return []
    # The comparison covers only `DAYS_BEFORE` days and the routes with the most handoffs, so a route that is unseen
    # there may still be known.
    known = set(_ROUTES_BEFORE.rows(tenant=tenant.pk, first=day - timedelta(days=DAYS_OF_ROUTES), day=day))
    found = [(route, number) for route, number in unseen.items() if number and route not in known]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MOST_OF_A_KIND]


def _sort_rates(moved: Iterable[MovedRate]) -> list[MovedRate]:
    return sorted(moved, key=lambda one: (not one.has_fallen, -abs(one.now.value - one.before.value)))[:MOST_OF_A_KIND]


def has_moved(before: Share, now: Share) -> bool:
    """Return whether a rate moved beyond chance, and by at least 10 points.

    A rate of fewer than 50 handoffs before, or fewer than 20 now, has not moved. The z-test of two proportions with a
    pooled variance must give more than 3, because hundreds of routes are compared at once. The test is in the
    NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.3.
    """
    if before.total < _FEWEST_BEFORE or now.total < _FEWEST_NOW:
        return False
    difference = abs(now.value - before.value)
    pooled = (before.part + now.part) / (before.total + now.total)
    spread = sqrt(pooled * (1 - pooled) * (1 / before.total + 1 / now.total))
    return 100 * difference >= _FEWEST_POINTS and difference > _LEAST_Z * spread
