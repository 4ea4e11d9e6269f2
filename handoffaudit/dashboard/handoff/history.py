"""The changes of a handoff's state, some at a time."""

from dataclasses import dataclass

from handoffaudit.handoffs.models import Event, Handoff

MOST_EVENTS = 50
_LONGEST_ID = 18


@dataclass(frozen=True, slots=True)
class History:
    """Events, the latest first; `older` is the cursor of those before them (0: there are none)."""

    events: list[Event]
    older: int
    is_latest: bool


def history_of(handoff: Handoff, before: str = "", limit: int = MOST_EVENTS) -> History:
    """The events before that cursor; the latest ones where it is none."""
    rows = Event.objects.filter(handoff=handoff.pk, tenant=handoff.tenant_id).order_by("-id")
    is_cursor = before.isascii() and before.isdecimal() and len(before) <= _LONGEST_ID
    if is_cursor:
        rows = rows.filter(id__lt=int(before))
    found = list(rows[: limit + 1])
    older = found[limit - 1].pk if len(found) > limit else 0
    return History(found[:limit], older, is_latest=not is_cursor)
