"""Traces of OpenTelemetry at the API: exports as exporters post them, and the handoffs that become of them."""

import gzip
import random
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from django.utils import timezone
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from handoffaudit import database_faults, request_bodies
from handoffaudit.accounts import keys
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.api import auth
from handoffaudit.handoffs import judge, span_assembly, span_store
from handoffaudit.handoffs.models import Handoff, HandoffBody, TelemetrySpan, TelemetryTrace, ToolResult
from handoffaudit.validation.telemetry.otlp import JSON, PROTOBUF
from tests.api.support import client, make_key
from tests.handoffs.support import find_disk_full
from tests.validation.telemetry.support import BEGIN, RUNS, SWARM, TRACE, agent, bodies, export, one, tool, transfer

pytestmark = pytest.mark.django_db
ADDRESS = "http://testserver/v1/traces"
NAMES = '{"agent_name": "writer", "message": "Write it."}'


@pytest.fixture(autouse=True)
def _recent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the spans of these tests be of the last days, so that their times count."""
    monkeypatch.setattr("handoffaudit.handoffs.ingest.prepare.LATEST", timedelta(days=36_500))


def send(api: httpx.Client, body: bytes, content_type: str = PROTOBUF, **headers: str) -> httpx.Response:
    return api.post(ADDRESS, content=body, headers={"Content-Type": content_type, **headers})


def send_spans(api: httpx.Client, *spans: dict[str, Any]) -> dict[str, Any]:
    response = send(api, export(spans), JSON)
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def wait(seconds: float) -> None:
    """Let time pass for the traces, and run the periodic job."""
    for row in TelemetryTrace.objects.all():
        past = timezone.now() - timedelta(seconds=seconds)
        TelemetryTrace.objects.filter(pk=row.pk).update(since=past, claim_expires_at=past)
    span_assembly.look_for_traces()


def ends() -> list[tuple[str, str]]:
    return list(Handoff.objects.order_by("id").values_list("source_agent_id", "target_agent_id"))


def stored() -> set[tuple[Any, ...]]:
    names = ("handoff_id", "source_agent_id", "target_agent_id", "trace_id", "content_hash", "sent_at")
    return set(Handoff.objects.values_list(*names))


def status_of(response: httpx.Response) -> tuple[int, str]:
    """Return code and message of a `google.rpc.Status`."""
    if response.headers["Content-Type"] == JSON:
        found = response.json()
        assert found.keys() == {"code", "message"}
        return found["code"], found["message"]
    assert response.headers["Content-Type"] == PROTOBUF
    # The answer has its texts in field 2, too: the status has the fields 1 (varint) and 2 (text).
    body = response.content
    assert (body[0], body[2]) == (0x08, 0x12)
    length, at = body[3] & 0x7F, 4
    if body[3] > 0x7F:
        length, at = length | body[4] << 7, 5
    text = body[at:]
    assert len(text) == length
    return body[1], text.decode()


@pytest.mark.parametrize("run", RUNS)
def test_the_exports_of_a_run_become_its_handoffs(api: httpx.Client, run: str) -> None:
    for body in bodies(run):
        response = send(api, gzip.compress(body), **{"Content-Encoding": "gzip"})
        assert (response.status_code, response.content) == (200, b"")
        assert response.headers["Content-Type"] == PROTOBUF
    wait(11)
    expected, payloads = RUNS[run]
    assert ends() == expected
    originals = [bytes(row.original) for row in HandoffBody.objects.all()]
    assert len([one for one in originals if not one.endswith(b'"data":{}}')]) == payloads
    judge.drain()
    assert set(Handoff.objects.values_list("state", flat=True)) <= {"accepted", "rejected", "held"}
    wait(3601)
    assert not TelemetrySpan.objects.exists()
    assert not TelemetryTrace.objects.exists()
    assert ends() == expected


@pytest.mark.parametrize(
    "run", ["openai-agents.traceloop", "langgraph.swarm-traceloop", "autogen-agentchat.openinference"]
)
def test_doubled_shuffled_and_split_exports_change_nothing(api: httpx.Client, run: str) -> None:
    (body,) = bodies(run)
    send(api, body)
    wait(11)
    whole = stored()
    assert len(whole) == 4
    send(api, body)
    wait(11)
    wait(3601)
    assert stored() == whole
    Handoff.objects.all().delete()
    for part in split(body):
        assert send(api, part).status_code == 200
        span_assembly.look_for_traces()
    wait(11)
    assert stored() == whole


def split(body: bytes) -> list[bytes]:
    """Return an export for each span of an export, in any order, and some of them twice."""
    parts = []
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                part = ExportTraceServiceRequest()
                part.resource_spans.add().scope_spans.add().spans.append(span)
                parts.append(part.SerializeToString())
    parts += parts[::3]
    random.Random(5).shuffle(parts)  # noqa: S311 -- no secret
    return parts


def test_a_handoff_with_all_its_evidence_does_not_wait(api: httpx.Client) -> None:
    send_spans(api, tool(2, "handoff_to_agent", 1, at=10, input__value=NAMES))
    wait(2)
    assert ends() == []
    send_spans(api, agent(1, "triage"))
    wait(2)
    assert ends() == [("triage", "writer")]
    handoff = Handoff.objects.get()
    assert (handoff.handoff_id, handoff.trace_id) == (f"{TRACE}-{2:016x}", TRACE)
    assert handoff.sent_at is not None
    assert handoff.sent_at.timestamp() == BEGIN / 10**9 + 0.01


def test_an_inferred_end_waits_for_the_span_that_is_missing(api: httpx.Client) -> None:
    """The agents of a run end last. Until then, the nearest agent is not known."""
    send_spans(api, tool(3, "Agent", 2, at=10, subagent_type="writer"))
    wait(11)
    assert ends() == []
    send_spans(api, one(2, "step", 1), agent(1, "triage"))
    wait(11)
    assert ends() == [("triage", "writer")]


def test_what_never_completes_is_made_after_a_while(api: httpx.Client) -> None:
    send_spans(api, tool(3, "Agent", 2, at=10, subagent_type="writer"))
    wait(11)
    wait(301)
    assert ends() == [("main", "writer")]


def test_traces_of_one_conversation_are_one_trace(api: httpx.Client) -> None:
    named = {"gen_ai__conversation__id": "order-17"}
    send_spans(api, agent(1, "triage", **named), tool(2, "transfer_to_agent", 1, at=10))
    wait(11)
    assert ends() == []
    send_spans(api, agent(4, "writer", at=50, **named) | {"traceId": "1" * 32})
    wait(11)
    assert ends() == [("triage", "writer")]
    assert Handoff.objects.get().trace_id == "order-17"


def test_a_long_conversation_loses_no_trace(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its traces do not fit into memory together."""
    monkeypatch.setattr(span_assembly, "_MOST_BYTES_AT_ONCE", 2_000)
    named = {"gen_ai__conversation__id": "order-17"}
    for number in range(1, 31):
        spans = agent(1, "triage", at=number, **named), transfer(2, f"writer{number}", 1, at=number)
        send_spans(api, *(span | {"traceId": f"{number:032x}"} for span in spans))
    wait(11)
    assert sorted(ends()) == sorted(("triage", f"writer{number}") for number in range(1, 31))


def test_what_there_is_no_time_for_is_given_back(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    send_spans(api, agent(1, "triage"), transfer(2, "writer", 1, at=5))
    ticks = iter([0.0, 0.0, 10.0, 10.0])
    monkeypatch.setattr(span_assembly, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    wait(11)
    monkeypatch.undo()
    assert ends() == []
    row = TelemetryTrace.objects.get()
    assert (row.claim, row.tries) == (None, 0)
    wait(11)
    assert ends() == [("triage", "writer")]


def test_results_of_tools_become_tool_results_with_the_grade_of_the_key(tenant: Tenant) -> None:
    spans = [
        agent(1, "triage"),
        tool(2, "get_order", 1, at=5, gen_ai__tool__call__id="call_7", gen_ai__tool__call__result={"total": 54.2}),
        tool(3, "ask_writer", 1, at=6, gen_ai__tool__call__result="An LLM said so."),
        agent(4, "writer", 3, at=7),
        transfer(5, "writer", 1, at=10, output__value="Transferred."),
        tool(6, "", 1, at=10, output__value="no name"),
    ]
    with client(make_key(tenant, "ingest", "observe")) as api:
        send_spans(api, *spans)
    wait(11)
    (result,) = ToolResult.objects.all()
    assert (result.tool, result.call_id, result.agent, result.trace_id) == ("get_order", "call_7", "triage", TRACE)
    assert (result.grade, result.content) == ("in_process", '{"total":54.2}')
    wait(3601)
    assert ToolResult.objects.count() == 1


def test_calls_with_the_same_id_give_a_result_each(tenant: Tenant) -> None:
    given = [{"order": 1}, {"order": 2}, {"order": 1}]
    calls = [
        tool(number, "get_order", 1, at=number, gen_ai__tool__call__id="0", gen_ai__tool__call__result=result)
        for number, result in enumerate(given, 2)
    ]
    expected = [("0", '{"order":1}'), (f"{TRACE}-{3:016x}", '{"order":2}')]
    with client(make_key(tenant, "ingest", "observe")) as api:
        for spans in ([agent(1, "triage"), calls[0]], calls, [tool(9, "other", 1, at=9)]):
            send_spans(api, *spans)
            wait(11)
    assert list(ToolResult.objects.order_by("at").values_list("call_id", "content")) == expected


@pytest.mark.parametrize(
    "stated",
    [
        {"input__value": "x" * 65_536 + " 4711.50"},
        {"gen_ai__tool__call__arguments": {"text": "x " * 40_000}, "input__value": "4711.50"},
        {"input__value": {"type": "Order", "properties": {"total": "4711.50"}}},
        {"gen_ai__tool__call__arguments": {"type": "object", "properties": {"total": {"is": "4711.50"}}}},
        {"input__value": {"input": {"a": 1}, "metadata": {"total": "4711.50"}}},
        {"input__value": {"inputs": {}, "name": "4711.50"}},
        {"input__value": {"input_str": "{}", "total": "4711.50"}},
        {"input__value": {"args": {}, "ctx": "<a.b object>", "metadata": {"4711.50": 1}}},
        {"input__value": "{'total': '4711.50'}"},
        {"input__value": '{"a": ' * 70 + '"4711.50"' + "}" * 70},
        {"gen_ai__tool__call__arguments": "a", "input__value": {"total": "4711.50"}},
    ],
)
def test_nothing_that_a_span_says_about_the_arguments_is_evidence(tenant: Tenant, stated: dict[str, Any]) -> None:
    with client(make_key(tenant, "ingest", "observe")) as api:
        send_spans(api, agent(1, "triage"), tool(2, "echo", 1, output__value="It is 4711.50.", **stated))
    wait(11)
    assert "4711" not in ToolResult.objects.get().evidence != ""


def test_what_frameworks_add_to_the_arguments_leaves_the_result_as_it_is(tenant: Tenant) -> None:
    metadata = {"langgraph_step": 2, "langgraph_path": ["__pregel_push", 0, False]}
    schema = {"type": "object", "properties": {"days": {"type": "integer", "maximum": 30}}}
    wrapped = {"input_str": "{}", "tags": [], "metadata": metadata, "inputs": {}}
    result = {"found": 2, "missing": 0}
    with client(make_key(tenant, "ingest", "observe")) as api:
        given = {"gen_ai__tool__call__arguments": wrapped, "output__value": result}
        bare = {"input__value": {"days": 7}, "tool__parameters": schema, "output__value": {"most": 30}}
        send_spans(api, agent(1, "triage"), tool(2, "count", 1, **given), tool(3, "look", 1, at=2, **bare))
    wait(11)
    assert set(ToolResult.objects.values_list("evidence", flat=True)) == {""}


ORDER = {"gen_ai__tool__call__id": "call_7", "gen_ai__tool__call__result": {"total": 54.2}}
CAPTURED = tool(2, "transfer_to_savings", 1, at=5, **ORDER)
OUTSIDE, INSIDE, SAID = ("outside", ("observe", "ingest")), ("in_process", ("observe", "ingest")), ("", ("ingest",))


@pytest.mark.parametrize(("weak", "strong"), [(SAID, INSIDE), (INSIDE, OUTSIDE)])
@pytest.mark.parametrize(
    "first",
    [
        CAPTURED | {"spanId": "9" * 16},
        tool(2, "get_order", 1, at=5, **ORDER | {"gen_ai__tool__call__result": {"total": 1}}),
        tool(2, "get_order", 1, at=5),
        tool(9, "inner", 2, at=6, gen_ai__tool__call__result="x"),
        agent(9, "writer", 2, at=6),
        one(9, "chat", 2, at=6, gen_ai__operation__name="chat"),
        agent(9, "savings", 1, at=6),
        transfer(2, "writer", 1, at=5),
    ],
    ids=["call", "span", "empty", "tool", "agent", "llm", "target", "handoff"],
)
def test_no_key_of_a_lower_grade_takes_a_result_out_of_the_evidence(
    tenant: Tenant, first: dict[str, Any], weak: tuple[str, Any], strong: tuple[str, Any]
) -> None:
    secrets = [
        keys.create(tenant=tenant, name=f"k{number}", scopes=scopes, expires_at=None, actor="tests", seam=seam)[1]
        for number, (seam, scopes) in enumerate((weak, strong))
    ]
    for secret, span in zip(secrets, (first, CAPTURED), strict=True):
        with client(secret) as api:
            assert send_spans(api, span) == {}
        wait(11)
    result = ToolResult.objects.get(call_id="call_7")
    assert (result.grade, result.content) == (strong[0], '{"total":54.2}')
    with client(secrets[0]) as api:
        before = TelemetrySpan.objects.count()
        send_spans(api, first)
    wait(11)
    assert TelemetrySpan.objects.count() == before


def test_what_a_lower_grade_sends_takes_no_place_of_a_better_result(
    tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(span_assembly, "_MOST_RESULTS", 2)
    with client(make_key(tenant, "observe", "ingest")) as api:
        send_spans(api, CAPTURED)
    with client(make_key(tenant, "ingest", name="said")) as api:
        send_spans(api, *(tool(number, "get", 1, at=number, output__value="x") for number in range(10, 15)))
    wait(11)
    assert sorted(ToolResult.objects.values_list("grade", flat=True)) == ["in_process", "said"]


def test_a_rejected_span_is_named_in_the_answer(api: httpx.Client) -> None:
    answered = send_spans(api, agent(1, "x" * 1000), agent(2, "writer"))
    assert answered["partialSuccess"]["rejectedSpans"] == "1"
    assert "span 0: gen_ai.agent.name has 1,000 characters" in answered["partialSuccess"]["errorMessage"]
    sent = ExportTraceServiceRequest()
    sent.resource_spans.add().scope_spans.add().spans.add(trace_id=b"\1" * 3, name="x")
    response = ExportTraceServiceResponse.FromString(send(api, sent.SerializeToString()).content)
    assert response.partial_success.rejected_spans == 1
    assert "send 16 bytes" in response.partial_success.error_message
    assert TelemetrySpan.objects.count() == 1


def test_a_trace_takes_a_limited_number_of_spans(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_store, "MOST_SPANS_OF_TRACE", 3)
    assert send_spans(api, agent(1, "a"), agent(2, "b")) == {}
    answered = send_spans(api, agent(3, "c"), agent(4, "d"), agent(5, "e") | {"traceId": "2" * 32})
    assert answered["partialSuccess"]["rejectedSpans"] == "1"
    assert f"the trace {TRACE} has more than 3 spans" in answered["partialSuccess"]["errorMessage"]
    assert TelemetrySpan.objects.count() == 4


def test_a_span_that_is_sent_again_counts_once(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_store, "MOST_SPANS_OF_TRACE", 3)
    spans = agent(1, "a"), agent(2, "b"), agent(2, "b")
    for _ in range(4):
        assert send_spans(api, *spans) == {}
    assert send_spans(api, agent(1, "a") | {"traceId": "2" * 32}, agent(3, "c")) == {}
    assert send_spans(api, *spans, agent(3, "c"), agent(4, "d"))["partialSuccess"]["rejectedSpans"] == "1"
    rows = TelemetryTrace.objects.order_by("trace_id").values_list("spans", flat=True)
    assert (list(rows), TelemetrySpan.objects.count()) == ([3, 1], 4)


@pytest.mark.parametrize("content_type", [PROTOBUF, JSON])
def test_errors_have_the_form_of_the_protocol(
    api: httpx.Client, content_type: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, message = status_of(send(api, b"\xff\xff", content_type))
    assert code == 3
    assert "The body is no" in message
    with client(None) as nobody:
        response = send(nobody, b"", content_type)
    assert (response.status_code, status_of(response)[0]) == (401, 16)
    settings.MAX_TELEMETRY_BYTES = 10
    response = send(api, b"x" * 11, content_type)
    assert (response.status_code, status_of(response)[0]) == (413, 8)
    packed = send(api, gzip.compress(b"x" * 1000), content_type, **{"Content-Encoding": "gzip"})
    assert (packed.status_code, status_of(packed)[0]) == (413, 8)
    broken = send(api, b"\x1f\x8bxx", content_type, **{"Content-Encoding": "gzip"})
    assert (broken.status_code, status_of(broken)[0]) == (400, 3)
    wrong = api.get(ADDRESS, headers={"Content-Type": content_type})
    assert (wrong.status_code, status_of(wrong)[0]) == (405, 12)
    monkeypatch.setattr(database_faults, "describe_shortage", lambda: "the disk is full")
    monkeypatch.setattr(auth, "_room_known_until", 0.0)
    full = send(api, b"", content_type)
    assert (full.status_code, status_of(full)[0]) == (503, 14)
    assert int(full.headers["Retry-After"]) > 0


def test_too_many_requests_are_told_when_to_come_again(api: httpx.Client, settings: Any) -> None:
    settings.RATE_PER_MINUTE = 1
    send(api, b"")
    response = send(api, b"")
    assert (response.status_code, status_of(response)[0]) == (429, 8)
    assert int(response.headers["Retry-After"]) > 0


def test_too_many_bodies_at_once_are_told_in_the_form_of_the_protocol(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_bodies, "MOST_READING", 0)
    response = send(api, bodies("crewai.traceloop")[0])
    assert (response.status_code, status_of(response)[0]) == (503, 14)
    assert response.headers["Retry-After"] == "1"


def test_another_type_is_refused(api: httpx.Client) -> None:
    response = send(api, b"{}", "text/plain")
    assert response.status_code == 415
    assert status_of(response) == (3, "Content-Type is 'text/plain': send application/x-protobuf or application/json.")


def test_a_key_of_an_agent_speaks_for_no_other_agent(tenant: Tenant) -> None:
    with client(make_key(tenant, "ingest", agents=["triage"])) as api:
        spans = [agent(1, "triage"), transfer(2, "writer", 1, at=5), transfer(3, "triage", 4, at=6)]
        answered = send_spans(api, *spans, agent(4, "writer"), tool(5, "Agent", subagent_type="writer"))
    assert answered["partialSuccess"]["rejectedSpans"] == "1"
    assert "names the agent 'writer'" in answered["partialSuccess"]["errorMessage"]
    wait(11)
    wait(301)
    assert ends() == [("triage", "writer")]
    assert {entry.target for entry in AuditEntry.objects.filter(action="key.refuse")} == {"writer", "main"}


def test_a_key_of_an_agent_names_no_other_agent_as_a_caller(tenant: Tenant) -> None:
    with client(make_key(tenant, "ingest", agents=["writer"])) as api:
        answered = send_spans(api, agent(1, "writer", gen_ai__caller__name="triage"))
    assert "names the agent 'triage'" in answered["partialSuccess"]["errorMessage"]
    with client(make_key(tenant, "ingest", agents=["writer", "triage"], name="both")) as api:
        assert send_spans(api, agent(1, "writer", gen_ai__caller__name="triage")) == {}
    wait(11)
    assert ends() == [("triage", "writer")]


STATE = {"openinference.span.kind": "CHAIN", "output.value": '{"current_agent": "triage"}'}
NODE = {"openinference.span.kind": "CHAIN", "metadata": '{"langgraph_checkpoint_ns": "triage:1|model:2"}'}
GOTO = {"openinference.span.kind": "TOOL", "output.value": '{"goto": "writer", "graph": "__parent__"}'}


@pytest.mark.parametrize(
    ("span", "later"),
    [
        (one(1, "run", attributes=STATE), transfer(2, "writer", at=2000)),
        (one(1, "step", attributes=NODE), one(2, "step", 1, at=5, attributes=GOTO)),
    ],
    ids=["state", "namespace"],
)
def test_a_key_of_an_agent_makes_no_other_agent_a_source_of_what_others_send(
    tenant: Tenant, span: dict[str, Any], later: dict[str, Any]
) -> None:
    """A trace can have spans of several keys, and the rules read the source from other spans than the handoff's."""
    for trace, agents in (("1" * 32, ["researcher"]), ("2" * 32, ["triage", "model"])):
        bound, free = (make_key(tenant, "ingest", agents=some, name=f"{trace}{some}") for some in (agents, []))
        for secret, sent in ((bound, span), (free, later)):
            with client(secret) as api:
                assert send_spans(api, sent | {"traceId": trace}) == {}
    wait(11)
    wait(301)
    assert [(row.handoff_id[0], row.source_agent_id) for row in Handoff.objects.all()] == [("2", "triage")]


def test_a_refused_handoff_is_not_offered_again_and_its_reason_is_in_the_audit_log(
    api: httpx.Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_BODY_BYTES = 1_000
    given = {"gen_ai__tool__call__arguments": {"text": "x" * 1_000}}
    small = transfer(3, "writer", 1, at=900, gen_ai__tool__call__arguments={"text": "y"})
    send_spans(api, agent(1, "triage"), transfer(2, "writer", 1, at=5, **given), small)
    offered: list[int] = []
    accept = span_assembly.ingest.accept_many

    def count(tenant: Tenant, sender: Any, submissions: Any, grade: Any) -> Any:
        offered.append(len(submissions))
        return accept(tenant, sender, submissions, grade)

    monkeypatch.setattr(span_assembly.ingest, "accept_many", count)
    for _ in range(3):
        wait(11)
    assert offered == [2]
    assert [row.handoff_id[-1] for row in Handoff.objects.all()] == ["3"]
    entry = AuditEntry.objects.get(action="trace.refuse")
    assert (entry.actor, entry.target, entry.detail["handoffs"]) == ("key sender", TRACE, 1)
    assert "at most 1,000 are allowed" in entry.detail["reason"]


def test_refused_handoffs_fill_neither_their_trace_nor_the_audit_log(
    api: httpx.Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAX_BODY_BYTES = 10
    monkeypatch.setattr(span_assembly, "_MOST_REFUSED", 2)
    for number in range(1, 31):
        spans = agent(1, "triage"), *(transfer(at, "writer", 1, at=at) for at in range(2, 6))
        send_spans(api, *(span | {"traceId": f"{number:032x}"} for span in spans))
    for _ in range(2):
        wait(11)
    assert not Handoff.objects.exists()
    assert {len(row.refused) for row in TelemetryTrace.objects.all()} == {2}
    assert AuditEntry.objects.filter(action="trace.refuse").count() == 20


def test_a_tenant_never_reads_the_spans_of_another(tenant: Tenant, other_tenant: Tenant) -> None:
    """Two tenants send the same trace id and conversation: one the agent, the other the handoff."""
    named = {"gen_ai__conversation__id": "order-17"}
    with client(make_key(tenant, "ingest")) as mine, client(make_key(other_tenant, "ingest", name="theirs")) as theirs:
        send_spans(mine, agent(1, "triage", **named))
        send_spans(theirs, transfer(2, "writer", 1, at=5, **named))
        wait(11)
        wait(301)
        assert Handoff.objects.count() == 0
        send_spans(mine, transfer(2, "writer", 1, at=5, **named))
        wait(11)
    assert [(row.tenant_id, row.source_agent_id) for row in Handoff.objects.all()] == [(tenant.pk, "triage")]


def test_a_trace_that_fails_holds_up_no_other(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    send_spans(api, agent(1, "triage"), transfer(2, "writer", 1, at=5))
    send_spans(api, *(span | {"traceId": "9" * 32} for span in (agent(1, "a"), transfer(2, "b", 1, at=5))))
    find = span_assembly.find_in

    def fail(tree: Any) -> Any:
        if tree.spans[0].trace_id == TRACE:
            raise RuntimeError
        return find(tree)

    monkeypatch.setattr(span_assembly, "find_in", fail)
    wait(11)
    assert ends() == [("a", "b")]
    monkeypatch.undo()
    wait(11)
    assert sorted(ends()) == [("a", "b"), ("triage", "writer")]


def test_a_full_disk_counts_no_try_of_a_trace(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    send_spans(api, agent(1, "triage"), transfer(2, "writer", 1, at=5))
    send_spans(api, *(span | {"traceId": "9" * 32} for span in (agent(1, "a"), transfer(2, "b", 1, at=5))))
    monkeypatch.setattr(span_assembly, "find_in", find_disk_full)
    for _ in range(6):
        with pytest.raises(OperationalError):
            wait(11)
    assert set(TelemetryTrace.objects.values_list("tries", flat=True)) == {0}
    monkeypatch.undo()
    wait(11)
    assert sorted(ends()) == [("a", "b"), ("triage", "writer")]


def test_a_trace_that_failed_again_and_again_is_removed_in_the_end(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_spans(api, agent(1, "triage"))

    def fail(_: Any) -> Any:
        raise RuntimeError

    monkeypatch.setattr(span_assembly, "find_in", fail)
    for _ in range(6):
        wait(11)
    assert TelemetryTrace.objects.get().tries == 5
    wait(7201)
    assert not TelemetryTrace.objects.exists()


def test_spans_that_come_during_a_look_are_looked_at_again(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    send_spans(api, agent(1, "triage"))
    find = span_assembly.find_in

    def find_late(tree: Any) -> Any:
        monkeypatch.setattr(span_assembly, "find_in", find)
        send_spans(api, transfer(2, "writer", 1, at=5))
        return find(tree)

    monkeypatch.setattr(span_assembly, "find_in", find_late)
    wait(3601)
    assert TelemetryTrace.objects.get().claim is None
    wait(11)
    assert ends() == [("triage", "writer")]


def test_the_handoffs_take_part_in_their_trace(api: httpx.Client) -> None:
    (body,) = bodies("openai-agents.openinference")
    send(api, body)
    wait(11)
    judge.drain()
    trace = Handoff.objects.first().trace_id  # type: ignore[union-attr]
    shown = api.get(f"/traces/{trace}").json()
    assert [(one["source_agent_id"], one["target_agent_id"]) for one in shown["handoffs"]] == SWARM


def test_a_handoff_says_which_rule_found_it_and_what_was_inferred(api: httpx.Client) -> None:
    (body,) = bodies("google-adk.default")
    send(api, body)
    wait(11)
    judge.drain()
    handoff = Handoff.objects.order_by("id")[0]
    shown = api.get(f"/handoffs/{handoff.pk}").json()
    assert shown["telemetry"] == {
        "text": "Read from a trace; target inferred from the next agent span.",
        "rule": "tool",
        "inferred": {"target": "next_agent"},
        "trace_id": shown["document"]["trace_id"],
        "span_id": shown["document"]["span_id"],
        "span_name": "execute_tool transfer_to_agent",
    }
    assert shown["trace_id"] == "order-17"
    assert shown["handoff_type"] == "handoff"


def test_each_node_that_a_command_goes_to_is_a_handoff_of_its_own(api: httpx.Client) -> None:
    command = {"output.value": '{"goto": ["writer", "checker"], "update": {"text": "Two parts."}}'}
    for _ in range(2):
        send_spans(api, one(1, "triage", openinference__span__kind="CHAIN", attributes=command))
        wait(11)
    assert ends() == [("triage", "writer"), ("triage", "checker")]
