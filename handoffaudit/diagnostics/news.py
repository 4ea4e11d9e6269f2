"""News of a tenant: what is new or moved since yesterday, compared with the weeks before."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from math import sqrt
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, OuterRef, QuerySet, Sum

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.compiled_queries import DAY, TENANT, TIME, CompiledQuery, Parameter, bind
from handoffaudit.handoffs.counts import OUTCOMES
from handoffaudit.handoffs.models import DailyCount, DailyPair, HourlyTotal
from handoffaudit.handoffs.rates import Share, Sums, outcome_counts_of
from handoffaudit.policy.models import Kind, PolicyVersion

MOST_OF_A_KIND: Final = 5
# A route is compared with its handoffs of this many days before.
DAYS_BEFORE: Final = 14
# A route whose last handoff is older than this counts as new.
DAYS_OF_ROUTES: Final = 30

# The policies by which handoffs are judged. News of others, such as alert rules, would push these out.
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
    """A route whose acceptance rate moved, with the rates of the weeks before and since."""

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


def load_news(tenant: Tenant, now: datetime) -> News:
    """Return the changes since the beginning of yesterday (UTC), from the stored counts."""
    day = now.astimezone(UTC).date() - timedelta(days=1)
    since = datetime.combine(day, time(), UTC)
    is_comparable = bool(_EARLIER.rows(tenant=tenant.pk, until=since))
    policies = PolicyVersion.objects.filter(tenant=tenant, kind__in=JUDGED_BY, changed_at__gte=since)
    earlier, routes = _sum_routes(tenant, day) if is_comparable else ({}, {})
    return News(
        since=since,
        is_comparable=is_comparable,
        codes=_new_codes(tenant, since) if is_comparable else [],
        routes=_new_routes(tenant, day, earlier, routes),
        rates=_moved_rates(earlier, routes),
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


def _sum_routes(tenant: Tenant, day: date) -> tuple[dict[Route, Sums], dict[Route, Sums]]:
    """Return the outcomes of routes that may be new or may have moved: in the weeks before `day`, and since then.

    The first result lacks new routes and the superseded handoffs. At most `_MOST_ROUTES` routes are returned, those
    with the most handoffs. Handoffs that lack an agent are left out.
    """
    sql, params = _compile_routes()
    values = {"tenant": tenant.pk, "first": day - timedelta(days=DAYS_BEFORE), "day": day}
    with connection.cursor() as cursor:
        cursor.execute(sql, bind(params, values, connection))
        rows = cursor.fetchall()
    now = {(source, target): Sums(*sums[3:]) for source, target, *sums in rows}
    before = {(source, target): Sums(*sums[:3]) for source, target, *sums in rows if sums[0] is not None}
    return before, now


@cache
def _compile_routes() -> tuple[str, list[Any]]:
    """Return the statement of `_sum_routes` and its parameters.

    The statement sums as few columns as possible, because PostgreSQL takes longer to sum them than to read the rows.
    """
    found = DailyPair.objects.filter(tenant=TENANT).order_by().values_list(*_ROUTE, *OUTCOMES)
    times = (found.filter(day__gte=Parameter("first", DAY), day__lt=_DAY), found.filter(day__gte=_DAY))
    compiled = [rows.query.sql_with_params() for rows in times]
    by, names = ", ".join(_ROUTE), tuple(OUTCOMES)
    earlier, recent = (
        "SELECT {}, {} FROM ({}) AS counted GROUP BY {}".format(  # noqa: S608
            by, ", ".join(f"CAST(SUM({name}) AS bigint) AS {name}" for name in summed), sql, by
        )
        for (sql, _), summed in zip(compiled, (names[:3], names), strict=True)
    )
    numbers = ", ".join((*(f"earlier.{name}" for name in names[:3]), *(f"recent.{name}" for name in names)))
    final = {rows: f"({rows}.accepted + {rows}.decided + {rows}.stopped)" for rows in ("earlier", "recent")}
    rates = [f"CAST({rows}.accepted AS double precision) / NULLIF({total}, 0)" for rows, total in final.items()]
    # The database's limit is slightly below the smallest difference that counts, so that rounding loses no route.
    sql = f"""
        WITH earlier AS ({earlier}), recent AS ({recent})
        SELECT recent.source_agent_id, recent.target_agent_id, {numbers}
        FROM recent LEFT JOIN earlier ON earlier.source_agent_id = recent.source_agent_id
            AND earlier.target_agent_id = recent.target_agent_id
        WHERE recent.source_agent_id <> '' AND recent.target_agent_id <> '' AND (
            earlier.accepted IS NULL OR {final["earlier"]} >= {_FEWEST_BEFORE} AND {final["recent"]} >= {_FEWEST_NOW}
            AND ABS({rates[0]} - {rates[1]}) >= {_FEWEST_POINTS / 101}
        ) ORDER BY recent.accepted + recent.decided + recent.stopped + recent.superseded DESC LIMIT {_MOST_ROUTES}
    """  # noqa: S608
    return sql, [param for _, params in compiled for param in params]


def _new_routes(
    tenant: Tenant, day: date, earlier: Mapping[Route, Sums], now: Mapping[Route, Sums]
) -> list[tuple[Route, int]]:
    unseen = {route: sums.total for route, sums in now.items() if route not in earlier and sums.total}
    if not unseen:
        return []
    # `earlier` covers only `DAYS_BEFORE`, so routes that were used before are looked up here.
    known = set(_ROUTES_BEFORE.rows(tenant=tenant.pk, first=day - timedelta(days=DAYS_OF_ROUTES), day=day))
    found = [(route, number) for route, number in unseen.items() if route not in known]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:MOST_OF_A_KIND]


def _moved_rates(before: Mapping[Route, Sums], now: Mapping[Route, Sums]) -> list[MovedRate]:
    rates = (
        MovedRate(*route, outcome_counts_of(before[route]).share, outcome_counts_of(sums).share)
        for route, sums in now.items()
        if route in before
    )
    moved = [one for one in rates if has_moved(one.before, one.now)]
    return sorted(moved, key=lambda one: (not one.has_fallen, -abs(one.now.value - one.before.value)))[:MOST_OF_A_KIND]


def has_moved(before: Share, now: Share) -> bool:
    """Return whether a rate moved beyond chance, and by at least 10 points.

    A rate of fewer than 50 handoffs before, or fewer than 20 now, has not moved. The z-test of two proportions with a
    pooled variance (NIST/SEMATECH e-Handbook of Statistical Methods, 7.3.3) must give more than 3, because hundreds of
    routes are compared at once.
    """
    if before.total < _FEWEST_BEFORE or now.total < _FEWEST_NOW:
        return False
    difference = abs(now.value - before.value)
    pooled = (before.part + now.part) / (before.total + now.total)
    spread = sqrt(pooled * (1 - pooled) * (1 / before.total + 1 / now.total))
    return 100 * difference >= _FEWEST_POINTS and difference > _LEAST_Z * spread
