"""Tool results arrive beside a document or for a trace, and the key decides what they are worth."""

from typing import Any

import httpx
import orjson
import pytest

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge, legal_holds, tool_results
from handoffaudit.handoffs.models import Handoff, LateResults, ToolResult
from handoffaudit.handoffs.tool_results import MOST_RESULTS
from tests.api.support import client, make_key, problem
from tests.handoffs.support import payload

pytestmark = pytest.mark.django_db
AT = "2026-02-15T00:15:00Z"
ORDER = {"order_id": "W123", "total": 54.2}


def observer(tenant: Tenant, seam: str = "outside", scopes: tuple[str, ...] = ("observe", "ingest", "read")) -> str:
    return keys.create(tenant=tenant, name=seam, scopes=scopes, expires_at=None, actor="tests", seam=seam)[1]


def result(call_id: str = "call_17", **changes: Any) -> dict[str, Any]:
    return {"tool": "get_order", "call_id": call_id, "agent": "assistant", "at": AT, "result": ORDER} | changes


def send(key: str, *results: Any, trace: str = "t-1") -> httpx.Response:
    with client(key) as api:
        return api.post(f"/traces/{trace}/tool-results", json=list(results))


def listed(key: str, trace: str = "t-1", **query: Any) -> Any:
    with client(key) as api:
        return api.get(f"/traces/{trace}/tool-results", params=query).json()


def document(tenant: Tenant, text: str = "The order costs 54.20.", **changes: Any) -> dict[str, Any]:
    return payload(tenant_id=tenant.slug, data={"text": text}, **changes)


def submit(key: str, path: str = "/handoffs", **sent: Any) -> httpx.Response:
    with client(key) as api:
        return api.post(path, json={"trace_id": "t-1"} | sent)


def verdict_of(key: str, reference: str) -> Any:
    with client(key) as api:
        return api.get(f"/handoffs/{reference}").json()["verdict"]


def values(verdict: Any) -> dict[str, tuple[str, list[str]]]:
    return {
        value["text"]: (value["status"], value["where"]) for claim in verdict["claims"] for value in claim["values"]
    }


WHERE = "tool_results[get_order #call_17].result.total: 54.2"


@pytest.mark.parametrize(("seam", "grade"), [("outside", "outside"), ("in_process", "in_process"), ("", "said")])
def test_the_key_sets_the_grade(seam: str, grade: str, tenant: Tenant) -> None:
    key = observer(tenant, seam) if seam else make_key(tenant, "ingest", "read")
    answer = send(key, result(), result("call_18")).json()
    assert (answer["grade"], answer["totals"]) == (grade, {"stored": 2})
    [first, second] = listed(key)["items"]
    assert (first["grade"], first["sender"], first["result"]) == (grade, seam or "sender", ORDER)
    assert (second["call_id"], second["at"], second["is_cut"]) == ("call_18", "2026-02-15T00:15:00.000Z", False)


def test_the_senders_word_sets_no_grade(tenant: Tenant) -> None:
    refused = problem(send(make_key(tenant, "ingest"), result(grade="outside")), 422)
    assert "grade" in refused["detail"]


@pytest.mark.parametrize("seam", ["outside", "in_process"])
def test_evidence_beside_a_document_grounds_its_values(seam: str, tenant: Tenant) -> None:
    key = observer(tenant, seam)
    stored = submit(key, document=document(tenant), tool_results=[result()])
    assert stored.status_code == 202
    judge.drain()
    assert values(verdict_of(key, stored.json()["id"]))["54.20"] == ("grounded", [WHERE])
    assert not LateResults.objects.exists()


def test_what_a_sender_says_grounds_nothing(tenant: Tenant) -> None:
    key = make_key(tenant, "ingest", "read")
    stored = submit(key, document=document(tenant), tool_results=[result()], context={"question": "What does it cost?"})
    judge.drain()
    assert values(verdict_of(key, stored.json()["id"]))["54.20"] == ("ungrounded", [])
    assert ToolResult.objects.get().grade == "said"


def test_results_that_came_before_ground_the_values_of_a_batch(tenant: Tenant) -> None:
    key = observer(tenant)
    send(key, result())
    with client(key) as api:
        items = [
            {"document": document(tenant), "trace_id": "t-1"},
            {"document": document(tenant, "The order costs 99.90."), "trace_id": "t-2", "tool_results": [result()]},
            {"document": document(tenant), "trace_id": "t-3", "tool_results": [{"tool": "x"}]},
        ]
        answers = api.post("/handoffs/batch", json=items).json()["items"]
    judge.drain()
    assert [one["status"] for one in answers] == [202, 202, 422]
    assert "tool_results[0].call_id" in answers[2]["detail"]
    assert values(verdict_of(key, answers[0]["id"]))["54.20"] == ("grounded", [WHERE])
    assert values(verdict_of(key, answers[1]["id"]))["99.90"][0] == "ungrounded"


def test_a_later_result_is_no_evidence_for_an_earlier_handoff(tenant: Tenant) -> None:
    key = observer(tenant)
    stored = submit(key, document=document(tenant), context={"question": "What does it cost?"}).json()["id"]
    send(key, result(at="2100-01-01T00:00:00Z"))
    judge.drain()
    assert values(verdict_of(key, stored))["54.20"][0] == "ungrounded"


def test_a_document_is_judged_with_results_that_are_not_stored(tenant: Tenant) -> None:
    def judged(key: str) -> Any:
        sent = {"document": document(tenant), "context": {"a": "b c"}, "tool_results": [result()]}
        return values(submit(key, "/validate", **sent).json())["54.20"][0]

    assert judged(observer(tenant)) == "grounded"
    assert judged(make_key(tenant, "ingest")) == "ungrounded"
    assert not ToolResult.objects.exists()


def test_the_arguments_of_a_call_are_no_evidence(tenant: Tenant) -> None:
    key = observer(tenant)
    stored = submit(key, document=document(tenant), tool_results=[result(arguments={"cost": 54.2})]).json()["id"]
    judge.drain()
    assert values(verdict_of(key, stored))["54.20"] == ("ungrounded", [])


def test_the_same_result_is_stored_once_and_another_one_changes_nothing(tenant: Tenant) -> None:
    key = observer(tenant)
    assert send(key, result(), result()).json()["totals"] == {"stored": 1, "known": 1}
    assert send(key, result()).json()["totals"] == {"known": 1}
    assert send(key, result(result={"total": 1})).json()["totals"] == {"conflict": 1}
    assert [one["result"] for one in listed(key)["items"]] == [ORDER]


def test_a_sender_cannot_say_first_what_a_collector_captures_later(tenant: Tenant) -> None:
    said, inside, outside = make_key(tenant, "ingest"), observer(tenant, "in_process"), observer(tenant)
    assert send(said, result(result={"total": 99})).json()["totals"] == {"stored": 1}
    assert send(inside, result()).json()["totals"] == {"replaced": 1}
    assert send(outside, result()).json()["totals"] == {"replaced": 1}
    assert send(inside, result(result={"total": 99})).json()["totals"] == {"conflict": 1}
    [kept] = listed(outside)["items"]
    assert (kept["grade"], kept["result"]) == ("outside", ORDER)


def test_sending_a_handoff_again_adds_its_results_once(tenant: Tenant) -> None:
    key = observer(tenant)
    sent = {"document": document(tenant, handoff_id="h-1"), "tool_results": [result()]}
    assert [submit(key, **sent).status_code for _ in range(2)] == [202, 200]
    assert submit(key, **sent | {"tool_results": [result("call_18")]}).status_code == 200
    refused = sent | {"document": document(tenant, "Other.", handoff_id="h-1"), "tool_results": [result("call_19")]}
    assert submit(key, **refused).status_code == 409
    assert sorted(ToolResult.objects.values_list("call_id", flat=True)) == ["call_17", "call_18"]


def test_another_tenants_results_are_neither_seen_nor_evidence(tenant: Tenant, other_tenant: Tenant) -> None:
    send(observer(other_tenant), result())
    key = observer(tenant)
    assert listed(key)["items"] == []
    stored = submit(key, document=document(tenant), context={"a": "b c"}).json()["id"]
    judge.drain()
    assert values(verdict_of(key, stored))["54.20"][0] == "ungrounded"
    assert send(key, result(result={"total": 1})).json()["totals"] == {"stored": 1}


def test_results_are_paged(tenant: Tenant) -> None:
    key = observer(tenant)
    send(key, *(result(f"call_{number}") for number in range(5)))
    first = listed(key, limit=3)
    second = listed(key, limit=3, cursor=first["next"])
    assert [one["call_id"] for one in (*first["items"], *second["items"])] == [f"call_{one}" for one in range(5)]
    assert second["next"] is None
    with client(key) as api:
        problem(api.get("/traces/t-1/tool-results", params={"cursor": "x"}), 400)
        problem(api.get("/traces/t-1/tool-results", params={"limt": 1}), 400)


def deep(levels: int) -> Any:
    return orjson.loads(b"[" * levels + b"]" * levels)


WRONG = [
    result(call_id=""),
    result(call_id="x" * 201),
    result(call_id=7),
    result(tool="a\x00b"),
    result(agent="a\x00b"),
    result(at="yesterday"),
    result(at="2026-02-15T00:15:00"),
    result(at="0001-01-01T00:00:00+14:00"),
    result(at=10**30),
    result(colour="red"),
    result(result=deep(80)),
    result(arguments=deep(80)),
    {key: value for key, value in result().items() if key != "result"},
    "a text",
    None,
]


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_result_is_refused_and_nothing_is_stored(wrong: Any, tenant: Tenant) -> None:
    key = observer(tenant)
    problem(send(key, result(), wrong), 422)
    refused = problem(submit(key, document=document(tenant), tool_results=[result(), wrong]), 422)
    assert refused["title"] == "The tool results can't be read"
    assert not ToolResult.objects.exists()
    assert not Handoff.objects.exists()


@pytest.mark.parametrize("sent", [b"", b"{", b"{}", b"null", b'"x"', b"[" * 5000, b"\xff"])
def test_a_body_that_is_no_list_is_refused(sent: bytes, tenant: Tenant) -> None:
    with client(observer(tenant)) as api:
        assert api.post("/traces/t-1/tool-results", content=sent).status_code in (400, 422)


def test_the_number_and_the_size_of_results_are_limited(tenant: Tenant) -> None:
    key = observer(tenant)
    problem(send(key, *(result(f"{number}") for number in range(MOST_RESULTS + 1))), 422)
    problem(send(key, result(result="x" * 1024 * 1024)), 413)
    problem(submit(key, document=document(tenant), tool_results=[result(result="x" * 1024 * 1024)]), 413)
    problem(send(key, result(), trace="x" * 201), 422)
    assert not ToolResult.objects.exists()


def test_tool_results_need_a_trace(tenant: Tenant) -> None:
    refused = problem(submit(observer(tenant), document=document(tenant), tool_results=[result()], trace_id=None), 422)
    assert "trace_id" in refused["detail"]


def test_a_trace_keeps_the_newest_results_and_evidence_longest(tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_results, "MOST_OF_A_TRACE", 3_000)
    outside, said = observer(tenant), make_key(tenant, "ingest")
    send(outside, *(result(f"e{day}", at=f"2026-02-0{day}T00:00:00Z", result="x" * 500) for day in (3, 1, 2)))
    send(said, result("s1", at="2026-02-09T00:00:00Z", result="x" * 500))
    assert set(ToolResult.objects.values_list("call_id", flat=True)) == {"e1", "e2", "e3"}
    send(outside, result("e4", at="2026-02-04T00:00:00Z", result="x" * 500))
    assert set(ToolResult.objects.values_list("call_id", flat=True)) == {"e2", "e3", "e4"}
    assert send(outside, result("e1", at="2026-02-01T00:00:00Z")).status_code == 200
    assert not ToolResult.objects.filter(call_id="e1", at__day=1, size__gt=600).exists()


@pytest.mark.parametrize("scope", ["trace", "tenant"])
def test_a_legal_hold_keeps_the_results_of_its_trace(
    scope: str, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_results, "MOST_OF_A_TRACE", 2_000)
    outside, said, text = observer(tenant), make_key(tenant, "ingest", "read"), "x" * 500
    stored = submit(said, document=document(tenant), context={"question": "What does it cost?"}).json()["id"]
    send(said, result(result={"total": 99}), result("s1", result=text))
    key = "t-1" if scope == "trace" else ""
    hold = legal_holds.place(tenant=tenant, scope=scope, key=key, reason="a case", actor="ada")
    # What is only said takes no room from evidence.
    assert send(said, result("s2", result=text)).json()["totals"] == {"stored": 1}
    assert send(said, result("s3", result=text)).json()["totals"] == {"refused": 1}
    assert send(outside, result(), result("e1", result=text)).json()["totals"] == {"replaced": 1, "stored": 1}
    answer = send(outside, result("e2", result=text), result("e3", result="y" * 600), result("e4", result=1)).json()
    assert [one["status"] for one in answer["items"]] == ["stored", "refused", "refused"]
    names = {one["call_id"].partition(" (")[0]: one for one in listed(said)["items"]}
    assert names.keys() == {"call_17", "s1", "s2", "e1", "e2"}
    kept = ToolResult.objects.get(call_id__startswith="call_17 (replaced ")
    assert (kept.grade, kept.content) == ("said", '{"total":99}')
    assert "(replaced said " in kept.call_id
    judge.drain()
    assert values(verdict_of(said, stored))["54.20"] == ("grounded", [WHERE])
    legal_holds.lift(tenant=tenant, hold=hold.pk, reason="over", actor="ada")
    assert send(outside, result("e4", result=1)).json()["totals"] == {"stored": 1}
    assert not ToolResult.objects.filter(grade="said").exists()


def test_a_replaced_result_that_a_hold_keeps_is_no_evidence(tenant: Tenant) -> None:
    inside, outside = observer(tenant, "in_process"), observer(tenant)
    send(inside, result(result={"total": 99}))
    legal_holds.place(tenant=tenant, scope="tenant", key="", reason="a case", actor="ada")
    assert send(outside, result()).json()["totals"] == {"replaced": 1}
    assert sorted(ToolResult.objects.values_list("grade", flat=True)) == ["outside", "said"]


def test_a_uuid_names_the_same_trace_in_either_case(tenant: Tenant) -> None:
    key, trace = observer(tenant), "6D31AE7B-F10F-4321-9D85-53001506D372"
    send(key, result(), trace=trace)
    assert listed(key, trace.lower())["items"] == listed(key, trace)["items"] != []
