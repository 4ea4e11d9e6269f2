"""Tests of the panel beside a list: the address that names the open item, and the page of the item as a panel."""

from collections.abc import Callable
from uuid import UUID

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs.models import Handoff
from tests.diagnostics.groups.support import found, group
from tests.pages import attributes, links, only, select, texts

pytestmark = pytest.mark.django_db

PANEL = {"HX-Request": "true", "HX-Target": "panel"}
Submit = Callable[..., Handoff]


@pytest.fixture
def browser(sign_in: Callable[[Person], Client], viewer: Person) -> Client:
    return sign_in(viewer)


def in_trace(handoff: Handoff, trace: str) -> Handoff:
    Handoff.objects.filter(pk=handoff.pk).update(trace_id=trace)
    return handoff


def test_a_handoff_in_the_panel_is_its_page_without_the_frame(browser: Client, submit: Submit) -> None:
    one = submit()
    address = f"/t/acme/handoffs/{one.pk}/?in=handoffs"
    whole, panel = browser.get(address), browser.get(address, headers=PANEL)
    assert select(panel, "nav.pages, h1, main") == []
    assert links(panel, ".panel-head a") == [address]
    assert texts(panel, "section h2") == texts(whole, "section h2")
    assert "HX-Target" in panel["Vary"]


def test_findings_and_traces_open_in_the_panel_too(browser: Client, submit: Submit, tenant: Tenant) -> None:
    in_trace(submit(), "t-1")
    found(tenant, 1)
    for address in ("/t/acme/traces/t-1/", f"/t/acme/groups/{group(tenant).pk}/"):
        panel = browser.get(address, headers=PANEL)
        assert panel.status_code == 200, address
        assert links(panel, ".panel-head a") == [address]
        assert select(panel, "h1") == []


def test_the_address_of_a_list_names_the_open_item(browser: Client, submit: Submit, tenant: Tenant) -> None:
    one = in_trace(submit(), "t-1")
    found(tenant, 1)
    finding = group(tenant)
    for page, item, address in (
        ("handoffs", str(one.pk), f"/t/acme/handoffs/{one.pk}/?in=handoffs&state=accepted"),
        ("groups", str(finding.pk), f"/t/acme/groups/{finding.pk}/"),
        ("traces", "t-1", "/t/acme/traces/t-1/"),
    ):
        answer = browser.get(f"/t/acme/{page}/", {"state": "accepted", "open": item})
        assert attributes(answer, "#panel", "data-href") == [address]
        # Without JavaScript, the link leads to the item.
        assert links(answer, "#panel a") == [address]
        assert item in attributes(answer, "[data-row]", "data-item")
    assert "hidden" in only(browser.get("/t/acme/handoffs/"), "#panel").attributes


@pytest.mark.parametrize(
    "address",
    [
        "handoffs/?open=x",
        "handoffs/?open=%00",
        "groups/?open=-1",
        "groups/?open=9999999999999",
        "groups/?open=%EF%BC%91",
    ],
)
def test_an_id_that_no_item_can_have_is_not_found(browser: Client, address: str) -> None:
    assert browser.get(f"/t/acme/{address}").status_code == 404


@pytest.mark.parametrize("trace", ["..", "a\nb", "a/../b"])
def test_a_trace_without_a_page_opens_nothing(browser: Client, submit: Submit, trace: str) -> None:
    assert attributes(browser.get("/t/acme/traces/", {"open": trace}), "#panel", "data-href") == [""]


def test_an_item_of_another_tenant_is_answered_as_its_page_answers(
    browser: Client, submit_to: Submit, other_tenant: Tenant
) -> None:
    theirs = in_trace(submit_to(other_tenant), "theirs")
    found(other_tenant, 1, tenant_id=other_tenant.slug)
    for address in (
        f"handoffs/{theirs.pk}",
        f"handoffs/{UUID(int=5)}",
        "traces/theirs",
        f"groups/{group(other_tenant).pk}",
    ):
        answer = browser.get(f"/t/acme/{address}/", headers=PANEL)
        assert answer.status_code == 404, address
        assert select(answer, "h1, nav.pages") == []
        what = "handoff" if "handoffs" in address else "page"
        assert texts(answer, ".panel-title") == [f"There is no such {what}"]
    listed = browser.get("/t/acme/handoffs/", {"open": str(theirs.pk)})
    assert listed.status_code == 200
    assert str(theirs.pk) not in attributes(listed, "[data-row]", "data-item")
