"""One group: its trend, its newest handoffs, what one of them was told, and how such handoffs were decided."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

import orjson
from django.db.models import Count
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.groups.belonging import handoffs_of
from handoffaudit.diagnostics.groups.figures import days_of
from handoffaudit.diagnostics.groups.places import place_of
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.models import Event, Handoff, State, Verdict
from handoffaudit.handoffs.queries import of_tenant

TREND_DAYS: Final = 30
NEWEST: Final = 10
# The newest handoffs of a group whose states are looked at.
MOST_LOOKED_AT: Final = 1_000
MOST_DECISIONS: Final = 10
_EXAMPLES: Final = 3
_DECIDED: Final = (State.APPROVED, State.DECLINED)


@dataclass(frozen=True, slots=True)
class Example:
    """What a handoff of the group was told."""

    handoff: Handoff
    issue: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decided of a handoff of the group, and why."""

    handoff: Handoff
    event: Event


@dataclass(frozen=True, slots=True)
class Decided:
    """Of the group's newest handoffs: how many people approved and declined, how many nobody decided, and the newest
    decisions. `is_cut`: it has more handoffs than were looked at."""

    approved: int
    declined: int
    undecided: int
    decisions: Sequence[Decision]
    is_cut: bool


def get(tenant: Tenant, group: int) -> FindingGroup:
    """Raises `FindingGroup.DoesNotExist`."""
    return FindingGroup.objects.get(tenant=tenant, pk=group)


def trend(group: FindingGroup) -> list[tuple[date, int]]:
    """The last 30 days (UTC), today's last."""
    numbers = days_of([group], TREND_DAYS)[group.pk]
    first = timezone.now().date() - timedelta(days=TREND_DAYS - 1)
    return [(first + timedelta(days=at), number) for at, number in enumerate(numbers)]


def newest(tenant: Tenant, group: int, limit: int = NEWEST) -> list[Handoff]:
    ids = list(handoffs_of(tenant, group).order_by("-handoff")[:limit])
    return list(of_tenant(tenant).filter(pk__in=ids).order_by("-id"))


def example(group: FindingGroup, handoffs: Sequence[Handoff]) -> Example | None:
    """The finding of the newest of `handoffs` whose verdict has it still."""
    for handoff in handoffs[:_EXAMPLES]:
        if handoff.verdict is None:
            continue
        content = Verdict.objects.filter(pk=handoff.verdict, tenant=group.tenant_id).values_list("content", flat=True)
        for issue in orjson.loads(content.first() or "{}").get("issues") or ():
            place = place_of(
                issue["code"], issue.get("field_path") or "", handoff.source_agent_id, handoff.target_agent_id
            )
            if place.key == group.key:
                return Example(handoff, issue)
    return None


def decided(tenant: Tenant, group: int) -> Decided:
    ids = list(handoffs_of(tenant, group).order_by("-handoff")[: MOST_LOOKED_AT + 1])
    looked_at = of_tenant(tenant).filter(pk__in=ids[:MOST_LOOKED_AT])
    states = Counter(dict(looked_at.order_by().values_list("state").annotate(Count("id"))))
    by_pk = {one.pk: one for one in looked_at.filter(state__in=_DECIDED).order_by("-id")[:MOST_DECISIONS]}
    events = Event.objects.filter(tenant=tenant, handoff__in=list(by_pk), to_state__in=_DECIDED)
    last = {event.handoff_id: event for event in events.order_by("id")}
    decisions = [Decision(by_pk[pk], last[pk]) for pk in by_pk if pk in last]
    approved, declined = states[State.APPROVED], states[State.DECLINED]
    return Decided(approved, declined, states.total() - approved - declined, decisions, len(ids) > MOST_LOOKED_AT)
