"""What a person needs to see of one handoff to decide it."""

from collections.abc import Sequence
from typing import Any

from django.urls import reverse

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.handoff import parts
from handoffaudit.dashboard.handoff.claims import claims_of
from handoffaudit.dashboard.handoff.places import Found
from handoffaudit.dashboard.handoff.shown_document import shown_document
from handoffaudit.handoffs import compare, queries
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.review import assignments, queue
from handoffaudit.handoffs.transitions import REVIEWABLE

# Read at a glance; the others are folded away.
FIRST_ISSUES = 3
MOST_ISSUES = 12
MOST_EVENTS = 6
# As many as there are keys for.
MOST_SIMILAR = 3


def open_by(who: Who, handoff: Handoff) -> assignments.Holder | None:
    """Who has it open now. Opening lets go of what the person had open before; viewers hold nothing."""
    if who.may(Role.REVIEWER):
        assignments.release_other_holds(handoff, who.person)
        return assignments.hold(handoff, who.person)
    return seen_by(handoff, who)


def seen_by(handoff: Handoff, who: Who) -> assignments.Holder | None:
    """Who has it open now, without opening it."""
    held = assignments.list_holders([handoff]).get(handoff.pk)
    return assignments.Holder(held.person, held.until, mine=held.person_id == who.person.pk) if held else None


def item_context(who: Who, handoff: Handoff) -> dict[str, Any]:
    verdict = queries.current_verdict(handoff)
    body = parts.body_of(handoff)
    document = shown_document(body, verdict)
    found = document.found
    events = queries.events(handoff)
    address = reverse("dashboard:handoff", args=[who.tenant.slug, handoff.pk])
    return {
        "handoff": handoff,
        "handoff_url": address,
        "part_url": reverse("dashboard:handoff_part", args=[who.tenant.slug, handoff.pk]),
        "verdict": verdict,
        "found": found[:FIRST_ISSUES],
        "found_folded": found[FIRST_ISSUES:MOST_ISSUES],
        "found_hidden": max(0, len(found) - MOST_ISSUES),
        "is_about_chain": _is_about_chain(found),
        "chain": parts.chain_in_pane((verdict or {}).get("chain"), f"{address}?chain=full#chain"),
        "tree": parts.document_tree(document.value, found) if document.value is not None else None,
        "is_lifted": document.is_lifted,
        "removed": queries.removal_of(handoff) if document.value is None else None,
        "claims": claims_of(verdict, document.value, parts.evidence_of(handoff, body)),
        "lineage": compare.compare_attempts(handoff),
        "events": events[-MOST_EVENTS:][::-1],
        "events_hidden": max(0, len(events) - MOST_EVENTS),
        "similar": queue.list_precedents(handoff, limit=MOST_SIMILAR) if handoff.state in REVIEWABLE else [],
    }


def _is_about_chain(found: Sequence[Found]) -> bool:
    """Whether the chain is what it waits for: then its drawing stands before the document."""
    return any(issue.decides and issue.code.startswith("chain.") for issue in found)
