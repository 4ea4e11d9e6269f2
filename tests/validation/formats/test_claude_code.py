"""Tests of hook events without a response: the source, the target and the content of the handoff."""

from typing import Any

import pytest

from handoffaudit.validation.formats import read
from handoffaudit.validation.layers import semantic
from handoffaudit.validation.record import Envelope

from ..support import codes, judge, record_of
from .documents import checked, example

IN_A_SUBAGENT = {"agent_id": "a9", "agent_type": "planner"}


def agents(document: dict[str, Any]) -> tuple[str, str]:
    record = record_of(document)
    return record.source_agent_id, record.target_agent_id


def test_a_task_is_handed_out() -> None:
    record = record_of(example("claude-code"))
    assert (record.format, record.handoff_type, record.trace_id) == ("claude-code", "delegation", "session-17")
    assert record.data == {"prompt": "List the open invoices.", "description": "Open invoices"}
    assert codes(checked(example("claude-code"))) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ("main", "bookkeeper")),
        (IN_A_SUBAGENT, ("planner", "bookkeeper")),
        ({"agent_type": "planner"}, ("main", "bookkeeper")),
        ({"tool_input": {"prompt": "List."}}, ("main", "Agent")),
        ({"hook_event_name": "SubagentStart", **IN_A_SUBAGENT}, ("main", "planner")),
        ({"hook_event_name": "SubagentStop", **IN_A_SUBAGENT}, ("planner", "main")),
    ],
)
def test_who_hands_over_to_whom(change: dict[str, Any], expected: tuple[str, str]) -> None:
    assert agents(example("claude-code") | change) == expected


def test_an_agent_launched_in_the_background_is_a_task_handed_out() -> None:
    answer = {"agentId": "a1", "status": "async_launched"}
    launched = example("claude-code") | {"hook_event_name": "PostToolUse", "tool_response": answer}
    assert record_of(launched).format == "claude-code"
    assert agents(launched) == ("main", "bookkeeper")
    assert codes(checked(launched)) == []
    assert record_of(launched | {"tool_response": {"status": "completed"}}).format == "delegation"


def test_what_an_agent_said_last_is_what_it_hands_back() -> None:
    document = example("claude-code-subagent")
    assert record_of(document).data == {"deliverable": "Two are open: 2026-003 and 2026-007."}
    assert codes(checked(document)) == []
    assert record_of(document | {"hook_event_name": "SubagentStart"}).data["deliverable"]
    del document["last_assistant_message"]
    assert record_of(document).data == {}
    assert codes(checked(document | {"hook_event_name": "SubagentStart"})) == []


@pytest.mark.parametrize("name", ["claude-code", "claude-code-subagent"])
def test_no_model_is_asked_about_it(name: str) -> None:
    (said,) = judge(example(name), layers=(semantic,)).layers
    assert (said.status, said.why[:14]) == ("skipped", "not applicable")


@pytest.mark.parametrize(
    ("name", "change", "code", "path"),
    [
        ("claude-code", {"session_id": ""}, "structure.empty", "session_id"),
        ("claude-code", {"tool_input": None}, "structure.wrong_type", "tool_input"),
        ("claude-code", {"tool_input": {"prompt": 1}}, "structure.wrong_type", "tool_input.prompt"),
        ("claude-code", {"tool_use_id": "t" * 201}, "structure.too_long", "tool_use_id"),
        ("claude-code-subagent", {"agent_id": ""}, "structure.empty", "agent_id"),
        ("claude-code-subagent", {"agent_type": "a\0b"}, "structure.bad_format", "agent_type"),
        ("claude-code-subagent", {"last_assistant_message": 1}, "structure.wrong_type", "last_assistant_message"),
    ],
)
def test_what_is_wrong_has_its_place(name: str, change: dict[str, Any], code: str, path: str) -> None:
    assert [(issue.code, issue.field_path) for issue in checked(example(name) | change).issues] == [(code, path)]


def test_the_result_of_a_call_and_other_events_are_no_such_events() -> None:
    assert read(example("delegation-hook"), None, Envelope()).format == "delegation"
    assert read({"hook_event_name": "Stop", "session_id": "s"}, None, Envelope()).format == "delegation"
    assert read({"hook_event_name": ["PreToolUse"], "session_id": "s"}, None, Envelope()).format == "delegation"
