"""Tests of the choice, the time and the order of later checks of unverified handoffs."""

from datetime import timedelta

import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import tasks
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.models import Handoff, HandoffBody, ModelBreaker, ModelCall, ModelCheck, ModelSpend, State
from tests.handoffs.support import assert_counts_are_right, checked, circular, payload
from tests.handoffs.unverified import asked_about, numbered, unverified
from tests.messages_api.scripted import fails
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db


def test_rejected_ones_are_not_gone_over(tenant: Tenant, model: MessagesServer) -> None:
    model.outage = 529
    assert checked(tenant, circular()).state == State.REJECTED
    model.outage = 0
    ModelBreaker.objects.all().delete()
    assert run.enqueue_unverified() == 0


def test_the_oldest_come_first_and_a_few_at_a_time_go_on_by_themselves(
    tenant: Tenant, model: MessagesServer, settings
) -> None:
    settings.MODEL_CONCURRENCY = 2
    for number in range(7):
        unverified(tenant, model, numbered(number))
    assert run.enqueue_unverified() == 2
    assert run.enqueue_unverified() == 0
    assert run.drain() == 7
    assert asked_about(model) == list(range(7))
    assert not Handoff.objects.filter(unverified=True).exists()


def test_tenants_take_turns(tenant: Tenant, other_tenant: Tenant, model: MessagesServer, settings) -> None:
    settings.MODEL_CONCURRENCY = 4
    for number in range(5):
        unverified(tenant, model, numbered(number))
    for number in range(2):
        unverified(other_tenant, model, numbered(number, tenant_id="globex"))
    assert run.enqueue_unverified() == 4
    queued = list(ModelCheck.objects.order_by("tenant").values_list("tenant", flat=True))
    assert queued == [tenant.pk] * 2 + [other_tenant.pk] * 2
    assert set(ModelCheck.objects.values_list("handoff__tenant", "tenant")) == {
        (one.pk, one.pk) for one in (tenant, other_tenant)
    }


def test_tenants_with_nothing_to_go_over_cost_nothing(
    tenant: Tenant, model: MessagesServer, django_assert_max_num_queries
) -> None:
    for number in range(30):
        Tenant.objects.create(slug=f"t{number}", name="T")
    unverified(tenant, model, payload())
    with django_assert_max_num_queries(8):
        assert run.enqueue_unverified() == 1


def test_what_is_too_old_is_left_as_it_is(tenant: Tenant, model: MessagesServer, settings) -> None:
    old = unverified(tenant, model, payload())
    moment = timezone.now() - timedelta(hours=settings.MODEL_CATCH_UP_HOURS, minutes=1)
    pk = first_id_at(moment)
    Handoff.objects.filter(pk=old.pk).update(id=pk)
    HandoffBody.objects.filter(pk=old.pk).update(handoff=pk)
    assert run.enqueue_unverified() == 0
    settings.MODEL_CATCH_UP_HOURS += 1
    assert run.enqueue_unverified() == 1


def breaker(**columns: object) -> None:
    ModelBreaker.objects.update_or_create(
        model="claude-haiku-5-5", defaults={"failures": 5, "reason": "overloaded", **columns}
    )


def test_while_the_breaker_is_open_nothing_is_queued_and_then_one_as_a_probe(
    tenant: Tenant, model: MessagesServer
) -> None:
    for number in range(4):
        unverified(tenant, model, numbered(number))
    soon, past = timezone.now() + timedelta(minutes=1), timezone.now() - timedelta(seconds=1)
    breaker(open_until=soon)
    assert run.enqueue_unverified() == 0
    breaker(open_until=past, probing_until=soon)
    assert run.enqueue_unverified() == 0
    breaker(open_until=past, probing_until=None)
    assert [run.enqueue_unverified() for _ in range(2)] == [1, 0]
    # It is answered, and the others follow.
    assert run.drain() == 4
    assert asked_about(model) == [0, 1, 2, 3]


def test_a_probe_that_fails_leaves_all_as_they_are(tenant: Tenant, model: MessagesServer) -> None:
    for number in range(3):
        unverified(tenant, model, numbered(number))
    breaker(open_until=timezone.now() - timedelta(seconds=1))
    model.outage = 529
    calls = ModelCall.objects.count()
    for _ in range(5):
        tasks.sweep_checks()
        run.drain()
    assert len(model.requests) == 1
    assert ModelCall.objects.count() == calls + 1
    assert Handoff.objects.filter(unverified=True, state=State.ACCEPTED).count() == 3
    assert not ModelCheck.objects.exists()
    assert_counts_are_right()


def test_failures_of_a_model_that_is_not_used_for_this_do_not_matter(tenant: Tenant, model: MessagesServer) -> None:
    for number in range(3):
        unverified(tenant, model, numbered(number))
    ModelBreaker.objects.create(model="claude-typo", failures=9, open_until=timezone.now() + timedelta(hours=1))
    assert run.enqueue_unverified() == 3


def test_one_that_is_never_answered_does_not_keep_the_others_waiting(
    tenant: Tenant, model: MessagesServer, settings
) -> None:
    settings.MODEL_CONCURRENCY = 1
    first = unverified(tenant, model, numbered(0))
    for number in (1, 2):
        unverified(tenant, model, numbered(number))
    model.respond = lambda request: fails(400) if "Number 0" in request.content else None
    for _ in range(5):
        tasks.sweep_checks()
        run.drain()
    assert asked_about(model) == [0, 1, 2]
    assert list(Handoff.objects.filter(unverified=True)) == [first]
    row = ModelCheck.objects.get()
    assert (row.handoff_id, row.claim, row.claim_expires_at > timezone.now()) == (first.pk, None, True)
    ModelCheck.objects.update(claim_expires_at=timezone.now())
    model.respond = None
    run.drain()
    assert not Handoff.objects.filter(unverified=True).exists()


def test_who_has_no_money_left_waits_and_the_others_do_not(
    tenant: Tenant, other_tenant: Tenant, model: MessagesServer, settings
) -> None:
    unverified(tenant, model, numbered(1))
    unverified(other_tenant, model, numbered(2, tenant_id="globex"))
    # So little is left that no call fits in.
    ModelSpend.objects.filter(tenant=tenant).update(usd=settings.MODEL_DAILY_USD - 1e-6)
    for _ in range(5):
        tasks.sweep_checks()
        run.drain()
    assert asked_about(model) == [2]
    assert ModelCall.objects.filter(outcome="budget").count() == 1
    assert Handoff.objects.filter(unverified=True).values_list("tenant", flat=True).get() == tenant.pk
    ModelSpend.objects.all().delete()
    ModelCall.objects.filter(outcome="budget").update(at=timezone.now() - timedelta(hours=1))
    tasks.sweep_checks()
    run.drain()
    assert asked_about(model) == [2, 1]
