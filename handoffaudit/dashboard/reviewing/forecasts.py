"""What deciding several will do, before it is done."""

from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from handoffaudit.dashboard.access import Who
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.review import decide
from handoffaudit.handoffs.review import proposals as review_proposals
from handoffaudit.handoffs.transitions import REVIEWABLE, Actor
from handoffaudit.policy.load import load

# What a handoff is asked for, to know whether it can be approved.
_TELLING = ("state", "format", "handoff_type", "source_agent_id", "target_agent_id", "codes", "verdict", "approvable")


@dataclass(slots=True)
class Forecast:
    """Of those chosen: how many are `held` and `rejected`, and how many wait no more (`gone`). Of those that wait: how
    many nobody can approve, because an agent hands to itself (`to_itself`) or nothing could be read (`unreadable`), and
    how many need a second person. `is_more`: more than `most` are chosen."""

    number: int = 0
    held: int = 0
    rejected: int = 0
    to_itself: int = 0
    unreadable: int = 0
    four_eyes: int = 0
    gone: int = 0
    is_more: bool = False
    most: int = 0

    @property
    def declinable(self) -> int:
        return self.held + self.rejected

    @property
    def approvable(self) -> int:
        return self.declinable - self.to_itself - self.unreadable


def needing_a_note(who: Who, ids: list[UUID]) -> int:
    """How many of them can't be approved without a note: what was rejected, unless somebody else proposed it with
    one."""
    rejected = queries.of_tenant(who.tenant).filter(pk__in=ids, state=State.REJECTED, approvable=True)
    rows = [one for one in rejected.only("version", *_TELLING) if one.may_be_approved]
    proposals, actor = review_proposals.list_proposals(rows), Actor.person(who.person)
    explained = [
        one
        for one in proposals.values()
        if one.decision == decide.Decision.APPROVE and one.note and not review_proposals.is_by(one, actor)
    ]
    return len(rows) - len(explained)


def forecast(who: Who, ids: list[UUID], *, is_more: bool, most: int) -> Forecast:
    found = Forecast(number=len(ids), is_more=is_more, most=most)
    if is_more:
        return found
    policies = load(who.tenant.pk)
    rows = queries.of_tenant(who.tenant).filter(pk__in=ids, state__in=REVIEWABLE).order_by()
    for state, approvable, kind, number in rows.values_list("state", "approvable", "handoff_type").annotate(
        Count("pk")
    ):
        found.held += number if state == State.HELD else 0
        found.rejected += number if state == State.REJECTED else 0
        found.to_itself += 0 if approvable else number
        found.four_eyes += number if policies.policy_for(kind).four_eyes else 0
    nameless = rows.filter(handoff_type="", source_agent_id="", target_agent_id="")
    found.unreadable = sum(one.is_unreadable for one in nameless.only(*_TELLING))
    found.gone = found.number - found.declinable
    return found
