"""Remediation records: the recommended actions of each lineage so far, from which the next action follows."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec
from django.utils import timezone

from handoffaudit.handoffs.attempts import lineage_of
from handoffaudit.handoffs.models import Handoff, Remediation
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.validation import remediation
from handoffaudit.validation.config import Mode
from handoffaudit.validation.library.models import RemediationRecord
from handoffaudit.validation.remediation import RemediationLog
from handoffaudit.validation.verdict import Outcome


def load_records(handoffs: Sequence[Handoff]) -> dict[str, RemediationLog]:
    """Return the records of these handoffs by lineage, without first attempts. All handoffs must be of one tenant."""
    lineages = {handoff.lineage for handoff in handoffs if handoff.lineage}
    if not lineages:
        return {}
    found = Remediation.objects.filter(tenant=handoffs[0].tenant_id, lineage__in=lineages)
    return {row.lineage: _load(row) for row in found}


def load_record(handoff: Handoff) -> RemediationLog | None:
    """Return the current record of the handoff's lineage."""
    found = Remediation.objects.filter(tenant=handoff.tenant_id, lineage=lineage_of(handoff)).first()
    return _load(found) if found else None


def _load(row: Remediation) -> RemediationLog:
    return RemediationRecord.model_validate_json(row.content).log()


def _dump(log: RemediationLog) -> str:
    return RemediationRecord.of(log).model_dump_json()


def escalate(handoff: Handoff, reason: str) -> None:
    """Record that a person must look at the lineage, and the reason; call inside a transaction."""
    record = load_record(handoff)
    if record is not None:
        escalated = remediation.escalate(record, reason, timezone.now())
        rows = Remediation.objects.filter(tenant=handoff.tenant_id, lineage=lineage_of(handoff))
        rows.update(content=_dump(escalated))


def settle(judged: Sequence[JudgedHandoff]) -> list[JudgedHandoff]:
    """Return the judged handoffs with their recommended actions up to date.

    Another worker may have judged an attempt of the same lineage meanwhile. The action is then decided again, so that
    every attempt counts. Call inside the transaction that stores the verdicts, before they are stored.
    """
    retries = {(one.handoff.tenant_id, one.handoff.lineage) for one in judged if one.handoff.lineage}
    logs: dict[tuple[int, str], RemediationLog] = {}
    for tenant_id in sorted({tenant_id for tenant_id, _ in retries}):
        lineages = [lineage for tenant, lineage in retries if tenant == tenant_id]
        rows = (
            Remediation.objects.filter(tenant=tenant_id, lineage__in=lineages).select_for_update().order_by("lineage")
        )
        logs |= {(tenant_id, row.lineage): _load(row) for row in rows}
    found = []
    for one in judged:
        place = (one.handoff.tenant_id, one.handoff.lineage)
        found.append(_decide_again(one, logs.get(place)))
        if one.handoff.lineage and found[-1].verdict.remediation:
            logs[place] = found[-1].verdict.remediation
    return found


def _decide_again(judged: JudgedHandoff, log: RemediationLog | None) -> JudgedHandoff:
    """Return the judged handoff with the action that follows from the attempts that are now on record."""
    verdict = judged.verdict
    decided = verdict.remediation
    if log is None or decided is None or decided.actions_taken[:-1] == log.actions_taken:
        return judged
    if verdict.outcome is Outcome.HELD:
        return replace(judged, verdict=msgspec.structs.replace(verdict, remediation=log))
    facts = remediation.facts_of(
        verdict.validation_id,
        verdict.issues,
        accepted=verdict.outcome is Outcome.ACCEPTED,
        enforced=verdict.mode is not Mode.SHADOW,
    )
    action, log = remediation.decide(
        facts, log, policy=judged.policy, now=verdict.validated_at, new_id=lambda: verdict.validation_id
    )
    return replace(judged, verdict=msgspec.structs.replace(verdict, remediation=log, recommended_action=action.value))


def store(judged: Iterable[JudgedHandoff]) -> None:
    """Store the remediation records of the verdicts; call inside the transaction that stores the verdicts.

    A first attempt that was accepted needs no record.
    """
    rows = {
        (one.handoff.tenant_id, lineage_of(one.handoff)): _dump(one.verdict.remediation)
        for one in judged
        if one.verdict.remediation and (one.handoff.lineage or one.verdict.outcome is not Outcome.ACCEPTED)
    }
    # Every worker writes in the same order, so that two workers cannot deadlock.
    Remediation.objects.bulk_create(
        [
            Remediation(tenant_id=tenant, lineage=lineage, content=rows[tenant, lineage])
            for tenant, lineage in sorted(rows)
        ],
        update_conflicts=True,
        unique_fields=["tenant", "lineage"],
        update_fields=["content"],
    )
