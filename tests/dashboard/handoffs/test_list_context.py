"""Tests of the links from a handoff's page along the list that it was opened from, and back to the list."""

import pytest
from django.test import Client

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs.models import Handoff, State
from tests.dashboard.handoff_page import Page, address, opened, payload, store

LIST = "/t/acme/handoffs/"


@pytest.fixture
def browser(client: Client, reviewer: Person) -> Client:
    client.force_login(reviewer)
    return client


@pytest.fixture
def rejected(tenant: Tenant) -> list[Handoff]:
    """Submit three rejected handoffs, with other handoffs between them."""
    found = []
    for number in range(3):
        found.append(store(tenant, payload(handoff_id=f"r-{number}", target_agent_id="planner")))
        store(tenant, payload(handoff_id=f"a-{number}"))
    return found


def along(page: Page) -> dict[str, str]:
    return {name: attrs["href"] or "" for _, attrs in page.tags if (name := attrs.get("rel")) in ("prev", "next")}


def test_rows_of_the_list_lead_along_it_with_its_filters(browser: Client, rejected: list[Handoff]) -> None:
    query = "?in=handoffs&state=rejected&type=research_result"
    rows = Page(browser.get(f"{LIST}?state=rejected&type=research_result").text)
    assert address(rejected[1], query) in rows.links()
    page = opened(browser, rejected[1], query)
    assert along(page) == {"prev": address(rejected[2], query), "next": address(rejected[0], query)}
    assert f"{LIST}?state=rejected&type=research_result" in page.links()
    assert "Handoffs: state rejected, type research_result" in page.html
    # What leads to other parts of the page stays in the list.
    assert "?view=raw&in=handoffs&state=rejected&type=research_result#document" in page.links()


def test_the_ends_of_a_list_are_told(browser: Client, rejected: list[Handoff]) -> None:
    assert "It is the last" in opened(browser, rejected[0], "?in=handoffs&state=rejected").html
    assert "It is the first" in opened(browser, rejected[2], "?in=handoffs&state=rejected").html


def test_one_that_fits_no_more_says_so_and_leads_on(browser: Client, rejected: list[Handoff]) -> None:
    query = "?in=handoffs&state=rejected"
    assert "not in the list any more" not in opened(browser, rejected[1], query).html
    Handoff.objects.filter(pk=rejected[1].pk).update(state=State.DECLINED)
    page = opened(browser, rejected[1], query)
    assert "not in the list any more" in page.html
    assert along(page) == {"prev": address(rejected[2], query), "next": address(rejected[0], query)}


def test_a_decision_stays_in_the_list(browser: Client, rejected: list[Handoff]) -> None:
    page = opened(browser, rejected[1], "?in=handoffs&state=rejected")
    carried = next(attrs["value"] for _, attrs in page.tags if attrs.get("name") == "list")
    sent = {"decision": "decline", "note": "no", "version": str(rejected[1].version), "next": "handoff"}
    answer = browser.post(address(rejected[1], "decide/"), {**sent, "list": carried or ""})
    assert answer["Location"] == address(rejected[1], "?in=handoffs&state=rejected")


@pytest.mark.parametrize("bad", ["//evil.example", "in=handoffs&state=lost", "in=group&group=x", "in=elsewhere"])
def test_what_no_page_carries_is_not_carried_on(browser: Client, rejected: list[Handoff], bad: str) -> None:
    sent = {"decision": "decline", "note": "no", "version": str(rejected[0].version), "next": "handoff"}
    assert browser.post(address(rejected[0], "decide/"), {**sent, "list": bad})["Location"] == address(rejected[0])
    if bad.startswith("in="):
        assert along(opened(browser, rejected[1], f"?{bad}")) == {}


def test_a_finding_groups_handoffs(browser: Client, rejected: list[Handoff]) -> None:
    attribution.run()
    group = FindingGroup.objects.get(code="chain.circular")
    query = f"?in=group&group={group.pk}"
    assert address(rejected[2], query) in Page(browser.get(f"/t/acme/groups/{group.pk}/").text).links()
    page = opened(browser, rejected[1], query)
    assert along(page) == {"prev": address(rejected[2], query), "next": address(rejected[0], query)}
    assert f"/t/acme/groups/{group.pk}/" in page.links()
    assert "not in the list any more" in opened(browser, Handoff.objects.get(handoff_id="a-0"), query).html


def test_another_tenants_group_is_none(browser: Client, rejected: list[Handoff], other_tenant: Tenant) -> None:
    attribution.run()
    FindingGroup.objects.update(tenant=other_tenant)
    pk = FindingGroup.objects.values_list("pk", flat=True)[0]
    assert along(opened(browser, rejected[1], f"?in=group&group={pk}")) == {}


def test_a_trace_goes_in_the_order_of_the_work(browser: Client, tenant: Tenant) -> None:
    work = [store(tenant, payload(handoff_id=f"w-{number}"), trace_id="work") for number in range(3)]
    assert address(work[1], "?in=trace") in Page(browser.get("/t/acme/traces/work/").text).links()
    page = opened(browser, work[1], "?in=trace")
    assert along(page) == {"prev": address(work[0], "?in=trace"), "next": address(work[2], "?in=trace")}
    assert "/t/acme/traces/work/" in page.links()
