"""The review queue: its sections and views, precedents of a handoff, and counts of waiting handoffs."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs import counts, queries
from handoffaudit.handoffs.compiled_queries import NUMBER, TENANT, TEXT, TIME, CompiledQuery, Parameter, count_rows
from handoffaudit.handoffs.counts import HOURLY_TOTALS
from handoffaudit.handoffs.filters import CURSOR_REMEDY, Filters, parse_cursor
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.queries import EVERYTHING, Page, decided_handoffs, decision_events, exclude_undone
from handoffaudit.handoffs.review import activity, decisions
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE, Actor

# A query whose rows name handoffs in the column `handoff`, such as members of a group, reassignments or proposals.
Marks = QuerySet[Any]

_STATES = {"escalated": State.REJECTED, "held": State.HELD, "rejected": State.REJECTED}

PARTS = tuple(_STATES)

# The section of assigned handoffs that do not wait for a decision. Only the view `mine` has this section, as its last.
SETTLED = "settled"

VIEWS = ("all", *PARTS, "mine", "passed_on", "second", "proposed", "muted")

# The condition for all handoffs of the queue, in every section.
WAITS = Q(state__in=REVIEWABLE)

# A person must see held and escalated handoffs, so only rejected handoffs that are not escalated can be muted.
MAY_BE_LEFT_OUT = Q(state=State.REJECTED, escalated=False)


def list_queue(
    tenant: Tenant,
    person: Person | None,
    *,
    view: str = "all",
    cursor: str = "",
    limit: int = 50,
    filters: Filters = EVERYTHING,
    left_out: Marks | None = None,
    within: Marks | None = None,
) -> Page:
    """Return a page of a view: escalated, then held handoffs, oldest first; then rejected handoffs, newest first.

    `view` is one of `VIEWS`:

    - `all`: handoffs that are neither reassigned nor muted. With `within` or a finding group in `filters`, also muted
      handoffs, because the number of waiting handoffs of a group includes these.
    - `escalated`, `held`, `rejected`: one section of `all`.
    - `mine`: handoffs assigned to `person`, in all states; handoffs that do not wait are last, newest first.
    - `passed_on`: all handoffs that wait and are reassigned, to a person or to nobody, or are marked as handled.
    - `second`: handoffs with a proposal by somebody other than `person`.
    - `proposed`: handoffs with a proposal by `person`.
    - `muted`: muted handoffs, which `all` leaves out.

    `left_out` names the muted handoffs, and `within` limits the view to the handoffs that it names. Both are queries
    whose rows name the handoff in `handoff`. Held and escalated handoffs are never left out. Raise `FilterError` for an
    invalid cursor.
    """
    rows = filter_view(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    parts = [*parts_for(tenant, filters), *((SETTLED,) if view == "mine" and not filters.state else ())]
    return paginate(rows, cursor, limit, parts)


def find_gone(
    tenant: Tenant,
    person: Person | None,
    ids: Collection[UUID],
    *,
    view: str = "all",
    filters: Filters = EVERYTHING,
    left_out: Marks | None = None,
    within: Marks | None = None,
) -> set[UUID]:
    """Return the `ids` that left the view. Handoffs that no longer wait have left every view except `mine`.

    The other arguments are those of `list_queue`.
    """
    if not ids:
        return set()
    rows = filter_view(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    rows = rows if view == "mine" else rows.filter(WAITS)
    return set(ids).difference(rows.filter(pk__in=ids).values_list("pk", flat=True))


def filter_view(
    tenant: Tenant,
    person: Person | None,
    *,
    view: str,
    filters: Filters = EVERYTHING,
    left_out: Marks | None = None,
    within: Marks | None = None,
) -> "QuerySet[Handoff]":
    """Return the handoffs of a view, also those that do not wait; `filter_part` selects the handoffs of a section.

    The views `escalated`, `held`, `rejected` and `muted` contain only handoffs that wait.
    """
    rows = queries.filter_matching(tenant, filters)
    if within is not None:
        rows = queries.narrow_to(rows, within)
    if view == "mine":
        return rows.filter(pk__in=_filter_reassigned_to(tenant, person).values("handoff"))
    if view == "passed_on":
        return rows.filter(pk__in=activity.reassignments_in_force(tenant).values("handoff"))
    if view == "second":
        return rows.filter(pk__in=_filter_proposed(tenant, person, by_others=True).values("handoff"))
    if view == "proposed":
        return rows.filter(pk__in=_filter_proposed(tenant, person, by_others=False).values("handoff"))
    rows = rows.filter(~Exists(activity.reassignments_in_force_of(OuterRef("pk"), OuterRef("version"))))
    if view == "muted":
        return rows.filter(MAY_BE_LEFT_OUT, pk__in=left_out.values("handoff")) if left_out is not None else rows.none()
    if left_out is not None and within is None and not filters.group:
        rows = rows.filter(~MAY_BE_LEFT_OUT | ~Exists(left_out.filter(handoff=OuterRef("pk"))))
    return filter_part(rows, view) if view in PARTS else rows


def _filter_reassigned_to(tenant: Tenant, person: Person | None) -> Marks:
    rows = activity.reassignments_in_force(tenant)
    return rows.filter(to=person) if person else rows.none()


def _filter_proposed(tenant: Tenant, person: Person | None, *, by_others: bool) -> Marks:
    """Return the current proposals by this person, or with `by_others` the proposals by all other people."""
    rows = decisions.proposals_in_force(tenant)
    if person is None:
        return rows if by_others else rows.none()
    actor = Actor.person(person)
    own = {"actor_kind": actor.kind, "actor": actor.name}
    return rows.exclude(**own) if by_others else rows.filter(**own)


def count_concerning(tenant: Tenant, person: Person, most: int) -> dict[str, int]:
    """Count the handoffs in the views `mine` and `proposed` of a person, each up to `most`."""
    actor = Actor.person(person)
    values = {"tenant": tenant.pk, "person": person.pk, "kind": actor.kind, "actor": actor.name}
    # A replica may not have a new tenant yet.
    [numbers] = _compile_concerning(most).rows(**values) or [(0, 0)]
    return dict(zip(("mine", "proposed"), numbers, strict=True))


_BY_ACTOR: Final[Mapping[str, Any]] = {"actor_kind": Parameter("kind", TEXT), "actor": Parameter("actor", TEXT)}


@lru_cache(maxsize=8)
def _compile_concerning(most: int) -> CompiledQuery:
    def build() -> "QuerySet[Any, Any]":
        mine = activity.reassignments_in_force(TENANT).filter(to=Parameter("person", NUMBER))
        proposed = decisions.proposals_in_force(TENANT).filter(**_BY_ACTOR)
        numbers = [count_rows(rows.values("pk"), most) for rows in (mine, proposed)]
        return Tenant.objects.filter(pk=TENANT).values_list(*numbers)

    return CompiledQuery(build)


def parts_for(tenant: Tenant, filters: Filters) -> Collection[str]:
    """Return the sections of the queue that can contain a match.

    The stored counts show which states have handoffs with the rule code. Sections in other states are left out, because
    a scan for the rule code would read all their handoffs and find none.
    """
    parts = {part: state for part, state in _STATES.items() if not filters.state or state in filters.state}
    if not filters.code or filters.code == counts.UNVERIFIED:
        return parts
    counted = HOURLY_TOTALS.read(tenant, code=filters.code, number__gt=0)
    found = {state for state in REVIEWABLE if counted.filter(state=state).exists()}
    return [part for part, state in parts.items() if state in found]


def paginate(rows: "QuerySet[Handoff]", cursor: str, limit: int, parts: Collection[str] = PARTS) -> Page:
    """Return the page that begins at `cursor`. Raise `FilterError` for an invalid cursor."""
    found: list[tuple[str, Handoff]] = []
    for name, after in _list_remaining_parts(cursor):
        if name in parts and len(found) <= limit:
            found += [(name, one) for one in sort_part(rows, name, after)[: limit + 1 - len(found)]]
    last = found[limit - 1] if len(found) > limit else None
    return Page([handoff for _, handoff in found[:limit]], next=f"{last[0]}:{last[1].pk}" if last else None)


def _list_remaining_parts(cursor: str) -> Iterator[tuple[str, str]]:
    """Yield each remaining section and the id after which the page continues in this section.

    The id is empty if the page begins at the start of the section.
    Raise `FilterError` for a cursor that names no section.
    """
    part, _, after = cursor.partition(":")
    parts = (*PARTS, SETTLED)
    if cursor and part not in parts:
        raise FilterError("cursor", cursor[:40], CURSOR_REMEDY)
    begin = parts.index(part) if part in parts else 0
    return ((name, after if name == part else "") for name in parts[begin:])


def sort_part(rows: "QuerySet[Handoff]", part: str, after: str = "") -> "QuerySet[Handoff]":
    """Return the handoffs of a section in the order of that section, from the handoff after the id `after` on."""
    rows = filter_part(rows, part)
    if part in ("rejected", SETTLED):
        rows = rows.order_by("-id")
        return rows.filter(id__lt=parse_cursor(after)) if after else rows
    rows = rows.order_by("id")
    return rows.filter(id__gt=parse_cursor(after)) if after else rows


def filter_part(rows: "QuerySet[Handoff]", part: str) -> "QuerySet[Handoff]":
    wanted = {
        "escalated": Q(state=State.REJECTED, escalated=True),
        "held": Q(state=State.HELD),
        "rejected": Q(state=State.REJECTED, escalated=False),
        SETTLED: ~WAITS,
    }
    return rows.filter(wanted[part])


# The search for precedents compares this many of the newest decided handoffs of the type, and as many of the route.
LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Precedent:
    """A decided handoff and its decision.

    `decision` is `approved` or `declined`. `actor` made the decision at the time `at`, with the note `note`.
    """

    handoff: Handoff
    decision: str
    note: str
    actor: str
    at: datetime


def list_precedents(handoff: Handoff, limit: int = 5) -> list[Precedent]:
    """Return decided handoffs with the same rule codes and the same type or route, latest decision first."""
    past = decided_handoffs(handoff.tenant_id)
    of_type = past.filter(handoff_type=handoff.handoff_type)
    of_route = past.filter(source_agent_id=handoff.source_agent_id, target_agent_id=handoff.target_agent_id)
    wanted = _drop_unavailable(handoff.codes)
    alike = {pk for rows in (of_type, of_route) for pk in _filter_with_codes(rows, wanted)} - {handoff.pk}
    newest = sorted(alike, reverse=True)[: limit * 10]
    made = _list_last_decisions(handoff.tenant_id, newest)[:limit]
    handoffs = Handoff.objects.in_bulk([event.handoff_id for event in made])
    return [
        Precedent(handoffs[event.handoff_id], event.to_state, event.reason, event.actor, event.at)
        for event in made
        # Somebody may have deleted a handoff after its event was read.
        if event.handoff_id in handoffs
    ]


def _filter_with_codes(rows: "QuerySet[Handoff]", wanted: frozenset[str]) -> Iterable[uuid.UUID]:
    # Most rows repeat the same few lists of codes. Their texts are compared first, so that each list is parsed once.
    found = rows.order_by("-id").values_list("pk", Cast("codes", TextField()))[:LOOKED_AT]
    alike: dict[str, bool] = {}
    for pk, codes in found:
        if codes not in alike:
            alike[codes] = _drop_unavailable(orjson.loads(codes)) == wanted
        if alike[codes]:
            yield pk


def _drop_unavailable(codes: Iterable[str]) -> frozenset[str]:
    """Return the codes without the code for an unavailable LLM, which makes no difference to a reviewer."""
    return frozenset(codes) - {counts.UNVERIFIED}


def _list_last_decisions(tenant_id: int, handoffs: list[uuid.UUID]) -> list[Event]:
    """Return the latest decision on each handoff, newest first."""
    rows = Event.objects.filter(tenant=tenant_id, handoff__in=handoffs, to_state__in=DECIDED).order_by("id")
    last = {event.handoff_id: event for event in rows if event.from_state != event.to_state}
    return sorted(last.values(), key=lambda event: (event.at, event.pk), reverse=True)


# Pages count waiting handoffs up to this number, which is also the largest number of handoffs in a bulk decision.
MOST_COUNTED = 5000

MOST_LOOKED_AT = 2000
_ANY_TENANT = Tenant(pk=-1)

_HELD = Q(state=State.HELD)

_ESCALATED = Q(state=State.REJECTED, escalated=True)

_REJECTED = Q(state=State.REJECTED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A number of waiting handoffs. If `more` is set, there are at least this many."""

    number: int
    more: bool = False

    @classmethod
    def of(cls, counted: int, most: int) -> "Waiting":
        return cls(min(counted, most), more=counted > most)


@dataclass(frozen=True, slots=True)
class Progress:
    """The handoffs waiting in the view `all`, and how many handoffs a person decided today.

    `decided_today` counts from midnight in the person's time zone and leaves out decisions that were undone.
    """

    waiting: Waiting
    decided_today: int


def load_progress(tenant: Tenant, person: Person, *, left_out: Marks | None = None, zone: tzinfo = UTC) -> Progress:
    midnight = timezone.now().astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    return Progress(
        count_waiting(tenant, left_out=left_out, most=MOST_COUNTED), _count_decided_since(tenant, person, midnight)
    )


def count_waiting(tenant: Tenant, *, left_out: Marks | None = None, most: int = MOST_COUNTED) -> Waiting:
    """Count the handoffs in the view `all`, for any person.

    If muted handoffs are left out, only the newest `MOST_LOOKED_AT` handoffs of the section `rejected` are counted.
    Counting all of them would take seconds.
    """
    if left_out is None or left_out.query.is_empty():
        return Waiting.of(_count_parts(tenant, (_HELD, _REJECTED), most), most)
    kept = _count_parts(tenant, (_HELD, _ESCALATED), most)
    if kept > most:
        return Waiting(most, more=True)
    rows = filter_view(tenant, None, view="all", left_out=left_out).filter(MAY_BE_LEFT_OUT)
    newest = filter_part(queries.of_tenant(tenant), "rejected").order_by("-id")[:MOST_LOOKED_AT].values("pk")
    number = kept + rows.filter(pk__in=newest).count()
    return Waiting(min(number, most), more=number > most or newest.count() == MOST_LOOKED_AT)


def count_pressing(tenant: Tenant, most: int) -> Waiting:
    """Count the held and escalated handoffs, which need a person. The menu of every page shows this number."""
    return Waiting.of(_count_parts(tenant, (_HELD, _ESCALATED), most), most)


def _count_parts(tenant: Tenant, parts: tuple[Q, ...], most: int) -> int:
    """Count the handoffs that match any of the conditions and are not reassigned, up to `most + 1`."""
    sql, params = _compile_count(parts, most)
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk if param == _ANY_TENANT.pk else param for param in params])
        return int(cursor.fetchone()[0])


# Each page counts the same parts, and Django takes longer to compile the statement than the database to execute it.
@lru_cache(maxsize=64)
def _compile_count(parts: tuple[Q, ...], most: int) -> tuple[str, list[Any]]:
    """Return the statement that counts the handoffs of `_ANY_TENANT`, and its parameters.

    Each condition has its own subquery, which uses the index of the condition. For one combined condition, PostgreSQL
    would scan all matching rows to count a few.
    """
    passed_on = activity.reassignments_in_force(_ANY_TENANT).values("handoff")
    rows = queries.of_tenant(_ANY_TENANT).exclude(pk__in=passed_on).order_by()
    compiled = [rows.filter(part).values("pk")[: most + 1].query.sql_with_params() for part in parts]
    each = " UNION ALL ".join(f"SELECT * FROM ({sql}) AS part_{number}" for number, (sql, _) in enumerate(compiled))  # noqa: S608
    sql = f"SELECT COUNT(*) FROM (SELECT * FROM ({each}) AS waits LIMIT {most + 1}) AS few"  # noqa: S608
    return sql, [param for _, params in compiled for param in params]


def _count_decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    found = _DECIDED_SINCE.rows(tenant=tenant.pk, since=since, kind=actor.kind, actor=actor.name)
    return sum(number for (number,) in found)


def _build_decided_since() -> "QuerySet[Any, Any]":
    rows = exclude_undone(decision_events(TENANT).filter(at__gte=Parameter("since", TIME), **_BY_ACTOR))
    return rows.order_by().values("tenant").annotate(n=Count("handoff", distinct=True)).values_list("n")


_DECIDED_SINCE: Final = CompiledQuery(_build_decided_since)
