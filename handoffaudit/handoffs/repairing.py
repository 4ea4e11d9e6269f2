"""Rejected handoffs repaired: candidates are made and judged, and stored as new attempts where somebody asked for it.

What arrived is never changed. A candidate that passes takes the place of the attempts before it, like one that its
sender sent; one that does not is kept beside them. After three that do not, a person must look.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import (
    arriving,
    attempts,
    changing,
    claims,
    counts,
    lineage,
    outcomes,
    previewing,
    remedies,
)
from handoffaudit.handoffs.actors import SYSTEM, Actor
from handoffaudit.handoffs.arrivals import Arrival, Refusal, prepare, read
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.outcomes import Judged
from handoffaudit.handoffs.rows import envelope_of
from handoffaudit.handoffs.submission import Submission
from handoffaudit.handoffs.verdicts import Before, verdict_of_arrival, verdict_on
from handoffaudit.policy import load
from handoffaudit.validation import canonical
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.counting import default_counter
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.repair import Attempt, Means, Repair, RepairStatus, budget_of, repair
from handoffaudit.validation.verdict import Verdict

MOST_OF_A_NAME = 180


@dataclass(frozen=True, slots=True)
class Case:
    """A handoff to be repaired: what was sent, the verdict on it, what was known before it and what is demanded."""

    tenant: Tenant
    handoff: Handoff
    submission: Submission
    verdict: Verdict
    before: Before
    config: ValidationConfig


class NotRepairable(Exception):
    """The handoff is in a state in which there is nothing to repair."""


@dataclass(frozen=True, slots=True)
class Repaired:
    case: Case
    result: Repair


def case_of(handoff: Handoff, body: HandoffBody, verdict: Verdict, before: Before, config: ValidationConfig) -> Case:
    submission = Submission(
        document=bytes(body.original),
        format=handoff.format or None,
        context=_bytes(body.context),
        evidence=_bytes(body.evidence),
        envelope=envelope_of(handoff, body),
    )
    return Case(handoff.tenant, handoff, submission, verdict, before, config)


def case_of_stored(handoff: Handoff) -> Case:
    """A stored handoff judged anew, by what is in force now."""
    config = load.load(handoff.tenant_id)
    body = HandoffBody.objects.get(pk=handoff.pk)
    before = Before(lineage.histories([handoff])[handoff.pk], remedies.of(handoff))
    return case_of(handoff, body, verdict_on(handoff, body, before, config), before, config)


def case_of_sent(tenant: Tenant, submission: Submission) -> Case | Refusal:
    """A submission that is not stored."""
    found = previewing.preview(tenant, submission)
    if isinstance(found, Refusal):
        return found
    return Case(tenant, found.handoff, submission, found.verdict, found.before, found.config)


def repair_stored(*, handoff: Handoff, actor: Actor) -> Repair:
    """Repairs a rejected handoff because somebody asks for it now, and stores what came of it.

    Raises `NotRepairable` where it is not, or no longer, rejected. Candidates are made with no open transaction: they
    can take seconds, for which nobody else should wait.
    """
    if handoff.state != State.REJECTED:
        raise NotRepairable(f"This handoff is {handoff.state}; only rejected ones can be repaired.")
    case = case_of_stored(handoff)
    result = candidates(case)
    with transaction.atomic():
        attempts.lock([handoff])
        now = Handoff.objects.only("state", "version").get(pk=handoff.pk, tenant=handoff.tenant_id)
        if (now.state, now.version) != (State.REJECTED, handoff.version):
            raise NotRepairable(f"This handoff changed while it was repaired; it is {now.state} now.")
        counts.apply(store([Repaired(case, result)], actor))
    return result


def candidates(case: Case) -> Repair:
    """What repair comes to; nothing is stored."""
    reading = read(case.submission)
    record = reading.record
    before = Before(case.before.history, case.verdict.remediation)
    policy = case.config.policy_for(case.handoff.handoff_type)
    means = Means(
        budget=budget_of(policy, default_counter()),
        now=timezone.now(),
        new_id=lambda: str(uuid4()),
        known={("tenant_id",): case.tenant.slug},
    )

    def judge(document: Document) -> Verdict:
        arrival = _arrival(case, document)
        return verdict_of_arrival(arrival, before, case.config) if arrival else case.verdict

    return repair(record.document if record else None, case.verdict, reading.format, judge=judge, means=means)


def _arrival(case: Case, document: Document) -> Arrival | None:
    """The candidate as if it had been sent as the next attempt; None where it would be refused, as too large."""
    envelope = replace(case.submission.envelope, retry_of=case.handoff.handoff_id, adapt=False)
    sent = replace(case.submission, document=canonical.compact(document), envelope=envelope)
    arrival = prepare(case.handoff.tenant_id, case.tenant.slug, sent, timezone.now())
    if isinstance(arrival, Refusal):
        return None
    arrival.handoff.repaired = True
    return arrival


def store(repaired: Sequence[Repaired], actor: Actor = SYSTEM) -> counts.Deltas:
    """Stores the candidates as attempts; call inside a transaction, after the verdicts on what they were made from.
    The caller applies the counts."""
    deltas: counts.Deltas = Counter()
    for one in repaired:
        for attempt in _distinct(one.result):
            deltas.update(_store_attempt(one.case, one.result, attempt, actor))
        if one.result.status is RepairStatus.ESCALATED:
            remedies.escalate(one.case.handoff, "repair_failed")
            # Of two who ask at once, the second is told.
            Handoff.objects.filter(pk=one.case.handoff.pk).update(escalated=True, version=F("version") + 1)
    return deltas


def _distinct(result: Repair) -> list[Attempt]:
    """The candidates, without those of tries that found nothing to do."""
    return [attempt for attempt in result.attempts if not attempt.note]


def _store_attempt(case: Case, result: Repair, attempt: Attempt, actor: Actor) -> counts.Deltas:
    arrival = _arrival(case, attempt.document)
    if arrival is None:
        return Counter()
    attempts.number([arrival])
    _name(arrival)
    arriving.insert([arrival], actor, f"repair, try {attempt.number}: {attempt.name}")
    claims.taken([arrival.handoff.as_model()])
    handoff = arrival.handoff.as_model()
    verdict = replace(attempt.verdict, handoff_id=handoff.handoff_id)
    judged = Judged(handoff, State.VALIDATING, verdict, case.config.policy_for(handoff.handoff_type))
    deltas = outcomes.store([judged])
    if attempt is result.repaired:
        remedies.store([judged])
        deltas.update(attempts.supersede([arrival], actor))
    else:
        stored = Handoff.objects.get(pk=handoff.pk)
        reason = f"try {attempt.number} of repair did not pass"
        deltas.update(changing.move(stored, State.SUPERSEDED, actor, reason))
    return deltas


def _name(arrival: Arrival) -> None:
    """A candidate's id is its lineage's with the number of the attempt, unless a sender uses that already."""
    handoff = arrival.handoff
    name = f"{handoff.lineage[:MOST_OF_A_NAME]}~{handoff.attempt}"
    taken = Handoff.objects.filter(tenant=handoff.tenant_id, handoff_id=name).exists()
    handoff.handoff_id = str(handoff.id) if taken else name


def _bytes(raw: object) -> bytes | None:
    return None if raw is None else bytes(raw)  # type: ignore[call-overload]
