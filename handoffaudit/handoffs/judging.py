"""Claimed rows through the pipeline and back. No transaction is open while the layers run."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.handoffs import attempts, claims, counts, lineage, listening, outcomes, remedies
from handoffaudit.handoffs.claims import Claim
from handoffaudit.handoffs.models import Handoff, HandoffBody, State, new_id
from handoffaudit.handoffs.outcomes import Judged
from handoffaudit.handoffs.rows import reading_of
from handoffaudit.handoffs.unread import verdict_of_unread
from handoffaudit.policy import load
from handoffaudit.validation import pipeline
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.counting import default_counter
from handoffaudit.validation.layers.base import History, Subject
from handoffaudit.validation.record import Record
from handoffaudit.validation.remediation import RemediationRecord
from handoffaudit.validation.verdict import Verdict

log = structlog.get_logger(__name__)

PART_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Before:
    """What is known of a handoff's past: its trace, and the attempts before it."""

    history: History
    remediation: RemediationRecord | None = None


def drain() -> int:
    """Judges until nothing waits; how many verdicts were stored."""
    stored = 0
    # What failed before takes its turn between fresh ones, so that a stream of these can't keep it waiting.
    while found := [claim for claim in (claims.fresh(settings.CLAIM_SIZE), claims.left_behind()) if claim]:
        stored += sum(judge(claim) for claim in found)
    return stored


def judge(claim: Claim) -> int:
    """Judges what a claim holds and stores it where the claim still stands; how many were stored."""
    return sum(_judge(Claim(claim.token, part)) for part in _parts(claim.handoffs))


def _parts(handoffs: list[Handoff]) -> Iterator[list[Handoff]]:
    """So many at a time that their documents fit into memory together."""
    part: list[Handoff] = []
    size = 0
    for handoff in handoffs:
        if part and size + handoff.size_bytes > PART_BYTES:
            yield part
            part, size = [], 0
        part.append(handoff)
        size += handoff.size_bytes
    if part:
        yield part


def _judge(claim: Claim) -> int:
    bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in claim.handoffs])
    judged: list[Judged] = []
    for tenant_id, group in groupby(sorted(claim.handoffs, key=lambda row: row.tenant_id), lambda row: row.tenant_id):
        handoffs = sorted(group, key=lambda row: row.pk)
        config = load.load(tenant_id)
        histories = lineage.histories(handoffs)
        records = remedies.of_lineages(handoffs)
        for handoff in handoffs:
            # One that breaks the pipeline is our bug. It must not take the others of its claim along.
            try:
                before = Before(histories[handoff.pk], records.get(attempts.lineage_of(handoff)))
                verdict = verdict_on(handoff, bodies[handoff.pk], before, config)
            except Exception:
                log.exception("a handoff could not be judged", handoff=str(handoff.pk), tries=handoff.tries)
                claims.release(claim, handoff)
                continue
            if verdict.remediation:
                records[attempts.lineage_of(handoff)] = verdict.remediation
            judged.append(Judged(handoff, State.VALIDATING, verdict, config.policy_for(handoff.handoff_type)))
    return _store(claim, judged)


def _store(claim: Claim, judged: list[Judged]) -> int:
    with transaction.atomic():
        held = claims.still_held(claim)
        stored = [one for one in judged if one.handoff.pk in held]
        deltas = outcomes.store(stored)
        remedies.store(stored)
        deltas.update(attempts.supersede_overtaken(one.handoff for one in stored))
        counts.apply(deltas)
    listening.announce(one.handoff.pk for one in stored)
    return len(stored)


def verdict_on(handoff: Handoff, body: HandoffBody, before: Before, config: ValidationConfig) -> Verdict:
    """What the pipeline says of one stored handoff."""
    reading = reading_of(handoff, body)
    if reading.record is None:
        return verdict_of_unread(handoff, reading.issues)
    handoff.user_approved = reading.record.user_approved
    return verdict_of(reading.record, handoff, before, config)


def verdict_of(record: Record, handoff: Handoff, before: Before, config: ValidationConfig) -> Verdict:
    """The same of a record, be it stored or not."""
    subject = Subject(
        record=record,
        policy=config.policy_for(handoff.handoff_type),
        history=before.history,
        received_at=handoff.received_at,
        counter=default_counter(),
        policy_version=config.version,
        policy_versions=config.versions,
        demands=config.demands_for(handoff.handoff_type),
        remediation=before.remediation,
    )
    verdict = pipeline.run(subject, validation_id=str(new_id()), now=timezone.now, monotonic=time.perf_counter)
    return replace(verdict, handoff_id=handoff.handoff_id)
