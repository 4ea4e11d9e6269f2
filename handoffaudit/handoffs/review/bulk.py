"""Bulk decisions on all handoffs that match a selection, in bounded chunks."""

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
from handoffaudit.handoffs.filters import Filters, is_received_before
from handoffaudit.handoffs.models import Event, Handoff, State
from handoffaudit.handoffs.queries import EVERYTHING
from handoffaudit.handoffs.review.base import NotReviewable, ReviewError, Stale, TooMany, check_note
from handoffaudit.handoffs.review.decisions import PART, Decision, Result, decide_many
from handoffaudit.handoffs.review.queue import Marks, filter_view, paginate, parts_for, sort_part
from handoffaudit.handoffs.transitions import Actor

MOST_AT_ONCE = 5000

MOST_PER_REQUEST = 500

SECONDS = 8.0

EXAMPLES = 3

_MARK_BYTES = 6


@dataclass(frozen=True, slots=True)
class Selection:
    """A filtered view of the queue at the time `seen_at`.

    Handoffs that arrived later are left out, and handoffs that changed later are refused. `shown` has a short hash of
    each handoff that the reviewer saw (`Matching.shown`). None means that the reviewer saw all selected handoffs.
    """

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
        return rows.filter(is_received_before(self.seen_at))


@dataclass(frozen=True, slots=True)
class Matching:
    """The ids of the selected handoffs, in queue order; if `more` is set, only the first `MOST_AT_ONCE`."""

    ids: list[UUID]
    more: bool

    @property
    def number(self) -> int:
        return len(self.ids)

    @property
    def shown(self) -> str:
        """Return the short hashes of the selected handoffs as text, for the form that shows these handoffs.

        The form sends the text back, so that no handoff is decided that the reviewer was not shown.
        """
        return base64.urlsafe_b64encode(b"".join(map(_mark, self.ids))).decode()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason why handoffs were not decided, the number of these handoffs, and the ids of some of them."""

    reason: str
    number: int
    references: list[str]


@dataclass(slots=True)
class BulkDecision:
    """The outcome of one request of a bulk decision.

    `effective` handoffs are decided or handled; `proposed` handoffs wait for a second person. `next` is the cursor for
    the next request, None at the end.
    """

    effective: int = 0
    proposed: int = 0
    refused: list[Refusal] = field(default_factory=list)
    handoffs: list[Handoff] = field(default_factory=list)
    next: str | None = None

    @property
    def visited(self) -> int:
        return self.effective + self.proposed + sum(one.number for one in self.refused)


def count_matching(tenant: Tenant, selection: Selection) -> Matching:
    """Return the selected handoffs, at most `MOST_AT_ONCE` of them."""
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
    """Decide the next handoffs of the selection, at most `most` of them, in chunks of at most `PART` handoffs.

    The first chunk is always decided. No chunk begins later than `seconds` after the start.

    To continue, call again with `next` of the result as `cursor` and the same selection. On the first call, raise
    `TooMany` if the selection is too large. Raise `NoteTooLong`, and `FilterError` for an invalid cursor.
    """
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
    """Return the short hashes from the text of `Matching.shown`. Raise `ValueError` if the text is not base64."""
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
        super().__init__("The handoff changed since you selected it; nothing was overwritten.")


class NotShown(ReviewError):
    """The error for a handoff that began to match after the reviewer looked, for example because it is unmuted."""

    def __init__(self) -> None:
        super().__init__("The handoff was not on the list that you saw; it still waits.")


def summarize(results: Iterable[Result], place: str | None = None, decision: Decision | None = None) -> BulkDecision:
    """Summarize the results of several decisions, with the refusals grouped by reason."""
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
    """Return the message of the error; every kind of change since the selection gets the same message."""
    return ChangedSince().message if isinstance(error, Stale | NotReviewable) else error.message
