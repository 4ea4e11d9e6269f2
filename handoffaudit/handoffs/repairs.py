"""Repair of rejected handoffs: making candidates, judging them, and storing them as new attempts.

The original submission never changes. A candidate that passes supersedes the earlier attempts, as a retry of the sender
does. A candidate that fails is stored as a superseded attempt. If all three tries fail, a person must look at the
handoff.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import uuid4

import msgspec
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from handoffaudit.handoffs import attempts, counts, long_poll, notify, results, transitions
from handoffaudit.handoffs.ingest import store as ingest_store
from handoffaudit.handoffs.ingest.prepare import PreparedHandoff, Receipt, prepare, read_record
from handoffaudit.handoffs.llm import client, jobs
from handoffaudit.handoffs.llm.jobs import Job
from handoffaudit.handoffs.models import CheckKind, Event, Handoff, HandoffBody, State
from handoffaudit.handoffs.repair_cases import Case, case_of, case_of_stored, verdict_on_candidate
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import SYSTEM, Actor
from handoffaudit.handoffs.verdicts import PriorContext
from handoffaudit.validation import json_text
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.formats import workflow_of
from handoffaudit.validation.formats.base import Document
from handoffaudit.validation.layers.base import FileStore, LanguageModel
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

# The reason of an attempt begins with this text if the first try of a repair, "defaults and hints", made the attempt.
FIRST_TRY = "repair, try 1:"

CHECKED_LATER = "The LLM checks the candidate after it is stored. So far, only the other layers have judged it."


class NotRepairable(Exception):
    """The error for a handoff in a state that repair does not accept."""


@dataclass(frozen=True, slots=True)
class RepairResult:
    """The result of a repair.

    If `is_for_model` is True, the rules could not repair the handoff: the handoff goes to the LLM queue, and no
    candidate is stored.
    """

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
    """Return the repair of a rejected handoff if its sender or its type asks for repair, else an empty list.

    A repaired handoff is repaired again only if its sender asks. Without `model`, a handoff that only an LLM can repair
    is left for the LLM queue.
    """
    wants_repair = handoff.repair or (config.policy_for(handoff.handoff_type).repair and not handoff.repaired)
    if not wants_repair or verdict.outcome is not Outcome.REJECTED:
        return []
    case = case_of(handoff, body, verdict, before, config)
    result = make_candidates(case, model)
    for_model = model is None and client.is_configured() and is_left_to_model(result, handoff.format)
    return [RepairResult(case, result, for_model)]


def repair_stored(*, handoff: Handoff, actor: Actor) -> Repair:
    """Repair a rejected handoff on request, and store the result.

    Raise `NotRepairable` if the handoff is not rejected, or changes meanwhile. Making candidates takes seconds, so no
    transaction is open meanwhile, and nobody else has to wait.
    """
    if handoff.state != State.REJECTED:
        raise NotRepairable(f"This handoff is {handoff.state}; only rejected handoffs can be repaired.")
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
    """Repair a rejected handoff from the LLM queue, and store the result.

    Return whether a result was stored. No result is stored if the handoff is not rejected, if the handoff changed
    meanwhile, or if the lease was lost.
    """
    handoff = due.handoff
    found = []
    if handoff.state == State.REJECTED:
        case = replace(case_of_stored(handoff), model=None)
        found.append(RepairResult(case, make_candidates(case, client.model_for(handoff.tenant_id, handoff.pk))))
    with transaction.atomic():
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
    """Make and judge the candidates of a case, and store nothing.

    `model` repairs findings that the rules cannot repair, and judges the candidates immediately. Pass `model` only if
    the caller can wait for a minute. Without `model`, the LLM of the case is asked, if the case has one. `files` stores
    the session context that compression takes out of a document; without `files`, the session context is dropped.
    """
    reading = read_record(case.submission)
    record = reading.record
    before = replace(case.before, remediation=case.verdict.remediation)
    policy = case.config.policy_for(case.handoff.handoff_type)
    means = Means(
        budget=budget_of(policy, default_counter(), case.handoff.format),
        now=timezone.now(),
        new_id=lambda: str(uuid4()),
        known={("tenant_id",): case.tenant.slug},
        store=files,
    )

    def judge(document: Document) -> Verdict:
        prepared = _prepare_candidate(case, document)
        return verdict_on_candidate(case, prepared, before, model) if prepared else case.verdict

    author = model or case.model
    tries = tries_with(author, _find_prompt(case, record)) if author and record else TRIES
    document = record.document if record else None
    sent = case.submission.document
    result = repair(document, case.verdict, reading.format, judge=judge, means=means, tries=tries, sent=sent)
    if result.repaired and result.repaired.verdict.pending:
        return replace(result, why=CHECKED_LATER)
    return result


def _find_prompt(case: Case, record: Record) -> Prompt | None:
    """Return the repair prompt of the tenant, or None for the default prompt."""
    return case.config.demands_for(case.handoff.handoff_type, workflow_of(record)).prompts.get(Use.REPAIR)


def _prepare_candidate(case: Case, document: Document) -> PreparedHandoff | None:
    """Return the candidate, prepared like a retry by the sender, or None if the candidate is too large to accept."""
    envelope = msgspec.structs.replace(case.submission.envelope, retry_of=case.handoff.handoff_id, adapt=False)
    sent = msgspec.structs.replace(case.submission, document=json_text.compact(document), envelope=envelope)
    prepared = prepare(case.handoff.tenant_id, case.tenant.slug, sent, timezone.now())
    if isinstance(prepared, Receipt):
        return None
    prepared.repaired = True
    return prepared


def store(repaired: Sequence[RepairResult], actor: Actor = SYSTEM) -> counts.Deltas:
    """Store the candidates as attempts, and return the changes of the counts.

    Put handoffs that are left for the LLM into its queue, and escalate handoffs whose repair failed. Call inside a
    transaction, after the verdicts on the original handoffs are stored. The caller applies the counts.
    """
    deltas: counts.Deltas = Counter()
    for one in repaired:
        # An approval of the same document may have been carried over to the handoff.
        if not Handoff.objects.filter(pk=one.case.handoff.pk, state=State.REJECTED).exists():
            continue
        if one.is_for_model:
            jobs.enqueue([one.case.handoff], CheckKind.REPAIR)
            transaction.on_commit(partial(notify.notify_llm_workers, 1))
            continue
        for attempt in _drop_empty_tries(one.result):
            deltas.update(_store_attempt(one.case, one.result, attempt, actor))
        if one.result.status is RepairStatus.ESCALATED:
            attempts.escalate(one.case.handoff, "repair_failed")
            # The new version makes the second of two concurrent requests fail.
            Handoff.objects.filter(pk=one.case.handoff.pk).update(escalated=True, version=F("version") + 1)
    return deltas


def is_harmless(original: Handoff, repaired: Handoff) -> bool:
    """Return whether defaults and hints alone repaired a handoff, and its data stayed as it was."""
    is_same = bool(original.data_hash) and original.data_hash == repaired.data_hash
    if not (repaired.repaired and repaired.state == State.ACCEPTED and is_same):
        return False
    first = Event.objects.filter(handoff=repaired.pk, from_state="").values_list("reason", flat=True).first()
    return (first or "").startswith(FIRST_TRY)


def _drop_empty_tries(result: Repair) -> list[Attempt]:
    """Return the candidates, without tries that changed nothing."""
    return [attempt for attempt in result.attempts if not attempt.is_idle]


def _store_attempt(case: Case, result: Repair, attempt: Attempt, actor: Actor) -> counts.Deltas:
    prepared = _prepare_candidate(case, attempt.document)
    if prepared is None:
        return Counter()
    attempts.number([prepared])
    _insert(prepared, actor, f"repair, try {attempt.number}: {attempt.name}")
    if attempt.verdict.pending and attempt is result.repaired:
        # The LLM has not judged the candidate yet. The final verdict follows later, as for any submission.
        transaction.on_commit(notify.notify_workers)
        return attempts.supersede([prepared], actor)
    handoff = prepared.as_model()
    verdict = msgspec.structs.replace(attempt.verdict, handoff_id=handoff.handoff_id)
    policy = case.config.policy_for(handoff.handoff_type)
    judged = JudgedHandoff(handoff, State.VALIDATING, verdict, policy, began_at=timezone.now())
    deltas = results.store([judged])
    if attempt is result.repaired:
        attempts.store_records([judged])
        deltas.update(attempts.supersede([prepared], actor))
    else:
        stored = Handoff.objects.get(pk=handoff.pk)
        reason = f"try {attempt.number} of repair did not pass"
        deltas.update(transitions.change_state_uncounted(stored, State.SUPERSEDED, actor, reason))
    return deltas


def _insert(handoff: PreparedHandoff, actor: Actor, reason: str) -> None:
    """Insert a candidate. Its `handoff_id` is its lineage with the attempt number, or a UUID if that id is taken."""
    handoff.handoff_id = f"{handoff.lineage[:MOST_OF_A_NAME]}~{handoff.attempt}"
    try:
        # A sender can take the id at any time, so only the insert shows whether the id is free.
        with transaction.atomic():
            ingest_store.insert_handoffs([handoff], actor, reason)
    except IntegrityError:
        handoff.handoff_id = str(handoff.id)
        ingest_store.insert_handoffs([handoff], actor, reason)
