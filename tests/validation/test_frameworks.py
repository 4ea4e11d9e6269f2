"""Tests of native records of agent frameworks: handoffs are read, and nothing else is mistaken for one."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation import formats
from handoffaudit.validation.formats import framework, framework_traces
from handoffaudit.validation.record import Envelope, Reading, Record

CAPTURES = Path(__file__).parents[1] / "frameworks"
SWARM = [("triage", "researcher"), ("researcher", "writer"), ("writer", "researcher"), ("researcher", "writer")]
CREW = [("triage", "researcher"), ("triage", "writer"), ("triage", "researcher"), ("triage", "writer")]


def capture(name: str) -> Any:
    return json.loads(gzip.decompress((CAPTURES / f"{name}.json.gz").read_bytes()))


def documents(name: str) -> list[Any]:
    found = capture(name)
    if name == "openai-agents":
        return framework_traces.split_export(found)
    if name == "a2a":
        return [one["request"] for one in found if "request" in one]
    return [one for one in found if isinstance(one, dict)]


def read(document: Any, **envelope: Any) -> Reading:
    return formats.read(document, None, Envelope(**envelope))


def records(name: str) -> Iterator[Record]:
    for document in documents(name):
        reading = read(document)
        if reading.record:
            yield reading.record


@pytest.mark.parametrize(
    ("name", "ends", "kind"),
    [
        ("openai-agents", SWARM, "handoff"),
        ("autogen", SWARM, "handoff"),
        ("google-adk", SWARM, "handoff"),
        ("langgraph-swarm", SWARM, "handoff"),
        ("langgraph-supervisor", CREW, "handoff"),
        ("crewai", CREW, "delegation"),
    ],
)
def test_every_handoff_of_a_run_is_read_and_nothing_else(name: str, ends: list[tuple[str, str]], kind: str) -> None:
    found = list(records(name))
    assert [(one.source_agent_id, one.target_agent_id) for one in found] == ends
    assert {(one.format, one.handoff_type) for one in found} == {("framework", kind)}
    assert all(one.handoff_id for one in found)
    assert not [issue for one in found for issue in framework.check(one)]


def test_the_payload_is_read_where_the_framework_has_one() -> None:
    facts = {
        "summary": "Three suppliers deliver within a week; the median price is 12.40 EUR.",
        "suppliers": ["Acme", "Berg", "Cole"],
        "median_price_eur": 12.4,
    }
    openai = list(records("openai-agents"))
    assert openai[1].data == facts
    assert openai[1].trace_id == "trace_858f8f57dccd4b7aa132fedb793bcbe1"
    assert str(openai[1].timestamp).startswith("2026-11-22 20:25:37")
    assert next(records("crewai")).data.keys() == {"task", "context"}
    assert next(records("autogen")).data == {"text": "Find who can deliver 40 chairs within a week."}
    assert not next(records("langgraph-swarm")).data


def test_events_of_llama_index_without_a_source_say_so() -> None:
    found = list(records("llama-index"))
    whole = [one for one in found if one.source_agent_id]
    assert [(one.source_agent_id, one.target_agent_id) for one in whole] == SWARM
    assert whole[1].data == {"reason": "Three suppliers deliver within a week; the median price is 12.40 EUR."}
    (result,) = [one for one in documents("llama-index") if one.get("_type") == "ToolCallResult"][:1]
    reading = read(result)
    assert reading.record is not None
    (issue,) = framework.check(reading.record)
    assert issue.code == "structure.missing_field"
    assert "beside the document" in issue.hint
    beside = read(result, agent="triage").record
    assert beside is not None
    assert (beside.source_agent_id, list(framework.check(beside))) == ("triage", [])


def test_the_name_of_a_tool_is_no_id_of_a_llama_index_event() -> None:
    # LlamaIndex takes the name of the tool as the id if the LLM gives none, as Ollama does.
    call = {"tool_name": "handoff", "tool_kwargs": {"to_agent": "writer", "reason": "Write it."}}
    ids = [read(call | {"tool_id": given}, agent="triage").record for given in ("handoff", "call_1")]
    assert [one and one.handoff_id for one in ids] == [None, "call_1"]


def test_requests_of_both_versions_of_a2a_are_read() -> None:
    found = list(records("a2a"))
    assert [one.handoff_type for one in found] == ["message"] * 6
    assert found[1].data["median_price_eur"] == 12.4
    assert found[3].data == {
        "text": "Prices of Berg and Cole added.",
        "data": {"prices": {"Cole": 13.0, "Berg": 12.4, "Acme": 11.9}},
    }
    assert (found[5].trace_id, found[5].data) == (
        "order-17",
        {"text": "Find who can deliver 40 chairs.", "data": {"count": 40}},
    )
    # The target is not on the wire, and the source only if the sender adds it.
    assert [issue.location[-1] for issue in framework.check(found[5])] == ["from", "to"]
    message = documents("a2a")[5]["params"]["message"] | {"metadata": {"from": "triage", "to": "researcher"}}
    for document in (
        {"message": message},
        {"jsonrpc": "2.0", "method": "message/send", "params": {"message": message}},
    ):
        record = read(document).record
        assert record is not None
        assert (record.source_agent_id, record.target_agent_id) == ("triage", "researcher")
        assert not list(framework.check(record))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("autogen", "a message of AutoGen"),
        ("google-adk", "an event of Google ADK"),
        ("langgraph-swarm", "a callback event of LangGraph"),
        ("langgraph-supervisor", "a callback event of LangGraph"),
        ("crewai", "an event of CrewAI"),
        ("llama-index", "an event of LlamaIndex"),
    ],
)
def test_what_is_no_handoff_says_which_framework_it_resembles(name: str, words: str) -> None:
    refused = [reading for one in documents(name) if (reading := read(one)).record is None]
    # The last entry of some captures is the result of the run, and no event.
    resembling = [reading for reading in refused if words in reading.issues[0].message]
    assert len(refused) > 4
    assert len(refused) - len(resembling) <= 1
    assert {reading.issues[0].code for reading in refused} == {"structure.unrecognised_format"}
    assert all(reading.issues[0].hint.startswith("Send ") for reading in resembling)


def test_an_export_without_handoffs_or_with_several_is_not_one_handoff() -> None:
    whole = capture("openai-agents")
    for document in (whole, {"data": whole["data"][:2]}):
        assert "a trace export of OpenAI Agents" in read(document).issues[0].message
        declared = formats.read(document, "framework", Envelope()).record
        assert declared is not None
        assert "not a handoff of a known framework" in next(iter(framework.check(declared))).message


def test_a_split_export_keeps_no_prompts() -> None:
    whole = capture("openai-agents")
    parts = framework_traces.split_export(whole)
    assert len(parts) == 4
    assert "Find suppliers." in json.dumps(whole)
    assert "Find suppliers." not in json.dumps(parts)
    assert len(json.dumps(parts)) < len(json.dumps(whole)) / 2


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"tool_name": "Task", "tool_input": {}, "session_id": "s"}, "delegation"),
        ({"hook_event_name": "PostToolUse", "tool_name": "Task", "tool_kwargs": {}, "event_id": "x"}, "delegation"),
        ({"source_agent_id": "a", "type": "HandoffMessage", "source": "a", "target": "b"}, "payload"),
        ({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Agent", "tool_input": {}}, "claude-code"),
    ],
)
def test_other_formats_are_read_as_before(document: dict[str, Any], expected: str) -> None:
    record = read(document).record
    assert record is not None
    assert record.format == expected


@pytest.mark.parametrize(
    "document",
    [
        {"object": "trace.span", "id": "s", "span_data": {"type": "handoff", "from_agent": "a", "to_agent": "b"}},
        {
            "event": "on_chain_end",
            "run_id": "r",
            "metadata": {"langgraph_node": "a", "thread_id": "t"},
            "data": {"output": {"goto": "b", "update": {"x": 1}}},
        },
        {
            "author": "a",
            "invocation_id": "i",
            "timestamp": 1e300,
            "actions": {"transfer_to_agent": "b", "state_delta": {"x": 1}},
        },
        {
            "qualified_name": "llama_index.core.agent.workflow.workflow_events.AgentOutput",
            "value": {
                "current_agent_name": "a",
                "tool_calls": [{"tool_name": "handoff", "tool_kwargs": '{"to_agent": "b", "reason": "x"}'}],
            },
        },
        {
            "type": "tool_usage_started",
            "agent_role": "a",
            "tool_name": "Ask question to coworker",
            "tool_args": '{"coworker": "b"}',
        },
    ],
)
def test_other_spellings_are_read(document: dict[str, Any]) -> None:
    record = read(document).record
    assert record is not None
    assert (record.source_agent_id, record.target_agent_id) == ("a", "b")
    assert not list(framework.check(record))


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SIGNS: dict[str, Any] = {
    "type": st.sampled_from(["HandoffMessage", "tool_usage_started", "TextMessage"]),
    "event": st.sampled_from(["on_tool_start", "on_chain_end"]),
    "object": st.just("trace.span"),
    "tool_name": st.sampled_from(["handoff", "delegate_work_to_coworker"]),
    "jsonrpc": st.just("2.0"),
    "method": st.sampled_from(["SendMessage", "message/send"]),
}
NAMES = (
    *("data", "span_data", "source", "target", "content", "context", "actions", "author", "invocationId", "metadata"),
    *("params", "message", "tool_kwargs", "tool_args", "tool_calls", "current_agent_name", "agent_role", "event_id"),
    *("timestamp", "id", "run_id", "qualified_name", "value", "inputs", "models_usage"),
)
HOSTILE = st.fixed_dictionaries({}, optional=SIGNS | dict.fromkeys(NAMES, NESTED))


@given(HOSTILE)
def test_no_document_breaks_the_reading(document: dict[str, Any]) -> None:
    reading = read(document)
    if reading.record and reading.record.format == "framework":
        list(framework.check(reading.record))
        framework.sections(document)
    framework_traces.split_export(document)


@pytest.mark.parametrize("name", ["x" * 201, "a\x00b"])
def test_names_that_cannot_be_stored_are_findings(name: str) -> None:
    record = read({"type": "HandoffMessage", "source": name, "target": "b"}).record
    assert record is not None
    assert [issue.location for issue in framework.check(record)] == [("source",)]
