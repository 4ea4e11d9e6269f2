"""Bulk decisions on all handoffs that match, in bounded parts, as they were when the reviewer asked."""

import base64
import binascii
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b
from uuid import UUID

from django.db.models import QuerySet

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.filters import Filters, first_id_at
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.queries import EVERYTHING
from handoffaudit.handoffs.review.decide import PART, Decision, Result, decide_many
from handoffaudit.handoffs.review.errors import NotReviewable, ReviewError, Stale, TooMany, check_note
from handoffaudit.handoffs.review.queue import Marks, filter_view, paginate, parts_for, sort_part
from handoffaudit.handoffs.transitions import Actor

MOST_AT_ONCE = 5000

MOST_PER_REQUEST = 500

SECONDS = 8.0

EXAMPLES = 3

_MARK_BYTES = 6


@dataclass(frozen=True, slots=True)
class Selection:
    """A view of the queue, narrowed, as it stood at `seen_at`: what came or changed later is not selected. `shown`:
    marks of those that the reviewer was told of (`Matching.shown`); without it all count as told."""

    view: str
    seen_at: datetime
    person: Person | None = None
    filters: Filters = EVERYTHING
    left_out: Marks | None = None
    within: Marks | None = None
    shown: frozenset[bytes] | None = None

    def rows(self, tenant: Tenant) -> "QuerySet[Handoff]":
        rows = filter_view(
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

    @property
    def shown(self) -> str:
        """Who is told of them carries this along, so that no other one is decided in the place of one that went."""
        return base64.urlsafe_b64encode(b"".join(map(_mark, self.ids))).decode()


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why some were not decided; `references` names a few of them."""

    reason: str
    number: int
    references: list[str]


@dataclass(slots=True)
class BulkDecision:
    """What one request did. `effective` are decided or handled, `proposed` wait for a second person; `next`: where the
    next request goes on, None at the end."""

    effective: int = 0
    proposed: int = 0
    refused: list[Refusal] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    next: str | None = None

    @property
    def visited(self) -> int:
        return self.effective + self.proposed + sum(one.number for one in self.refused)


def count_matching(tenant: Tenant, selection: Selection) -> Matching:
    """Counted exactly up to `MOST_AT_ONCE`."""
    rows = selection.rows(tenant)
    ids: list[UUID] = []
    for part in parts_for(tenant, selection.filters):
        wanted = MOST_AT_ONCE + 1 - len(ids)
        ids += list(sort_part(rows, part).values_list("pk", flat=True)[:wanted]) if wanted else []
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
) -> BulkDecision:
    """Decides the next of the selection, each by itself, until `most` are visited or the time is up; go on with `next`
    as `cursor` and the same selection. Raises `TooMany` at the beginning of a selection that is too large."""
    note = check_note(note)
    if not cursor and count_matching(tenant, selection).more:
        raise TooMany(MOST_AT_ONCE)
    rows, parts = selection.rows(tenant), parts_for(tenant, selection.filters)
    until = time.monotonic() + seconds
    results: list[Result] = []
    place: str | None = cursor
    while place is not None and len(results) < most and (not results or time.monotonic() < until):
        page = paginate(rows, place, min(PART, most - len(results)), parts)
        results += _decide_part(tenant, page.items, selection, decision, note, actor)
        place = page.next
    return summarize(results, place, decision=decision)


def parse_shown(text: str) -> frozenset[bytes]:
    """The marks of `Matching.shown`. Raises ValueError."""
    try:
        raw = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeError) as error:
        raise ValueError(str(error)) from None
    return frozenset(raw[at : at + _MARK_BYTES] for at in range(0, len(raw), _MARK_BYTES))


def _mark(pk: UUID) -> bytes:
    return blake2b(pk.bytes, digest_size=_MARK_BYTES).digest()


def _decide_part(
    tenant: Tenant, handoffs: list[Handoff], selection: Selection, decision: Decision, note: str, actor: Actor
) -> list[Result]:
    events = Event.objects.filter(handoff__in=[one.pk for one in handoffs], at__gt=selection.seen_at)
    left: dict[UUID, ReviewError] = dict.fromkeys(events.values_list("handoff_id", flat=True), ChangedSince())
    if selection.shown is not None:
        shown = selection.shown
        left |= {one.pk: NotShown() for one in handoffs if _mark(one.pk) not in shown}
    seen = [(str(one.pk), one.version) for one in handoffs if one.pk not in left]
    results = decide_many(tenant=tenant, references=seen, decision=decision, note=note, actor=actor)
    return results + [Result(str(pk), None, error) for pk, error in left.items()]


class ChangedSince(ReviewError):
    def __init__(self) -> None:
        super().__init__("It changed since you selected it; nothing was overwritten.")


class NotShown(ReviewError):
    """It matches by now: a group is not muted any more, for example."""

    def __init__(self) -> None:
        super().__init__("It was not among those that you were shown; it waits as before.")


def summarize(results: Iterable[Result], place: str | None = None, decision: Decision | None = None) -> BulkDecision:
    """Sum what several decisions came to, the refused ones by their reasons."""
    done = BulkDecision(next=place)
    reasons: dict[str, list[str]] = {}
    for result in results:
        if result.error is not None:
            reasons.setdefault(_reason(result.error), []).append(result.reference)
        elif result.handoff is not None:
            done.handoffs.append(result.handoff)
            is_decided = decision is Decision.HANDLED or result.handoff.state in (State.APPROVED, State.DECLINED)
            done.effective += is_decided
            done.proposed += not is_decided
    done.refused = [Refusal(reason, len(which), which[:EXAMPLES]) for reason, which in reasons.items()]
    return done


def _reason(error: ReviewError) -> str:
    """The same words for all that were refused for the same reason."""
    return ChangedSince().message if isinstance(error, Stale | NotReviewable) else error.message
