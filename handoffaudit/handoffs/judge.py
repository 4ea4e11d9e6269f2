"""The judging of leased handoffs. No transaction is open while the validation layers run."""

import time
from itertools import groupby

import structlog
from django.conf import settings
from django.db import transaction

from handoffaudit.handoffs import attempts, counts, leases, lineage, long_poll, notify, remediation, results
from handoffaudit.handoffs.leases import Lease, WorkerLock
from handoffaudit.handoffs.llm import client, jobs
from handoffaudit.handoffs.models import CheckKind, HandoffBody, State
from handoffaudit.handoffs.repair import run
from handoffaudit.handoffs.repair.run import RepairResult
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.verdicts import ASK_LATER, PriorContext, chunk_by_size, verdict_on_stored
from handoffaudit.policy import load

log = structlog.get_logger(__name__)

_lock = WorkerLock()


def drain() -> int:
    """Judge handoffs until none waits; return how many verdicts were stored."""
    stored = 0
    # Handoffs that failed before take turns with fresh ones, so that a stream of fresh ones cannot starve them.
    while True:
        with _lock.shared():
            fresh = leases.take_fresh(settings.CLAIM_SIZE)
            stored += judge(fresh) if fresh else 0
        left_behind = None
        if leases.is_any_left_behind():
            with _lock.alone():
                left_behind = leases.take_left_behind()
                stored += judge(left_behind) if left_behind else 0
        if not fresh and not left_behind:
            return stored


def judge(claim: Lease) -> int:
    """Judge the handoffs of a lease and store the verdicts of those still leased; return how many were stored."""
    stored = 0
    renewed = time.monotonic()
    for part in chunk_by_size(claim.handoffs):
        if time.monotonic() - renewed > settings.CLAIM_SECONDS / 3:
            # Renew the lease, or another worker would also judge the rest of a slow batch.
            leases.renew(claim)
            renewed = time.monotonic()
        stored += _judge(Lease(claim.token, part, claim.alone))
    return stored


def _judge(claim: Lease) -> int:
    bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in claim.handoffs])
    judged: list[JudgedHandoff] = []
    # Without an LLM key there is no later check, and the verdict says so at once.
    later = client.is_configured()
    repaired: list[RepairResult] = []
    for tenant_id, group in groupby(sorted(claim.handoffs, key=lambda row: row.tenant_id), lambda row: row.tenant_id):
        handoffs = sorted(group, key=lambda row: row.pk)
        config = load.load(tenant_id)
        histories = lineage.load_histories(handoffs)
        records = remediation.load_records(handoffs)
        model = ASK_LATER if later else client.model_for(tenant_id, None)
        for handoff in handoffs:
            name = attempts.lineage_of(handoff)
            before = PriorContext(histories[handoff.pk], records.get(name))
            # An exception here is a bug of this product. It must not affect the other handoffs of the lease.
            try:
                verdict = verdict_on_stored(handoff, bodies[handoff.pk], before, config, model=model)
                if not verdict.pending:
                    repaired += run.repair_judged(handoff, bodies[handoff.pk], verdict, before, config)
            except Exception:
                log.exception("a handoff could not be judged", handoff=str(handoff.pk), tries=handoff.tries)
                leases.release(claim, handoff)
                continue
            if verdict.remediation:
                records[name] = verdict.remediation
            judged.append(JudgedHandoff(handoff, State.VALIDATING, verdict, config.policy_for(handoff.handoff_type)))
    return _store(claim, judged, repaired)


def _store(claim: Lease, judged: list[JudgedHandoff], repaired: list[RepairResult]) -> int:
    with transaction.atomic():
        held = leases.lock_held(claim)
        pending = [one for one in judged if one.verdict.pending and one.handoff.pk in held]
        results.store_pending(pending)
        jobs.enqueue([one.handoff for one in pending], CheckKind.FIRST)
        stored = remediation.settle([one for one in judged if not one.verdict.pending and one.handoff.pk in held])
        deltas = results.store(stored)
        remediation.store(stored)
        deltas.update(run.store([one for one in repaired if one.case.handoff.pk in held]))
        deltas.update(attempts.supersede_overtaken(one.handoff for one in stored))
        counts.apply(deltas)
    long_poll.announce(one.handoff.pk for one in (*stored, *pending))
    notify.notify_llm_workers(len(pending))
    return len(stored) + len(pending)
