"""The queue of what waits for a person, and the parts of it that somebody may look at."""

from collections.abc import Collection, Iterator
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import counts, queries
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.cursors import cursor_id
from handoffaudit.handoffs.filters import BadFilter, Filters
from handoffaudit.handoffs.models import Handoff, HourlyTotal, State
from handoffaudit.handoffs.queries import EVERYTHING, Page
from handoffaudit.handoffs.reviewing import passing, proposing
from handoffaudit.handoffs.states import REVIEWABLE

# Rows of whatever says of handoffs, in `handoff`, that they belong to something.
Marks = QuerySet[Any]
VIEWS = ("all", "mine", "passed_on", "second", "proposed", "muted")
_STATES = {"escalated": State.REJECTED, "held": State.HELD, "rejected": State.REJECTED}
PARTS = tuple(_STATES)
# In any of the parts.
WAITS = Q(state__in=REVIEWABLE)
# Nobody mutes what a person has to see.
MAY_BE_LEFT_OUT = Q(state=State.REJECTED, escalated=False)


def queue(
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
    rows = seen_in(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    return paged(rows, cursor, limit, parts_for(tenant, filters))


def gone(
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
    rows = seen_in(tenant, person, view=view, filters=filters, left_out=left_out, within=within)
    return set(ids).difference(rows.filter(WAITS, pk__in=ids).values_list("pk", flat=True))


def seen_in(
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
        rows = queries.narrowed_to(rows, within)
    if view == "mine":
        return rows.filter(pk__in=_passed_to(tenant, person).values("handoff"))
    if view == "passed_on":
        return rows.filter(pk__in=passing.in_force(tenant).values("handoff"))
    if view == "second":
        return rows.filter(pk__in=_proposed(tenant, person, by_others=True).values("handoff"))
    if view == "proposed":
        return rows.filter(pk__in=_proposed(tenant, person, by_others=False).values("handoff"))
    rows = rows.filter(~Exists(passing.in_force_of(OuterRef("pk"), OuterRef("version"))))
    if view == "muted":
        return rows.filter(MAY_BE_LEFT_OUT, pk__in=left_out.values("handoff")) if left_out is not None else rows.none()
    if left_out is not None:
        rows = rows.filter(~MAY_BE_LEFT_OUT | ~Exists(left_out.filter(handoff=OuterRef("pk"))))
    return rows


def _passed_to(tenant: Tenant, person: Person | None) -> Marks:
    rows = passing.in_force(tenant)
    return rows.filter(to=person) if person else rows.none()


def _proposed(tenant: Tenant, person: Person | None, *, by_others: bool) -> Marks:
    """What waits for a second person: by somebody else than this person, or by the person."""
    rows = proposing.in_force(tenant)
    if person is None:
        return rows if by_others else rows.none()
    actor = Actor.person(person)
    own = {"actor_kind": actor.kind, "actor": actor.name}
    return rows.exclude(**own) if by_others else rows.filter(**own)


def concerning(tenant: Tenant, person: Person, most: int) -> dict[str, int]:
    """How many handoffs the views have that are about the person, counted up to `most`: those passed on to the person,
    and those that the person proposed."""
    views = {"mine": _passed_to(tenant, person), "proposed": _proposed(tenant, person, by_others=False)}
    return {view: rows[:most].count() for view, rows in views.items()}


def parts_for(tenant: Tenant, filters: Filters) -> Collection[str]:
    """The parts that can have any: all that wait would be gone over to find none."""
    parts = {part: state for part, state in _STATES.items() if not filters.state or state in filters.state}
    if not filters.code or filters.code == counts.UNVERIFIED:
        return parts
    counted = HourlyTotal.objects.filter(tenant=tenant, code=filters.code, number__gt=0)
    found = {state for state in REVIEWABLE if counted.filter(state=state).exists()}
    return [part for part, state in parts.items() if state in found]


def paged(rows: "QuerySet[Handoff]", cursor: str, limit: int, parts: Collection[str] = PARTS) -> Page:
    """From the place on that `cursor` names. Raises BadFilter."""
    found: list[tuple[str, Handoff]] = []
    for name, after in _parts_from(cursor):
        if name in parts and len(found) <= limit:
            found += [(name, one) for one in in_order(rows, name, after)[: limit + 1 - len(found)]]
    last = found[limit - 1] if len(found) > limit else None
    return Page([handoff for _, handoff in found[:limit]], next=f"{last[0]}:{last[1].pk}" if last else None)


def _parts_from(cursor: str) -> Iterator[tuple[str, str]]:
    """Each part with the id that it goes on after. Raises BadFilter."""
    part, _, after = cursor.partition(":")
    if cursor and part not in PARTS:
        raise BadFilter("cursor", cursor[:40], "use the value of `next` from the page before, as it was.")
    begin = PARTS.index(part) if part in PARTS else 0
    return ((name, after if name == part else "") for name in PARTS[begin:])


def in_order(rows: "QuerySet[Handoff]", part: str, after: str = "") -> "QuerySet[Handoff]":
    """Those of a part in its own order."""
    rows = part_of(rows, part)
    if part == "rejected":
        rows = rows.order_by("-id")
        return rows.filter(id__lt=cursor_id(after)) if after else rows
    rows = rows.order_by("id")
    return rows.filter(id__gt=cursor_id(after)) if after else rows


def part_of(rows: "QuerySet[Handoff]", part: str) -> "QuerySet[Handoff]":
    wanted = {
        "escalated": Q(state=State.REJECTED, escalated=True),
        "held": Q(state=State.HELD),
        "rejected": Q(state=State.REJECTED, escalated=False),
    }
    return rows.filter(wanted[part])
