"""Tests that both spellings of a delegation become the same record."""

from typing import Any

import pytest

from handoffaudit.validation.formats.delegation import delegation

from ..support import codes, record_of
from .documents import checked, example

BOTH = pytest.mark.parametrize("name", ["delegation", "delegation-hook"])


def changed(name: str, prompt: Any = "List.", result: Any = "None.", tool: str = "Task") -> dict[str, Any]:
    document = example(name)
    if name == "delegation":
        document["tool"] |= {"name": tool, "parameters": {"prompt": prompt}, "result": result}
    else:
        document |= {"tool_name": tool, "tool_input": {"prompt": prompt}, "tool_response": result}
    return document


@BOTH
def test_the_record(name: str) -> None:
    record = record_of(example(name))
    assert record.format == "delegation"
    assert (record.source_agent_id, record.target_agent_id) == ("bookkeeper", "orchestrator")
    assert (record.handoff_type, record.call_chain, record.confidence) == ("delegation", (), None)
    assert record.trace_id == ("month-end" if name == "delegation" else "session-17")
    assert record.data == {
        "objective": "List the open invoices.",
        "deliverable": "Two are open: 2026-003 and 2026-007.",
    }
    assert codes(checked(example(name))) == []


@BOTH
def test_without_a_subagent_the_tool_hands_over(name: str) -> None:
    assert record_of(changed(name, tool="AgentTask")).source_agent_id == "AgentTask"


@BOTH
def test_a_result_may_be_any_json(name: str) -> None:
    document = changed(name, result={"content": [{"type": "text", "text": "Two."}]})
    assert record_of(document).data["deliverable"] == {"content": [{"type": "text", "text": "Two."}]}
    assert codes(checked(document)) == []


@BOTH
@pytest.mark.parametrize("tool", ["Task", "SubagentTask", "AgentTask", "Agent"])
def test_delegation_tools(name: str, tool: str) -> None:
    assert delegation(changed(name, tool=tool)).applicable


@BOTH
@pytest.mark.parametrize("change", [{"tool": "Bash"}, {"prompt": ""}, {"result": None}, {"result": ""}])
def test_what_has_no_objective_is_accepted_and_not_applicable(name: str, change: dict[str, Any]) -> None:
    document = changed(name, **change)
    assert not delegation(document).applicable
    verdict = checked(document)
    assert (verdict.outcome, codes(verdict)) == ("accepted", [])


@BOTH
def test_the_deliverable_is_the_text_of_what_claude_code_answers(name: str) -> None:
    content = [{"type": "text", "text": "Two."}, {"type": "image"}, "junk", {"type": "text", "text": "All paid."}]
    found = delegation(changed(name, result={"agentId": "a1", "content": content, "status": "completed"}))
    assert (found.deliverable, found.applicable) == ("Two.\n\nAll paid.", True)
    for result in ("Two.", ["Two."], {"content": "Two."}, {"content": [{"text": 2}]}):
        assert delegation(changed(name, result=result)).deliverable == result


@BOTH
def test_what_has_only_begun_has_no_deliverable(name: str) -> None:
    begun = {"agentId": "a1", "status": "async_launched", "content": [{"type": "text", "text": "Launched."}]}
    assert not delegation(changed(name, result=begun)).applicable
    assert not delegation(changed(name, result={"content": [{"type": "text", "text": ""}]})).applicable


@pytest.mark.parametrize(
    ("document", "code", "path"),
    [
        ({"tool": {"name": "Task"}}, "structure.missing_field", "sessionId"),
        ({"tool": {"name": "Task"}, "sessionId": ""}, "structure.empty", "sessionId"),
        ({"tool": {}, "sessionId": "s"}, "structure.missing_field", "tool.name"),
        ({"tool": "Task", "sessionId": "s"}, "structure.wrong_type", "tool"),
        (changed("delegation", prompt=1), "structure.wrong_type", "tool.parameters.prompt"),
        (
            changed("delegation-hook") | {"hook_event_name": "Stop"},
            "structure.bad_enum",
            "hook_event_name",
        ),
        (changed("delegation-hook") | {"session_id": "s" * 201}, "structure.too_long", "session_id"),
        (changed("delegation-hook") | {"tool_input": None}, "structure.wrong_type", "tool_input"),
    ],
)
def test_what_is_wrong_has_its_place(document: dict[str, Any], code: str, path: str) -> None:
    assert [(issue.code, issue.field_path) for issue in checked(document).issues] == [(code, path)]


def test_the_submissions_trace_id_counts_where_the_document_has_none() -> None:
    assert record_of({"tool": {"name": "Task"}, "sessionId": 3}, trace_id="t").trace_id == "t"
