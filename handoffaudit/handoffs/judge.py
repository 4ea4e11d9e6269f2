"""The queue of handoffs to be judged, and their judging.

No transaction is open while the validation layers run.
"""

import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Protocol

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import (
    alerts,
    approvals,
    attempts,
    counts,
    db,
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
from handoffaudit.handoffs.leases import WorkerLock
from handoffaudit.handoffs.llm import client, jobs
from handoffaudit.handoffs.models import CheckKind, Event, Handoff, LateResults, ModelCheck, State
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.handoffs.verdicts import ASK_LATER, PriorContext, chunk_by_size, load_bodies, verdict_on_stored
from handoffaudit.policy import kinds

log = structlog.get_logger(__name__)

_lock = WorkerLock()

_tenant_of = attrgetter("tenant_id")


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease of one worker on some handoffs, valid until it expires.

    `alone` marks a lease on a single handoff whose earlier lease expired or was given back.
    """

    token: uuid.UUID
    handoffs: list[Handoff]
    alone: bool = False

    def lock_held(self) -> set[uuid.UUID]:
        """Lock the handoffs and their lineages until the transaction ends.

        Return the primary keys of the handoffs that this lease still holds.
        """
        holders = attempts.lock(self.handoffs)
        return {handoff.id for handoff in self.handoffs if holders.get(handoff.id) == self.token}

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        """Lock the handoffs and their lineages; return the judged handoffs that this lease still holds."""
        held = self.lock_held()
        return [one for one in judged if one.handoff.id in held]

    def end(self) -> None:
        """Do nothing, because the statement that stores a verdict ends the lease on the handoff."""

    def renew(self) -> None:
        """Extend the lease on the handoffs that this lease still holds."""
        leases.renew(self._held)

    def give_back(self) -> None:
        """Give back the handoffs that this lease still holds, so that workers try each of them again at once, alone."""
        leases.end(self._held, at=timezone.now())

    def release(self, handoff: Handoff) -> None:
        """Give back a handoff whose judging failed, so that a worker tries the handoff again alone."""
        own = 0 if self.alone else 1
        leases.release(leases.filter_held(Handoff, handoff.pk, self.token), handoff.tries, tries=F("tries") + own)

    @property
    def _held(self) -> "QuerySet[Handoff]":
        return Handoff.objects.filter(pk__in=[handoff.pk for handoff in self.handoffs], claim=self.token)


# Leases by token. The database failed before their verdicts were stored.
_lost: dict[uuid.UUID, Lease] = {}


def give_back_lost() -> None:
    """Give back the leases that this process lost with the database, so that the handoffs need not wait for their end.

    Raise the error of the database if it still fails.
    """
    for token, lease in list(_lost.items()):
        lease.give_back()
        _lost.pop(token, None)


def take_fresh(limit: int) -> Lease | None:
    """Lease up to `limit` handoffs that no worker has tried yet, oldest first; return None if there are none."""
    return _take("claim_expires_at IS NULL AND tries = 0", [], limit)


def take_left_behind() -> Lease | None:
    """Lease one handoff whose earlier lease expired or was given back. Return None if there is no such handoff.

    The caller must judge no other handoff at the same time. If the worker dies, the cause is then known, and no other
    handoff is affected.
    """
    values = [timezone.now(), settings.LEASE_TRIES]
    return _take("claim_expires_at < %s AND tries <= %s", values, 1, alone=True)


def take_one(pk: uuid.UUID) -> Lease | None:
    """Lease a handoff that was just stored. Return None if a worker has it, or if its trace must be judged first.

    Earlier handoffs of the trace come first, because the handoff is judged by the facts that they brought into the
    trace.
    """
    # Without the first test, the statement would read all handoffs of the tenant that have no trace.
    is_first = f"(trace_id = '' OR NOT EXISTS ({_EARLIER_OF_TRACE}))"
    condition = f"id = %s AND claim_expires_at IS NULL AND tries = 0 AND {is_first}"
    return _take(condition, [pk if db.is_postgresql() else pk.hex], 1)


_TABLE = Handoff._meta.db_table  # noqa: SLF001 -- Django's documented API
_EARLIER_OF_TRACE = f"""
    SELECT 1 FROM "{_TABLE}" AS earlier WHERE earlier.tenant_id = "{_TABLE}".tenant_id
    AND earlier.trace_id = "{_TABLE}".trace_id AND earlier.id < "{_TABLE}".id
    AND earlier.state IN ('received', 'validating') AND NOT earlier.parked
"""  # noqa: S608


def _take(condition: str, values: list[object], limit: int, *, alone: bool = False) -> Lease | None:
    with transaction.atomic():
        if db.is_postgresql():
            with connection.cursor() as cursor:
                # The commit does not wait for the disk: if a power failure undoes the lease, a worker leases the
                # handoffs again.
                cursor.execute("SET LOCAL synchronous_commit = off")
        token, handoffs = leases.take_first(
            Handoff,
            f"state IN ('received', 'validating') AND NOT parked AND {condition}",
            values,
            # This is the order of the index of waiting handoffs. Sorted by id alone, PostgreSQL would read all judged
            # handoffs first.
            order="claim_expires_at, id",
            limit=limit,
            changes="state = 'validating', tries = tries + 1",
        )
        transitions.record_start(handoff for handoff in handoffs if handoff.tries == 1)
    return Lease(token, sorted(handoffs, key=attrgetter("id")), alone) if handoffs else None


def _filter_waiting() -> "QuerySet[Handoff]":
    # SQLite uses the partial index only if the statement repeats the condition of the index without parameters.
    return Handoff.objects.extra(where=["NOT parked AND state IN ('received', 'validating')"])


def is_any_left_behind() -> bool:
    """Return whether a handoff waits whose earlier lease expired or was given back."""
    return _filter_waiting().filter(leases.is_expired(), tries__lte=settings.LEASE_TRIES).exists()


def is_anything_waiting() -> bool:
    """Return whether a worker has work: a handoff that nobody has tried, or a handoff that was left behind.

    A handoff that waits for the LLM is no work for this queue.
    """
    return _filter_waiting().filter(leases.NEVER_LEASED & Q(tries=0) | leases.is_expired()).exists()


def revoke_leases(tenant: Tenant, pks: Sequence[uuid.UUID] | None = None) -> None:
    """Take back the leases on these handoffs, or on all of the tenant, so that workers judge the handoffs again.

    Call in the transaction that changed the rows from which verdicts, LLM checks and repairs are made. The results of
    verdicts, LLM checks and repairs under way are then not stored.
    """
    rows, checks = Handoff.objects.filter(tenant=tenant), ModelCheck.objects.filter(tenant=tenant)
    leased = _filter_waiting().filter(tenant=tenant).exclude(claim=None)
    # A new version keeps out repairs on request and verdicts with late tool results, which need no lease on the
    # handoff.
    if pks is None:
        traces = LateResults.objects.filter(tenant=tenant).exclude(claim=None).values_list("trace_id", flat=True)
        versioned = rows.filter(trace_id__in=list(traces))
        # One statement with both conditions would read all handoffs.
        found = {*versioned.values_list("pk", flat=True), *leased.values_list("pk", flat=True)}
    else:
        versioned, checks, leased = rows.filter(pk__in=pks), checks.filter(pk__in=pks), leased.filter(pk__in=pks)
        found = set(pks)
    # Workers lock handoffs in this order, too.
    list(rows.filter(pk__in=found).select_for_update().order_by("pk").values_list("pk", flat=True))
    versioned.update(version=F("version") + 1)
    now = timezone.now()
    leases.end(leased, at=now, tries=1)
    leases.end(checks.exclude(claim=None), at=now)


def park_exhausted() -> int:
    """Park handoffs that failed alone as often as `LEASE_TRIES` allows; return the number of parked handoffs."""
    # Each handoff has one more try, because the first try was together with other handoffs.
    given_up = _filter_waiting().filter(leases.is_exhausted(settings.LEASE_TRIES + 1))
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


# While the queue is long, a lease has this many times as many handoffs. A quarter of the database's time for a lease of
# 200 handoffs does not depend on their number.
_LONG_QUEUE = 2


def drain() -> int:
    """Judge handoffs until none waits; return the number of stored verdicts.

    The queue is long if the lease before had as many handoffs as it could. The first lease is short, so that several
    workers share a batch.
    """
    size = settings.LEASE_SIZE

    def take() -> Lease | None:
        nonlocal size
        lease = take_fresh(size)
        is_full = lease is not None and len(lease.handoffs) == size
        size = settings.LEASE_SIZE * (_LONG_QUEUE if is_full else 1)
        return lease

    return _lock.drain(take, is_any_left_behind, take_left_behind, judge)


def judge(lease: Lease) -> int:
    """Judge the handoffs of a lease; return the number of stored verdicts.

    A verdict is stored only if the lease still holds its handoff.
    """
    try:
        return _judge_parts(lease)
    except (InterfaceError, OperationalError):
        # A handoff that is judged alone may be the cause, so it waits for the end of the lease.
        if not lease.alone:
            _lost[lease.token] = lease
        raise


def _judge_parts(lease: Lease) -> int:
    stored = 0
    renewed = time.monotonic()
    for part in chunk_by_size(lease.handoffs):
        if time.monotonic() - renewed > settings.LEASE_SECONDS / 3:
            # Renew the lease, or another worker would also judge the rest of a slow batch.
            lease.renew()
            renewed = time.monotonic()
        stored += _judge(Lease(lease.token, part, lease.alone))
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
            judged.append(
                JudgedHandoff(handoff, State.VALIDATING, verdict, policy, repaired, facts.fact_of(handoff.id))
            )
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
