"""Tests of keys that may speak only for some agents: what names another agent is refused, and nothing is stored."""

from typing import Any

import httpx
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.diagnostics.models import FileReport, LogImport
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff, ToolResult
from tests.api.support import client, problem
from tests.diagnostics.files.support import report
from tests.handoffs.hooks.support import before, start
from tests.handoffs.support import NOT_JSON, payload

pytestmark = pytest.mark.django_db
AT = "2026-02-15T00:15:00Z"


@pytest.fixture(autouse=True)
def _empty_memory() -> None:
    keys._recorded.clear()


def bound(tenant: Tenant, *agents: str) -> httpx.Client:
    scopes = ["ingest", "read", "observe"]
    return client(
        keys.create(tenant=tenant, name="crew", scopes=scopes, expires_at=None, actor="tests", agents=agents)[1]
    )


def said_by(agent: str, **changes: Any) -> dict[str, Any]:
    return payload(source_agent_id=agent, call_chain=[agent], **changes)


def refused(response: httpx.Response, agent: str = "writer", patterns: str = "researcher, crew-*") -> None:
    found = problem(response, 403)
    assert found["title"] == "Another agent"
    assert repr(agent) in found["detail"]
    assert patterns in found["detail"]


@pytest.mark.parametrize("agent", ["researcher", "crew-7", "crew-"])
def test_the_agents_of_the_key_are_taken(tenant: Tenant, agent: str) -> None:
    with bound(tenant, "researcher", "crew-*") as api:
        assert api.post("/handoffs", json=said_by(agent)).status_code == 202


@pytest.mark.parametrize("agent", ["writer", "Researcher", "my crew-7", "researcher "])
def test_another_agent_is_refused_and_recorded(tenant: Tenant, agent: str) -> None:
    with bound(tenant, "researcher", "crew-*") as api:
        for _ in range(3):
            refused(api.post("/handoffs", json=said_by(agent)), agent)
    assert not Handoff.objects.exists()
    entry = AuditEntry.objects.get(action="key.refuse")
    assert (entry.actor, entry.target) == ("key crew", agent)


@pytest.mark.parametrize(
    "sent",
    [
        {"document": said_by("writer")},
        {"document": said_by("writer"), "agent": "researcher"},
        # A faulty submission is stored as rejected, with the names that can be read.
        {"document": said_by("writer"), "step": "three"},
        {"document": said_by("writer", confidence="0.8")},
        {"document": {"parsed_output": {"_output_type": "x"}, "envelope": {"agent_id": "writer"}}, "format": "output"},
        {
            "document": said_by("researcher"),
            "trace_id": "t",
            "tool_results": [{"tool": "x", "call_id": "1", "agent": "writer", "at": AT, "result": 1}],
        },
    ],
)
def test_no_form_of_a_submission_gets_round_the_limit(tenant: Tenant, sent: dict[str, Any]) -> None:
    with bound(tenant, "researcher", "crew-*") as api:
        for path in ("/handoffs", "/validate", "/repair"):
            refused(api.post(path, json=sent))
        (item,) = api.post("/handoffs/batch", json=[sent]).json()["items"]
    assert (item["status"], item["title"], item["id"]) == (403, "Another agent", "")
    assert not Handoff.objects.exists()
    assert not ToolResult.objects.exists()


def test_a_refused_item_does_not_affect_the_others(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as api:
        items = [said_by("researcher"), said_by("writer"), said_by("editor"), said_by("researcher")]
        shown = api.post("/handoffs/batch", json=items).json()
    assert [item["status"] for item in shown["items"]] == [202, 403, 403, 202]
    assert set(AuditEntry.objects.filter(action="key.refuse").values_list("target", flat=True)) == {"writer", "editor"}


def test_tool_results_of_another_agent_are_refused_whole(tenant: Tenant) -> None:
    results = [
        {"tool": "x", "call_id": str(number), "agent": agent, "at": AT, "result": 1}
        for number, agent in enumerate(["researcher", "", "writer"])
    ]
    with bound(tenant, "researcher") as api:
        refused(api.post("/traces/t/tool-results", json=results), patterns="researcher")
        assert not ToolResult.objects.exists()
        assert api.post("/traces/t/tool-results", json=results[:2]).status_code == 200
    assert AuditEntry.objects.filter(action="key.refuse").count() == 1


def test_a_handoff_of_another_agent_is_not_superseded(tenant: Tenant, api: httpx.Client) -> None:
    api.post("/handoffs", json=said_by("writer", handoff_id="theirs", confidence="0.8"))
    judge.drain()
    assert Handoff.objects.get().state == "rejected"
    retry = {"document": said_by("researcher", handoff_id="mine"), "retry_of": "theirs"}
    with bound(tenant, "researcher") as limited:
        refused(limited.post("/handoffs", json=retry), patterns="researcher")
        assert limited.post("/handoffs/batch", json=[retry]).json()["totals"] == {"403": 1}
        assert limited.post("/handoffs", json=said_by("researcher", handoff_id="own")).status_code == 202
        own = {"document": said_by("researcher", handoff_id="own-2"), "retry_of": "own"}
        assert limited.post("/handoffs", json=own).status_code == 202
    assert Handoff.objects.get(handoff_id="theirs").state == "rejected"


def test_a_retry_of_an_attempt_without_source_does_not_supersede_the_attempts_of_others(
    tenant: Tenant, api: httpx.Client
) -> None:
    api.post("/handoffs", json=said_by("writer", target_agent_id="editor", handoff_id="theirs"))
    api.post("/handoffs", json={"document": {"handoff_id": "blank", "source_agent_id": 5}, "retry_of": "theirs"})
    api.post(
        "/handoffs",
        json={"document": said_by("writer", target_agent_id="editor", handoff_id="again"), "retry_of": "blank"},
    )
    with bound(tenant, "researcher") as limited:
        retry = {"document": said_by("researcher", handoff_id="mine"), "retry_of": "blank"}
        refused(limited.post("/handoffs", json=retry), patterns="researcher")
    judge.drain()
    assert Handoff.objects.get(handoff_id="again").state == "accepted"


def test_a_retry_before_its_handoff_supersedes_only_that_of_the_same_agent(tenant: Tenant, api: httpx.Client) -> None:
    with bound(tenant, "researcher") as limited:
        for name in ("theirs", "own"):
            retry = {"document": said_by("researcher", handoff_id=f"{name}-2"), "retry_of": name}
            assert limited.post("/handoffs", json=retry).status_code == 202
    api.post("/handoffs", json=said_by("writer", target_agent_id="editor", handoff_id="theirs"))
    api.post("/handoffs", json=said_by("researcher", handoff_id="own"))
    judge.drain()
    assert Handoff.objects.get(handoff_id="theirs").state == "accepted"
    assert Handoff.objects.get(handoff_id="own").state == "superseded"


def test_an_unreadable_handoff_of_another_agent_is_not_replaced(tenant: Tenant, api: httpx.Client) -> None:
    unread = {"document": said_by("writer"), "handoff_id": "theirs", "step": "three"}
    assert api.post("/handoffs", json=unread).status_code == 422
    with bound(tenant, "researcher") as limited:
        assert limited.post("/handoffs", json=said_by("researcher", handoff_id="theirs")).status_code == 409
        assert limited.post("/handoffs", content=NOT_JSON).status_code == 422
    assert Handoff.objects.get(handoff_id="theirs").source_agent_id == "writer"


def test_a_report_of_another_agent_is_refused(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as api:
        refused(api.post("/handoff-files", json=report(None, agent="writer")), patterns="researcher")
        assert not FileReport.objects.exists()
        assert not Handoff.objects.exists()
        assert api.post("/handoff-files", json=report(None, agent="researcher")).status_code == 201


def test_a_task_of_another_agent_is_not_handed_out(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as api:
        shown = api.post("/hooks/post-tool-use", json=before()).json()
    assert (shown["status"], shown["blocked"]) == ("FAILED", True)
    assert shown["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert "researcher" in shown["reason"]
    assert not Handoff.objects.exists()


def test_the_limit_costs_no_query(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as limited, bound(tenant) as free:
        for api in (limited, free):
            api.post("/handoffs", json=said_by("researcher"))
        counted = []
        for api in (limited, free):
            with CaptureQueriesContext(connection) as queries:
                api.post("/handoffs", json=said_by("researcher"))
            counted.append(len(queries))
    assert counted[0] == counted[1]


def test_a_bound_key_sends_no_log(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as api:
        answer = api.post("/logs", params={"source": "a.log"}, content=b"agent=writer file_missing\n")
    assert (answer.status_code, answer.json()["title"]) == (403, "Key limited to agents")
    assert not LogImport.objects.filter(tenant=tenant).exists()


def test_the_start_of_an_agent_that_the_key_may_not_speak_for_says_why_nothing_is_stored(tenant: Tenant) -> None:
    with bound(tenant, "researcher") as api:
        shown = api.post("/hooks/post-tool-use", json=start()).json()
    assert "researcher" in str(shown)
    assert not Handoff.objects.exists()
