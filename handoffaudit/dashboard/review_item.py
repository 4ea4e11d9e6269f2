"""What a person needs to see of one handoff to decide it."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who
from handoffaudit.drawing.chain import chain
from handoffaudit.drawing.drawing import Drawing
from handoffaudit.handoffs import holding, queries
from handoffaudit.handoffs.models import Handoff, ReviewHold, State

GRAVEST_FIRST = ("critical", "error", "warning", "info")


def open_by(who: Who, handoff: Handoff) -> holding.Holder | None:
    """Who has it open now. Opening lets go of what the person had open before; viewers hold nothing."""
    if who.may(Role.REVIEWER):
        ReviewHold.objects.filter(person=who.person, handoff__tenant=who.tenant).exclude(handoff=handoff).delete()
        return holding.hold(handoff, who.person)
    held = holding.holders([handoff]).get(handoff.pk)
    return holding.Holder(held.person, held.until, mine=False) if held else None


def item_context(who: Who, handoff: Handoff) -> dict[str, Any]:
    verdict = queries.current_verdict(handoff)
    issues = sorted(verdict["issues"], key=lambda issue: GRAVEST_FIRST.index(issue["severity"])) if verdict else []
    decided = handoff.state in (State.APPROVED, State.DECLINED)
    return {
        "handoff": handoff,
        "verdict": verdict,
        "issues": issues,
        "chain": _chain(who, handoff, verdict),
        "attempts": queries.earlier_attempts(handoff),
        "last_event": queries.events(handoff)[-1] if decided else None,
    }


def _chain(who: Who, handoff: Handoff, verdict: Mapping[str, Any] | None) -> Drawing | None:
    facts = verdict["chain"] if verdict else None
    if not facts:
        return None
    return chain(
        facts["shown"],
        facts["target"],
        loop=facts["loop"],
        over_from=facts["over_from"],
        declared=facts["declared"] if facts["derived"] is not None else None,
        href=reverse("dashboard:handoff", args=[who.tenant.slug, handoff.pk]),
        width=720,
        prefix="review-chain",
    )
