"""Decisions and verdicts of a tenant, sealed, and SQL that changes stored rows behind the product's back."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.conf import settings
from django.db import connection, transaction

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import ActorKind, Handoff
from handoffaudit.handoffs.review import decisions as review_decide
from handoffaudit.handoffs.review import undo
from handoffaudit.handoffs.review.decisions import Decision
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.trust import chain, seals, signatures
from handoffaudit.trust.models import TrustLease
from handoffaudit.trust.signatures import SealKey
from tests.handoffs.support import circular, held, judged, payload, set_policy

ADA = Actor(ActorKind.PERSON, "ada")


def own_key() -> SealKey:
    return signatures.load_key(settings.DATA_FOLDER)


def decide(tenant: Tenant, handoff: Handoff, decision: Decision = Decision.APPROVE, note: str = "It is right.") -> None:
    review_decide.decide_handoff(
        tenant=tenant, reference=str(handoff.pk), decision=decision, note=note, actor=ADA, seen_version=None
    )


def seal_all() -> None:
    TrustLease.objects.all().delete()
    seals.seal_due()


def sealed_history(tenant: Tenant) -> list[Handoff]:
    """Store verdicts, an approval, a decline, a reopening and a policy, in three seals. Return the handoffs."""
    found = [judged(tenant, payload()), judged(tenant, circular()), judged(tenant, held())]
    seal_all()
    decide(tenant, found[1])
    decide(tenant, found[2], Decision.DECLINE, "The chain is too long.")
    seal_all()
    undo.reopen(tenant=tenant, reference=str(found[1].pk), note="A mistake.", actor=ADA, seen_version=None)
    set_policy(tenant, "research_result", token_budget=900)
    seal_all()
    return found


@contextmanager
def undone() -> Iterator[None]:
    """Undo what the block changes in the database."""
    start = transaction.savepoint()
    yield
    transaction.savepoint_rollback(start)


def verify(tenant: Tenant) -> chain.Report:
    return chain.verify(tenant, own_key().public)


def run_sql(statement: str, *values: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
        return cursor.rowcount
