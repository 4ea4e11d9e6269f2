"""Overturn rates (how often reviewers approved what a rule code had blocked), and reports of rule codes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, lru_cache
from itertools import islice
from typing import Any, Final

from django.db import connection
from django.db.models import Count, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries, stats
from handoffaudit.handoffs.compiled_queries import TENANT, TEXT, TIME, ClosedDays, CompiledQuery, Parameter, bind
from handoffaudit.handoffs.counts import HOURLY_TOTALS
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Event, Finding, Handoff, State
from handoffaudit.handoffs.periods import TimeBucket, Window
from handoffaudit.handoffs.queries import decision_events, exclude_undone
from handoffaudit.handoffs.rates import FINAL, Share, ShareChange, sum_outcomes
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import CATALOGUE

# A code with fewer decisions than this is never noisy.
FEWEST_DECISIONS = 3

MOST_OVERTURNED_CODES = 200

# At most this many of the newest decisions are read, because each needs a lookup of its findings and later events.
MOST_DECISIONS = 1_000

MOST_EXAMPLES = 3

_HOLDING: Final = [code for code, entry in CATALOGUE.items() if entry.holds]


def _is_blocking(finding: str = "") -> Q:
    """Return the condition for findings that block a handoff; `finding` is the prefix of a lookup, ending in `__`."""
    severities = (Severity.ERROR.value, Severity.CRITICAL.value)
    return Q((f"{finding}severity__in", severities)) | Q((f"{finding}code__in", _HOLDING))


_STOPPING: Final = _is_blocking("handoff__findings__")


@dataclass(frozen=True, slots=True)
class OverturnExample:
    """A handoff that was approved although the code blocked it, and the reviewer's note."""

    handoff: Handoff
    at: datetime
    actor: str
    note: str


@dataclass(slots=True)
class CodeDecisions:
    """Decisions on handoffs that a code blocked.

    `overturned` counts approved handoffs, `confirmed` declined handoffs. `types` has the share of approved handoffs by
    handoff type.
    """

    code: str
    overturned: int = 0
    confirmed: int = 0
    types: dict[str, Share] = field(default_factory=dict)
    examples: Sequence[OverturnExample] = ()

    @property
    def decisions(self) -> int:
        return self.overturned + self.confirmed

    @property
    def share(self) -> Share:
        return Share(self.overturned, self.decisions)

    @property
    def noisy(self) -> bool:
        """Return whether reviewers overturned the code more often than they confirmed it, in enough decisions."""
        return self.decisions >= FEWEST_DECISIONS and self.overturned > self.confirmed

    @property
    def main_type(self) -> str:
        """Return the handoff type in which reviewers overturned the code most often."""
        return max(self.types, key=lambda name: (self.types[name].part, name), default="")


@dataclass(frozen=True, slots=True)
class OverturnRates:
    """Overturn rates by code, the noisy codes first.

    `decisions` is the share of approved handoffs among all decided handoffs. Each handoff counts once, even if several
    codes blocked it. `sampled` means that only the newest decisions were read.
    """

    decisions: Share
    codes: Sequence[CodeDecisions]
    sampled: bool = False

    @property
    def noisy(self) -> list[CodeDecisions]:
        return [one for one in self.codes if one.noisy]


def overturn_rates(tenant: Tenant, since: datetime, until: datetime) -> OverturnRates:
    """Return overturn rates from the newest `MOST_DECISIONS` decisions of the period, without undone decisions.

    A code counts only for handoffs that it blocked, not for handoffs that it only warned about.
    """
    begin = _find_start(tenant, since, until)
    taken = _filter_decisions(tenant, begin, until)
    approved = Count("pk", filter=Q(to_state=State.APPROVED))
    numbers = taken.order_by().aggregate(total=Count("pk"), approved=approved)
    codes = _sort(_group_by_code(tenant, begin, until))
    return OverturnRates(Share(numbers["approved"], numbers["total"]), codes, sampled=begin > since)


def high_overturn_rates(tenant: Tenant, since: datetime, until: datetime) -> tuple[list[CodeDecisions], bool]:
    """Return only the noisy codes, and whether only the newest decisions were read."""
    begin = _find_start(tenant, since, until)
    sql, params = _compile_codes()
    found: dict[str, CodeDecisions] = {}
    with connection.cursor() as cursor:
        cursor.execute(sql, bind(params, {"tenant": tenant.pk, "since": begin, "until": until}, connection))
        for code, to_state, number in cursor.fetchall():
            one = found.setdefault(code, CodeDecisions(code))
            if to_state == State.APPROVED:
                one.overturned = number
            else:
                one.confirmed = number
    return [one for one in _sort(found) if one.noisy], begin > since


@cache
def _compile_codes() -> tuple[str, list[Any]]:
    """Return the statement that counts decided handoffs by rule code and decision, and its parameters.

    Without MATERIALIZED, PostgreSQL starts parallel workers, which takes longer than the statement itself.
    """
    made = exclude_undone(decision_events(TENANT).filter(**_PERIOD)).order_by().values("handoff_id", "to_state")
    blocking = Finding.objects.filter(_is_blocking()).order_by().values("handoff_id", "code")
    (decided, params), (findings, more) = (rows.query.sql_with_params() for rows in (made, blocking))
    sql = f"""
        WITH decided AS MATERIALIZED ({decided})
        SELECT code, to_state, COUNT(DISTINCT decided.handoff_id)
        FROM decided JOIN ({findings}) AS blocking ON blocking.handoff_id = decided.handoff_id GROUP BY 1, 2
    """  # noqa: S608
    return sql, [*params, *more]


def _sort(found: Mapping[str, CodeDecisions]) -> list[CodeDecisions]:
    codes = sorted(found.values(), key=lambda one: (not one.noisy, -one.overturned, -one.decisions, one.code))
    return codes[:MOST_OVERTURNED_CODES]


def code_decisions(tenant: Tenant, code: str, since: datetime, until: datetime) -> CodeDecisions:
    """Return the decisions on one code, with examples."""
    since = _find_start(tenant, since, until)
    found = _group_by_code(tenant, since, until, code).get(code, CodeDecisions(code))
    return add_examples(tenant, [found], since, until)[0]


def add_examples(
    tenant: Tenant, codes: Collection[CodeDecisions], since: datetime, until: datetime
) -> list[CodeDecisions]:
    """Add to each code the newest `MOST_EXAMPLES` handoffs that were approved despite the code.

    Call with few codes, because each code takes two queries.
    """
    since = _find_start(tenant, since, until)
    for one in codes:
        approved = _filter_decisions(tenant, since, until).filter(to_state=State.APPROVED)
        found = approved.filter(_STOPPING, handoff__findings__code=one.code).order_by("-at").values_list("pk", "at")
        # If a code occurs at several places of a document, `found` has the event several times.
        newest = [pk for pk, _ in found.distinct()[:MOST_EXAMPLES]]
        events = Event.objects.filter(tenant=tenant, pk__in=newest).select_related("handoff").order_by("-at")
        one.examples = [OverturnExample(event.handoff, event.at, event.actor, event.reason) for event in events]
    return list(codes)


def _find_start(tenant: Tenant, since: datetime, until: datetime) -> datetime:
    """Return the time from which decisions are read: `since`, or later if there are more than `MOST_DECISIONS`."""
    edge = [at for (at,) in _compile_edge(MOST_DECISIONS).rows(tenant=tenant.pk, since=since, until=until)]
    return edge[0] if len(edge) > 1 else since


_PERIOD: Final[Mapping[str, Any]] = {"at__gte": Parameter("since", TIME), "at__lt": Parameter("until", TIME)}


@lru_cache(maxsize=8)
def _compile_edge(most: int) -> CompiledQuery:
    def build() -> "QuerySet[Event, Any]":
        newest = decision_events(TENANT).filter(**_PERIOD).order_by("-at").values_list("at")
        # The slice contains the oldest decision that is read and, if there is one, an older decision.
        return newest[most - 1 : most + 1]

    return CompiledQuery(build)


def _filter_decisions(tenant: Tenant, since: datetime, until: datetime) -> "QuerySet[Event]":
    return exclude_undone(decision_events(tenant).filter(at__gte=since, at__lt=until))


def _group_by_code(tenant: Tenant, since: datetime, until: datetime, only: str = "") -> dict[str, CodeDecisions]:
    """Return the decisions of a period by rule code; with `only`, the decisions on this rule code."""
    found: dict[str, CodeDecisions] = {}
    rows = (_OF_ONE_CODE if only else _OF_ALL_CODES).rows(tenant=tenant.pk, since=since, until=until, code=only)
    for code, handoff_type, to_state, number in rows:
        one = found.setdefault(code, CodeDecisions(code))
        before = one.types.get(handoff_type, Share(0, 0))
        approved = number if to_state == State.APPROVED else 0
        one.types[handoff_type] = Share(before.part + approved, before.total + number)
        one.overturned += approved
        one.confirmed += number - approved
    return found


def _build_decisions(narrowed: Q) -> "QuerySet[Event, Any]":
    rows = exclude_undone(decision_events(TENANT).filter(**_PERIOD)).filter(narrowed).order_by()
    grouped = rows.values_list("handoff__findings__code", "handoff__handoff_type", "to_state")
    return grouped.annotate(number=Count("handoff_id", distinct=True))


_OF_ALL_CODES: Final = CompiledQuery(lambda: _build_decisions(_STOPPING))

_OF_ONE_CODE: Final = CompiledQuery(
    lambda: _build_decisions(_STOPPING & Q(handoff__findings__code=Parameter("code", TEXT)))
)


MOST_SOURCES = 12

MOST_CODES = 10

MOST_AGENTS = 5

NEWEST = 10


@dataclass(frozen=True, slots=True)
class CodeAgents:
    """A code, the number of handoffs with the code, and the source agents with the most such handoffs."""

    code: str
    number: int
    agents: Sequence[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class CodeReport:
    """The report of one code in a window.

    `change` is the share of final attempts with the code, in the window and in the period before. A smaller share is
    better. `first` is the first handoff that ever had the code. `newest` lists the newest handoffs with the code, also
    from outside the window.
    """

    code: str
    window: Window
    change: ShareChange
    sources: Sequence[tuple[str, int]]
    types: Sequence[tuple[str, int]]
    over_time: Sequence[TimeBucket[int]]
    decided: CodeDecisions
    first: Handoff | None
    newest: Sequence[Handoff]

    @property
    def number(self) -> int:
        """Return the number of handoffs with the code, including superseded attempts, as in the list of handoffs."""
        return sum(one.value for one in self.over_time)


def top_codes(tenant: Tenant, window: Window) -> list[CodeAgents]:
    """Return the codes with the most handoffs, with the agents of these handoffs."""
    closed = ClosedDays(tenant.pk, timezone.now())
    most = stats.count_top_codes(tenant, window.since, window.until, MOST_CODES, closed)
    agents: dict[str, list[tuple[str, int]]] = {code: [] for code, _ in most}
    period = (tenant, window.since, window.until)
    found = sum_outcomes(*period, "code", "source_agent_id", codes=list(agents), closed=closed)
    for (code, source), sums in found.items():
        if len(agents[code]) < MOST_AGENTS:
            agents[code].append((source, sums.total))
    return [CodeAgents(code, number, agents[code]) for code, number in most]


def load_report(tenant: Tenant, code: str, window: Window) -> CodeReport:
    now = _measure_share(tenant, code, window.since, window.until)
    return CodeReport(
        code=code,
        window=window,
        change=ShareChange(now, _measure_share(tenant, code, window.before_since, window.before_until)),
        sources=_count_by(tenant, code, window, "source_agent_id"),
        types=_count_by(tenant, code, window, "handoff_type"),
        over_time=_count_over_time(tenant, code, window),
        decided=code_decisions(tenant, code, window.since, window.until),
        first=_find_first(tenant, code),
        newest=queries.list_handoffs(tenant, Filters(code=code), limit=NEWEST).items,
    )


def is_known(tenant: Tenant, code: str) -> bool:
    """Return whether any handoff ever had the code."""
    return Finding.objects.filter(tenant=tenant, code=code).exists()


def _measure_share(tenant: Tenant, code: str, since: datetime, until: datetime) -> Share:
    """Return the share of final attempts with the code, among the final attempts of that time."""
    rows = HOURLY_TOTALS.read(tenant, since, until, code__in=("", code), state__in=FINAL)
    sums = dict(rows.order_by().values_list("code").annotate(sum=Sum("number")))
    return Share(sums.get(code, 0), sums.get("", 0))


def _count_by(tenant: Tenant, code: str, window: Window, column: str) -> list[tuple[str, int]]:
    found = sum_outcomes(tenant, window.since, window.until, column, codes=[code])
    return [(name, sums.total) for (name,), sums in islice(found.items(), MOST_SOURCES)]


def _count_over_time(tenant: Tenant, code: str, window: Window) -> list[TimeBucket[int]]:
    rows = HOURLY_TOTALS.read(tenant, window.since, window.until, code=code)
    stepped = rows.order_by().annotate(step=window.scale.index_of("hour"))
    found = dict(stepped.values_list("step").annotate(sum=Sum("number")))
    return window.scale.fill(found, 0)


def _find_first(tenant: Tenant, code: str) -> Handoff | None:
    """Return the first handoff with the code. Ids increase with time, so the index begins with that handoff."""
    pk = Finding.objects.filter(tenant=tenant, code=code).order_by("handoff_id").values_list("handoff_id").first()
    return queries.of_tenant(tenant).filter(pk=pk[0]).first() if pk else None
