"""Tests of alerts: counted while open, and closed once by a person or by an LLM that answers again."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from structlog.testing import capture_logs

from handoffaudit.accounts import Refused
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.handoffs import alerts, tasks
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.models import Alert, Handoff, ModelCall
from tests.handoffs.support import at_once, judged, payload

REJECTED = AlertKind.WOULD_HAVE_REJECTED


def called(tenant: Tenant, outcome: str, ago: float = 0, **changes: Any) -> ModelCall:
    at = timezone.now() - timedelta(seconds=ago)
    values = {"use": "grounding", "model": "m", "prompt": "grounding@1", "tries": 1} | changes
    return ModelCall.objects.create(tenant=tenant, at=at, outcome=outcome, **values)


def unverified(tenant: Tenant) -> Handoff:
    handoff = judged(tenant, payload(tenant_id=tenant.slug))
    Handoff.objects.filter(pk=handoff.pk).update(unverified=True)
    return handoff


def outage(tenant: Tenant) -> Alert | None:
    """Look for an outage of the LLM, and return the open alert where there is one."""
    alerts.look_for_outage(tenant.pk)
    return next((one for one in alerts.list_open(tenant) if one.kind == AlertKind.MODEL_UNAVAILABLE), None)


@pytest.mark.django_db
def test_calls_before_the_clock_was_set_back_say_nothing_about_an_outage(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "ok", ago=-3600)
    called(tenant, "timeout")
    assert outage(tenant) is not None


@pytest.mark.django_db
def test_a_tenant_that_fails_leaves_the_outage_alerts_of_others(
    tenant: Tenant, other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = alerts.find_newest_call

    def fail_for_the_first(tenant_id: int) -> ModelCall | None:
        if tenant_id == tenant.pk:
            raise KeyError(tenant_id)
        return find(tenant_id)

    unverified(other_tenant)
    called(other_tenant, "timeout")
    monkeypatch.setattr(alerts, "find_newest_call", fail_for_the_first)
    monkeypatch.setattr(alerts, "is_configured", lambda: True)
    monkeypatch.setattr(alerts, "_looked_at", 0.0)
    with capture_logs() as logs:
        alerts.watch_outages()
    assert [one["tenant"] for one in logs] == [tenant.pk]
    assert [one.kind for one in alerts.list_open(other_tenant)] == [AlertKind.MODEL_UNAVAILABLE]


@pytest.mark.django_db
def test_one_of_a_kind_is_open_and_counts_up(tenant: Tenant, other_tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, REJECTED, 2)
    alerts.raise_alert(tenant.pk, REJECTED, 3)
    alerts.raise_alert(tenant.pk, AlertKind.MODEL_UNAVAILABLE, 1)
    assert {one.kind: one.number for one in alerts.list_open(tenant)} == {REJECTED: 5, AlertKind.MODEL_UNAVAILABLE: 1}
    assert alerts.list_open(other_tenant) == []


@pytest.mark.django_db
def test_a_number_that_no_open_alert_took_is_logged(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "_ATTEMPTS", 1)
    with capture_logs() as logged:
        alerts.raise_alert(tenant.pk, REJECTED, 2)
        alerts.raise_alert(tenant.pk, REJECTED, 3)
    assert [(one["log_level"], one["number"], one["tenant"]) for one in logged] == [("warning", 2, tenant.pk)]
    assert [one.number for one in alerts.list_open(tenant)] == [3]


@pytest.mark.django_db(transaction=True)
def test_raised_by_many_at_once_none_is_lost(tenant: Tenant) -> None:
    outcomes = at_once(*[lambda: alerts.raise_alert(tenant.pk, REJECTED, 1)] * 12)
    assert outcomes == [None] * 12
    [one] = alerts.list_open(tenant)
    assert one.number == 12


@pytest.mark.django_db(transaction=True)
def test_raised_while_somebody_acknowledges_none_is_lost(tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, REJECTED, 1)
    [first] = alerts.list_open(tenant)
    raising = [lambda: alerts.raise_alert(tenant.pk, REJECTED, 1)] * 8
    acknowledging = [lambda: alerts.acknowledge(tenant=tenant, alert=first.pk, actor="rui")] * 2
    outcomes = at_once(*raising, *acknowledging)
    assert [one for one in outcomes if isinstance(one, Exception)] == []
    assert sum(Alert.objects.values_list("number", flat=True)) == 9
    assert AuditEntry.objects.count() == 1


@pytest.mark.django_db
def test_acknowledging_is_in_the_audit_log_and_done_once(tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, REJECTED, 4)
    [one] = alerts.list_open(tenant)
    for _ in range(2):
        closed = alerts.acknowledge(tenant=tenant, alert=one.pk, actor="rui")
    assert closed.acknowledged_by == "rui"
    assert alerts.list_open(tenant) == []
    [entry] = AuditEntry.objects.filter(tenant=tenant)
    assert (entry.action, entry.actor, entry.target) == ("alert.acknowledge", "rui", REJECTED)
    assert entry.detail["number"] == 4
    alerts.raise_alert(tenant.pk, REJECTED, 1)
    assert [again.number for again in alerts.list_open(tenant)] == [1]


@pytest.mark.django_db
def test_another_tenants_alert_is_not_there(tenant: Tenant, other_tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, REJECTED, 1)
    [one] = alerts.list_open(tenant)
    with pytest.raises(Refused):
        alerts.acknowledge(tenant=other_tenant, alert=one.pk, actor="stranger")
    assert len(alerts.list_open(tenant)) == 1


@pytest.mark.django_db
def test_an_outage_is_told_with_what_waits_for_the_model(tenant: Tenant) -> None:
    assert outage(tenant) is None
    called(tenant, "overloaded")
    assert outage(tenant) is None, "nothing passed unchecked"
    unverified(tenant)
    assert outage(tenant).number == 1
    unverified(tenant)
    called(tenant, "breaker_open", tries=0)
    assert outage(tenant).number == 2
    assert Alert.objects.count() == 1


@pytest.mark.django_db
def test_an_outage_ends_when_the_model_answers(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "overloaded")
    assert outage(tenant)
    called(tenant, "ok", cached=True, tries=0)
    assert outage(tenant), "a kept answer says nothing of the model"
    called(tenant, "ok")
    assert outage(tenant) is None
    assert Alert.objects.get().acknowledged_by == "handoffaudit"
    assert not AuditEntry.objects.exists()
    called(tenant, "timeout")
    assert outage(tenant), "it is down again"


@pytest.mark.django_db
@pytest.mark.parametrize("outcome", ["malformed_answer", "too_dear"])
def test_what_is_wrong_with_one_question_is_no_outage(outcome: str, tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, outcome)
    assert outage(tenant) is None


@pytest.mark.django_db
def test_a_request_refused_for_its_size_or_contents_is_no_outage(tenant: Tenant) -> None:
    unverified(tenant)
    for status in (413, 422):
        called(tenant, "refused", http_status=status)
    assert outage(tenant) is None
    called(tenant, "refused", http_status=400)
    assert outage(tenant), "the account may have no credit"


@pytest.mark.django_db
def test_an_outage_ends_when_the_key_is_removed(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "overloaded")
    assert outage(tenant)
    for _ in range(2):
        tasks.sweep()
        tasks.sweep_checks()
        assert alerts.list_open(tenant) == []
    assert Alert.objects.get().acknowledged_by == "handoffaudit"


@pytest.mark.django_db
def test_a_failure_of_yesterday_is_no_outage(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "overloaded", ago=86_400)
    assert outage(tenant) is None


@pytest.mark.django_db
def test_who_acknowledged_an_outage_is_told_again_after_the_next_answer_only(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "overloaded")
    alerts.acknowledge(tenant=tenant, alert=outage(tenant).pk, actor="rui")
    called(tenant, "overloaded")
    assert outage(tenant) is None
    called(tenant, "ok")
    called(tenant, "overloaded")
    assert outage(tenant)


@pytest.mark.django_db
def test_an_acknowledgement_before_the_clock_was_set_back_keeps_no_outage_back(tenant: Tenant) -> None:
    unverified(tenant)
    called(tenant, "overloaded")
    alerts.acknowledge(tenant=tenant, alert=outage(tenant).pk, actor="rui")
    Alert.objects.update(acknowledged_at=timezone.now() + 2 * alerts.QUIET)
    assert outage(tenant)


@pytest.mark.django_db
def test_each_tenant_has_its_own_outage(tenant: Tenant, other_tenant: Tenant) -> None:
    for one in (tenant, other_tenant):
        unverified(one)
    called(tenant, "budget", tries=0)
    called(other_tenant, "ok")
    assert outage(tenant)
    assert outage(other_tenant) is None


@pytest.mark.django_db
def test_the_watch_goes_over_every_tenant_now_and_then(
    tenant: Tenant, other_tenant: Tenant, monkeypatch, settings
) -> None:
    settings.ANTHROPIC_API_KEY = "sk-of-the-tests"
    monkeypatch.setattr(alerts, "_looked_at", 0.0)
    for one in (tenant, other_tenant):
        unverified(one)
        called(one, "overloaded")
    alerts.watch_outages()
    assert Alert.objects.filter(acknowledged_at=None).count() == 2
    called(tenant, "ok")
    alerts.watch_outages()
    assert Alert.objects.filter(acknowledged_at=None).count() == 2, "it looked a moment ago"
    monkeypatch.setattr(alerts, "_looked_at", 1e-9)
    alerts.watch_outages()
    assert alerts.list_open(tenant) == []
