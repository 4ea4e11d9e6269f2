"""Claimed rows through the pipeline and back. No transaction is open while the layers run."""

import time
from itertools import groupby

import structlog
from django.conf import settings
from django.db import transaction

from handoffaudit.handoffs import (
    asking,
    attempts,
    checks,
    claims,
    counts,
    lineage,
    listening,
    outcomes,
    remedies,
    repairing,
    waking,
)
from handoffaudit.handoffs.claims import Claim
from handoffaudit.handoffs.models import CheckKind, HandoffBody, State
from handoffaudit.handoffs.outcomes import Judged
from handoffaudit.handoffs.parts import parts
from handoffaudit.handoffs.repairing import Repaired
from handoffaudit.handoffs.verdicts import ASK_LATER, Before, verdict_on
from handoffaudit.handoffs.worker_lock import WorkerLock
from handoffaudit.policy import load

log = structlog.get_logger(__name__)


_lock = WorkerLock()


def drain() -> int:
    """Judges until nothing waits; how many verdicts were stored."""
    stored = 0
    # What failed before takes its turn between fresh ones, so that a stream of these can't keep it waiting.
    while True:
        with _lock.shared():
            fresh = claims.fresh(settings.CLAIM_SIZE)
            stored += judge(fresh) if fresh else 0
        left_behind = None
        if claims.is_any_left_behind():
            with _lock.alone():
                left_behind = claims.left_behind()
                stored += judge(left_behind) if left_behind else 0
        if not fresh and not left_behind:
            return stored


def judge(claim: Claim) -> int:
    """Judges what a claim holds and stores it where the claim still stands; how many were stored."""
    stored = 0
    renewed = time.monotonic()
    for part in parts(claim.handoffs):
        if time.monotonic() - renewed > settings.CLAIM_SECONDS / 3:
            # Else others would judge the rest of a claim of slow ones, too.
            claims.renew(claim)
            renewed = time.monotonic()
        stored += _judge(Claim(claim.token, part, claim.alone))
    return stored


def _judge(claim: Claim) -> int:
    bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in claim.handoffs])
    judged: list[Judged] = []
    # Without a key nothing is asked later either, and the verdict says so at once.
    later = asking.configured()
    repaired: list[Repaired] = []
    for tenant_id, group in groupby(sorted(claim.handoffs, key=lambda row: row.tenant_id), lambda row: row.tenant_id):
        handoffs = sorted(group, key=lambda row: row.pk)
        config = load.load(tenant_id)
        histories = lineage.histories(handoffs)
        records = remedies.of_lineages(handoffs)
        model = ASK_LATER if later else asking.model_for(tenant_id, None)
        for handoff in handoffs:
            name = attempts.lineage_of(handoff)
            before = Before(histories[handoff.pk], records.get(name))
            # One that breaks the pipeline is our bug. It must not take the others of its claim along.
            try:
                verdict = verdict_on(handoff, bodies[handoff.pk], before, config, model=model)
                if not verdict.pending:
                    repaired += repairing.repaired(handoff, bodies[handoff.pk], verdict, before, config)
            except Exception:
                log.exception("a handoff could not be judged", handoff=str(handoff.pk), tries=handoff.tries)
                claims.release(claim, handoff)
                continue
            if verdict.remediation:
                records[name] = verdict.remediation
            judged.append(Judged(handoff, State.VALIDATING, verdict, config.policy_for(handoff.handoff_type)))
    return _store(claim, judged, repaired)


def _store(claim: Claim, judged: list[Judged], repaired: list[Repaired]) -> int:
    with transaction.atomic():
        held = claims.still_held(claim)
        pending = [one for one in judged if one.verdict.pending and one.handoff.pk in held]
        outcomes.store_pending(pending)
        checks.put([one.handoff for one in pending], CheckKind.FIRST)
        stored = remedies.settled([one for one in judged if not one.verdict.pending and one.handoff.pk in held])
        deltas = outcomes.store(stored)
        remedies.store(stored)
        deltas.update(repairing.store([one for one in repaired if one.case.handoff.pk in held]))
        deltas.update(attempts.supersede_overtaken(one.handoff for one in stored))
        counts.apply(deltas)
    listening.announce(one.handoff.pk for one in (*stored, *pending))
    waking.wake_checks(len(pending))
    return len(stored) + len(pending)
