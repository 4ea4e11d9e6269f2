"""Handoffs that passed while the model could not be asked: gone over when it answers again, oldest first."""

from dataclasses import replace
from datetime import timedelta
from itertools import zip_longest

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import (
    alerts,
    asking,
    attempts,
    breaking,
    checks,
    counts,
    listening,
    outcomes,
    remedies,
    repairing,
)
from handoffaudit.handoffs.actors import SYSTEM
from handoffaudit.handoffs.checks import Due
from handoffaudit.handoffs.cursors import first_id_at
from handoffaudit.handoffs.models import (
    CheckKind,
    Event,
    Handoff,
    ModelCall,
    ModelCheck,
    ModelSpend,
    State,
)
from handoffaudit.handoffs.outcomes import Judged
from handoffaudit.handoffs.repairing import Repaired
from handoffaudit.llm.breaker import is_outage
from handoffaudit.validation.asking.question import Reason, Unavailable
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import MODEL_LAYERS
from handoffaudit.validation.verdict import LayerStatus, Outcome, Verdict

BUDGET_PAUSE = timedelta(minutes=10)
_STANDING = (State.ACCEPTED, State.HELD, State.APPROVED)
_UNAVAILABLE = "semantic.unavailable"
_BY_MODEL = frozenset(layer.name for layer in MODEL_LAYERS)
_GRAVE = (Severity.ERROR, Severity.CRITICAL)
_OF_ALL = frozenset({Reason.BREAKER_OPEN, Reason.NO_KEY, Reason.BUDGET})


def queue_waiting() -> int:
    """Queues the oldest unverified handoffs of each tenant, where the model may answer; how many.

    None while the breaker is open, and one alone where the last call failed: it is the probe for all of them.
    """
    if not asking.configured():
        return 0
    room = _room()
    waiting = [_oldest(tenant_id, room) for tenant_id in _tenants()] if room > 0 else []
    # In turn, so that the tenant with most of them does not keep the others waiting.
    found = [one for turn in zip_longest(*waiting) for one in turn if one is not None][:room]
    now = timezone.now()
    rows = [ModelCheck(handoff=one, tenant_id=one.tenant_id, kind=CheckKind.RECHECK, since=now) for one in found]
    # Two sweeps may find the same ones; in one order, so that they never wait for each other in a circle.
    rows.sort(key=lambda row: row.handoff_id)
    ModelCheck.objects.bulk_create(rows, ignore_conflicts=True)
    return len(found)


def _room() -> int:
    """How many more may be queued now."""
    now = timezone.now()
    # The model that makes these checks; what others fail at does not matter here, nor what one failed at that was used
    # before.
    breaker = breaking.of_model(settings.MODEL_FAST)
    if any(until and until > now for until in (breaker.open_until, breaker.probing_until)):
        return 0
    return (1 if breaker.failures else settings.MODEL_CONCURRENCY) - checks.under_way(CheckKind.RECHECK)


def _tenants() -> list[int]:
    """Those with something to go over and room in today's budget: not where it is used up, or was lately too small for
    a call."""
    now = timezone.now()
    spent = ModelSpend.objects.filter(day=now.date(), usd__gte=settings.MODEL_DAILY_USD).values("tenant")
    lately = ModelCall.objects.filter(tenant=OuterRef("pk"), at__gte=now - BUDGET_PAUSE, outcome=Reason.BUDGET.value)
    rows = Tenant.objects.filter(Exists(unverified(OuterRef("pk")))).exclude(pk__in=spent).exclude(Exists(lately))
    return list(rows.order_by("pk").values_list("pk", flat=True))


def _oldest(tenant_id: int, most: int) -> "list[Handoff]":
    return list(unverified(tenant_id).filter(check_due=None).only("id", "tenant_id").order_by("id")[:most])


def unverified(tenant_id: int | OuterRef) -> "QuerySet[Handoff]":
    """Those that are still to be gone over: not decided against, and not older than the setting says."""
    oldest = timezone.now() - timedelta(hours=settings.MODEL_CATCH_UP_HOURS)
    return Handoff.objects.filter(tenant=tenant_id, unverified=True, state__in=_STANDING, id__gte=first_id_at(oldest))


def store(due: Due, judged: Judged, repaired: list[Repaired]) -> bool:
    """Stores what the model says now; where it could not be asked again, the handoff stays as it is."""
    with transaction.atomic():
        attempts.lock([due.handoff])
        if not checks.still_held(due):
            return False
        handoff = unverified(due.handoff.tenant_id).filter(pk=due.handoff.pk).first()
        if handoff and judged.verdict.unverified and _concerns_it_alone(judged):
            checks.put_off(due)
            return False
        checks.done(due)
        if handoff is None or judged.verdict.unverified:
            return False
        _apply(handoff, judged, repaired)
    listening.announce([handoff.pk])
    return True


def _concerns_it_alone(judged: Judged) -> bool:
    """Whether others may well be answered: else it would be the oldest again, and asked again and again."""
    for issue in judged.verdict.issues:
        if issue.code == _UNAVAILABLE:
            said = Unavailable(Reason(issue.metadata["reason"]), "", status=issue.metadata["http_status"])
            return said.reason not in _OF_ALL and not is_outage(said)
    return False


def _apply(handoff: Handoff, judged: Judged, repaired: list[Repaired]) -> None:
    held = handoff.state == State.HELD
    state = outcomes.STATES[judged.verdict.outcome] if held else State(handoff.state)
    # What only a policy that is newer than the handoff holds against it is no oversight of anybody.
    flagged = not held and judged.verdict.outcome is Outcome.REJECTED and _model_rejects(judged.verdict)
    if not held:
        # What is due was decided when it was let through.
        judged = replace(judged, verdict=replace(judged.verdict, remediation=None, recommended_action=None))
    [settled] = remedies.settled([judged])
    verdict, place = settled.verdict, counts.Place.of(handoff)
    deltas = counts.moved(place, handoff.codes, handoff.state, State.VALIDATING)
    deltas.update(counts.moved(place, outcomes.codes(verdict), State.VALIDATING, state))
    outcomes.replace(settled, state, flagged=flagged)
    Event.objects.create(
        tenant_id=handoff.tenant_id,
        handoff_id=handoff.pk,
        at=verdict.validated_at,
        actor_kind=SYSTEM.kind,
        actor=SYSTEM.name,
        from_state=handoff.state,
        to_state=state,
        reason=_reason(settled, flagged=flagged),
    )
    if held:
        remedies.store([settled])
        deltas.update(repairing.store(repaired))
    counts.apply(deltas)
    if flagged:
        alerts.raise_alert(handoff.tenant_id, alerts.Kind.WOULD_HAVE_REJECTED, 1)


def _model_rejects(verdict: Verdict) -> bool:
    return any(issue.layer in _BY_MODEL and issue.severity in _GRAVE for issue in verdict.issues)


def _reason(judged: Judged, *, flagged: bool) -> str:
    said = outcomes.reason(judged.verdict)
    if not any(one.name in _BY_MODEL and one.status is not LayerStatus.SKIPPED for one in judged.verdict.layers):
        by = "judged again: the model is no longer asked about it"
        return f"{by} ({said})" if said else by
    if flagged:
        said = f"it would have been rejected ({said})"
    elif judged.verdict.outcome is Outcome.REJECTED and not _model_rejects(judged.verdict):
        said = f"nothing against it; what is demanded now would reject it ({said})"
    return f"checked later by the model: {said or 'nothing against it'}"
