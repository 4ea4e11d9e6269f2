"""Deciding all that match, in bounded parts: what was there when the reviewer asked, and is as it was."""

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.cursors import first_id_at
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.queries import EVERYTHING
from handoffaudit.handoffs.reviewing.deciding import Decision, Result, decide_many
from handoffaudit.handoffs.reviewing.errors import (
    MoreThanShown,
    NotReviewable,
    ReviewError,
    Stale,
    TooMany,
    checked_note,
)
from handoffaudit.handoffs.reviewing.queueing import Marks, in_order, paged, parts_for, seen_in

MOST_AT_ONCE = 5000
MOST_PER_REQUEST = 500
PART = 100
SECONDS = 8.0
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """A view of the queue, narrowed, as it stood at `seen_at`: what came or changed later is not selected. `shown`: how
    many they were said to be, where that was said."""

    view: str
    seen_at: datetime
    person: Person | None = None
    filters: Filters = EVERYTHING
    left_out: Marks | None = None
    within: Marks | None = None
    shown: int | None = None

    def rows(self, tenant: Tenant) -> "QuerySet[Handoff]":
        rows = seen_in(
            tenant,
            self.person,
            view=self.view,
            filters=self.filters,
            left_out=self.left_out,
            within=self.within,
        )
        return rows.filter(id__lt=first_id_at(self.seen_at))


@dataclass(frozen=True, slots=True)
class Matching:
    """What is selected, in the queue's order: all of them, or, with `more`, the first `MOST_AT_ONCE`."""

    ids: list[UUID]
    more: bool

    @property
    def number(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why some were not decided; `references` names a few of them."""

    reason: str
    number: int
    references: list[str]


@dataclass(slots=True)
class Decided:
    """What one request did. `effective` are decided, `proposed` wait for a second person; `next`: where the next
    request goes on, None at the end."""

    effective: int = 0
    proposed: int = 0
    refused: list[Refusal] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    next: str | None = None

    @property
    def visited(self) -> int:
        return self.effective + self.proposed + sum(one.number for one in self.refused)


def matching(tenant: Tenant, selection: Selection) -> Matching:
    """Counted exactly up to `MOST_AT_ONCE`."""
    rows = selection.rows(tenant)
    ids: list[UUID] = []
    for part in parts_for(tenant, selection.filters):
        wanted = MOST_AT_ONCE + 1 - len(ids)
        ids += list(in_order(rows, part).values_list("pk", flat=True)[:wanted]) if wanted else []
    return Matching(ids[:MOST_AT_ONCE], more=len(ids) > MOST_AT_ONCE)


def decide_matching(
    *,
    tenant: Tenant,
    selection: Selection,
    decision: Decision,
    note: str,
    actor: Actor,
    cursor: str = "",
    most: int = MOST_PER_REQUEST,
    seconds: float = SECONDS,
) -> Decided:
    """Decides the next of the selection, each by itself, until `most` are visited or the time is up; go on with `next`
    as `cursor` and the same selection. Raises `TooMany` at the beginning of a selection that is too large, and
    `MoreThanShown` of one that grew over the number that the reviewer was shown."""
    note = checked_note(note)
    if not cursor:
        _check_number(matching(tenant, selection), selection.shown)
    rows, parts = selection.rows(tenant), parts_for(tenant, selection.filters)
    until = time.monotonic() + seconds
    results: list[Result] = []
    place: str | None = cursor
    while place is not None and len(results) < most and (not results or time.monotonic() < until):
        page = paged(rows, place, min(PART, most - len(results)), parts)
        results += _decide_part(tenant, page.items, selection, decision, note, actor)
        place = page.next
    return told(results, place)


def _check_number(found: Matching, shown: int | None) -> None:
    if found.more:
        raise TooMany(MOST_AT_ONCE)
    if shown is not None and found.number > shown:
        raise MoreThanShown(found.number, shown)


def _decide_part(
    tenant: Tenant, handoffs: list[Handoff], selection: Selection, decision: Decision, note: str, actor: Actor
) -> list[Result]:
    events = Event.objects.filter(handoff__in=[one.pk for one in handoffs], at__gt=selection.seen_at)
    changed = set(events.values_list("handoff_id", flat=True))
    seen = [(str(one.pk), one.version) for one in handoffs if one.pk not in changed]
    results = decide_many(tenant=tenant, references=seen, decision=decision, note=note, actor=actor)
    return results + [Result(str(pk), None, ChangedSince()) for pk in changed]


class ChangedSince(ReviewError):
    def __init__(self) -> None:
        super().__init__("It changed since you selected it; nothing was overwritten.")


def told(results: Iterable[Result], place: str | None = None) -> Decided:
    """What several decisions came to, the refused ones by their reasons."""
    done = Decided(next=place)
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.error is not None:
            reasons.setdefault(_reason(result.error), []).append(result.reference)
        elif result.handoff is not None:
            done.handoffs.append(result.handoff)
            is_decided = result.handoff.state in (State.APPROVED, State.DECLINED)
            done.effective += is_decided
            done.proposed += not is_decided
    done.refused = [Refusal(reason, len(which), which[:EXAMPLES]) for reason, which in reasons.items()]
    return done


def _reason(error: ReviewError) -> str:
    """The same words for all that were refused for the same reason."""
    return ChangedSince().message if isinstance(error, Stale | NotReviewable) else error.message
