"""The queue of handoffs to be judged, and their judging.

No transaction is open while the validation layers run.
"""

import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Protocol

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.database_faults import FAILURES
from handoffaudit.handoffs import (
    alerts,
    approvals,
    attempts,
    counts,
    judge_leases,
    leases,
    lineage,
    long_poll,
    notify,
    queries,
    repairs,
    results,
    tool_results,
    trace_facts,
    transitions,
)
from handoffaudit.handoffs.judge_leases import Lease
from handoffaudit.handoffs.leases import WorkerLock
from handoffaudit.handoffs.llm import client, jobs
from handoffaudit.handoffs.models import CheckKind, Event, Handoff, State
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.verdicts import ASK_LATER, PriorContext, chunk_by_size, load_bodies, verdict_on_stored
from handoffaudit.policy import kinds

log = structlog.get_logger(__name__)

_lock = WorkerLock()

_tenant_of = attrgetter("tenant_id")


def park_exhausted() -> int:
    """Park up to 100 handoffs that were judged alone and failed `LEASE_TRIES` times; return their number."""
    # Each handoff has one more try, because the first try was together with other handoffs.
    given_up = judge_leases.filter_waiting().filter(leases.is_exhausted(settings.LEASE_TRIES + 1))
    number = 0
    with transaction.atomic():
        for handoff in given_up.select_for_update(skip_locked=True).order_by("claim_expires_at")[:100]:
            number += transitions.park(handoff, f"{handoff.tries - 1} tries to judge it failed")
    return number


class NotParked(Exception):
    pass


def retry_parked(*, tenant: Tenant, reference: str, actor: Actor) -> Handoff:
    """Put a parked handoff back into the queue. Raise `Handoff.DoesNotExist` or `NotParked`."""
    with transaction.atomic():
        handoff = queries.get(tenant, reference)
        updated = Handoff.objects.filter(pk=handoff.pk, parked=True).update(
            parked=False, tries=0, state=State.RECEIVED, version=handoff.version + 1
        )
        if not updated:
            raise NotParked(f"Handoff {reference} is not parked.")
        Event.objects.create(
            tenant=tenant,
            handoff=handoff,
            at=timezone.now(),
            actor_kind=actor.kind,
            actor=actor.name,
            from_state=handoff.state,
            to_state=State.RECEIVED,
            reason="a new try was requested",
        )
        transaction.on_commit(notify.notify_workers)
    handoff.refresh_from_db()
    return handoff


# While the queue is long, a lease has up to this many times `LEASE_SIZE` handoffs. A quarter of the database's time for
# a lease of 200 handoffs does not depend on the number of handoffs.
_LONG_QUEUE = 2


def drain() -> int:
    """Judge handoffs until none waits; return the number of stored verdicts.

    If the previous lease was full, the queue is considered long, and the next lease is larger. The first lease is
    small, so that several workers share a batch.
    """
    size = settings.LEASE_SIZE

    def take() -> Lease | None:
        nonlocal size
        lease = judge_leases.take_fresh(size)
        is_full = lease is not None and len(lease.handoffs) == size
        size = settings.LEASE_SIZE * (_LONG_QUEUE if is_full else 1)
        return lease

    return _lock.drain(take, judge_leases.is_any_left_behind, judge_leases.take_left_behind, judge)


def judge(lease: Lease) -> int:
    """Judge the handoffs of a lease; return the number of stored verdicts.

    A verdict is stored only if the lease still holds its handoff.
    """
    try:
        return _judge_parts(lease)
    except FAILURES as error:
        judge_leases.note_lost(lease, error)
        raise


def _judge_parts(lease: Lease) -> int:
    stored = 0
    renewed = time.monotonic()
    parts = list(chunk_by_size(lease.handoffs))
    for part in parts:
        if time.monotonic() - renewed > settings.LEASE_SECONDS / 3:
            # Renew the lease, or another worker would also judge the rest of a slow batch.
            lease.renew()
            renewed = time.monotonic()
        stored += _judge(lease.part(part, is_last=part is parts[-1]))
    return stored


def _judge(lease: Lease) -> int:
    bodies = load_bodies([handoff.id for handoff in lease.handoffs])
    judged: list[JudgedHandoff] = []
    # Without an LLM key, no LLM check will follow, so the verdict already names the missing check.
    later = client.is_configured()
    for tenant_id, group in groupby(sorted(lease.handoffs, key=_tenant_of), _tenant_of):
        handoffs = sorted(group, key=attrgetter("id"))
        config = kinds.load_config(tenant_id)
        histories = lineage.load_histories(handoffs)
        records = attempts.load_records(handoffs)
        facts = trace_facts.load_facts(handoffs)
        evidence = tool_results.load_evidence(handoffs)
        model = ASK_LATER if later else client.model_for(tenant_id, None)
        for handoff in handoffs:
            name = attempts.lineage_of(handoff)
            # An exception here is a bug of this product. It must not affect the other handoffs of the lease.
            try:
                before = PriorContext(histories[handoff.id], records.get(name), facts, evidence.of(handoff))
                verdict = verdict_on_stored(handoff, bodies[handoff.id], before, config, model=model)
                repaired = (
                    []
                    if verdict.pending
                    else repairs.repair_judged(handoff, bodies[handoff.id], verdict, before, config)
                )
            except Exception:
                log.exception("a handoff could not be judged", handoff=str(handoff.pk), tries=handoff.tries)
                lease.release(handoff)
                continue
            if verdict.remediation:
                records[name] = verdict.remediation
            policy = config.policy_for(handoff.handoff_type)
            fact = facts.fact_of(handoff.id)
            judged.append(JudgedHandoff(handoff, State.VALIDATING, verdict, policy, repaired, fact, began_at=lease.at))
        facts.store_behaviour()
    return finish(judged, lease)


class WorkLease(Protocol):
    """The methods of a lease that `finish` needs."""

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoffs until the transaction ends. Return the judged handoffs whose verdict may be stored."""

    def end(self) -> None:
        """End the lease. Call after the verdicts are stored, in the same transaction."""


def finish(judged: Sequence[JudgedHandoff], lease: WorkLease) -> int:
    """Store the verdicts on the handoffs that the lease still holds, and end the lease.

    Return the number of stored verdicts.
    """
    with transaction.atomic():
        held = lease.hold(judged)
        if not held:
            return 0
        pending = [one for one in held if one.verdict.pending]
        results.store_pending(pending)
        trace_facts.store(one.fact for one in held if one.fact)
        jobs.enqueue([one.handoff for one in pending], CheckKind.FIRST)
        final = attempts.settle_actions([one for one in held if not one.verdict.pending])
        deltas = results.store(final)
        attempts.store_records(final)
        deltas.update(approvals.carry_over(final))
        deltas.update(repairs.store([repair for one in final for repair in one.repaired]))
        deltas.update(attempts.supersede_overtaken(one.handoff for one in final if not one.is_recheck))
        lease.end()
        counts.apply(deltas)
        for one in final:
            if one.flagged and not one.handoff.flagged:
                alerts.raise_alert(one.handoff.tenant_id, alerts.AlertKind.WOULD_HAVE_REJECTED, 1)
    counts.add_verdict_totals(
        (one.verdict.outcome.value, one.verdict.validated_at - one.handoff.received_at)
        for one in final
        if not one.is_recheck
    )
    long_poll.announce(one.handoff.id for one in (*final, *pending))
    notify.notify_llm_workers(len(pending))
    return len(held)
