"""The review queue: its parts and views, search in it, precedents of a handoff, and how much waits."""

import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import counts, queries
from handoffaudit.handoffs.filters import FilterError, Filters, parse_cursor
from handoffaudit.handoffs.models import Event, Finding, Handoff, HourlyTotal, State
from handoffaudit.handoffs.queries import EVERYTHING, Page, decided_handoffs, decision_events, exclude_undone
from handoffaudit.handoffs.review import assignments, proposals
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE, Actor

# Rows of whatever says of handoffs, in `handoff`, that they belong to something.
Marks = QuerySet[Any]

VIEWS = ("all", "mine", "passed_on", "second", "proposed", "muted")

_STATES = {"escalated": State.REJECTED, "held": State.HELD, "rejected": State.REJECTED}

PARTS = tuple(_STATES)

# In any of the parts.
WAITS = Q(state__in=REVIEWABLE)

# Nobody mutes what a person has to see.
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
    """What was escalated, oldest first; what is held, oldest first; then what was rejected, newest first.

    `view`: `all` has neither what is passed on nor what is left out; `mine` is passed on to `person`; `passed_on` is
    all of that; `second` waits for somebody besides the person; `proposed` is what the person proposed; `muted` is what
    `all` leaves out. `left_out` and `within` are rows with the ids of handoffs in `handoff`; what is held or
    escalated is never left out.
    """
    rows = filter_view(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    return paginate(rows, cursor, limit, parts_for(tenant, filters))


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
    """Of these handoffs, those that do not wait in the view any more; the rest as for `queue`."""
    if not ids:
        return set()
    rows = filter_view(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    return set(ids).difference(rows.filter(WAITS, pk__in=ids).values_list("pk", flat=True))


def filter_view(
    tenant: Tenant,
    person: Person | None,
    *,
    view: str,
    filters: Filters = EVERYTHING,
    left_out: Marks | None = None,
    within: Marks | None = None,
) -> "QuerySet[Handoff]":
    """The handoffs of a view, besides their states: `part_of` narrows to these."""
    rows = queries.matching(tenant, filters)
    if within is not None:
        rows = queries.narrow_to(rows, within)
    if view == "mine":
        return rows.filter(pk__in=_filter_reassigned_to(tenant, person).values("handoff"))
    if view == "passed_on":
        return rows.filter(pk__in=assignments.reassignments_in_force(tenant).values("handoff"))
    if view == "second":
        return rows.filter(pk__in=_filter_proposed(tenant, person, by_others=True).values("handoff"))
    if view == "proposed":
        return rows.filter(pk__in=_filter_proposed(tenant, person, by_others=False).values("handoff"))
    rows = rows.filter(~Exists(assignments.reassignments_in_force_of(OuterRef("pk"), OuterRef("version"))))
    if view == "muted":
        return rows.filter(MAY_BE_LEFT_OUT, pk__in=left_out.values("handoff")) if left_out is not None else rows.none()
    if left_out is not None:
        rows = rows.filter(~MAY_BE_LEFT_OUT | ~Exists(left_out.filter(handoff=OuterRef("pk"))))
    return rows


def _filter_reassigned_to(tenant: Tenant, person: Person | None) -> Marks:
    rows = assignments.reassignments_in_force(tenant)
    return rows.filter(to=person) if person else rows.none()


def _filter_proposed(tenant: Tenant, person: Person | None, *, by_others: bool) -> Marks:
    """What waits for a second person: by somebody else than this person, or by the person."""
    rows = proposals.proposals_in_force(tenant)
    if person is None:
        return rows if by_others else rows.none()
    actor = Actor.person(person)
    own = {"actor_kind": actor.kind, "actor": actor.name}
    return rows.exclude(**own) if by_others else rows.filter(**own)


def count_concerning(tenant: Tenant, person: Person, most: int) -> dict[str, int]:
    """How many handoffs the views have that are about the person, counted up to `most`: those passed on to the person,
    and those that the person proposed."""
    views = {
        "mine": _filter_reassigned_to(tenant, person),
        "proposed": _filter_proposed(tenant, person, by_others=False),
    }
    return {view: rows[:most].count() for view, rows in views.items()}


def parts_for(tenant: Tenant, filters: Filters) -> Collection[str]:
    """The parts that can have any: all that wait would be gone over to find none."""
    parts = {part: state for part, state in _STATES.items() if not filters.state or state in filters.state}
    if not filters.code or filters.code == counts.UNVERIFIED:
        return parts
    counted = HourlyTotal.objects.filter(tenant=tenant, code=filters.code, number__gt=0)
    found = {state for state in REVIEWABLE if counted.filter(state=state).exists()}
    return [part for part, state in parts.items() if state in found]


def paginate(rows: "QuerySet[Handoff]", cursor: str, limit: int, parts: Collection[str] = PARTS) -> Page:
    """From the place on that `cursor` names. Raises BadFilter."""
    found: list[tuple[str, Handoff]] = []
    for name, after in _parts_from(cursor):
        if name in parts and len(found) <= limit:
            found += [(name, one) for one in sort_part(rows, name, after)[: limit + 1 - len(found)]]
    last = found[limit - 1] if len(found) > limit else None
    return Page([handoff for _, handoff in found[:limit]], next=f"{last[0]}:{last[1].pk}" if last else None)


def _parts_from(cursor: str) -> Iterator[tuple[str, str]]:
    """Each part with the id that it goes on after. Raises BadFilter."""
    part, _, after = cursor.partition(":")
    if cursor and part not in PARTS:
        raise FilterError("cursor", cursor[:40], "use the value of `next` from the page before, as it was.")
    begin = PARTS.index(part) if part in PARTS else 0
    return ((name, after if name == part else "") for name in PARTS[begin:])


def sort_part(rows: "QuerySet[Handoff]", part: str, after: str = "") -> "QuerySet[Handoff]":
    """Those of a part in its own order."""
    rows = filter_part(rows, part)
    if part == "rejected":
        rows = rows.order_by("-id")
        return rows.filter(id__lt=parse_cursor(after)) if after else rows
    rows = rows.order_by("id")
    return rows.filter(id__gt=parse_cursor(after)) if after else rows


def filter_part(rows: "QuerySet[Handoff]", part: str) -> "QuerySet[Handoff]":
    wanted = {
        "escalated": Q(state=State.REJECTED, escalated=True),
        "held": Q(state=State.HELD),
        "rejected": Q(state=State.REJECTED, escalated=False),
    }
    return rows.filter(wanted[part])


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`found_by`: the field of `filters` that the text was found as: `code`, `handoff_type`, `source`, `target`,
    `handoff_id` or `trace`; empty where nothing was typed."""

    filters: Filters
    found_by: str

    @property
    def value(self) -> str:
        """What is looked for: the sender's id where the product's own was typed."""
        return str(getattr(self.filters, self.found_by)) if self.found_by else ""


_COLUMNS = {"handoff_type": "handoff_type", "source": "source_agent_id", "target": "target_agent_id"}


def search(tenant: Tenant, text: str, named: str = "") -> SearchResult:
    """The first of these that a tenant knows; what it knows as none is taken for a trace. `named`: the code that bears
    the text as its name. Raises BadFilter."""
    text = text.strip()
    if not text:
        return SearchResult(Filters(), "")
    by_trace = Filters.from_query({"trace": text})
    for code in dict.fromkeys((text, named or text)):
        if Finding.objects.filter(tenant=tenant, code=code).exists():
            return SearchResult(Filters(code=code), "code")
    for field, column in _COLUMNS.items():
        if Handoff.objects.filter(tenant=tenant, **{column: text}).exists():
            return SearchResult(Filters(**{field: text}), field)  # type: ignore[arg-type]
    try:
        found = queries.get(tenant, text)
    except Handoff.DoesNotExist:
        return SearchResult(by_trace, "trace")
    return SearchResult(Filters(handoff_id=found.handoff_id), "handoff_id")


# Of the newest decided ones of the type, and of the two agents, so many are compared.
LOOKED_AT = 500


@dataclass(frozen=True, slots=True)
class Precedent:
    """A decided handoff, and the decision: `approved` or `declined`, by whom, when, with which note."""

    handoff: Handoff
    decision: str
    note: str
    actor: str
    at: datetime


def list_precedents(handoff: Handoff, limit: int = 5) -> list[Precedent]:
    """The decisions made last, newest first."""
    past = decided_handoffs(handoff.tenant_id)
    of_type = past.filter(handoff_type=handoff.handoff_type)
    of_pair = past.filter(source_agent_id=handoff.source_agent_id, target_agent_id=handoff.target_agent_id)
    wanted = _comparable_codes(handoff.codes)
    alike = {pk for rows in (of_type, of_pair) for pk in _with_codes(rows, wanted)} - {handoff.pk}
    newest = sorted(alike, reverse=True)[: limit * 10]
    made = _last_decisions(handoff.tenant_id, newest)[:limit]
    handoffs = Handoff.objects.in_bulk([event.handoff_id for event in made])
    return [
        Precedent(handoffs[event.handoff_id], event.to_state, event.reason, event.actor, event.at) for event in made
    ]


def _with_codes(rows: "QuerySet[Handoff]", wanted: frozenset[str]) -> Iterable[uuid.UUID]:
    # As text: the same few lists stand in most rows, and each is read once.
    found = rows.order_by("-id").values_list("pk", Cast("codes", TextField()))[:LOOKED_AT]
    alike: dict[str, bool] = {}
    for pk, codes in found:
        if codes not in alike:
            alike[codes] = _comparable_codes(orjson.loads(codes)) == wanted
        if alike[codes]:
            yield pk


def _comparable_codes(codes: Iterable[str]) -> frozenset[str]:
    """Whether the model could be asked makes no difference."""
    return frozenset(codes) - {counts.UNVERIFIED}


def _last_decisions(tenant_id: int, handoffs: list[uuid.UUID]) -> list[Event]:
    """The last one on each, newest first."""
    rows = Event.objects.filter(tenant=tenant_id, handoff__in=handoffs, to_state__in=DECIDED).order_by("id")
    last = {event.handoff_id: event for event in rows if event.from_state != event.to_state}
    return sorted(last.values(), key=lambda event: (event.at, event.pk), reverse=True)


# As many as can be decided in one go: the page that does so counts as far.
MOST_COUNTED = 5000

MOST_LOOKED_AT = 2000

_HELD = Q(state=State.HELD)

_ESCALATED = Q(state=State.REJECTED, escalated=True)

_REJECTED = Q(state=State.REJECTED)


@dataclass(frozen=True, slots=True)
class Waiting:
    """How many wait; `more`: at least so many."""

    number: int
    more: bool = False

    @classmethod
    def of(cls, counted: int, most: int) -> "Waiting":
        return cls(min(counted, most), more=counted > most)

    def up_to(self, most: int) -> "Waiting":
        """The same, counted up to `most`, which is not more than it was counted up to."""
        return Waiting(min(self.number, most), more=self.more or self.number > most)


@dataclass(frozen=True, slots=True)
class Progress:
    """What waits in the view `all`. `decided_today`: how many the person has decided since midnight, without those
    that were taken back."""

    waiting: Waiting
    decided_today: int


def load_progress(tenant: Tenant, person: Person, *, left_out: Marks | None = None) -> Progress:
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0)
    return Progress(
        count_waiting(tenant, left_out=left_out, most=MOST_COUNTED), _count_decided_since(tenant, person, midnight)
    )


def count_waiting(tenant: Tenant, *, left_out: Marks | None = None, most: int = MOST_COUNTED) -> Waiting:
    """What the view `all` has, for anybody. Where much is left out, it is what remains of the newest rejected ones: to
    go over all of them would take seconds, and each page of the menu asks."""
    if left_out is None or left_out.query.is_empty():
        return Waiting.of(_count_parts(tenant, (_HELD, _REJECTED), most), most)
    kept = _count_parts(tenant, (_HELD, _ESCALATED), most)
    if kept > most:
        return Waiting(most, more=True)
    rows = filter_view(tenant, None, view="all", left_out=left_out).filter(MAY_BE_LEFT_OUT)
    newest = filter_part(queries.of_tenant(tenant), "rejected").order_by("-id")[:MOST_LOOKED_AT].values("pk")
    number = kept + rows.filter(pk__in=newest).count()
    return Waiting(min(number, most), more=number > most or newest.count() == MOST_LOOKED_AT)


def _count_parts(tenant: Tenant, parts: Sequence[Q], most: int) -> int:
    """How many of those parts wait, up to one more than `most`. Each part stands in an index, and is asked for by
    itself: together, PostgreSQL would go through all of them to count a few."""
    rows = (
        queries.of_tenant(tenant)
        .exclude(pk__in=assignments.reassignments_in_force(tenant).values("handoff"))
        .order_by()
    )
    compiled = [rows.filter(part).values("pk")[: most + 1].query.sql_with_params() for part in parts]
    each = " UNION ALL ".join(f"SELECT * FROM ({sql}) AS part_{number}" for number, (sql, _) in enumerate(compiled))  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT COUNT(*) FROM (SELECT * FROM ({each}) AS waits LIMIT {most + 1}) AS few",  # noqa: S608
            [param for _, params in compiled for param in params],
        )
        return int(cursor.fetchone()[0])


def _count_decided_since(tenant: Tenant, person: Person, since: datetime) -> int:
    actor = Actor.person(person)
    rows = decision_events(tenant).filter(at__gte=since, actor_kind=actor.kind, actor=actor.name)
    return exclude_undone(rows).values("handoff").distinct().count()
