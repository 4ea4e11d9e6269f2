"""Tests of reading posted events: bare and wrapped events, both spellings, and other input."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.handoffs.hooks.hook_events import Name, deliverable_digest, read_event
from tests.handoffs.hooks.support import FOUND, SESSION, after, before, rules, stop
from tests.scale import examples

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
FIELDS = st.sampled_from(
    [*after(), *stop(), "tool", "sessionId", "workflowId", "workflow_id", "event", "phase_results"]
)


def sent(value: Any) -> bytes:
    return json.dumps(value).encode()


@given(st.dictionaries(FIELDS, JUNK, max_size=6), st.sampled_from([{}, before(), after(), stop()]))
@settings(max_examples=examples(300))
def test_any_object_is_read_without_an_error(changes: dict[str, Any], event: dict[str, Any]) -> None:
    posted = read_event(sent(event | changes))
    if posted.event is None:
        return
    assert "/" not in posted.event.phase_id
    assert 0 < len(posted.event.phase_id) <= 200
    assert len(posted.event.workflow) <= 200
    assert "\0" not in posted.event.workflow + posted.event.session + posted.event.target
    assert isinstance(posted.event.about_a_delegation, bool)
    deliverable_digest(posted.event.call.deliverable)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_without_an_error(junk: bytes) -> None:
    read_event(junk)


def test_the_bytes_of_a_wrapped_event_are_kept_as_they_came() -> None:
    raw = b'{ "hook_event_name":"SubagentStop",  "session_id":"s", "n": 1.0, "agent_id":"a" }'
    posted = read_event(b'\xef\xbb\xbf{"phase_results": {"mode": "hybrid"}, "event": ' + raw + b"}")
    assert posted.event is not None
    assert (posted.event.raw, posted.event.name, posted.phase) == (raw, Name.STOPPED, {"mode": "hybrid"})
    assert read_event(raw).event == posted.event


def test_the_own_spelling_wrapped_and_bare() -> None:
    call = {"tool": {"name": "Task", "parameters": {"prompt": "p"}, "result": FOUND}, "sessionId": SESSION}
    wrapped = read_event(sent({"event": call, "phase_results": rules("passed")}))
    assert wrapped.event is not None
    assert (wrapped.event.name, wrapped.event.workflow) == (Name.CALL, SESSION)
    assert wrapped.event.phase_id == "semantic_Task_6f0d2c4e"


@pytest.mark.parametrize("name", ["", None])
def test_a_delegation_with_an_empty_event_name_is_a_call(name: str | None) -> None:
    call = {"tool": {"name": "Task", "parameters": {"prompt": "p"}, "result": FOUND}, "sessionId": SESSION}
    event = read_event(sent(call | {"hook_event_name": name})).event
    assert event is not None
    assert (event.name, event.call.tool, event.call.prompt, event.workflow) == (Name.CALL, "Task", "p", SESSION)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Two.", " Two.\n", True),
        ("Two.", "two.", False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ("null", None, False),
        ('"Two."', "Two.", False),
    ],
)
def test_the_same_deliverable_is_known_again(one: Any, other: Any, *, same: bool) -> None:
    assert (deliverable_digest(one) == deliverable_digest(other)) is same
