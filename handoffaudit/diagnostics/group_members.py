"""Finding groups and their members: the key of a group, its handoffs, their numbers over days, and how many wait."""

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import orjson
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, FindingGroupRoute, GroupedHandoff
from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import Event, Handoff, State, Verdict
from handoffaudit.handoffs.queries import of_tenant
from handoffaudit.handoffs.review.activity import reassignments_in_force
from handoffaudit.handoffs.review.queue import WAITS
from handoffaudit.validation.paths import shape
from handoffaudit.validation.provenance import Flaw
from handoffaudit.validation.text import clean

LONGEST_CODE: Final = 100

LONGEST_PATH: Final = 500

# All stored times are later than this. With this lower bound in a condition, SQLite chooses the small partial index
# instead of another index that also fits.
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRAVE: Final = frozenset({"error", "critical"})


class GroupKey(NamedTuple):
    """The values that all findings of a group in a tenant share."""

    code: str
    path_shape: str

    @property
    def key(self) -> str:
        """Return a hash of the values, which is short enough for every index. No value contains NUL, the separator."""
        return hashlib.sha256("\0".join(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupedFindings:
    """The findings of a handoff by group, with its time (`Handoff.at`) and its route (source and target).

    `places` says for each group key whether the key is decisive (see `group_findings`).
    """

    at: datetime
    route: tuple[str, str]
    places: Mapping[GroupKey, bool]


def group_key(code: str, path: str) -> GroupKey:
    return GroupKey(clean(code, LONGEST_CODE), shape(clean(path, LONGEST_PATH)))


def group_findings(at: datetime, source: str, target: str, flaws: Iterable[Flaw]) -> GroupedFindings:
    """Return the findings of a handoff by group key. Several findings with the same key count once.

    A key is decisive if one of its findings is an error or critical, or if the handoff has no such finding. The caller
    leaves out findings of severity info.
    """
    grave: dict[GroupKey, bool] = {}
    for flaw in flaws:
        place = group_key(flaw.code, flaw.path)
        grave[place] = grave.get(place, False) or flaw.severity in _GRAVE
    has_grave = any(grave.values())
    return GroupedFindings(
        at, (source, target), {place: is_grave or not has_grave for place, is_grave in grave.items()}
    )


def members(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff]":
    """Return the members of a group of the tenant. A group of another tenant has no members here."""
    return GroupedHandoff.objects.filter(tenant=tenant, group=group_id)


def handoffs_of(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs in a group of the tenant, for `pk__in`.

    To sort them newest first, add `.order_by("-handoff")`.
    """
    return members(tenant, group_id).order_by().values_list("handoff", flat=True)


def muted_handoffs(tenant: Tenant) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs whose decisive findings are all muted, for `pk__in`.

    If a handoff has errors, its errors are decisive; otherwise, its warnings are. An id may appear several times. If no
    group is muted, the function only reads one index.
    """
    muted = FindingGroup.objects.filter(tenant=tenant, muted_at__gt=BEGINNING)
    decisive = GroupedHandoff.objects.filter(tenant=tenant, decisive=True)
    if not muted.exists():
        return decisive.none().values_list("handoff", flat=True)
    others = decisive.filter(handoff=OuterRef("handoff")).exclude(group__in=muted.values("pk"))
    all_muted = decisive.filter(~Exists(others), group__in=muted.values("pk"))
    return all_muted.order_by().values_list("handoff", flat=True)


def groups_by_key(handoff: Handoff) -> dict[str, FindingGroup]:
    """Return the groups of a handoff by their keys, with one query."""
    mine = GroupedHandoff.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk).values("group")
    return {one.key: one for one in FindingGroup.objects.filter(tenant=handoff.tenant_id, pk__in=mine)}


def group_among(groups: Mapping[str, FindingGroup], code: str, path: str) -> FindingGroup | None:
    """Return the group of a finding among the groups of its handoff.

    Return None for a finding with severity info, and before the handoff is grouped.
    """
    return groups.get(group_key(code, path).key)


DAYS_LISTED: Final = 14

WEEK: Final = 7

# At most this many of the newest held handoffs, and as many of the newest rejected handoffs, are read. Reading one
# handoff takes three database pages.
MOST_WAITING: Final = 2_500

# The states of the review queue. Each condition uses its own index.
_WAITS: Final = ("state = 'held'", "state = 'rejected'")

_LEAST_GROWTH: Final = 10

_HANDOFFS: Final = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API

_MEMBERS: Final = GroupedHandoff._meta.db_table  # noqa: SLF001 -- Django's documented API


def days_of(groups: Sequence[FindingGroup], number: int = DAYS_LISTED) -> dict[int, tuple[int, ...]]:
    """Return the number of handoffs of each group on each of the last `number` days (UTC), oldest day first."""
    first = timezone.now().date() - timedelta(days=number - 1)
    found: dict[int, list[int]] = {group.pk: [0] * number for group in groups}
    rows = FindingGroupDay.objects.filter(group__in=list(found), day__gte=first)
    for group, day, count in rows.values_list("group_id", "day", "number"):
        # A handoff with a future date, from a clock that is ahead, counts for today.
        found[group][min((day - first).days, number - 1)] += count
    return {group: tuple(max(0, count) for count in counts) for group, counts in found.items()}


MOST_ROUTES: Final = 10

# SQLite takes at most 500 parts in a compound statement.
_GROUPS_AT_ONCE: Final = 100

_ROUTES: Final = FindingGroupRoute._meta.db_table  # noqa: SLF001 -- Django's documented API


@dataclass(frozen=True, slots=True)
class Route:
    """A route of a group, with the number of the group's handoffs on it."""

    source_agent_id: str
    target_agent_id: str
    handoffs: int


@dataclass(frozen=True, slots=True)
class Routes:
    """The busiest routes of a group, at most `MOST_ROUTES`; `more` is true if the group has more routes."""

    items: tuple[Route, ...] = ()
    more: bool = False


def routes_of(groups: Sequence[FindingGroup]) -> dict[int, Routes]:
    """Return the routes of each group, those with the most handoffs first.

    Each group is one part of a union, so that only the first routes of each are read from the index.
    """
    of_group = (
        f'SELECT * FROM (SELECT group_id, source_agent_id, target_agent_id, number FROM "{_ROUTES}" '  # noqa: S608
        f"WHERE group_id = %s AND number > 0 ORDER BY number DESC, id DESC LIMIT {MOST_ROUTES + 1}) AS routes"
    )
    found: dict[int, list[Route]] = {group.pk: [] for group in groups}
    for start in range(0, len(groups), _GROUPS_AT_ONCE):
        some = [group.pk for group in groups[start : start + _GROUPS_AT_ONCE]]
        with connection.cursor() as cursor:
            cursor.execute(" UNION ALL ".join([of_group] * len(some)), some)
            for group, *route in cursor.fetchall():
                found[group].append(Route(*route))
    return {
        group: Routes(tuple(sorted(routes, key=lambda one: -one.handoffs)[:MOST_ROUTES]), len(routes) > MOST_ROUTES)
        for group, routes in found.items()
    }


def has_route(*, source: str = "", target: str = "") -> Exists:
    """Return the condition that a group has a handoff on a route with these agents."""
    agents = {name: agent for name, agent in (("source_agent_id", source), ("target_agent_id", target)) if agent}
    return Exists(FindingGroupRoute.objects.filter(group=OuterRef("pk"), number__gt=0, **agents))


def is_growing(days: Sequence[int]) -> bool:
    """Return whether the last week has at least 10 handoffs, and at least 1.5 times as many as the week before."""
    last, before = sum(days[-WEEK:]), sum(days[-2 * WEEK : -WEEK])
    return last >= _LEAST_GROWTH and 2 * last >= 3 * before


def growth(groups: "QuerySet[FindingGroup]") -> dict[int, int]:
    """Return the growth of each group that grew: its handoffs of the last week, minus those of the week before."""
    today = timezone.now().date()
    since, before = today - timedelta(days=WEEK), today - timedelta(days=2 * WEEK)
    rows = FindingGroupDay.objects.filter(group__in=groups.values("pk"), day__gt=before).order_by()
    summed = rows.values("group").annotate(
        last=Sum("number", filter=Q(day__gt=since), default=0),
        earlier=Sum("number", filter=Q(day__lte=since), default=0),
    )
    return {row["group"]: more for row in summed if (more := row["last"] - row["earlier"]) > 0}


@dataclass(frozen=True, slots=True)
class Waiting:
    """The number of handoffs of each group that wait for a person now. Reassigned handoffs do not count.

    `more` means that not all waiting handoffs were read, so that each number is a minimum.
    """

    numbers: Mapping[int, int]
    more: bool = False


def count_waiting_in(tenant: Tenant, groups: Sequence[FindingGroup], of_all: Waiting | None = None) -> Waiting:
    """Return the numbers of waiting handoffs of these groups.

    If the groups together have more than twice `MOST_WAITING` handoffs, return the numbers of all groups instead, as
    `count_waiting` does. `of_all` holds these numbers if the caller has read them already.
    """
    if sum(group.number for group in groups) > 2 * MOST_WAITING:
        return of_all or count_waiting(tenant)
    members = _list_waiting(tenant).filter(group__in=[group.pk for group in groups])
    there = members.exclude(handoff__in=reassignments_in_force(tenant).values("handoff"))
    return Waiting(dict(there.order_by().values_list("group").annotate(Count("handoff"))))


def _list_waiting(tenant: Tenant) -> "QuerySet[GroupedHandoff]":
    handoffs = Handoff.objects.filter(WAITS, tenant=tenant, pk=OuterRef("handoff"))
    return GroupedHandoff.objects.filter(Exists(handoffs), tenant=tenant)


def count_waiting(tenant: Tenant) -> Waiting:
    """Return the numbers of waiting handoffs of all groups, including muted groups."""
    held, rejected = (
        f'''SELECT id FROM "{_HANDOFFS}" WHERE tenant_id = %s AND {waits} ORDER BY id DESC LIMIT {MOST_WAITING}'''  # noqa: S608
        for waits in _WAITS
    )
    # With a subquery, PostgreSQL would read all members of all groups. With an array, it looks up each element.
    among = (
        f"= ANY(ARRAY({held}) || ARRAY({rejected}))"
        if db.is_postgresql()
        else f"IN (SELECT id FROM ({held}) UNION ALL SELECT id FROM ({rejected}))"  # noqa: S608
    )
    passed_on, params = reassignments_in_force(tenant).values("handoff").query.sql_with_params()
    sql = f'''
        SELECT group_id, COUNT(*) FROM "{_MEMBERS}"
        WHERE tenant_id = %s AND handoff {among} AND handoff NOT IN ({passed_on}) GROUP BY group_id
    '''  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*[tenant.pk] * 3, *params])
        numbers = dict(cursor.fetchall())
    return Waiting(numbers, more=_is_more(tenant))


def _is_more(tenant: Tenant) -> bool:
    """Return whether more handoffs are held, or more are rejected, than `count_waiting` reads."""
    handoffs = Handoff.objects.filter(tenant=tenant).order_by()
    either = (handoffs.filter(state=State.HELD), handoffs.filter(state=State.REJECTED))
    return any(rows[: MOST_WAITING + 1].count() > MOST_WAITING for rows in either)


# The states of at most this many of the newest handoffs of a group are read.
MOST_LOOKED_AT: Final = 1_000

MOST_DECISIONS: Final = 10

_DECIDED: Final = (State.APPROVED, State.DECLINED)


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a person or a key on a handoff of the group; the event has the reason."""

    handoff: Handoff
    event: Event


@dataclass(frozen=True, slots=True)
class DecisionCounts:
    """The numbers of approved, declined and all other handoffs of a group.

    `decisions` are the decisions on the newest decided handoffs, at most `MOST_DECISIONS`. `is_cut` means that
    only the newest handoffs of the group were counted.
    """

    approved: int
    declined: int
    undecided: int
    decisions: Sequence[Decision]
    is_cut: bool

    @property
    def mark(self) -> str:
        """Return a text that changes with each decision on these handoffs."""
        numbers = (self.approved, self.declined, self.undecided, *(one.event.pk for one in self.decisions))
        return ".".join(map(str, numbers))


def count_decisions(tenant: Tenant, group: int) -> DecisionCounts:
    ids = list(handoffs_of(tenant, group).order_by("-handoff")[: MOST_LOOKED_AT + 1])
    looked_at = of_tenant(tenant).filter(pk__in=ids[:MOST_LOOKED_AT])
    states = Counter(dict(looked_at.order_by().values_list("state").annotate(Count("id"))))
    by_pk = {one.pk: one for one in looked_at.filter(state__in=_DECIDED).order_by("-id")[:MOST_DECISIONS]}
    events = Event.objects.filter(tenant=tenant, handoff__in=list(by_pk), to_state__in=_DECIDED)
    last = {event.handoff_id: event for event in events.order_by("id") if event.from_state != event.to_state}
    decisions = [Decision(by_pk[pk], last[pk]) for pk in by_pk if pk in last]
    approved, declined = states[State.APPROVED], states[State.DECLINED]
    return DecisionCounts(
        approved, declined, states.total() - approved - declined, decisions, len(ids) > MOST_LOOKED_AT
    )


TREND_DAYS: Final = 30

NEWEST: Final = 10

_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Example:
    """A handoff of a group, and its finding that belongs to the group."""

    handoff: Handoff
    issue: Mapping[str, Any]


def get_group(tenant: Tenant, group: int) -> FindingGroup:
    """Return a group of the tenant. Raise `FindingGroup.DoesNotExist` if the tenant has no such group."""
    return FindingGroup.objects.get(tenant=tenant, pk=group)


def trend(group: FindingGroup) -> list[tuple[date, int]]:
    """Return the number of handoffs on each of the last 30 days (UTC), oldest day first."""
    numbers = days_of([group], TREND_DAYS)[group.pk]
    first = timezone.now().date() - timedelta(days=TREND_DAYS - 1)
    return [(first + timedelta(days=at), number) for at, number in enumerate(numbers)]


def newest_handoffs(tenant: Tenant, group: int, limit: int = NEWEST) -> list[Handoff]:
    ids = list(handoffs_of(tenant, group).order_by("-handoff")[:limit])
    return list(of_tenant(tenant).filter(pk__in=ids).order_by("-id"))


def find_example(group: FindingGroup, handoffs: Sequence[Handoff]) -> Example | None:
    """Return the first handoff whose verdict still has the group's finding, with this finding, or None.

    Only the first `_EXAMPLES` handoffs are looked at.
    """
    for handoff in handoffs[:_EXAMPLES]:
        if handoff.verdict is None:
            continue
        content = Verdict.objects.filter(pk=handoff.verdict, tenant=group.tenant_id).values_list("content", flat=True)
        for issue in orjson.loads(content.first() or "{}").get("issues") or ():
            if group_key(issue["code"], issue.get("field_path") or "").key == group.key:
                return Example(handoff, issue)
    return None
