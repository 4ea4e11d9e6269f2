"""Rejected handoffs repaired: candidates are made and judged, and stored as new attempts where somebody asked for it.

What arrived is never changed. A candidate that passes takes the place of the attempts before it, like one that its
sender sent; one that does not is kept beside them. After three that do not, a person must look.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.handoffs import attempts, counts, leases, long_poll, notify, remediation, results, transitions
from handoffaudit.handoffs.ingest import store as ingest_store
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, Refusal, prepare, read_record
from handoffaudit.handoffs.llm import client, jobs
from handoffaudit.handoffs.llm.jobs import Job
from handoffaudit.handoffs.models import CheckKind, Handoff, HandoffBody, State
from handoffaudit.handoffs.repair.cases import Case, case_of, case_of_stored, verdict_on_candidate
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import SYSTEM, Actor
from handoffaudit.handoffs.verdicts import PriorContext
from handoffaudit.validation import canonical
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.formats import workflow_of
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.ports import FileStore, LanguageModel
from handoffaudit.validation.prompts.question import Prompt, Use
from handoffaudit.validation.record import Record
from handoffaudit.validation.repair import (
    TRIES,
    Attempt,
    Means,
    Repair,
    RepairStatus,
    budget_of,
    is_left_to_model,
    repair,
    tries_with,
)
from handoffaudit.validation.tokenizers import default_counter
from handoffaudit.validation.verdict import Outcome, Verdict

MOST_OF_A_NAME = 180

CHECKED_LATER = "The model is asked about the candidate once it is stored: so far only the other layers have judged it."


class NotRepairable(Exception):
    """The handoff is in a state in which there is nothing to repair."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What repair came to. `is_for_model`: the rules could not mend it, and a model is to be asked in its own queue;
    then nothing of it is stored yet."""

    case: Case
    result: Repair
    is_for_model: bool = False


def repair_judged(
    handoff: Handoff,
    body: HandoffBody,
    verdict: Verdict,
    before: PriorContext,
    config: ValidationConfig,
    model: LanguageModel | None = None,
) -> list[RepairResult]:
    """The candidates for one that is rejected, where its sender or its type asks for repair. What repair made is not
    repaired again without somebody asking for it. Without a `model`, one that only a model may mend is left to it."""
    asked = handoff.repair or (config.policy_for(handoff.handoff_type).repair and not handoff.repaired)
    if not asked or verdict.outcome is not Outcome.REJECTED:
        return []
    case = case_of(handoff, body, verdict, before, config)
    result = make_candidates(case, model)
    for_model = model is None and client.is_configured() and is_left_to_model(result, handoff.format)
    return [RepairResult(case, result, for_model)]


def repair_stored(*, handoff: Handoff, actor: Actor) -> Repair:
    """Repairs a rejected handoff because somebody asks for it now, and stores what came of it.

    Raises `NotRepairable` where it is not, or no longer, rejected. Candidates are made with no open transaction: they
    can take seconds, for which nobody else should wait.
    """
    if handoff.state != State.REJECTED:
        raise NotRepairable(f"This handoff is {handoff.state}; only rejected ones can be repaired.")
    case = case_of_stored(handoff)
    result = make_candidates(case)
    with transaction.atomic():
        attempts.lock([handoff])
        now = Handoff.objects.only("state", "version").get(pk=handoff.pk, tenant=handoff.tenant_id)
        if (now.state, now.version) != (State.REJECTED, handoff.version):
            raise NotRepairable(f"This handoff changed while it was repaired; it is {now.state} now.")
        counts.apply(store([RepairResult(case, result)], actor))
    return result


def repair_due(due: Job) -> bool:
    """Repairs a rejected handoff in the queue of the model, and stores what came of it; False where the claim no longer
    stands, or the handoff changed meanwhile."""
    handoff = due.handoff
    found = []
    if handoff.state == State.REJECTED:
        case = replace(case_of_stored(handoff), model=None)
        found.append(RepairResult(case, make_candidates(case, client.model_for(handoff.tenant_id, handoff.pk))))
    with transaction.atomic():
        attempts.lock([handoff])
        if not jobs.lock_if_held(due):
            return False
        now = Handoff.objects.only("state", "version").get(pk=handoff.pk, tenant=handoff.tenant_id)
        stands = bool(found) and (now.state, now.version) == (State.REJECTED, handoff.version)
        deltas = store(found) if stands else Counter()
        jobs.finish(due)
        counts.apply(deltas)
    long_poll.announce([handoff.pk])
    return stands


def make_candidates(case: Case, model: LanguageModel | None = None, files: FileStore | None = None) -> Repair:
    """What repair comes to; nothing is stored. `model` mends what no rule can, and judges what comes of it, at once:
    call it with one only where a minute may pass. Without it the case's own model is asked, if it has one. `files`
    takes the session of a document that is compressed; without it the session is dropped."""
    reading = read_record(case.submission)
    record = reading.record
    before = PriorContext(case.before.history, case.verdict.remediation)
    policy = case.config.policy_for(case.handoff.handoff_type)
    means = Means(
        budget=budget_of(policy, default_counter(), case.handoff.format),
        now=timezone.now(),
        new_id=lambda: str(uuid4()),
        known={("tenant_id",): case.tenant.slug},
        store=files,
    )

    def judge(document: Document) -> Verdict:
        arrival = _prepare_candidate(case, document)
        return verdict_on_candidate(case, arrival, before, model) if arrival else case.verdict

    author = model or case.model
    tries = tries_with(author, _prompt(case, record)) if author and record else TRIES
    document = record.document if record else None
    result = repair(document, case.verdict, reading.format, judge=judge, means=means, tries=tries)
    if result.repaired and result.repaired.verdict.pending:
        return replace(result, why=CHECKED_LATER)
    return result


def _prompt(case: Case, record: Record) -> Prompt | None:
    """A prompt of users in place of the one that is shipped."""
    return case.config.demands_for(case.handoff.handoff_type, workflow_of(record)).prompts.get(Use.REPAIR)


def _prepare_candidate(case: Case, document: Document) -> PreparedHandoff | None:
    """The candidate as if it had been sent as the next attempt; None where it would be refused, as too large."""
    envelope = replace(case.submission.envelope, retry_of=case.handoff.handoff_id, adapt=False)
    sent = replace(case.submission, document=canonical.compact(document), envelope=envelope)
    arrival = prepare(case.handoff.tenant_id, case.tenant.slug, sent, timezone.now())
    if isinstance(arrival, Refusal):
        return None
    arrival.handoff.repaired = True
    return arrival


def store(repaired: Sequence[RepairResult], actor: Actor = SYSTEM) -> counts.Deltas:
    """Stores the candidates as attempts; call inside a transaction, after the verdicts on what they were made from.
    The caller applies the counts."""
    deltas: counts.Deltas = Counter()
    for one in repaired:
        if one.is_for_model:
            jobs.enqueue([one.case.handoff], CheckKind.REPAIR)
            transaction.on_commit(partial(notify.notify_llm_workers, 1))
            continue
        for attempt in _drop_empty_tries(one.result):
            deltas.update(_store_attempt(one.case, one.result, attempt, actor))
        if one.result.status is RepairStatus.ESCALATED:
            remediation.escalate(one.case.handoff, "repair_failed")
            # Of two who ask at once, the second is told.
            Handoff.objects.filter(pk=one.case.handoff.pk).update(escalated=True, version=F("version") + 1)
    return deltas


def _drop_empty_tries(result: Repair) -> list[Attempt]:
    """The candidates, without those of tries that found nothing to do."""
    return [attempt for attempt in result.attempts if not attempt.is_idle]


def _store_attempt(case: Case, result: Repair, attempt: Attempt, actor: Actor) -> counts.Deltas:
    arrival = _prepare_candidate(case, attempt.document)
    if arrival is None:
        return Counter()
    attempts.number([arrival])
    _name(arrival)
    ingest_store.insert_handoffs([arrival], actor, f"repair, try {attempt.number}: {attempt.name}")
    if attempt.verdict.pending and attempt is result.repaired:
        # The model is to be asked yet: its final verdict comes as that of any submission does.
        transaction.on_commit(notify.notify_workers)
        return attempts.supersede([arrival], actor)
    leases.record_start([arrival.handoff.as_model()])
    handoff = arrival.handoff.as_model()
    verdict = replace(attempt.verdict, handoff_id=handoff.handoff_id)
    judged = JudgedHandoff(handoff, State.VALIDATING, verdict, case.config.policy_for(handoff.handoff_type))
    deltas = results.store([judged])
    if attempt is result.repaired:
        remediation.store([judged])
        deltas.update(attempts.supersede([arrival], actor))
    else:
        stored = Handoff.objects.get(pk=handoff.pk)
        reason = f"try {attempt.number} of repair did not pass"
        deltas.update(transitions.change_state_uncounted(stored, State.SUPERSEDED, actor, reason))
    return deltas


def _name(arrival: PreparedHandoff) -> None:
    """A candidate's id is its lineage's with the number of the attempt, unless a sender uses that already."""
    handoff = arrival.handoff
    name = f"{handoff.lineage[:MOST_OF_A_NAME]}~{handoff.attempt}"
    taken = Handoff.objects.filter(tenant=handoff.tenant_id, handoff_id=name).exists()
    handoff.handoff_id = str(handoff.id) if taken else name
