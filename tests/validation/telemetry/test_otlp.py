"""Exports are read span by span: a bad span is rejected with its reason, and no input costs more than its size."""

import json
import time
import tracemalloc
from typing import Any

import orjson
import pytest
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from handoffaudit.validation.telemetry import otlp
from handoffaudit.validation.telemetry.facts import MOST_TEXT
from handoffaudit.validation.telemetry.handoff_rules import find_in
from handoffaudit.validation.telemetry.otlp import JSON, PROTOBUF, BadExport, TooManySpans, read_export
from handoffaudit.validation.telemetry.trees import Tree
from tests.validation.telemetry.support import BEGIN, agent, export, one, tool, transfer


def read(*spans: dict[str, Any]) -> otlp.Export:
    return read_export(export(spans), JSON)


def request(number: int = 1, **fields: Any) -> bytes:
    """Return an export with `number` spans."""
    sent = ExportTraceServiceRequest()
    spans = sent.resource_spans.add().scope_spans.add().spans
    given = {"trace_id": b"\1" * 16, "span_id": b"\2" * 8, "name": "x", "start_time_unix_nano": BEGIN} | fields
    for _ in range(number):
        spans.add(**given)
    return sent.SerializeToString()


@pytest.mark.parametrize("body", [b"\x00\x01garbage", b"\x0a\xff", b"\xff" * 20, b"{}", request()[:-3]])
def test_a_body_that_is_no_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(BadExport):
        read_export(body, PROTOBUF)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"resourceSpans": 3}', b'{"resourceSpans": [{"scopeSpans": {}}]}', b"\xff"]
)
def test_a_body_that_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadExport):
        read_export(body, JSON)


@pytest.mark.parametrize("body", [b"{}", b'{"resourceSpans": null}', b'{"resourceSpans": []}'])
def test_an_export_can_be_empty(body: bytes) -> None:
    assert read_export(body, JSON).spans == []
    assert read_export(b"", PROTOBUF).spans == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"trace_id": b"\1" * 15}, "traceId is"),
        ({"trace_id": b"\0" * 16}, "traceId is"),
        ({"span_id": b""}, "spanId is ''"),
        ({"parent_span_id": b"\1" * 9}, "parentSpanId is"),
        ({"start_time_unix_nano": 0}, "startTimeUnixNano is 0"),
        ({"start_time_unix_nano": 2**63}, "startTimeUnixNano is"),
    ],
)
def test_a_span_with_a_wrong_field_is_rejected(fields: dict[str, Any], reason: str) -> None:
    found = read_export(request(**fields) + request(), PROTOBUF)
    assert (len(found.spans), found.rejected) == (1, 1)
    assert reason in found.message
    assert found.message.startswith("1 span rejected: span 0: ")


@pytest.mark.parametrize(
    "wrong",
    [
        {"traceId": 17},
        {"traceId": "zz" * 16},
        {"spanId": "é" * 16},
        {"spanId": " 1" * 8},
        {"spanId": "11\t\n" * 4},
        {"spanId": "1" * 15 + "\n"},
        {"parentSpanId": ["1"]},
        {"name": {"a": 1}},
        {"startTimeUnixNano": "yesterday"},
        {"startTimeUnixNano": None},
    ],
)
def test_a_wrong_type_in_json_rejects_its_span_alone(wrong: dict[str, Any]) -> None:
    found = read(one(1, "a") | wrong, one(2, "b"))
    assert ([span.name for span in found.spans], found.rejected) == (["b"], 1)


@pytest.mark.parametrize("name", ["startTimeUnixNano", "endTimeUnixNano"])
@pytest.mark.parametrize("sent", ["18446744073709551616", "9" * 30, 1e30, 1.5, "-1", -1, True, "yesterday", "\u0667"])
def test_a_time_that_is_no_time_is_named_as_it_was_sent(name: str, sent: Any) -> None:
    assert f"span 0: {name} is {sent}: send nanoseconds" in read(one(1, "a") | {name: sent}).message


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (r"cut \ud83d", "cut \ufffd"),
        (r"\uDE00 and \ud83d\ude00", "\ufffd and \U0001f600"),
        (r"\\ud83d", r"\ud83d"),
    ],
)
def test_half_a_surrogate_pair_spoils_no_export(written: str, read: str) -> None:
    attribute = {"key": "gen_ai.agent.name", "value": {"stringValue": "WRITTEN"}}
    span = {"traceId": "a" * 32, "spanId": "b" * 16, "name": "invoke_agent", "attributes": [attribute]}
    span |= {"startTimeUnixNano": str(BEGIN), "endTimeUnixNano": str(BEGIN + 1)}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).replace("WRITTEN", written)
    export = read_export(body.encode(), JSON)
    assert (export.message, [one.facts.agent for one in export.spans]) == ("", [read])


def test_attributes_of_wrong_types_are_left_out() -> None:
    wrong = [
        None,
        7,
        {"key": 3},
        {"key": "gen_ai.tool.name", "value": [1]},
        {"key": "tool.name", "value": {"intValue": "9"}},
    ]
    (span,) = read(one(1, "a") | {"attributes": wrong, "events": "none"}).spans
    assert span.facts.tool == span.name


def test_the_name_of_an_agent_that_is_too_long_rejects_the_span() -> None:
    found = read(agent(1, "x" * 1_000_000), agent(2, "writer"))
    assert (len(found.spans), found.rejected) == (1, 1)
    assert "gen_ai.agent.name has 1,000,000 characters: use at most 200" in found.message


def test_texts_are_cut() -> None:
    (span,) = read(tool(1, "handoff", input__value="x" * 1_000_000, output__value="y" * 1_000_000)).spans
    assert len(span.facts.arguments) == len(span.facts.result) == MOST_TEXT


def test_a_span_that_is_too_large_is_rejected() -> None:
    found = read(tool(1, "handoff", input__value="x" * 3_000_000), one(2, "b"))
    assert ([span.name for span in found.spans], found.rejected) == (["b"], 1)


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_a_hundred_thousand_spans_are_refused_at_once(content_type: str) -> None:
    body = request(100_000) if content_type == PROTOBUF else export([one(1, "a")] * 100_000)
    begin = time.process_time()
    with pytest.raises(TooManySpans, match="more than 10,000 spans"):
        read_export(body, content_type)
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"resourceSpans": [{}] * 5}, "resources"),
        ({"resourceSpans": [{"scopeSpans": [{}] * 5}]}, "scopes"),
        ({"resourceSpans": [{"scopeSpans": [{}] * 3}] * 2}, "scopes"),
        ({"resourceSpans": [{"scopeSpans": [{}] * 4}] + [{}] * 3}, None),
    ],
)
def test_resources_and_scopes_have_the_same_limits_in_both_formats(
    body: dict[str, Any], what: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "MOST_SPANS", 4)
    binary = ParseDict(body, ExportTraceServiceRequest()).SerializeToString()
    for sent, content_type in ((orjson.dumps(body), JSON), (binary, PROTOBUF)):
        if what:
            with pytest.raises(TooManySpans, match=f"more than 4 {what}: send fewer spans at a time"):
                read_export(sent, content_type)
        else:
            assert read_export(sent, content_type) == otlp.Export([])


def test_a_large_map_is_read_in_full() -> None:
    pairs = [{"key": f"key{number}", "value": {"boolValue": True}} for number in range(4_001)]
    value = {"kvlistValue": {"values": pairs}}
    sent = orjson.loads(export([tool(1, "search")]))
    (span,) = sent["resourceSpans"][0]["scopeSpans"][0]["spans"]
    span["attributes"].append({"key": "gen_ai.tool.call.result", "value": value})
    (read_span,) = read_export(orjson.dumps(sent), JSON).spans
    assert "key4000" in read_span.facts.result


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        # Millions of empty messages: spans, scopes, resources, unknown fields, and attributes of one span.
        (b"\x0a\x80\x80\x80\x04" + b"\x12\xf8\xff\xff\x03" + b"\x12\x00" * 4_194_300, PROTOBUF),
        (b"\x0a\x80\x80\x80\x04" + b"\x12\x00" * 4_194_304, PROTOBUF),
        (b"\x0a\x00" * 4_000_000, PROTOBUF),
        (b"\x08\x00" * 4_000_000, PROTOBUF),
        (b'{"resourceSpans": [' + b"{}," * 3_000_000 + b"{}]}", JSON),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [' + b"0," * 4_000_000 + b"0]}]}]}", JSON),
    ],
)
def test_a_bomb_takes_little_memory_and_time(body: bytes, content_type: str) -> None:
    tracemalloc.start()
    begin = time.process_time()
    try:
        with pytest.raises(BadExport):
            read_export(body, content_type)
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < 60_000_000
    assert time.process_time() - begin < 10


def test_deep_nesting_is_left_out() -> None:
    value: dict[str, Any] = {"stringValue": "x"}
    for _ in range(60):
        value = {"arrayValue": {"values": [value]}}
    span = one(1, "a") | {"attributes": [{"key": "gen_ai.output.messages", "value": value}]}
    text = tool(2, "handoff", input__value="[" * 100_000)
    assert len(read(span, text).spans) == 2


@pytest.mark.nightly
def test_a_chain_of_ten_thousand_spans_is_searched_in_seconds() -> None:
    chain = [transfer(number, "writer", number - 1, at=number) for number in range(1, 10_001)]
    spans = read(*chain).spans
    begin = time.process_time()
    find_in(Tree(spans))
    assert time.process_time() - begin < 20


@pytest.mark.nightly
def test_ten_thousand_handoffs_side_by_side_are_found_in_seconds() -> None:
    tools = (tool(number, "transfer_to_writer", 1) for number in range(2, 10_000))
    spans = read(agent(1, "triage"), *tools, agent(10_000, "writer", at=500)).spans
    begin = time.process_time()
    assert len(find_in(Tree(spans))) == 9_998
    assert time.process_time() - begin < 20


def test_patterns_and_names_of_attributes_cost_no_more_than_their_length() -> None:
    blanks = one(1, "handoff " + " " * 500_000 + "x")
    arrows = one(2, "a" * 500_000 + " -> b.handoff", traceloop__span__kind="handoff")
    keys = {f"{'x.' * 90}agent{number}": "v" for number in range(4_000)}
    many = [one(number, "a", attributes=keys | {"agent.x." + "transfer." * 20: "v"}) for number in range(3, 8)]
    begin = time.process_time()
    assert len(read(blanks, arrows, *many).spans) == 7
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    "text",
    [
        "{'content': " + "-" * 15_000 + "1}",
        "{'content': " + "1+" * 7_000 + "1}",
        "{'content': " + "9" * 15_000 + "}",
        "{'content': " + "[" * 60 + "}",
        "{'content': __import__('os')}",
        "{'content': '" + "\\" * 7_000,
        "{'content': 1, 'parts': 3, 'tool_calls': [{'function': [1]}]}",
    ],
)
def test_a_text_that_looks_like_python_is_only_read(text: str) -> None:
    messages = [{"role": "assistant", "parts": [{"type": "text", "content": text}]}]
    (span,) = read(one(1, "chat", gen_ai__operation__name="chat", gen_ai__output__messages=messages)).spans
    assert span.facts.calls == []


def test_half_a_surrogate_pair_in_a_representation_of_python_is_replaced() -> None:
    message = {"content": "a \ud83d", "tool_calls": [{"name": "ask", "arguments": {"text": "\ud83d"}}]}
    written = {"gen_ai.operation.name": "chat", "gen_ai.completion.0.content": repr(message)}
    (span,) = read_export(export([one(1, "chat", attributes=written)]), JSON).spans
    assert (span.facts.said, span.facts.calls) == ("a ?", [("ask", '{"text":"?"}')])


@pytest.mark.parametrize(
    ("written", "read"),
    [("-5", -5), (7, 7), ("0", 0), ("9" * 18, 10**18 - 1), ("9" * 20, "9" * 20), ("x", "x"), ("٣", "٣")],
)
def test_a_whole_number_in_json_is_a_number_although_the_protocol_writes_it_as_text(written: Any, read: Any) -> None:
    amount = {"key": "amount", "value": {"intValue": written}}
    span = tool(1, "pay")
    span["attributes"].append({"key": "gen_ai.tool.call.arguments", "value": {"kvlistValue": {"values": [amount]}}})
    (found,) = read_export(export([span]), JSON).spans
    assert json.loads(found.facts.arguments) == {"amount": read}


@pytest.mark.parametrize("given", [{"session__id": 42}, {"metadata": '{"thread_id": 42}'}])
def test_the_id_of_a_session_can_be_a_number(given: dict[str, Any]) -> None:
    (found,) = read_export(export([agent(1, "writer", **given)]), JSON).spans
    assert found.conversation == "42"
