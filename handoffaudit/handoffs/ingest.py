"""Submissions into the database. The answer goes out after the commit; workers are woken by it."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial

import psycopg
from django.db import IntegrityError, OperationalError, transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import arriving, bulk, waking
from handoffaudit.handoffs.actors import Actor
from handoffaudit.handoffs.arrivals import Arrival, Refusal, prepare
from handoffaudit.handoffs.arriving import Known
from handoffaudit.handoffs.models import State
from handoffaudit.handoffs.submission import Submission, read_submission
from handoffaudit.validation.issues import Issue

CLASHES = (IntegrityError, psycopg.errors.UniqueViolation)
CLASH_TRIES = 5

_one_writer = threading.RLock()


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a submission. `status`: 202 stored, 200 stored before with the same content, 422 stored as
    rejected, 409 the id is taken by other content, 403 or 413 refused. `id` is empty where nothing was stored."""

    status: int
    id: str = ""
    handoff_id: str = ""
    state: str = ""
    issues: tuple[Issue, ...] = ()
    title: str = ""
    detail: str = ""


def accept(tenant: Tenant, sender: Actor, submission: Submission) -> Receipt:
    """Stores one submission."""
    prepared = prepare(tenant.pk, tenant.slug, submission, timezone.now())
    if isinstance(prepared, Refusal):
        return _refused(prepared)
    if arriving.is_plain(prepared):
        known = arriving.store_one(prepared, sender)
        if known is None or not arriving.gives_way(known, prepared):
            return _receipt(prepared, known)
    return _receipt(prepared, _store([prepared], sender)[0])


def accept_batch(
    tenant: Tenant, sender: Actor, sent: Sequence[bytes], declared_format: str | None = None
) -> list[Receipt]:
    """Stores many; one receipt for each, in order. One bad item spoils no other."""
    return accept_many(tenant, sender, [read_submission(item, declared_format) for item in sent])


def accept_many(tenant: Tenant, sender: Actor, submissions: Sequence[Submission]) -> list[Receipt]:
    now = timezone.now()
    prepared = [prepare(tenant.pk, tenant.slug, submission, now) for submission in submissions]
    known = iter(_store([one for one in prepared if isinstance(one, Arrival)], sender))
    return [_refused(one) if isinstance(one, Refusal) else _receipt(one, next(known)) for one in prepared]


def _store(arrivals: list[Arrival], sender: Actor) -> list[Known | None]:
    for last in (False,) * (CLASH_TRIES - 1) + (True,):
        try:
            with turn(), transaction.atomic():
                known = arriving.store_many(arrivals, sender)
                transaction.on_commit(partial(_wake_for, arrivals))
                return known
        except CLASHES:
            # Another process stored one of these ids between our look and our insert; the next look sees it.
            if last:
                raise
        except OperationalError as error:
            # Retries of what is not known here have no row in common that they could take turns at.
            if last or not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise
    raise AssertionError("unreachable")


def turn() -> AbstractContextManager[object]:
    """SQLite has one writer at a time, and who waits for it sleeps; threads of one process had better queue here. Who
    opens a transaction around `accept` takes it first: else each of two would have what the other waits for."""
    return nullcontext() if bulk.on_postgresql() else _one_writer


def _wake_for(arrivals: list[Arrival]) -> None:
    if any(arrival.handoff.state == State.RECEIVED for arrival in arrivals):
        waking.wake()


def _refused(refusal: Refusal) -> Receipt:
    return Receipt(status=refusal.status, title=refusal.title, detail=refusal.detail)


def _receipt(arrival: Arrival, known: Known | None) -> Receipt:
    handoff = arrival.handoff
    if known is None:
        status = 422 if arrival.issues else 202
        return Receipt(status, str(handoff.id), handoff.handoff_id, handoff.state, arrival.issues)
    if known.content_hash == handoff.content_hash:
        return Receipt(200, str(known.pk), handoff.handoff_id, known.state)
    return Receipt(
        409,
        str(known.pk),
        handoff.handoff_id,
        known.state,
        title="The id is taken",
        detail=f"A handoff {handoff.handoff_id!r} with other content is stored. "
        "Use a new handoff_id, or send the same content.",
    )
