"""Tests of native records of agent frameworks at the API: trace exports become several handoffs."""

import gzip
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff, HandoffBody
from tests.api.support import client, make_key, problem

pytestmark = pytest.mark.django_db
CAPTURES = Path(__file__).parents[1] / "frameworks"
NATIVE = "http://testserver/v1/traces/ingest"
ENDS = [("triage", "researcher"), ("researcher", "writer"), ("writer", "researcher"), ("researcher", "writer")]


def capture(name: str) -> Any:
    return json.loads(gzip.decompress((CAPTURES / f"{name}.json.gz").read_bytes()))


def ends() -> list[tuple[str, str]]:
    return list(Handoff.objects.order_by("id").values_list("source_agent_id", "target_agent_id"))


@pytest.mark.parametrize("address", [NATIVE, "/openai-agents/traces", "/handoffs"])
def test_a_trace_export_becomes_its_handoffs(api: httpx.Client, address: str) -> None:
    export = capture("openai-agents")
    shown = api.post(address, json=export).json()
    assert shown["totals"] == {"202": 4}
    assert ends() == ENDS
    assert {row.trace_id for row in Handoff.objects.all()} == {"trace_858f8f57dccd4b7aa132fedb793bcbe1"}
    assert shown["items"][0]["handoff_id"] == "span_b7524ea9b59c4d50a5180c5a"
    # The exporter sends an export again if it gets no answer.
    assert api.post(address, json=export).json()["totals"] == {"200": 4}
    assert Handoff.objects.count() == 4
    assert not any(b"Find suppliers." in bytes(body.original) for body in HandoffBody.objects.all())
    judge.drain()
    assert set(Handoff.objects.values_list("state", flat=True)) <= {"accepted", "rejected", "held"}
    judged = api.post(address, json=export, headers={"Prefer": "wait=1"}).json()
    assert all(item["verdict"]["outcome"] == item["state"] for item in judged["items"])


def test_an_export_in_a_batch_counts_as_its_handoffs(api: httpx.Client, settings) -> None:
    message = next(one for one in capture("autogen") if one.get("type") == "HandoffMessage")
    items = [message, capture("openai-agents"), {"document": message | {"id": "other"}, "agent": "nobody"}]
    assert api.post("/handoffs/batch", json=items).json()["totals"] == {"202": 6}
    settings.MAX_BATCH_ITEMS = 3
    for address, body in (("/handoffs/batch", items), (NATIVE, items[1]), ("/handoffs", items[1])):
        assert problem(api.post(address, json=body), 413)["limit"] == 3


def test_the_handoffs_of_an_export_do_not_supersede_each_other(api: httpx.Client) -> None:
    sent = {"document": capture("openai-agents"), "retry_of": "another", "handoff_id": "one", "trace_id": "t-1"}
    assert api.post("/handoffs", json=sent).json()["totals"] == {"202": 4}
    judge.drain()
    stored = list(Handoff.objects.values_list("lineage", "attempt", "trace_id", "state"))
    assert stored == [("", 1, "t-1", "accepted")] * 4


def test_an_export_without_handoffs_stores_nothing(api: httpx.Client) -> None:
    export = capture("openai-agents")
    spans = {"data": [one for one in export["data"] if one.get("span_data", {}).get("type") != "handoff"]}
    for body in (spans, {"data": []}, {"data": [{"object": "trace.session"}, 5, None]}):
        assert api.post(NATIVE, json=body).json()["items"] == []
    assert not Handoff.objects.exists()
    refused = problem(api.post("/handoffs", json=spans), 422)
    assert "resembles a trace export of OpenAI Agents" in refused["detail"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"data": {}}', b"{}", b'"data"', b"[" * 1000, b"\xff"])
def test_what_is_no_export_is_refused(api: httpx.Client, body: bytes) -> None:
    assert problem(api.post(NATIVE, content=body), 422)["title"] == "The trace export can't be read"
    assert not Handoff.objects.exists()


def test_an_export_is_stored_by_a_key_that_may(tenant: Tenant, api: httpx.Client) -> None:
    export = capture("openai-agents")
    for key, status in ((None, 401), ("ha_unknown", 401), (make_key(tenant, "read"), 403)):
        with client(key) as other:
            problem(other.post(NATIVE, json=export), status)
    bound = keys.create(
        tenant=tenant, name="crew", scopes=["ingest"], expires_at=None, actor="tests", agents=["researcher"]
    )[1]
    with client(bound) as other:
        shown = other.post(NATIVE, json=export).json()
    assert [item["status"] for item in shown["items"]] == [403, 202, 403, 202]
    assert ends() == [ENDS[1], ENDS[3]]


def test_a_compressed_export_is_read(api: httpx.Client) -> None:
    packed = (CAPTURES / "openai-agents.json.gz").read_bytes()
    assert api.post(NATIVE, content=packed, headers={"Content-Encoding": "gzip"}).json()["totals"] == {"202": 4}


@pytest.mark.parametrize("name", ["crewai", "llama-index"])
def test_what_has_a_tool_name_is_no_delegation(api: httpx.Client, name: str) -> None:
    events = [one for one in capture(name) if "tool_name" in one]
    answers = api.post("/handoffs/batch", json=events).json()["items"]
    assert not Handoff.objects.filter(format="delegation").exists()
    assert Handoff.objects.filter(format="framework").count() == 4
    refused = [item for item in answers if item["status"] == 422]
    assert all("resembles an event of" in item["issues"][0]["message"] for item in refused)


def test_a_handoff_without_data_is_warned_about(api: httpx.Client) -> None:
    event = next(one for one in capture("langgraph-swarm") if "__handoff_destination" in one.get("metadata", {}))
    pk = api.post("/handoffs", json=event).json()["id"]
    judge.drain()
    shown = api.get(f"/handoffs/{pk}").json()
    assert (shown["format"], shown["source_agent_id"], shown["trace_id"]) == ("framework", "triage", "order-17")
    assert shown["document"] == event
