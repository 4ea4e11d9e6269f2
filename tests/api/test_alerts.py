"""Tests of `GET /api/v1/alerts`: active or resolved alerts, newest first."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import alerts
from handoffaudit.handoffs.alerts import AlertKind
from handoffaudit.handoffs.llm.client import OK
from tests.api.support import client, make_key
from tests.handoffs.test_alerts import called

pytestmark = pytest.mark.django_db


def test_alerts_are_told_in_words_and_figures(tenant: Tenant) -> None:
    alerts.raise_alert(tenant.pk, AlertKind.WOULD_HAVE_REJECTED, 2)
    (told,) = client(make_key(tenant, "read")).get("/alerts").json()["items"]
    assert (told["kind"], told["level"], told["value"], told["number"]) == ("would_have_rejected", "alert", 2.0, 2)
    assert told["text"] == "The LLM would have rejected 2 handoffs that passed without its check"
    assert told["handoffs"] == "/api/v1/handoffs?flag=flagged"
    assert (told["closed_at"], told["closed_by"], told["told_at"]) == (None, None, None)


def test_those_that_stand_and_those_that_are_over(tenant: Tenant, other_tenant: Tenant) -> None:
    for of, kind in (
        (tenant, AlertKind.WOULD_HAVE_REJECTED),
        (tenant, AlertKind.WEBHOOK_FAILING),
        (other_tenant, AlertKind.FAIL_OPEN),
    ):
        alerts.raise_alert(of.pk, kind, 1)
    first = alerts.list_alerts(tenant)[-1]
    alerts.acknowledge(tenant=tenant, alert=first.pk, actor="ada")
    asking = client(make_key(tenant, "read"))

    def kinds(query: str) -> list[str]:
        return [one["kind"] for one in asking.get(f"/alerts{query}").json()["items"]]

    assert kinds("") == ["webhook_failing", "would_have_rejected"]
    assert kinds("?open=true") == ["webhook_failing"]
    assert kinds("?open=false") == ["would_have_rejected"]


def test_who_closed_it_is_told_where_somebody_did(tenant: Tenant) -> None:
    for kind in (AlertKind.WEBHOOK_FAILING, AlertKind.MODEL_UNAVAILABLE):
        alerts.raise_alert(tenant.pk, kind, 1)
    by_itself, by_ada = alerts.list_alerts(tenant)
    alerts.acknowledge(tenant=tenant, alert=by_ada.pk, actor="ada")
    called(tenant, OK, ago=-1)
    alerts.look_for_outage(tenant.pk)
    told = client(make_key(tenant, "read")).get("/alerts").json()["items"]
    assert [(one["id"], one["closed_by"]) for one in told] == [(by_itself.pk, None), (by_ada.pk, "ada")]
    assert all(one["closed_at"] for one in told)


def test_it_is_read_page_by_page(tenant: Tenant) -> None:
    for kind in (AlertKind.WOULD_HAVE_REJECTED, AlertKind.WEBHOOK_FAILING, AlertKind.FAIL_OPEN):
        alerts.raise_alert(tenant.pk, kind, 1)
    asking = client(make_key(tenant, "read"))
    first = asking.get("/alerts?limit=2").json()
    second = asking.get(f"/alerts?limit=2&cursor={first['next']}").json()
    assert [one["kind"] for one in first["items"] + second["items"]] == [
        *("fail_open", "webhook_failing", "would_have_rejected")
    ]
    assert second["next"] is None
    bad = asking.get("/alerts?cursor=x")
    assert (bad.status_code, bad.json()["status"]) == (400, 400)
