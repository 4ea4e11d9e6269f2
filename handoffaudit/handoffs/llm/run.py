"""LLM checks from the queue, and rechecks of handoffs that were decided while the LLM was unavailable."""

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import zip_longest

import msgspec
import structlog
from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.database_faults import fault_of
from handoffaudit.handoffs import attempts, judge, lineage, repairs, tool_results
from handoffaudit.handoffs.filters import first_id_at, is_in_states
from handoffaudit.handoffs.leases import WorkerLock
from handoffaudit.handoffs.llm import client, jobs, limits
from handoffaudit.handoffs.llm.jobs import Job
from handoffaudit.handoffs.models import (
    CheckKind,
    Handoff,
    HandoffBody,
    ModelCall,
    ModelCheck,
    ModelSpend,
    State,
)
from handoffaudit.handoffs.results import JudgedHandoff
from handoffaudit.handoffs.verdicts import PriorContext, verdict_on_stored
from handoffaudit.llm.calls import is_outage
from handoffaudit.policy import kinds
from handoffaudit.validation.layers import semantic
from handoffaudit.validation.prompts.question import Reason, Unavailable

BUDGET_PAUSE = timedelta(minutes=10)

_STANDING = (State.ACCEPTED, State.HELD, State.APPROVED)

_OF_ALL = frozenset({Reason.BREAKER_OPEN, Reason.NO_KEY, Reason.BUDGET})


def enqueue_unverified() -> int:
    """Queue the oldest unverified handoffs of the tenants for a recheck, and return the number of queued handoffs.

    While the breaker is open, queue none. After a failed call, queue only one handoff, which tests the LLM for all.
    """
    if not client.is_configured():
        return 0
    room = _count_room()
    waiting = [_list_oldest_unverified(tenant_id, room) for tenant_id in _list_tenants_to_recheck()] if room > 0 else []
    # The tenants take turns, so that a tenant with many handoffs does not block the other tenants.
    found = [one for turn in zip_longest(*waiting) for one in turn if one is not None][:room]
    now = timezone.now()
    rows = [ModelCheck(handoff=one, tenant_id=one.tenant_id, kind=CheckKind.RECHECK, since=now) for one in found]
    # Two sweeps may insert the same rows. Both insert in the same order, so that they cannot deadlock.
    rows.sort(key=lambda row: row.handoff_id)
    ModelCheck.objects.bulk_create(rows, ignore_conflicts=True)
    return len(found)


def _count_room() -> int:
    """Return how many more rechecks may be queued now."""
    now = timezone.now()
    # Other LLMs, and LLMs that were used before, have their own breakers, which say nothing about the rechecks.
    breaker = limits.load_breaker(settings.MODEL_FAST)
    if any(until and until > now for until in (breaker.open_until, breaker.probing_until)):
        return 0
    return (1 if breaker.failures else settings.MODEL_CONCURRENCY) - jobs.count_under_way(CheckKind.RECHECK)


def _list_tenants_to_recheck() -> list[int]:
    """Return the ids of the tenants with unverified handoffs and room in today's budget.

    If the budget was too small for a call in the last `BUDGET_PAUSE`, the budget counts as used up.
    """
    now = timezone.now()
    spent = ModelSpend.objects.filter(day=now.date(), usd__gte=settings.MODEL_DAILY_USD).values("tenant")
    lately = ModelCall.objects.filter(tenant=OuterRef("pk"), at__gte=now - BUDGET_PAUSE, outcome=Reason.BUDGET.value)
    rows = (
        Tenant.objects.filter(Exists(filter_unverified(OuterRef("pk")))).exclude(pk__in=spent).exclude(Exists(lately))
    )
    return list(rows.order_by("pk").values_list("pk", flat=True))


def _list_oldest_unverified(tenant_id: int, most: int) -> "list[Handoff]":
    return list(filter_unverified(tenant_id).filter(check_due=None).only("id", "tenant_id").order_by("id")[:most])


def filter_unverified(tenant_id: int | OuterRef) -> "QuerySet[Handoff]":
    """Return the unverified handoffs to recheck: accepted, held or approved in the last `MODEL_CATCH_UP_HOURS`."""
    oldest = timezone.now() - timedelta(hours=settings.MODEL_CATCH_UP_HOURS)
    return Handoff.objects.filter(
        is_in_states(_STANDING), tenant=tenant_id, unverified=True, id__gte=first_id_at(oldest)
    )


@dataclass(frozen=True, slots=True)
class Recheck:
    """The lease on a recheck.

    A handoff keeps its verdict if the LLM check failed again, or if the handoff needs no recheck any more.
    """

    job: Job

    def hold(self, judged: Iterable[JudgedHandoff]) -> list[JudgedHandoff]:
        held = self.job.hold(judged)
        if not held:
            return []
        [one] = held
        handoff = filter_unverified(one.handoff.tenant_id).filter(pk=one.handoff.pk).first()
        if handoff and one.verdict.unverified and _is_failure_of_one_handoff(one):
            jobs.postpone(self.job)
            return []
        if handoff is None or one.verdict.unverified:
            self.job.end()
            return []
        if handoff.state == State.HELD:
            return [replace(one, handoff=handoff, from_state=handoff.state)]
        # Work may have gone on from an accepted or approved handoff, so the new verdict recommends no action.
        verdict = msgspec.structs.replace(one.verdict, remediation=None, recommended_action=None)
        return [replace(one, handoff=handoff, from_state=handoff.state, verdict=verdict, repaired=())]

    def end(self) -> None:
        self.job.end()


def _is_failure_of_one_handoff(judged: JudgedHandoff) -> bool:
    """Return whether the LLM failed for this handoff but may answer for others.

    Without a pause, such a handoff would stay the oldest handoff, and every recheck would be spent on it.
    """
    for issue in judged.verdict.issues:
        if issue.code == semantic.UNAVAILABLE.code:
            outage = Unavailable(Reason(issue.metadata["reason"]), "", status=issue.metadata["http_status"])
            return outage.reason not in _OF_ALL and not is_outage(outage)
    return False


log = structlog.get_logger(__name__)

# When the event is set, the process is about to end: it finishes the current checks and takes no further check.
ending = threading.Event()

_lock = WorkerLock()


def drain() -> int:
    """Make checks until none waits or the process is about to end. Return the number of stored results."""
    return _lock.drain(jobs.take, jobs.is_any_left_behind, jobs.take_left_behind, _run_check, ending.is_set)


def _run_check(job: Job) -> bool:
    # Any other exception than a fault of the database is a bug of this product. It must not affect the other checks.
    try:
        was_stored = check(job)
    except Exception as error:
        if fault_of(error):
            log.warning("the database failed during an LLM check", handoff=str(job.handoff.pk), error=str(error))
        else:
            log.exception("the LLM check of a handoff failed", handoff=str(job.handoff.pk))
        jobs.release_after(job, error)
        return False
    jobs.gate.set_failing(is_failing=False)
    if was_stored and job.kind == CheckKind.RECHECK:
        # The LLM answers again, so the next rechecks need not wait for a sweep.
        enqueue_unverified()
    return was_stored


def check(job: Job) -> bool:
    """Make one check and store its result. Return False if nothing was stored, such as after the lease was lost."""
    if job.kind == CheckKind.REPAIR:
        return repairs.repair_due(job)
    handoff = job.handoff
    body = HandoffBody.objects.get(pk=handoff.pk)
    config = kinds.load_config(handoff.tenant_id)
    before = PriorContext(
        lineage.load_histories([handoff])[handoff.pk],
        attempts.load_records([handoff]).get(handoff.lineage),
        evidence=tool_results.load_evidence([handoff]).of(handoff),
    )
    model = client.model_for(handoff.tenant_id, handoff.pk)
    verdict = verdict_on_stored(handoff, body, before, config, model=model)
    # A handoff that was accepted is not repaired later.
    decides = job.kind == CheckKind.FIRST or handoff.state == State.HELD
    repaired = repairs.repair_judged(handoff, body, verdict, before, config, model) if decides else []
    policy = config.policy_for(handoff.handoff_type)
    judged = JudgedHandoff(handoff, State.VALIDATING, verdict, policy, repaired)
    return bool(judge.finish([judged], Recheck(job) if job.kind == CheckKind.RECHECK else job))
