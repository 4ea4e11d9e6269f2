"""The checks that ask the model, made in a queue of their own: slow answers never hold up structural verdicts.

The whole pipeline runs again, now with the model; no transaction is open and no connection is held while it is asked.
An answer is kept the moment it comes (`asking`), so a worker that dies pays nothing twice.
"""

import threading

import structlog
from django.db import transaction

from handoffaudit.handoffs import (
    asking,
    attempts,
    checks,
    counts,
    lineage,
    listening,
    outcomes,
    rechecking,
    remedies,
    repairing,
)
from handoffaudit.handoffs.checks import Due
from handoffaudit.handoffs.models import CheckKind, HandoffBody, State
from handoffaudit.handoffs.outcomes import Judged
from handoffaudit.handoffs.repairing import Repaired
from handoffaudit.handoffs.verdicts import Before, verdict_on
from handoffaudit.handoffs.worker_lock import WorkerLock
from handoffaudit.policy import load

log = structlog.get_logger(__name__)


# The process is about to end: what it has begun it ends, and takes nothing more.
ending = threading.Event()
_lock = WorkerLock()


def drain() -> int:
    """Makes checks until none waits; how many were stored."""
    stored = 0
    while not ending.is_set():
        with _lock.shared():
            due = checks.take()
            stored += _make(due) if due else 0
        left_behind = None
        if checks.is_any_left_behind():
            with _lock.alone():
                left_behind = checks.take_left_behind()
                stored += _make(left_behind) if left_behind else 0
        if not due and not left_behind:
            break
    return stored


def _make(due: Due) -> bool:
    # One that breaks the pipeline is our bug. It must not take the others along.
    try:
        was_stored = check(due)
    except Exception:
        log.exception("a handoff could not be checked by the model", handoff=str(due.handoff.pk))
        checks.release(due)
        return False
    if was_stored and due.kind == CheckKind.RECHECK:
        # It answers again: what waits for that does not wait for a sweep each time.
        rechecking.queue_waiting()
    return was_stored


def check(due: Due) -> bool:
    """Makes one check and stores it where the claim still stands; False where it does not."""
    if due.kind == CheckKind.REPAIR:
        return repairing.repair_due(due)
    handoff = due.handoff
    body = HandoffBody.objects.get(pk=handoff.pk)
    config = load.load(handoff.tenant_id)
    before = Before(lineage.histories([handoff])[handoff.pk], remedies.of_lineages([handoff]).get(handoff.lineage))
    model = asking.model_for(handoff.tenant_id, handoff.pk)
    verdict = verdict_on(handoff, body, before, config, model=model)
    judged = Judged(handoff, State.VALIDATING, verdict, config.policy_for(handoff.handoff_type))
    # What was let through is not repaired afterwards.
    decides = due.kind == CheckKind.FIRST or handoff.state == State.HELD
    repaired = repairing.repaired(handoff, body, verdict, before, config, model) if decides else []
    if due.kind == CheckKind.RECHECK:
        return rechecking.store(due, judged, repaired)
    return _store(due, judged, repaired)


def _store(due: Due, judged: Judged, repaired: list[Repaired]) -> bool:
    with transaction.atomic():
        attempts.lock([due.handoff])
        if not checks.still_held(due):
            return False
        stored = remedies.settled([judged])
        deltas = outcomes.store(stored)
        remedies.store(stored)
        deltas.update(repairing.store(repaired))
        deltas.update(attempts.supersede_overtaken([due.handoff]))
        checks.done(due)
        counts.apply(deltas)
    listening.announce([due.handoff.pk])
    return True
