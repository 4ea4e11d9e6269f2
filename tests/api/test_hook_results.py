"""Tests of tool results in hook events: what becomes evidence, and what does not."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from handoffaudit.accounts.keys import REFUSED_ACTION
from handoffaudit.accounts.models import AuditEntry, Scope, Tenant
from handoffaudit.handoffs.models import Handoff, ToolResult
from tests.api.support import client, make_key
from tests.handoffs.hooks.support import SESSION, before, event, gist, post, rules, stop, worker

pytestmark = pytest.mark.django_db(transaction=True)

ALLOWED = ("NOT_APPLICABLE", False, 0)
BALANCE = {"stdout": "2026-003 120.00 EUR\n2026-007 80.50 EUR\n", "stderr": "", "interrupted": False}


def returned(tool: str = "Bash", call: str = "toolu_09", result: object = BALANCE, **changes: Any) -> dict[str, Any]:
    given = {"tool_name": tool, "tool_use_id": call, "tool_input": {"command": "ledger balance"}}
    return event("PostToolUse", **given, tool_response=result) | changes


@pytest.fixture
def host(tenant: Tenant) -> httpx.Client:
    return client(make_key(tenant, Scope.INGEST, Scope.OBSERVE, Scope.READ, name="claude"))


def test_what_a_tool_returned_is_evidence_of_the_session(host: httpx.Client) -> None:
    inside = returned(agent_id="a81c3f", agent_type="bookkeeper")
    answers = [post(host, inside), post(host, inside), post(host, returned(call="toolu_10", result="none"))]
    assert [gist(answer) for answer in answers] == [ALLOWED] * 3
    assert [answer["tool_result"] for answer in answers] == ["stored", "known", "stored"]
    assert answers[0]["reason"] == "Bash is not a delegation tool."
    first, second = ToolResult.objects.order_by("id")
    assert (first.trace_id, first.call_id, first.agent) == (SESSION, "toolu_09", "bookkeeper")
    assert (first.grade, second.grade) == ("in_process", "in_process")
    assert (second.agent, second.sender) == ("main", "claude")
    assert not Handoff.objects.exists()


def test_a_subagent_may_claim_what_its_tools_returned(host: httpx.Client) -> None:
    with worker():
        post(host, before())
        post(host, returned(agent_id="a81c3f", agent_type="bookkeeper"))
        post(host, stop(text="Two are open: 2026-003 over 120.00 EUR and 2026-007 over 99.10 EUR."))
    back = Handoff.objects.get(source_agent_id="bookkeeper")
    shown = host.get(f"/handoffs/{back.pk}").json()["verdict"]
    (found,) = [one for one in shown["issues"] if one["code"] == "grounding.number"]
    assert [value["text"] for value in found["metadata"]["values"]] == ["99.10"]


def test_a_late_result_counts_from_the_time_at_which_the_tool_returned(host: httpx.Client) -> None:
    at = datetime.now(UTC) - timedelta(minutes=5)
    post(host, {"event": returned(), "sent_at": at.isoformat()})
    for number, wrong in enumerate(("soon", 7, (at + timedelta(days=1)).isoformat(), "0001-01-01T00:00:00Z")):
        post(host, {"event": returned(call=f"toolu_{number}"), "sent_at": wrong})
    first, *others = ToolResult.objects.order_by("id")
    assert first.at == at
    assert all(datetime.now(UTC) - timedelta(minutes=1) < one.at <= datetime.now(UTC) for one in others)
    assert len(others) == 4


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (returned("WebFetch"), "An LLM writes the results of WebFetch"),
        (returned(session_id=""), "no result or no session"),
        (event("PostToolUse", tool_name="Bash", tool_use_id="toolu_09", tool_input={}), "no result or no session"),
        (returned(call="x" * 201), "can't be stored"),
        (returned(call="toolu\x00"), "can't be stored"),
    ],
)
def test_a_result_that_is_no_evidence_is_skipped(host: httpx.Client, sent: dict[str, Any], why: str) -> None:
    answer = post(host, sent)
    assert (gist(answer), answer["tool_result"]) == (ALLOWED, "skipped")
    assert why in answer["reason"]
    assert not ToolResult.objects.exists()


@pytest.mark.parametrize(
    ("tool", "result"),
    [
        ("TodoWrite", {"oldTodos": [{"content": "Tell them 99.10 EUR."}], "newTodos": []}),
        ("TaskList", {"tasks": [{"id": "1", "subject": "Tell them 99.10 EUR."}]}),
        ("ExitPlanMode", {"plan": "Tell them 99.10 EUR.", "isAgent": True}),
        ("Skill", {"success": True, "status": "forked", "result": "It is 99.10 EUR."}),
    ],
)
def test_what_the_agent_wrote_in_an_earlier_call_is_no_evidence(host: httpx.Client, tool: str, result: object) -> None:
    assert post(host, returned(tool, result=result))["tool_result"] == "skipped"
    assert not ToolResult.objects.exists()


def test_screenshots_leave_the_evidence_of_a_session_in_its_place(host: httpx.Client) -> None:
    post(host, returned())
    image = base64.b64encode(bytes(range(256)) * 350).decode()
    for number in range(20):
        shot = [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": image}}]
        post(host, returned("mcp__browser__screenshot", call=f"shot_{number}", result=shot))
    assert ToolResult.objects.filter(call_id="toolu_09").exists()
    assert ToolResult.objects.count() == 21


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_result_that_was_cut_inside_a_character_is_evidence(host: httpx.Client, *, wrapped: bool) -> None:
    sent = returned(result={"stdout": "2026-003 120.00 EUR 😀 \ud83d"})
    answer = post(host, json.dumps({"event": sent, "sent_at": None} if wrapped else sent).encode())
    assert (gist(answer), answer["tool_result"]) == (ALLOWED, "stored")
    assert "120.00 EUR 😀 ?" in ToolResult.objects.get().content
    assert not Handoff.objects.exists()


@pytest.mark.parametrize("result", [b"[" * 80 + b"]" * 80, b"NaN", b"9" * 400])
def test_an_unreadable_result_is_no_handoff(host: httpx.Client, result: bytes) -> None:
    sent = json.dumps(returned(result="RESULT")).encode().replace(b'"RESULT"', result)
    assert post(host, sent) == {}
    assert not ToolResult.objects.exists()
    assert not Handoff.objects.exists()


def test_an_unreadable_delegation_is_still_a_finding(host: httpx.Client) -> None:
    answer = post(host, json.dumps(returned("Agent", result="\ud83d")).encode())
    assert str(Handoff.objects.get().pk) == answer["handoff_id"]


def test_a_key_without_the_scope_captures_nothing(api: httpx.Client) -> None:
    answer = post(api, returned())
    assert (gist(answer), answer["reason"]) == (ALLOWED, "Bash is not a delegation tool.")
    assert "tool_result" not in answer
    assert not ToolResult.objects.exists()


def test_a_key_of_an_agent_captures_only_results_of_that_agent(tenant: Tenant) -> None:
    host = client(make_key(tenant, Scope.INGEST, Scope.OBSERVE, name="claude", agents=["writer"]))
    answer = post(host, returned())
    assert (gist(answer), answer["tool_result"]) == (ALLOWED, "skipped")
    assert "The tool result names the agent 'main'" in answer["reason"]
    assert AuditEntry.objects.filter(action=REFUSED_ACTION, target="main").count() == 1
    assert not ToolResult.objects.exists()


def test_a_result_is_stored_beside_the_rules_of_the_client(host: httpx.Client) -> None:
    answer = post(host, {"event": returned(), "phase_results": rules("failed")})
    assert (answer["status"], answer["blocked"], answer["tool_result"]) == ("FAILED", True, "stored")
    assert ToolResult.objects.get().call_id == "toolu_09"


def test_a_delegation_is_no_tool_result(host: httpx.Client) -> None:
    with worker():
        assert "tool_result" not in post(host, before())
    assert not ToolResult.objects.exists()
