"""Conversion of database rows and results to the JSON values that `schemas.py` describes."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import orjson
from django.conf import settings
from django.http import HttpResponse

from handoffaudit.handoffs import queries
from handoffaudit.handoffs.ingest.store import Receipt
from handoffaudit.handoffs.lineage import Attempt
from handoffaudit.handoffs.models import Event, Handoff, HandoffBody, PassedOn, Proposal
from handoffaudit.handoffs.review import assignments, proposals
from handoffaudit.validation.repair import Repair, repair_to_dict
from handoffaudit.validation.verdict import verdict_to_dict


def json_response(content: Any, status: int = 200, **headers: str) -> HttpResponse:
    response = HttpResponse(orjson.dumps(content), status=status, content_type="application/json")
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


def moment(value: datetime | None) -> str | None:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if value else None


def links(pk: str, tenant_slug: str) -> dict[str, str]:
    base = f"/api/v1/handoffs/{pk}"
    return {
        "self": base,
        "verdicts": f"{base}/verdicts",
        "events": f"{base}/events",
        "attempts": f"{base}/attempts",
        "chain": f"{base}/chain.svg",
        "review": f"{base}/review",
        "page": f"{settings.PUBLIC_URL}/t/{tenant_slug}/handoffs/{pk}/",
        "codes": codes_link(),
    }


def codes_link() -> str:
    """Return the address of the documentation of rule codes, as a URI template (RFC 6570).

    The findings have no addresses of their own, because stored verdicts are sent unchanged.
    """
    return f"{settings.PUBLIC_URL}/help/codes/{{code}}/"


def receipt_of(receipt: Receipt) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": receipt.id, "handoff_id": receipt.handoff_id, "state": receipt.state}
    if receipt.issues:
        shown["issues"] = [
            issue.to_dict() | {"issue_id": f"issue-{number}"} for number, issue in enumerate(receipt.issues, 1)
        ]
    return shown


def handoff_of(handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    """Return the summary of a handoff that lists contain."""
    return {
        "id": str(handoff.pk),
        "handoff_id": handoff.handoff_id,
        "format": handoff.format,
        "handoff_type": handoff.handoff_type,
        "source_agent_id": handoff.source_agent_id,
        "target_agent_id": handoff.target_agent_id,
        "trace_id": handoff.trace_id or None,
        "parent_handoff_id": handoff.parent_handoff_id or None,
        "retry_of": handoff.retry_of or None,
        "attempt": handoff.attempt,
        "lineage": handoff.lineage or handoff.handoff_id,
        "repaired": handoff.repaired,
        "step": handoff.step,
        "state": handoff.state,
        "version": handoff.version,
        "would_decide": handoff.would_decide or None,
        "flags": {
            "warnings": handoff.warnings,
            "shadowed": bool(handoff.would_decide),
            "overdue": handoff.overdue,
            "parked": handoff.parked,
            "escalated": handoff.escalated,
            "unverified": handoff.unverified,
            "flagged": handoff.flagged,
            "open": handoff.open,
        },
        "user_approved": handoff.user_approved,
        "codes": handoff.codes,
        "quality_score": handoff.score,
        "token_count": handoff.token_count,
        "chain_length": handoff.chain_length,
        "size_bytes": handoff.size_bytes,
        "timestamp": moment(handoff.sender_timestamp),
        "received_at": moment(handoff.received_at),
        "judged_at": moment(handoff.judged_at),
        "review_due_at": moment(handoff.review_due_at),
        "links": links(str(handoff.pk), tenant_slug),
    }


def replacement_of(handoff: Handoff, tenant_slug: str) -> dict[str, Any]:
    """Return the attempt that replaced a superseded handoff; only a superseded handoff needs a query."""
    later = queries.later_attempt(handoff)
    return {
        "superseded_by": later
        and {
            "id": str(later.pk),
            "handoff_id": later.handoff_id,
            "state": later.state,
            "attempt": later.attempt,
            "repaired": later.repaired,
            "links": links(str(later.pk), tenant_slug),
        }
    }


def review_of(handoff: Handoff) -> dict[str, Any]:
    """Return the proposed decision and the reassignment of a handoff that waits for review."""
    return review_as(proposals.find_proposal(handoff), assignments.reassignment_of(handoff))


def review_as(proposal: Proposal | None, passed: PassedOn | None) -> dict[str, Any]:
    return {
        "awaits_second": proposal is not None,
        "proposal": proposal
        and {
            "decision": proposal.decision,
            "note": proposal.note,
            "actor": {"kind": proposal.actor_kind, "name": proposal.actor},
            "at": moment(proposal.at),
        },
        "passed_on": passed
        and {
            "by": passed.by,
            "to": passed.to.get_username() if passed.to else None,
            "note": passed.note,
            "at": moment(passed.at),
        },
    }


def attempt_of(attempt: Attempt, tenant_slug: str) -> dict[str, Any]:
    changed = attempt.changed
    return handoff_of(attempt.handoff, tenant_slug) | {
        "changes": None if changed is None else [change.to_dict() for change in changed.changes],
        "changes_complete": changed is not None and changed.complete,
        "not_compared": attempt.why or None,
    }


def repair_of(result: Repair) -> dict[str, Any]:
    """Return a repair with the verdict on the offered candidate."""
    verdict = verdict_to_dict(result.repaired.verdict) if result.repaired else None
    return repair_to_dict(result) | {"verdict": verdict, "session_context": None, "links": {"codes": codes_link()}}


def documents_of(handoff: Handoff) -> dict[str, Any]:
    """Return the sent document: as JSON in `document`, or as text in `raw` if the document is not JSON.

    If retention removed the document, return only its hash and the time of the removal.
    """
    body = queries.body(handoff)
    if body is None:
        left = queries.removal_of(handoff)
        nothing = dict.fromkeys(("document", "raw", "lifted", "context", "evidence"))
        removed_at = moment(left.at) if left else None
        return nothing | {"original_sha256": left.sha256 if left else None, "removed_at": removed_at}
    return _documents_of(body) | {"removed_at": None}


def _documents_of(body: HandoffBody) -> dict[str, Any]:
    original = bytes(body.original)
    plain = original.removeprefix(b"\xef\xbb\xbf")
    document: orjson.Fragment | None
    raw: str | None
    try:
        orjson.loads(plain)
        # Send the original bytes. Encoding the document again would fail on deep nesting, and change numbers.
        document, raw = orjson.Fragment(plain), None
    except orjson.JSONDecodeError:
        document, raw = None, original.decode(errors="replace")
    return {
        "document": document,
        "raw": raw,
        "original_sha256": hashlib.sha256(original).hexdigest(),
        "lifted": orjson.Fragment(bytes(body.lifted)) if body.lifted is not None else None,
        "context": orjson.Fragment(bytes(body.context)) if body.context is not None else None,
        "evidence": orjson.Fragment(bytes(body.evidence)) if body.evidence is not None else None,
    }


def event_of(event: Event) -> dict[str, Any]:
    return {
        "at": moment(event.at),
        "actor": {"kind": event.actor_kind, "name": event.actor},
        "from_state": event.from_state or None,
        "to_state": event.to_state,
        "reason": event.reason,
    }
