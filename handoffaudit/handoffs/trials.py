"""Drafts of a policy tried on handoffs that were judged before, in the background: what would have happened.

Each handoff is judged twice now, by what is in force and by the draft, so that a difference is the draft's doing.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta

import orjson
import structlog
from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import lineage, waking
from handoffaudit.handoffs.cursors import first_id_at
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HandoffBody, Trial
from handoffaudit.handoffs.parts import parts
from handoffaudit.handoffs.verdicts import Before, verdict_on
from handoffaudit.policy import load
from handoffaudit.policy.models import Kind
from handoffaudit.validation.config import ValidationConfig
from handoffaudit.validation.verdict import Outcome, Verdict

log = structlog.get_logger(__name__)

MOST = 5000
PART = 20
MOST_SHOWN = 200
TRIES = 3
MOST_UNFINISHED = 5
KEPT = timedelta(days=7)


def start(
    *,
    tenant: Tenant,
    kind: Kind,
    content: dict[str, object],
    base_version: int,
    actor: str,
    handoff_types: Sequence[str] = (),
    most: int = MOST,
    since: datetime | None = None,
) -> Trial:
    """Begins a trial of the draft `content`; workers are woken. No types: handoffs of all types.

    Raises `InvalidPolicy` where the draft could not be saved either.
    """
    load.draft(tenant.pk, kind, content)
    # What was tried a week ago is of no use to anybody, and drafts may be large.
    Trial.objects.filter(tenant=tenant, started_at__lt=timezone.now() - KEPT).delete()
    _make_room(tenant)
    trial = Trial(
        tenant=tenant,
        kind=kind,
        draft=orjson.dumps(content).decode(),
        base_version=base_version,
        handoff_types=list(handoff_types),
        most=max(1, min(most, MOST)),
        since=since,
        started_by=actor[:200],
    )
    trial.total = _chosen(trial)[: trial.most].count()
    if not trial.total:
        trial.finished_at = timezone.now()
    trial.save()
    waking.wake_trials()
    return trial


def _make_room(tenant: Tenant) -> None:
    """Ends the oldest that wait: trials of all tenants run one after another, and none may fill the queue."""
    unfinished = Trial.objects.filter(tenant=tenant, finished_at=None).order_by("-id")
    too_many = list(unfinished.values_list("pk", flat=True)[MOST_UNFINISHED - 1 :])
    Trial.objects.filter(pk__in=too_many, finished_at=None).update(
        finished_at=timezone.now(), error="It was not run to its end: newer trials took its place.", claim=None
    )


def get(tenant: Tenant, pk: uuid.UUID) -> Trial:
    """Raises `Trial.DoesNotExist`."""
    return Trial.objects.get(tenant=tenant, pk=pk)


def run_waiting() -> int:
    """Runs trials until none waits; how many were finished."""
    finished = 0
    while trial := _claim():
        finished += _run(trial)
    return finished


def anything_waits() -> bool:
    return _waiting().exists()


def _waiting() -> "QuerySet[Trial]":
    free = Q(claim_expires_at=None) | Q(claim_expires_at__lt=timezone.now())
    return Trial.objects.filter(free, finished_at=None)


def _claim() -> Trial | None:
    for pk in _waiting().order_by("id").values_list("pk", flat=True)[:10]:
        token = uuid.uuid4()
        if _waiting().filter(pk=pk).update(claim=token, claim_expires_at=_expiry()):
            trial = Trial.objects.get(pk=pk)
            trial.tries += 1
            if trial.tries <= TRIES:
                Trial.objects.filter(pk=pk, claim=token).update(tries=trial.tries)
                return trial
            _finish(trial, "It could not be judged. The worker's log says why.")
    return None


def _expiry() -> datetime:
    return timezone.now() + timedelta(seconds=settings.CLAIM_SECONDS)


def _run(trial: Trial) -> bool:
    """Judges part after part; False where the claim ran out meanwhile, and another worker goes on."""
    in_force = load.load(trial.tenant_id)
    draft = load.draft(trial.tenant_id, Kind(trial.kind), orjson.loads(trial.draft))
    while trial.judged < trial.total:
        found = list(_next(trial))
        if not found:
            break
        # Large ones a few at a time: a part must be judged within a claim.
        for part in parts(found):
            _judge(trial, part, in_force, draft)
            if not _keep(trial):
                return False
    return _finish(trial)


def _chosen(trial: Trial) -> "QuerySet[Handoff]":
    rows = Handoff.objects.filter(tenant=trial.tenant_id).exclude(state__in=WAITING_STATES)
    if trial.handoff_types:
        rows = rows.filter(handoff_type__in=trial.handoff_types)
    if trial.since:
        rows = rows.filter(id__gte=first_id_at(trial.since))
    return rows.order_by("-id")


def _next(trial: Trial) -> "QuerySet[Handoff]":
    rows = _chosen(trial)
    if trial.reached:
        rows = rows.filter(id__lt=trial.reached)
    return rows[: min(PART, trial.total - trial.judged)]


def _judge(trial: Trial, part: list[Handoff], in_force: ValidationConfig, draft: ValidationConfig) -> None:
    histories = lineage.histories(part)
    bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in part])
    for handoff in part:
        before = Before(histories[handoff.pk])
        now, then = (verdict_on(handoff, bodies[handoff.pk], before, config) for config in (in_force, draft))
        if _decided(now) != _decided(then):
            _note(trial, handoff, now, then)
    trial.judged += len(part)
    trial.reached = part[-1].pk


def _decided(verdict: Verdict) -> tuple[Outcome, Outcome]:
    # In shadow nothing is rejected, and what a draft would do there is what people try it for.
    return verdict.outcome, verdict.would_decide


def _note(trial: Trial, handoff: Handoff, now: Verdict, then: Verdict) -> None:
    before, after = now.outcome, then.outcome
    if before is after:
        before, after = now.would_decide, then.would_decide
    flip = f"{before.value}>{after.value}"
    trial.flips[flip] = trial.flips.get(flip, 0) + 1
    if len(trial.changed) < MOST_SHOWN:
        # What decides is new where it got worse, and what decided is gone where it got better.
        deciding = then if after is not Outcome.ACCEPTED else now
        codes = sorted({issue.code for issue in deciding.issues})
        row = {"handoff": str(handoff.pk), "handoff_id": handoff.handoff_id, "codes": codes[:5]}
        trial.changed.append(row | {"before": before.value, "after": after.value})


def _keep(trial: Trial, **columns: object) -> bool:
    """Writes how far it is, where the claim still stands."""
    columns |= {"judged": trial.judged, "reached": trial.reached, "flips": trial.flips, "changed": trial.changed}
    columns.setdefault("claim_expires_at", _expiry())
    return bool(Trial.objects.filter(pk=trial.pk, claim=trial.claim).update(**columns))


def _finish(trial: Trial, error: str = "") -> bool:
    return _keep(trial, finished_at=timezone.now(), error=error, claim=None, claim_expires_at=None)
