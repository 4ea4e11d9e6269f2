"""The activity of a handoff: its events, assignments and comments in one timeline, and its live updates."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest
from django.template.loader import render_to_string

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership
from handoffaudit.handoffs.models import Comment, Event, Handoff
from handoffaudit.handoffs.review import activity
from handoffaudit.handoffs.review.activity import is_comment_by
from handoffaudit.handoffs.review.base import MAX_NOTE, list_reviewers
from handoffaudit.handoffs.transitions import DECIDED, REVIEWABLE, Actor

MOST_ENTRIES = 50

# The Review page has less room, and links to the other entries.
MOST_IN_REVIEW = 6

_CURSOR = re.compile(r"(?P<at>[0-9]{1,16})-(?:(?P<comment>[0-9a-f]{32})|(?P<event>[0-9]{1,18}))", re.ASCII)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the timeline: either an event or a comment. `is_own` says that the reader wrote the comment."""

    at: datetime
    event: Event | None = None
    comment: Comment | None = None
    is_own: bool = False

    @property
    def is_decision(self) -> bool:
        return self.event is not None and self.event.to_state in DECIDED and not self.is_remark

    @property
    def is_remark(self) -> bool:
        """Return whether the event left the state as it was, as an assignment does."""
        return self.event is not None and self.event.from_state == self.event.to_state


@dataclass(frozen=True, slots=True)
class Activity:
    """A page of the timeline, latest first; `older` is the cursor of the next page, or empty.

    `mark` differs as soon as anything in the timeline changes; it is empty on pages after the first. `at` is the moment
    of the page's latest entry, in microseconds since 1970, or 0 without entries.
    """

    entries: list[Entry]
    older: str
    is_latest: bool
    mark: str = ""

    @property
    def at(self) -> int:
        return _in_microseconds(self.entries[0]) if self.entries else 0


@dataclass(frozen=True, slots=True)
class _Cursor:
    """The last entry of a page: its moment, and the id of its event or comment.

    Events are listed before comments of the same moment. After an event, all comments of its moment are therefore still
    to come.
    """

    at: datetime
    event: int | None = None
    comment: UUID | None = None

    @classmethod
    def parse(cls, text: str) -> "_Cursor | None":
        found = _CURSOR.fullmatch(text)
        if found is None:
            return None
        moment = _EPOCH + timedelta(microseconds=int(found["at"]))
        return cls(moment, comment=UUID(found["comment"])) if found["comment"] else cls(moment, int(found["event"]))

    @classmethod
    def of(cls, entry: Entry) -> str:
        pk = entry.event.pk if entry.event else entry.comment.pk.hex if entry.comment else ""
        return f"{_in_microseconds(entry)}-{pk}"


def _in_microseconds(entry: Entry) -> int:
    return (entry.at - _EPOCH) // timedelta(microseconds=1)


def activity_of(who: TenantMembership, handoff: Handoff, before: str = "", limit: int = MOST_ENTRIES) -> Activity:
    """Return the entries before the cursor, or the latest entries if `before` is not a cursor."""
    cursor = _Cursor.parse(before)
    events = Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id)
    written = activity.comments_of(handoff)
    if cursor:
        events = events.filter(Q(at__lt=cursor.at) | Q(at=cursor.at, id__lt=cursor.event or 0))
        here = Q(at=cursor.at, id__lt=cursor.comment) if cursor.comment else Q(at=cursor.at)
        written = written.filter(Q(at__lt=cursor.at) | here)
    person = Actor.person(who.person)
    found = [Entry(event.at, event=event) for event in events.order_by("-at", "-id")[: limit + 1]]
    found += [
        Entry(one.at, comment=one, is_own=is_comment_by(one, person))
        for one in written.order_by("-at", "-id")[: limit + 1]
    ]
    # The sort is stable: entries of the same moment stay in the order of the cursor.
    found.sort(key=lambda entry: entry.at, reverse=True)
    older = _Cursor.of(found[limit - 1]) if len(found) > limit else ""
    return Activity(found[:limit], older, is_latest=cursor is None, mark="" if cursor else _mark_of(handoff))


def _mark_of(handoff: Handoff) -> str:
    return f"{handoff.version}.{activity.mark_of_comments(handoff)}"


def activity_context(
    who: TenantMembership, handoff: Handoff, before: str = "", limit: int = MOST_ENTRIES
) -> dict[str, Any]:
    """Return the context of the timeline, the form for a comment, and the assignment."""
    may_review = who.may(Role.REVIEWER)
    # A waiting handoff is assigned in the decision box, so the activity needs no form for that.
    waits = handoff.state in REVIEWABLE
    return {
        "activity": activity_of(who, handoff, before, limit),
        "may_comment": may_review,
        "longest_comment": MAX_NOTE,
        "assignment": None if waits else activity.reassignment_of(handoff),
        "reviewers": list_reviewers(who.tenant) if may_review and not waits else [],
    }


def newer_activity(request: HttpRequest, context: dict[str, Any], limit: int = MOST_ENTRIES) -> list[str]:
    """Render the button that says how many newer entries there are, with the timeline that a click shows.

    The request has the `mark` of the page's timeline (`activity`) and the time of its latest entry (`activity_at`).
    Return an empty list if that timeline is up to date, or if the request has no `activity`: a page that shows older
    entries sends none. `context` has `who` and `handoff`.
    """
    who, handoff = context["who"], context["handoff"]
    if request.GET.get("activity", "") in ("", _mark_of(handoff)):
        return []
    shown = context | activity_context(who, handoff, limit=limit)
    seen = request.GET.get("activity_at", "")
    since = int(seen) if seen.isascii() and seen.isdigit() and len(seen) <= 16 else 0
    number = sum(_in_microseconds(entry) > since for entry in shown["activity"].entries)
    shown |= {"is_newer": True, "number": number, "more": number == limit}
    return [render_to_string("dashboard/handoff/activity.html#activity_new", shown, request)]
