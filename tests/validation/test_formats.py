"""Tests of the workflow that a handoff belongs to."""

from typing import Any

import pytest

from handoffaudit.validation.formats import workflow_of
from tests.validation.support import payload, record_of, universal

CALL = {"tool": {"name": "Task", "parameters": {"prompt": "Write"}, "result": "Written"}, "sessionId": "s-1"}
HOOK = {"hook_event_name": "PostToolUse", "tool_name": "Task", "tool_input": {"prompt": "Write"}, "session_id": "s-1"}


@pytest.mark.parametrize(
    ("document", "workflow"),
    [
        (universal(), "2025-11-23T0811-guide-review"),
        (CALL | {"workflowId": "w-7"}, "w-7"),
        (CALL, ""),
        (HOOK | {"workflow_id": "w-8"}, "w-8"),
        (HOOK | {"workflow_id": 8}, ""),
        (payload(), ""),
        (payload(workflow_id="not a field of this format"), ""),
    ],
)
def test_the_one_that_its_format_names(document: dict[str, Any], workflow: str) -> None:
    assert workflow_of(record_of(document)) == workflow


def test_the_context_may_name_it_in_any_format() -> None:
    assert workflow_of(record_of(payload(), context={"workflow_id": "w-9"})) == "w-9"
    assert workflow_of(record_of(payload(), context={"workflow_id": ["w"]})) == ""
