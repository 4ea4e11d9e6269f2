"""Stored records of hook events: the event, its first answer, and its validation state."""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.hooks import status as hooks_status
from handoffaudit.handoffs.hooks.events import Event, Name, digest, raw_digest
from handoffaudit.handoffs.hooks.status import Contradiction, ObjectiveCheck, Phase, Status
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HookEvent, ValidationState
from handoffaudit.validation.times import utc_text

RULE: Final = "semantic_objective_match"

OUTCOME: Final = "handoff_accepted"


def begin_event(tenant: Tenant, event: Event, given_key: str, phase: object) -> HookEvent:
    """Return the row of this event: a new row, or the existing row where the event arrived before."""
    return HookEvent.objects.get_or_create(
        tenant_id=tenant.pk,
        key=_make_key(event, given_key, phase),
        defaults={
            "name": event.name.value,
            "at": timezone.now(),
            "session_id": event.session,
            "workflow_id": event.workflow,
            "phase_id": event.phase_id,
            "phase": orjson.dumps(phase).decode() if phase is not None else "",
        },
    )[0]


def _make_key(event: Event, given: str, phase: object) -> str:
    """Return the key that identifies an event when it arrives again.

    The key comes from the sender, or else from the call, or else from the whole event. Without a sender's key, phase
    results are part of the key, so that an event with other results is decided again.
    """
    if given:
        return digest("given", given)
    if phase is not None:
        return digest("phase", raw_digest(event.raw), raw_digest(orjson.dumps(phase)))
    if event.session_id and event.tool_use_id and event.name in (Name.HANDING_OUT, Name.HANDED_BACK):
        return digest("call", event.name, event.session_id, event.tool_use_id)
    return digest("whole", raw_digest(event.raw))


def first_answer(row: HookEvent) -> dict[str, Any] | None:
    """Return the first answer to the event. None where there is none, or where its status is UNKNOWN."""
    if not row.answer or row.status == Status.UNKNOWN:
        return None
    answer: dict[str, Any] = orjson.loads(row.answer)
    return answer


def phase_of(row: HookEvent) -> Phase:
    return hooks_status.read_phase(orjson.loads(row.phase) if row.phase else None)


def keep_answer(row: HookEvent, answer: Mapping[str, Any]) -> None:
    HookEvent.objects.filter(pk=row.pk).update(answer=orjson.dumps(answer).decode(), status=answer["status"])


def keep_handoff(row: HookEvent, handoff: Handoff) -> None:
    if row.handoff != handoff.pk:
        HookEvent.objects.filter(pk=row.pk).update(handoff=handoff.pk)
        row.handoff = handoff.pk


def keep_state(
    row: HookEvent, check: ObjectiveCheck, phase: Phase, status: Status, contrary: Contradiction | None = None
) -> dict[str, Any] | None:
    """Store the validation state of this event once for each status, and return it.

    Returns None where the event has no workflow, and so no URL to read the state at.
    """
    if not row.workflow_id:
        return None
    kept, _ = ValidationState.objects.get_or_create(
        tenant_id=row.tenant_id,
        event=row.pk,
        status=status.value,
        defaults={
            "workflow_id": row.workflow_id,
            "phase_id": row.phase_id,
            "content": orjson.dumps(_build_content(row, check, phase, status, contrary)).decode(),
        },
    )
    content: dict[str, Any] = orjson.loads(kept.content)
    return content


def _build_content(
    row: HookEvent, check: ObjectiveCheck, phase: Phase, status: Status, contrary: Contradiction | None
) -> dict[str, Any]:
    now = utc_text(timezone.now())
    kinds = {rule.rule_id: rule.rule_type.value for rule in phase.rules}
    results = [one.as_plain() | {"rule_type": kinds[one.rule_id]} for one in phase.results if one.rule_id in kinds]
    if check.status in (Status.PASSED, Status.FAILED):
        semantic = {
            "result_id": f"{row.pk}-semantic",
            "rule_id": RULE,
            "rule_type": "semantic",
            "validated_at": now,
            "status": check.status.value.lower(),
            "message": check.message,
            "details": {"validation_type": "semantic", "model": check.model},
        }
        results.insert(0, semantic)
    if contrary:
        outcome = {
            "result_id": f"{row.pk}-outcome",
            "rule_id": OUTCOME,
            "rule_type": "validation",
            "validated_at": now,
            "status": "failed" if contrary.status is Status.FAILED else "skipped",
            "message": contrary.message,
            "details": {"state": contrary.state, "handoff_id": str(row.handoff) if row.handoff else None},
        }
        results.append(outcome)
    executed = {one["rule_id"] for one in results if one["status"] != "skipped"}
    return {
        "workflow_id": row.workflow_id,
        "phase_id": row.phase_id,
        "session_id": row.session_id,
        "validation_status": status.value,
        "persisted_at": now,
        "summary": {"total_rules_executed": len(executed), "results_count": len(results)},
        "rule_results": results,
    }


def find_state(tenant: Tenant, workflow_id: str, phase_id: str) -> dict[str, Any] | None:
    """Return the validation state of the newest event of a phase, None where there is none.

    A verdict that arrived after the answer to its event is added here.
    """
    if "\x00" in workflow_id + phase_id:
        return None
    rows = ValidationState.objects.filter(tenant=tenant, workflow_id=workflow_id, phase_id=phase_id)
    newest = rows.order_by("-event", "-id").first()
    if newest is None:
        return None
    content: dict[str, Any] = orjson.loads(newest.content)
    return (_add_late_verdict(newest) or content) if newest.status == Status.UNKNOWN else content


def _add_late_verdict(row: ValidationState) -> dict[str, Any] | None:
    event = HookEvent.objects.filter(pk=row.event, tenant=row.tenant_id).first()
    if event is None or event.handoff is None:
        return None
    handoff = Handoff.objects.filter(pk=event.handoff, tenant=row.tenant_id).first()
    if handoff is None or handoff.state in WAITING_STATES:
        return None
    phase = phase_of(event)
    check = hooks_status.check_objective(queries.current_verdict(handoff), final=True)
    status = hooks_status.combine(check, phase)
    contrary = hooks_status.find_contradiction(status, handoff.state)
    status = contrary.status if contrary else status
    if status is Status.UNKNOWN:
        return None
    return keep_state(event, check, hooks_status.counting_phase(check, phase), status, contrary)
