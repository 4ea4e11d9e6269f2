"""What a person needs to see of one handoff to decide it."""

from typing import Any

from django.urls import reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard import handoff_parts as parts
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.claims import claims_of
from handoffaudit.dashboard.shown_document import shown_document
from handoffaudit.handoffs import comparing, holding, queries
from handoffaudit.handoffs.models import Handoff, State

MOST_ISSUES = 8


def open_by(who: Who, handoff: Handoff) -> holding.Holder | None:
    """Who has it open now. Opening lets go of what the person had open before; viewers hold nothing."""
    if who.may(Role.REVIEWER):
        holding.release_others(handoff, who.person)
        return holding.hold(handoff, who.person)
    held = holding.holders([handoff]).get(handoff.pk)
    return holding.Holder(held.person, held.until, mine=False) if held else None


def item_context(who: Who, handoff: Handoff) -> dict[str, Any]:
    verdict = queries.current_verdict(handoff)
    body = queries.body(handoff)
    document = shown_document(body, verdict)
    found = document.found
    address = reverse("dashboard:handoff", args=[who.tenant.slug, handoff.pk])
    decided = handoff.state in (State.APPROVED, State.DECLINED)
    return {
        "handoff": handoff,
        "handoff_url": address,
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, handoff.pk]),
        "verdict": verdict,
        "found": found[:MOST_ISSUES],
        "found_hidden": max(0, len(found) - MOST_ISSUES),
        "chain": parts.chain_drawings((verdict or {}).get("chain"), f"{address}?chain=full#chain", is_full=False),
        "tree": parts.document_tree(document.value, found) if document.value is not None else None,
        "is_lifted": document.is_lifted,
        "claims": claims_of(verdict, document.value, parts.evidence_of(handoff, body)),
        "lineage": comparing.attempts(handoff),
        "last_event": queries.events(handoff)[-1] if decided else None,
    }
