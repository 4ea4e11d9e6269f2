"""Pages show what a value rests on, and the calls of a trace's tools."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.dashboard import trace_page
from handoffaudit.handoffs import tool_results
from handoffaudit.handoffs.models import Handoff, ToolResult
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.validation.tool_results import Grade
from tests.handoffs.support import judged, payload

SignIn = Callable[[Person], Client]
pytestmark = pytest.mark.django_db


@pytest.fixture
def browser(sign_in: SignIn, viewer: Person) -> Client:
    return sign_in(viewer)


def captured(tenant: Tenant, result: Any, *, grade: Grade = Grade.OUTSIDE, **changes: Any) -> ToolResult:
    now = timezone.now()
    sent: dict[str, Any] = {"tool": "orders.get", "call_id": "call_17", "agent": "assistant", "at": now} | changes
    rows = tool_results.make_rows(tenant.pk, "t-1", [ToolResultIn(result=result, **sent)], now)
    tool_results.store(rows, "collector", grade, now)
    return ToolResult.objects.get(tenant=tenant, call_id=sent["call_id"])


def handoff(tenant: Tenant) -> Handoff:
    return judged(tenant, payload(data={"text": "The order costs 54.20."}), trace_id="t-1")


def test_a_value_leads_to_the_result_it_rests_on(browser: Client, tenant: Tenant) -> None:
    row = captured(tenant, {"total": 54.2})
    page = browser.get(f"/t/acme/handoffs/{handoff(tenant).pk}/").text
    assert f'<a class="small" href="/t/acme/tool-results/{row.pk}/">' in page
    assert "tool_results[orders_get #call_17].result.total" in page
    assert "captured outside the sender&#x27;s process" in page
    assert "not whether it is true" in page


def test_without_the_result_its_name_stays(browser: Client, tenant: Tenant) -> None:
    captured(tenant, {"total": 54.2})
    late = handoff(tenant)
    ToolResult.objects.all().delete()
    page = browser.get(f"/t/acme/handoffs/{late.pk}/").text
    assert "tool_results[orders_get #call_17].result.total" in page
    assert "/tool-results/" not in page


def test_the_page_of_a_result_says_what_is_known(browser: Client, tenant: Tenant) -> None:
    row = captured(tenant, {"total": 54.2, "name": "<b>\u202eMia</b>", "password": "hunter2-blue"})
    page = browser.get(f"/t/acme/tool-results/{row.pk}/").text
    for said in (
        "orders.get",
        "call_17",
        "assistant",
        "collector",
        row.sha256,
        "54.2",
        "whether the tool told the truth",
    ):
        assert said in page
    assert "&lt;b&gt;⟨U+202E⟩Mia" in page
    assert "hunter2" not in page
    assert "is longer" not in page
    said = captured(tenant, "x " * 10_000, grade=Grade.SAID, call_id="call_18")
    page = browser.get(f"/t/acme/tool-results/{said.pk}/").text
    assert "not evidence" in page
    assert "is longer" in page


def test_a_trace_lists_the_calls_of_its_tools(browser: Client, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    first = captured(tenant, {"total": 54.2}, at=timezone.now() - timedelta(minutes=1))
    shown = handoff(tenant)
    last = captured(tenant, "later", grade=Grade.SAID, call_id="call_18", agent="")
    page = browser.get("/t/acme/traces/t-1/")
    assert [(one.result.pk, one.before and one.before.handoff.pk) for one in page.context["calls"]] == [
        (first.pk, shown.pk),
        (last.pk, None),
    ]
    assert f"/t/acme/tool-results/{first.pk}/" in page.text
    assert "after 1 tool result" in page.text
    assert page.text.count('class="lane-calls"') == 4
    assert "Calls that were not captured are not listed." in page.text
    monkeypatch.setattr(trace_page, "MOST_CALLS", 1)
    assert "The first 1 results" in browser.get("/t/acme/traces/t-1/").text


def test_a_trace_without_tool_results_shows_no_list(browser: Client, tenant: Tenant) -> None:
    handoff(tenant)
    assert 'id="tool-results"' not in browser.get("/t/acme/traces/t-1/").text
