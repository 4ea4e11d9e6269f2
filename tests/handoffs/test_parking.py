"""Tests of parked handoffs that get another try on request."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, queries
from handoffaudit.handoffs.models import ActorKind, Handoff, State
from handoffaudit.handoffs.transitions import Actor
from tests.handoffs.support import assert_counts_are_right, judged, let_leases_expire, payload, submit, take

pytestmark = pytest.mark.django_db
ADA = Actor(ActorKind.PERSON, "ada")


@pytest.fixture
def parked(tenant: Tenant) -> Handoff:
    receipt = submit(tenant, payload(handoff_id="h"))
    take(1)
    let_leases_expire()
    take(1)
    Handoff.objects.update(tries=4, claim_expires_at=timezone.now() - timedelta(seconds=1))
    assert judge.park_exhausted() == 1
    return queries.get(tenant, receipt.id)


def test_another_try_judges_it(tenant: Tenant, parked: Handoff) -> None:
    assert judge.drain() == 0
    asked = judge.retry_parked(tenant=tenant, reference="h", actor=ADA)
    assert (asked.state, asked.parked, asked.tries) == (State.RECEIVED, False, 0)
    assert judge.drain() == 1
    told = [(event.from_state, event.to_state, event.actor) for event in queries.events(parked)]
    assert told[2:] == [
        ("validating", "validating", "handoffaudit"),
        ("validating", "received", "ada"),
        ("received", "validating", "handoffaudit"),
        ("validating", "accepted", "handoffaudit"),
    ]
    assert queries.get(tenant, "h").version == 3
    assert_counts_are_right()


def test_what_is_not_parked_raises(tenant: Tenant, parked: Handoff) -> None:
    judge.retry_parked(tenant=tenant, reference="h", actor=ADA)
    done = judged(tenant, payload())
    for reference in ("h", str(done.pk)):
        with pytest.raises(judge.NotParked):
            judge.retry_parked(tenant=tenant, reference=reference, actor=ADA)


def test_another_tenants_does_not_exist(other_tenant: Tenant, parked: Handoff) -> None:
    with pytest.raises(Handoff.DoesNotExist):
        judge.retry_parked(tenant=other_tenant, reference=str(parked.pk), actor=ADA)
    assert Handoff.objects.get().parked
