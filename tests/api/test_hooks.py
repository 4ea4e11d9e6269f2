"""Tests of the hook events of an agent host: the answers, which are always 200, and the blocked tasks."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Scope, Tenant
from handoffaudit.handoffs.models import Handoff, HookEvent, State
from handoffaudit.validation.config import Mode
from tests.api.support import client, make_key
from tests.handoffs.hooks.support import (
    FOUND,
    PHASE,
    PROMPT,
    SESSION,
    after,
    before,
    event,
    gist,
    launched,
    met,
    not_met,
    post,
    rules,
    start,
    stop,
    words,
    worker,
)
from tests.handoffs.support import set_policy
from tests.messages_api.scripted import fails, says
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db(transaction=True)
OWN_SPELLING = {
    "tool": {"name": "Task", "parameters": {"prompt": PROMPT, "subagent_type": "bookkeeper"}, "result": FOUND},
    "sessionId": "session-17",
    "workflowId": "month-end",
}
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "hooks"
EVENTS = [
    path
    for path in sorted(EXAMPLES.glob("*.json"))
    if "hook_event_name" in path.read_text() and path.stem != "tool-result"
]


ALLOWED = ("NOT_APPLICABLE", False, 0)


def test_a_task_from_its_begin_to_its_end(gate: httpx.Client, model: MessagesServer) -> None:
    for sent in (before(), start()):
        answer = post(gate, sent)
        assert (gist(answer), words(answer), answer["validation_state"]) == (ALLOWED, {}, None)
    model.script(met())
    answers = [post(gate, stop()), post(gate, after())]
    for answer in answers:
        assert (gist(answer), words(answer)) == (("PASSED", False, 0), {})
        assert answer["reason"] == "PASSED with confidence 0.93: Both are listed."
    assert answers[0]["handoff_id"] == answers[1]["handoff_id"]
    # The agent and its call told the same: it is one handoff, and one question.
    (asked,) = model.requests
    assert (PROMPT in asked.content, FOUND in asked.content, "totalTokens" in asked.content) == (True, True, False)
    out, back = Handoff.objects.order_by("id")
    assert (out.source_agent_id, out.target_agent_id, out.state, out.open) == ("main", "bookkeeper", "accepted", False)
    assert (back.source_agent_id, back.target_agent_id, back.state) == ("bookkeeper", "orchestrator", "accepted")
    assert (back.format, back.parent_handoff_id, back.trace_id) == ("delegation", out.handoff_id, out.trace_id)


@pytest.mark.parametrize("path", EVENTS, ids=lambda path: path.stem)
def test_the_events_that_the_documentation_shows_are_read(path: Path, gate: httpx.Client) -> None:
    answer = post(gate, path.read_bytes())
    assert answer["status"] in ("PASSED", "NOT_APPLICABLE")
    shown = gate.get(f"/handoffs/{answer['handoff_id']}", headers={"Prefer": "wait=20"}, timeout=30).json()
    assert (shown["state"], shown["codes"]) == ("accepted", [])


def test_a_result_that_does_not_meet_its_objective_is_told_to_the_model(
    gate: httpx.Client, model: MessagesServer
) -> None:
    model.script(not_met())
    answer = post(gate, after())
    assert (gist(answer), words(answer)) == (("FAILED", True, 1), {"decision": "block"})
    assert answer["reason"].startswith(
        "FAILED with confidence 0.88: The objective is not met: The amounts are missing."
    )
    state = answer["validation_state"]
    assert (state["validation_status"], state["rule_results"][0]["status"]) == ("FAILED", "failed")
    assert Handoff.objects.get().codes == ["semantic.objective_not_met"]


def test_an_agent_is_sent_back_once(gate: httpx.Client, model: MessagesServer) -> None:
    post(gate, before())
    model.script(not_met(), not_met())
    answer = post(gate, stop(text="Two are open."))
    assert (gist(answer), words(answer)) == (("FAILED", True, 1), {"decision": "block"})
    assert Handoff.objects.order_by("id")[0].open
    again = post(gate, stop(text="Two are open, I think.", stop_hook_active=True))
    assert (gist(again), words(again)) == (("FAILED", False, 0), {})
    out, first, second = Handoff.objects.order_by("id")
    assert (out.open, first.state, second.state) == (False, State.SUPERSEDED, State.REJECTED)
    assert (second.retry_of, second.attempt, second.parent_handoff_id) == (first.handoff_id, 2, out.handoff_id)


def test_what_is_mended_passes_and_its_call_does_not_ask_again(gate: httpx.Client, model: MessagesServer) -> None:
    post(gate, before())
    post(gate, start())
    model.script(not_met(), met())
    assert post(gate, stop(text="Two are open."))["blocked"]
    assert post(gate, stop(stop_hook_active=True))["status"] == "PASSED"
    assert post(gate, after())["status"] == "PASSED"
    assert (len(model.requests), Handoff.objects.count()) == (2, 3)


def test_a_rejected_task_is_denied_and_not_open(gate: httpx.Client, tenant: Tenant) -> None:
    set_policy(tenant, "delegation", token_budget=20)
    answer = post(gate, before())
    assert gist(answer) == ("FAILED", True, 1)
    said = answer["hookSpecificOutput"]
    assert (said["hookEventName"], said["permissionDecision"]) == ("PreToolUse", "deny")
    assert said["permissionDecisionReason"] == answer["reason"]
    assert "tokens.over_budget" in answer["reason"]
    handoff = Handoff.objects.get()
    assert (handoff.state, handoff.open, str(handoff.pk)) == (State.REJECTED, False, answer["handoff_id"])


def test_a_held_task_is_asked_about(gate: httpx.Client, tenant: Tenant) -> None:
    set_policy(tenant, "delegation", approval_length=1)
    post(gate, before())
    post(gate, start())
    inner = before("toolu_02", agent_id="a81c3f", agent_type="bookkeeper")
    answer = post(gate, inner | {"tool_input": {"prompt": "Add them up.", "subagent_type": "calculator"}})
    assert gist(answer) == ALLOWED
    assert answer["hookSpecificOutput"]["permissionDecision"] == "ask"
    assert "The task is held for a person to decide. chain.needs_approval" in answer["reason"]
    handoff = Handoff.objects.get(target_agent_id="calculator")
    assert (handoff.state, handoff.source_agent_id, handoff.open) == (State.HELD, "bookkeeper", True)


def test_the_specs_own_spelling(gate: httpx.Client, model: MessagesServer) -> None:
    model.script(not_met())
    answer = post(gate, OWN_SPELLING)
    assert (gist(answer), words(answer)) == (("FAILED", True, 1), {})
    state = answer["validation_state"]
    assert (state["workflow_id"], state["phase_id"], state["session_id"]) == (
        "month-end",
        "semantic_Task_session-",
        "session-17",
    )


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (after(tool_name="Bash"), "Bash is not a delegation tool."),
        (before(tool_name="Bash"), "Bash is not a delegation tool."),
        (after(tool_input={"subagent_type": "b"}), "there is no prompt"),
        (after(tool_response=""), "there is no result"),
        (launched(), "works in the background"),
        (
            {"tool": {"name": "Bash", "parameters": {}, "result": "x"}, "sessionId": "s"},
            "Bash is not a delegation tool.",
        ),
    ],
)
def test_what_has_no_objective_is_not_applicable(sent: dict[str, Any], why: str, gate: httpx.Client, model) -> None:
    answer = post(gate, sent)
    assert (gist(answer), words(answer), answer["validation_state"]) == (ALLOWED, {}, None)
    assert why in answer["reason"]
    assert not model.requests


def test_other_tools_leave_nothing_behind(gate: httpx.Client) -> None:
    post(gate, after(tool_name="Bash"))
    assert (Handoff.objects.count(), HookEvent.objects.count()) == (0, 0)


def test_an_event_that_is_not_looked_at_gets_an_empty_object(api: httpx.Client) -> None:
    for name in ("Stop", "Notification", "PostToolUseFailure", "call", "pretooluse", "x" * 5000):
        assert post(api, event(name)) == {}
    assert Handoff.objects.count() == 0


@pytest.mark.parametrize("answer", [fails(500), fails(401), says("no JSON"), says({"status": "MAYBE"})])
def test_where_the_model_does_not_answer_it_is_not_applicable(answer, gate: httpx.Client, model) -> None:
    model.respond = lambda _: answer
    said = post(gate, after())
    assert gist(said) == ALLOWED
    assert "check was not made" in said["reason"]
    assert Handoff.objects.get().unverified


def test_without_a_key_for_the_model_the_rules_decide(api: httpx.Client, settings) -> None:
    settings.ANTHROPIC_API_KEY = ""
    with worker():
        assert gist(post(api, after())) == ALLOWED
        answer = post(api, {"event": after("toolu_02"), "phase_results": rules("failed")})
    assert gist(answer) == ("FAILED", True, 1)


@pytest.mark.parametrize(
    ("status", "mode", "severity", "objective", "expected"),
    [
        ("passed", "fallback", "error", None, "PASSED"),
        ("failed", "fallback", "error", None, "FAILED"),
        ("failed", "fallback", "warning", None, "PASSED"),
        ("skipped", "fallback", "error", None, "PASSED"),
        ("failed", "fallback", "error", met, "PASSED"),
        ("failed", "hybrid", "error", met, "FAILED"),
        ("passed", "hybrid", "error", met, "PASSED"),
        ("passed", "hybrid", "error", not_met, "FAILED"),
        ("failed", "hybrid", "error", None, "FAILED"),
    ],
)
def test_phase_rules(
    status: str, mode: str, severity: str, objective, expected: str, gate: httpx.Client, model: MessagesServer
) -> None:
    if objective:
        model.script(objective())
    sent = after() if objective else after(tool_response="")
    answer = post(gate, {"event": sent, "phase_results": rules(status, mode, severity)})
    assert gist(answer) == (expected, expected == "FAILED", int(expected == "FAILED"))
    found = {one["rule_id"]: one["status"] for one in answer["validation_state"]["rule_results"]}
    told = {"semantic_objective_match": "passed" if objective is met else "failed"} if objective else {}
    counts = mode == "hybrid" or objective is None
    assert found == told | ({"report": status} if counts else {})
    if status == "failed" and counts:
        assert "report failed: report.md is not there" in answer["reason"]
        # what is not a reason to stop does not come first
        assert not answer["reason"].startswith("PASSED")


def test_rules_without_results_are_unknown(gate: httpx.Client) -> None:
    answer = post(gate, {"event": after(tool_name="Bash"), "phase_results": rules("passed") | {"results": []}})
    assert gist(answer) == ("UNKNOWN", False, 0)


def test_rules_are_for_other_tools_as_well(gate: httpx.Client) -> None:
    answer = post(gate, {"event": after(tool_name="Bash"), "phase_results": rules("failed")})
    assert (gist(answer), words(answer)) == (("FAILED", True, 1), {"decision": "block"})
    assert (answer["handoff_id"], Handoff.objects.count()) == (None, 0)


def test_rules_can_stop_a_task_before_it_is_handed_out(gate: httpx.Client) -> None:
    answer = post(gate, {"event": before(), "phase_results": rules("failed")})
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert not Handoff.objects.get().open


@pytest.mark.parametrize("sent", ["x", [], {"mode": "x"}, {"rules": 1}, {"rules": [], "results": [1]}, {"rules": [{}]}])
def test_phase_results_that_cannot_be_read_decide_nothing_and_are_told(sent: Any, gate: httpx.Client) -> None:
    answer = post(gate, {"event": after(tool_name="Bash"), "phase_results": sent})
    assert gist(answer) == ALLOWED
    assert "phase_results" in answer["reason"]


def test_gate_and_handoff_agree_where_something_else_is_wrong(gate: httpx.Client, tenant: Tenant) -> None:
    set_policy(tenant, "delegation", token_budget=20)
    answer = post(gate, after())
    assert (gist(answer), words(answer)) == (("FAILED", True, 1), {"decision": "block"})
    assert answer["reason"].startswith("The handoff is rejected.")
    assert "tokens.over_budget" in answer["reason"]
    assert gate.get(f"/handoffs/{answer['handoff_id']}").json()["state"] == "rejected"
    state = gate.get(f"/validation-state/{SESSION}/{PHASE}").json()
    assert state == answer["validation_state"]
    assert state["validation_status"] == "FAILED"
    assert [(one["rule_id"], one["status"]) for one in state["rule_results"]] == [
        ("semantic_objective_match", "passed"),
        ("handoff_accepted", "failed"),
    ]


def test_a_held_result_is_not_known_until_a_person_decides(gate: httpx.Client, tenant: Tenant) -> None:
    post(gate, before())
    set_policy(tenant, "delegation", approval_length=1)
    answer = post(gate, after())
    assert gist(answer) == ("UNKNOWN", False, 0)
    assert answer["reason"].startswith("The handoff is held for a person to decide.")
    assert gate.get(f"/handoffs/{answer['handoff_id']}").json()["state"] == "held"
    reviewer = client(make_key(tenant, Scope.REVIEW))
    decided = reviewer.post(f"/handoffs/{answer['handoff_id']}/review", json={"decision": "decline", "note": "no"})
    assert decided.status_code == 200, decided.text
    assert gate.get(f"/validation-state/{SESSION}/{PHASE}").json()["validation_status"] == "FAILED"


def test_an_ordinary_report_of_a_delegated_agent_is_accepted(gate: httpx.Client, model: MessagesServer) -> None:
    report = "The invoices of March were compared with the ledger, line by line, and two of them are open. " * 110
    assert 10_000 < len(report) < 10_500
    answer = post(gate, after(text=report))
    assert gist(answer) == ("PASSED", False, 0)
    shown = gate.get(f"/handoffs/{answer['handoff_id']}").json()
    assert (shown["state"], shown["verdict"]["token_counts"]["total"] > 2000) == ("accepted", True)


def test_shadow_mode_reports_and_blocks_nothing(gate: httpx.Client, tenant: Tenant, model: MessagesServer) -> None:
    set_policy(tenant, "delegation", mode=Mode.SHADOW)
    model.script(not_met())
    answer = post(gate, after())
    assert (gist(answer), words(answer)) == (("FAILED", False, 0), {})
    assert "shadow" in answer["reason"]


def test_no_text_is_longer_than_a_host_reads(gate: httpx.Client, tenant: Tenant) -> None:
    long = rules("failed")
    long["results"][0]["message"] = "x" * 2000
    many = [long["rules"][0] | {"rule_id": f"r{number}"} for number in range(20)]
    results = [long["results"][0] | {"rule_id": f"r{number}", "result_id": f"{number}"} for number in range(20)]
    answer = post(gate, {"event": before(), "phase_results": {"rules": many, "results": results}})
    assert len(answer["reason"]) == len(answer["hookSpecificOutput"]["permissionDecisionReason"]) == 10_000


def test_without_a_verdict_in_time_it_is_unknown_and_lets_pass(api: httpx.Client) -> None:
    for sent in (before(), stop(), after()):
        answer = post(api, sent, timeout=0)
        assert (gist(answer), words(answer)) == (("UNKNOWN", False, 0), {}) or sent["hook_event_name"] != "PreToolUse"
        assert answer["status"] == "UNKNOWN"
