"""Tests of `GET /validation-state/{workflow_id}/{phase_id}`: the result of a phase's newest event."""

from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.llm import run
from handoffaudit.handoffs.models import HookEvent, ValidationState
from tests.api.support import client, make_key, problem
from tests.handoffs.hooks.support import PHASE, SESSION, after, met, not_met, post, rules, worker
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)


def state(api: httpx.Client, workflow: str = SESSION, phase: str = PHASE) -> dict[str, Any]:
    response = api.get(f"/validation-state/{workflow}/{phase}")
    assert response.status_code == 200, response.text
    shown: dict[str, Any] = response.json()
    return shown


def work() -> None:
    judge.drain()
    run.drain()


def test_the_state_has_the_form_that_the_specification_gives(api: httpx.Client, model: MessagesServer) -> None:
    model.script(met())
    with worker():
        answer = post(api, after())
    shown = state(api)
    assert shown == answer["validation_state"]
    (result,) = shown["rule_results"]
    assert shown | {"persisted_at": "", "rule_results": []} == {
        "workflow_id": SESSION,
        "phase_id": PHASE,
        "session_id": SESSION,
        "validation_status": "PASSED",
        "persisted_at": "",
        "summary": {"total_rules_executed": 1, "results_count": 1},
        "rule_results": [],
    }
    assert result.pop("result_id")
    assert result.pop("validated_at") == shown["persisted_at"]
    assert result == {
        "rule_id": "semantic_objective_match",
        "rule_type": "semantic",
        "status": "passed",
        "message": "PASSED with confidence 0.93: Both are listed.",
        "details": {"validation_type": "semantic", "model": "claude-haiku-5-5"},
    }


def test_a_workflow_has_its_own_states_whatever_its_name(api: httpx.Client) -> None:
    for workflow in ("month-end", "books/2026/02", "a b"):
        sent = after(tool_name="Bash") | {"workflow_id": workflow}
        post(api, {"event": sent, "phase_results": rules("passed")})
        assert state(api, workflow, "semantic_Bash_6f0d2c4e")["workflow_id"] == workflow
    problem(api.get(f"/validation-state/{SESSION}/semantic_Bash_6f0d2c4e"), 404)


def test_tools_and_sessions_of_any_name_have_an_address(api: httpx.Client) -> None:
    sent = after(tool_name="mcp/a b?#") | {"session_id": "../../x/y/z"}
    shown = post(api, {"event": sent, "phase_results": rules("passed")})["validation_state"]
    assert shown["phase_id"] == "semantic_mcp_a_b___.._.._x_"
    assert state(api, "../../x/y/z".replace("../", "..%2F"), shown["phase_id"]) == shown


def test_a_verdict_that_came_late_is_taken_up_when_it_is_read(api: httpx.Client, model: MessagesServer) -> None:
    assert post(api, after(), timeout=0)["status"] == "UNKNOWN"
    shown = state(api)
    assert (shown["validation_status"], shown["rule_results"]) == ("UNKNOWN", [])
    model.script(not_met())
    work()
    shown = state(api)
    assert (shown["validation_status"], shown["summary"]["results_count"]) == ("FAILED", 1)
    assert state(api) == shown
    # Nothing is changed: what was said first is kept beside it.
    assert sorted(ValidationState.objects.values_list("status", flat=True)) == ["FAILED", "UNKNOWN"]
    # Asked again, the event is answered as it is known now.
    assert post(api, after())["status"] == "FAILED"


def test_a_late_verdict_counts_together_with_the_rules(api: httpx.Client, model: MessagesServer) -> None:
    assert post(api, {"event": after(), "phase_results": rules("passed", "hybrid")}, timeout=0)["status"] == "UNKNOWN"
    work()
    shown = state(api)
    assert (shown["validation_status"], shown["summary"]["results_count"]) == ("PASSED", 2)


def test_a_late_check_that_was_not_made_is_said(api: httpx.Client, settings) -> None:
    assert post(api, after(), timeout=0)["status"] == "UNKNOWN"
    settings.ANTHROPIC_API_KEY = ""
    work()
    assert state(api)["validation_status"] == "NOT_APPLICABLE"


def test_the_newest_event_of_a_phase_counts_even_where_an_older_verdict_comes_later(
    api: httpx.Client, model: MessagesServer
) -> None:
    assert post(api, after("c1"), timeout=0)["status"] == "UNKNOWN"
    model.respond = lambda request: not_met() if "Seven." in request.content else None
    with worker():
        assert post(api, after("c2", text="Seven.", agent="a2"))["status"] == "FAILED"
        assert state(api)["validation_status"] == "FAILED"
        assert post(api, after("c1"))["status"] == "PASSED"
    assert state(api)["validation_status"] == "FAILED"
    assert HookEvent.objects.count() == 2


@pytest.mark.parametrize("address", ["x/y", f"{SESSION}/x", f"x/{PHASE}", "a%00b/c", f"{SESSION}/{PHASE}%00"])
def test_there_is_none(address: str, api: httpx.Client) -> None:
    problem(api.get(f"/validation-state/{address}"), 404)


def test_another_tenants_state_is_not_there(api: httpx.Client, other_tenant: Tenant) -> None:
    post(api, after(), timeout=0)
    with client(make_key(other_tenant, "read", "ingest")) as stranger:
        problem(stranger.get(f"/validation-state/{SESSION}/{PHASE}"), 404)
        assert post(stranger, after(tool_name="Bash"), timeout=0)["validation_state"] is None
    with client(make_key(other_tenant, "ingest")) as submits:
        problem(submits.get(f"/validation-state/{SESSION}/{PHASE}"), 403)
