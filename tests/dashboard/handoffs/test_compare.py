"""Tests of the comparison of a handoff with the nearest accepted one of its route and type."""

from uuid import uuid4

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import compare
from handoffaudit.handoffs.compare import find_accepted
from handoffaudit.handoffs.models import Handoff
from tests.dashboard.handoff_page import address, payload, store
from tests.pages import attributes, texts

pytestmark = pytest.mark.django_db


@pytest.fixture
def vik(viewer: Person) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


def passed(tenant: Tenant, name: str, trace: str = "", **changes: object) -> Handoff:
    handoff = store(tenant, payload(handoff_id=name, **changes), **({"trace_id": trace} if trace else {}))
    assert handoff.state == "accepted"
    return handoff


def failed(tenant: Tenant, trace: str = "", **changes: object) -> Handoff:
    document = payload(handoff_id=f"failed-{uuid4()}", call_chain=["writer", "researcher"], **changes)
    handoff = store(tenant, document, **({"trace_id": trace} if trace else {}))
    assert handoff.state == "rejected"
    return handoff


def nearest(handoff: Handoff, **more: str) -> str | None:
    found = find_accepted(handoff, **more)
    return found.handoff_id if found else None


def test_the_nearest_is_of_the_trace_and_else_of_the_route_and_type(tenant: Tenant, other_tenant: Tenant) -> None:
    handoff = failed(tenant, trace="t")
    assert nearest(handoff) is None
    store(other_tenant, payload(handoff_id="theirs", tenant_id=other_tenant.slug))
    passed(tenant, "another type", handoff_type="deal_data_v2")
    passed(tenant, "another route", target_agent_id="editor")
    assert nearest(handoff) is None
    passed(tenant, "route")
    passed(tenant, "later in the trace", trace="t")
    assert nearest(handoff) == "later in the trace"
    passed(tenant, "in the trace", trace="u")
    passed(tenant, "newest")
    assert nearest(failed(tenant, trace="u")) == "in the trace"
    assert nearest(failed(tenant)) == "newest"
    assert nearest(Handoff.objects.get(handoff_id="newest")) == "in the trace"


def test_one_with_the_same_finding_did_not_pass(tenant: Tenant) -> None:
    first, second = passed(tenant, "clean"), passed(tenant, "warned")
    Handoff.objects.filter(pk=second.pk).update(codes=["tokens.over_budget"])
    handoff = failed(tenant)
    assert nearest(handoff) == "warned"
    assert nearest(handoff, without="tokens.over_budget") == first.handoff_id


def test_a_handoff_stands_beside_the_accepted_one(vik: Client, tenant: Tenant) -> None:
    passed(tenant, "good", data={"text": "Three <b>answered</b>."})
    handoff = failed(tenant)
    page = vik.get(address(handoff))
    [link] = [one for one in attributes(page, ".page-actions a", "href") if one.endswith("/compare/")]
    compared = vik.get(link)
    rows = texts(compared, "table.pair-table tr")
    assert "good" in rows[0]
    assert any("data.text" in row and "Three <b>answered</b>." in row for row in rows)
    assert "<b>answered</b>" not in compared.text
    assert any("accepted" in row and "rejected" in row for row in rows)


def test_without_an_accepted_one_the_page_says_so(vik: Client, tenant: Tenant) -> None:
    answer = vik.get(address(failed(tenant), "compare/"))
    assert answer.status_code == 200
    assert "No accepted handoff to compare with" in answer.text


@pytest.mark.parametrize("text", ["x", "\u0661", "0" * 5000])
def test_another_one_is_named_and_must_be_of_the_tenant(
    vik: Client, tenant: Tenant, other_tenant: Tenant, text: str
) -> None:
    handoff, other = failed(tenant), passed(tenant, "named", target_agent_id="editor")
    page = vik.get(address(handoff, "compare/"), {"with": str(other.pk)})
    assert "The handoff that the address names" in page.text
    assert texts(page, "table.pair-table thead th")[1] == "named"
    theirs = store(other_tenant, payload(handoff_id="theirs", tenant_id=other_tenant.slug))
    for reference in (text, str(theirs.pk)):
        refused = vik.get(address(handoff, "compare/"), {"with": reference})
        assert refused.status_code == 400
        assert "use the id of a handoff of this tenant" in refused.text


def test_a_document_that_is_not_compared_says_why(vik: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "LARGEST", 100)
    passed(tenant, "large")
    assert "the accepted handoff is larger than 0 KiB" in vik.get(address(failed(tenant), "compare/")).text


def test_a_finding_group_shows_one_that_passed_beside_one_that_failed(vik: Client, tenant: Tenant) -> None:
    handoff = failed(tenant)
    attribution.run()
    group = FindingGroup.objects.filter(tenant=tenant, code="chain.circular").get()
    page = f"/t/acme/groups/{group.pk}/"
    assert "was accepted without this finding" in vik.get(page).text
    passed(tenant, "good")
    assert texts(vik.get(page), "table.pair-table thead th")[1:] == ["good", handoff.handoff_id[:39] + "…"]
