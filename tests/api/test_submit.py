"""Tests of submissions by API."""

import gzip
from typing import Any

import httpx
import orjson
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.api import examples
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from tests.api.support import client, problem, submitted
from tests.handoffs.support import NOT_JSON, assert_counts_are_right, circular, payload

pytestmark = pytest.mark.django_db


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_a_submission_is_answered_202_with_id_and_links(api: httpx.Client) -> None:
    response = api.post("/handoffs", json={"document": payload(handoff_id="h")})
    assert response.status_code == 202
    answer = response.json()
    assert (answer["handoff_id"], answer["state"]) == ("h", "received")
    assert response.headers["Location"] == answer["links"]["self"] == f"/api/v1/handoffs/{answer['id']}"
    for name in ("self", "verdicts", "events", "chain"):
        assert api.get(f"http://testserver{answer['links'][name]}").status_code == 200
    assert Handoff.objects.get().pk.hex == answer["id"].replace("-", "")


def test_a_bare_document_is_taken_with_its_format_and_without(api: httpx.Client) -> None:
    for address, document in (
        ("/handoffs", payload()),
        ("/handoffs?format=payload", payload()),
        ("/handoffs", examples.UNIVERSAL),
        ("/handoffs?format=universal", examples.UNIVERSAL),
    ):
        assert api.post(address, json=document).status_code == 202
    assert sorted(Handoff.objects.values_list("format", flat=True)) == ["payload", "payload", "universal", "universal"]


def test_the_same_again_is_200_with_the_first_answer_and_other_content_409(api: httpx.Client) -> None:
    first = api.post("/handoffs", json=payload(handoff_id="h")).json()
    again = api.post("/handoffs", json=payload(handoff_id="h"))
    assert (again.status_code, again.json()) == (200, first)
    clash = problem(api.post("/handoffs", json=payload(handoff_id="h", data={})), 409)
    assert clash["id"] == first["id"]
    assert "'h'" in clash["detail"]


@pytest.mark.parametrize(
    "sent",
    [
        *(NOT_JSON, b"[]", b"\xff", b"{}", b'{"document": {}, "colour": 1}', nested(65), nested(2000)),
        *(b'{"jsonrpc": "2.0", "method": ["SendMessage"]}', b'{"data": [{"object": {}}]}'),
    ],
)
def test_what_cannot_be_read_is_422_with_id_and_issues_and_kept(api: httpx.Client, sent: bytes) -> None:
    document = problem(api.post("/handoffs", content=sent), 422)
    assert document["state"] == "rejected"
    (issue,) = document["issues"]
    assert issue["code"].startswith("structure.")
    with client(None) as nobody:
        told = nobody.get(f"http://testserver{document['links']['codes'].format(code=issue['code'])}")
    assert (told.status_code, issue["code"] in told.text) == (200, True)
    assert issue["message"] in document["detail"]
    assert issue["hint"]
    kept = api.get(f"http://testserver{document['links']['self']}")
    assert kept.status_code == 200
    assert kept.json()["state"] == "rejected"
    assert bytes(HandoffBody.objects.get().original) == sent


@pytest.mark.parametrize(
    "wrong", [{"contxt": {"a": 1}}, {"step": "one"}, {"context": "x"}, {"agent": 7}, {"format": "x" * 300}]
)
def test_what_has_an_error_beside_its_document_is_found_by_its_names(api: httpx.Client, wrong: dict[str, Any]) -> None:
    sent = {"document": payload(handoff_id="mine"), "trace_id": "run-7", "parent_handoff_id": "before", **wrong}
    answer = problem(api.post("/handoffs", json=sent), 422)
    shown = api.get("/handoffs/mine").json()
    assert (shown["id"], shown["state"], shown["document"]) == (answer["id"], "rejected", sent)
    assert [shown[name] for name in ("source_agent_id", "target_agent_id", "handoff_type", "parent_handoff_id")] == [
        *("researcher", "writer", "research_result", "before"),
    ]
    for query in ({"trace": "run-7"}, {"source": "researcher"}):
        assert [one["id"] for one in api.get("/handoffs", params=query).json()["items"]] == [answer["id"]]
    again = api.post("/handoffs", json=sent)
    assert (again.status_code, again.json()["id"]) == (200, answer["id"])
    # What can't be judged repeats nothing, and takes nobody's place.
    assert Handoff.objects.get().data_hash == ""
    problem(api.post("/handoffs", json={"document": payload(handoff_id="b"), "retry_of": "mine", "colour": 1}), 422)
    assert api.get("/handoffs/mine").json()["state"] == "rejected"


def _broken_in(way: str) -> dict[str, Any]:
    if way == "beside the document":
        return {"document": payload(handoff_id="mine"), "contxt": {}}
    return {"document": [], "handoff_id": "mine", "format": "payload"}


@pytest.mark.parametrize("way", ["beside the document", "in the document"])
@pytest.mark.parametrize("retry", [False, True])
def test_what_is_mended_has_the_id_of_what_could_not_be_read(api: httpx.Client, way: str, retry: bool) -> None:
    broken = _broken_in(way)
    first = problem(api.post("/handoffs", json=broken), 422)
    assert api.post("/handoffs", json=broken).json()["id"] == first["id"]
    other = problem(api.post("/handoffs", json=broken | {"colour": 1}), 422)
    assert other["id"] != first["id"]
    mended = {"document": payload(handoff_id="mine")} | ({"retry_of": "before"} if retry else {})
    taken = api.post("/handoffs", json=mended)
    assert (taken.status_code, taken.json()["handoff_id"]) == (202, "mine")
    assert api.get("/handoffs/mine").json()["id"] == taken.json()["id"]
    assert api.post("/handoffs", json=mended).status_code == 200
    kept = api.get(f"/handoffs/{first['id']}").json()
    assert (kept["state"], kept["handoff_id"]) == ("superseded", first["id"])
    for one in (other["id"],) if retry else (first["id"], other["id"]):
        assert api.get(f"/handoffs/{one}").json()["superseded_by"]["id"] == taken.json()["id"]
    assert Handoff.objects.filter(state=State.REJECTED).count() == 0
    reasons = [one["reason"] for one in api.get(f"/handoffs/{first['id']}/events").json()["items"]]
    assert "it can't be read, and a later document has the id mine now" in reasons
    # What could be read keeps its id.
    problem(api.post("/handoffs", json=broken), 409)
    assert_counts_are_right()


def test_what_is_mended_has_the_id_within_a_batch_too(api: httpx.Client) -> None:
    sent = [_broken_in("beside the document"), {"document": payload(handoff_id="mine")}]
    items = api.post("/handoffs/batch", json=[*sent, *sent]).json()["items"]
    assert [item["status"] for item in items] == [422, 202, 409, 200]
    assert [item["handoff_id"] for item in items[:2]] == [items[0]["id"], "mine"]
    assert api.get("/handoffs/mine").json()["id"] == items[1]["id"]


def test_an_id_is_not_given_up_where_another_has_the_products_own(api: httpx.Client) -> None:
    first = problem(api.post("/handoffs", json=_broken_in("in the document")), 422)
    problem(api.post("/handoffs", json=payload(handoff_id=first["id"])), 409)
    assert api.post("/handoffs", json=payload(handoff_id="from before")).status_code == 202
    # Earlier versions stored such an id.
    Handoff.objects.filter(handoff_id="from before").update(handoff_id=first["id"])
    sent = [{"document": payload(handoff_id="mine")}, {"document": payload(handoff_id="other")}]
    items = api.post("/handoffs/batch", json=sent).json()["items"]
    assert [item["status"] for item in items] == [409, 202]
    broken = _broken_in("in the document") | {"handoff_id": "in one batch"}
    mended = {"document": payload(handoff_id="in one batch")}
    items = api.post("/handoffs/batch", json=[broken, broken | {"colour": 1}, mended, mended]).json()["items"]
    assert [item["status"] for item in items] == [422, 422, 202, 200]
    assert Handoff.objects.filter(state=State.SUPERSEDED).count() == 2
    assert_counts_are_right()


def test_an_id_of_the_product_s_own_is_never_given_up(api: httpx.Client) -> None:
    broken = problem(api.post("/handoffs", content=NOT_JSON), 422)
    problem(api.post("/handoffs", json=payload(handoff_id=broken["id"])), 409)


def test_an_id_that_a_person_decided_on_is_not_given_up(api: httpx.Client) -> None:
    problem(api.post("/handoffs", json=_broken_in("in the document")), 422)
    decided = api.post("/handoffs/mine/review", json={"decision": "decline", "note": "No."})
    assert decided.status_code == 200, decided.text
    problem(api.post("/handoffs", json=payload(handoff_id="mine")), 409)


def test_an_id_of_what_a_layer_rejected_is_not_given_up(api: httpx.Client) -> None:
    submitted(api, circular(handoff_id="mine"))
    assert api.get("/handoffs/mine").json()["state"] == "rejected"
    problem(api.post("/handoffs", json=payload(handoff_id="mine")), 409)


def test_an_error_beside_the_document_lets_nothing_into_another_tenant(api: httpx.Client) -> None:
    problem(api.post("/handoffs", json={"document": payload(tenant_id="globex"), "contxt": 1}), 403)
    assert not Handoff.objects.exists()


@pytest.mark.parametrize("document", [7, [], {"a": 1}, nested(300).decode()])
def test_an_error_beside_what_is_no_handoff_keeps_what_stands_beside(api: httpx.Client, document: Any) -> None:
    sent = {"document": document, "trace_id": "t", "handoff_id": "h", "parent_handoff_id": "x" * 300, "colour": 1}
    problem(api.post("/handoffs", json=sent), 422)
    shown = api.get("/handoffs/h").json()
    assert (shown["trace_id"], shown["parent_handoff_id"], shown["source_agent_id"]) == ("t", None, "")


def test_the_nesting_limit_is_a_setting_and_is_named(api: httpx.Client, settings) -> None:
    settings.MAX_NESTING = 10
    (issue,) = problem(api.post("/handoffs", content=nested(11)), 422)["issues"]
    assert "10 levels" in issue["message"]
    assert api.post("/handoffs", json=payload(data=orjson.loads(nested(8)))).status_code == 202


@pytest.mark.parametrize("levels", [60, 300])
def test_what_was_kept_is_shown_as_it_was_sent_however_deep(api: httpx.Client, levels: int, settings) -> None:
    settings.MAX_NESTING = 64
    sent = b'{"document":' + orjson.dumps(payload()) + b', "context": ' + nested(levels) + b"}"
    response = api.post("/handoffs", content=sent)
    assert response.status_code == (202 if levels < 64 else 422)
    shown = api.get(f"/handoffs/{response.json()['id']}")
    assert shown.status_code == 200
    assert nested(levels) in shown.content


def test_a_body_over_the_limit_is_413_and_says_the_limit(api: httpx.Client, settings) -> None:
    settings.MAX_BODY_BYTES = 2000
    document = problem(api.post("/handoffs", json=payload(data={"text": "x" * 2000})), 413)
    assert document["limit"] == 2000
    assert "2,000" in document["detail"]
    assert api.post("/handoffs", json=payload()).status_code == 202


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "0"}])
@pytest.mark.parametrize("query", ["", "?format=payload"])
def test_an_empty_body_is_kept_as_a_finding(api: httpx.Client, headers: dict[str, str], query: str) -> None:
    refused = problem(api.post(f"/handoffs{query}", headers=headers), 422)
    assert "it is empty" in refused["detail"]
    assert [issue["code"] for issue in refused["issues"]] == ["structure.json_parse"]
    stored = Handoff.objects.get(pk=refused["id"])
    assert (stored.state, stored.size_bytes) == ("rejected", 0)
    assert api.get(f"/handoffs/{stored.pk}").json()["verdict"]["issues"][0]["code"] == "structure.json_parse"


def test_chunks_without_a_length_do_not_pass_as_an_empty_document(api: httpx.Client) -> None:
    told = problem(api.post("/handoffs", content=iter([b'{"a": 1}'])), 400)
    assert told["title"] == "No body"
    assert "Content-Length" in told["detail"]
    assert not Handoff.objects.exists()


def test_an_empty_body_is_judged_as_rejected(api: httpx.Client) -> None:
    verdict = api.post("/validate").json()
    assert (verdict["outcome"], verdict["issues"][0]["code"]) == ("rejected", "structure.json_parse")


def test_a_batch_without_a_body_is_refused(api: httpx.Client) -> None:
    assert "body" in problem(api.post("/handoffs/batch"), 400)["detail"]


def test_a_length_that_is_no_number_is_told(api: httpx.Client) -> None:
    problem(api.post("/handoffs", content=b"{}", headers={"Content-Length": "many"}), 400)


def test_another_tenant_in_the_document_is_403_and_not_kept(api: httpx.Client) -> None:
    detail = problem(api.post("/handoffs", json=payload(tenant_id="globex")), 403)["detail"]
    assert "'globex'" in detail
    assert "'acme'" in detail
    assert not Handoff.objects.exists()


def test_a_document_without_a_tenant_belongs_to_the_tenant_of_the_key(api: httpx.Client, tenant: Tenant) -> None:
    document = payload()
    del document["tenant_id"]
    sent = orjson.dumps(document)
    receipt = api.post("/handoffs", content=sent, headers={"Content-Type": "application/json"}).json()
    judge.drain()
    handoff = Handoff.objects.get(pk=receipt["id"])
    assert (handoff.tenant, handoff.state) == (tenant, State.ACCEPTED)
    assert bytes(HandoffBody.objects.get().original) == sent


def test_a_batch_is_answered_in_order_with_a_status_for_each(api: httpx.Client) -> None:
    items = [
        payload(handoff_id="a"),
        payload(handoff_id="a"),
        payload(handoff_id="a", data={}),
        [],
        payload(tenant_id="x"),
    ]
    response = api.post("/handoffs/batch", json=items)
    assert response.status_code == 200
    answer = response.json()
    assert [item["status"] for item in answer["items"]] == [202, 200, 409, 422, 403]
    assert answer["totals"] == {"202": 1, "200": 1, "409": 1, "422": 1, "403": 1}
    assert [set(item.get("links", ())) for item in answer["items"]] == [{"self", "page"}] * 4 + [set()]
    assert answer["links"]["codes"] == "/help/codes/{code}/"
    assert answer["items"][3]["issues"][0]["code"] == "structure.wrong_type"
    assert all(item["detail"] for item in answer["items"] if item["status"] in (403, 409))


def test_lines_are_a_batch_and_a_broken_one_spoils_no_other(api: httpx.Client) -> None:
    lines = [orjson.dumps(payload(handoff_id="a")), NOT_JSON, b"", orjson.dumps({"document": payload(handoff_id="b")})]
    for line_end in (b"\n", b"\r\n"):
        sent = line_end.join(lines)
        response = api.post("/handoffs/batch", content=sent, headers={"Content-Type": "application/x-ndjson"})
        assert [item["status"] for item in response.json()["items"]][1] == 422
        assert [item["handoff_id"] for item in response.json()["items"]][::2] == ["a", "b"]
    assert Handoff.objects.filter(handoff_id__in="ab").count() == 2


def test_an_object_over_several_lines_is_one_handoff(api: httpx.Client) -> None:
    sent = b"\n" + orjson.dumps({"document": payload(handoff_id="a")}, option=orjson.OPT_INDENT_2) + b"\n"
    for content, status in ((sent, 202), (sent.replace(b"\n", b"\r\n"), 200)):
        (item,) = api.post("/handoffs/batch", content=content).json()["items"]
        assert (item["status"], item["handoff_id"]) == (status, "a")
    cut = api.post("/handoffs/batch", content=b'{"document":\n' + orjson.dumps(payload(handoff_id="b")))
    assert cut.json()["totals"] == {"422": 1, "202": 1}


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("form", ["array", "lines"])
def test_a_byte_order_mark_changes_nothing(api: httpx.Client, mark: bytes, form: str) -> None:
    items = [payload(), {"document": payload(), "step": 1}]
    sent = orjson.dumps(items, option=orjson.OPT_INDENT_2) if form == "array" else b"\n".join(map(orjson.dumps, items))
    answer = api.post("/handoffs/batch", content=mark + sent).json()
    assert answer["totals"] == {"202": 2}


@pytest.mark.parametrize("sent", [b"[1, 2", b"[{]", b"[]", b"\n \n", b" "])
def test_a_batch_that_is_none_is_told(api: httpx.Client, sent: bytes) -> None:
    assert problem(api.post("/handoffs/batch", content=sent), 422)["detail"].endswith(".")
    assert not Handoff.objects.exists()


def test_a_broken_array_is_told_by_line_and_column_and_what_stands_there(api: httpx.Client) -> None:
    detail = problem(api.post("/handoffs/batch", content=b'[{"a": 1},\n {"b": tru}]'), 422)["detail"]
    assert detail.startswith("Not readable as JSON at line 2, column ")
    assert '{"b": →tru}' in detail
    assert "byte" not in detail


def test_a_list_sent_as_one_handoff_is_told_where_batches_go(api: httpx.Client) -> None:
    (issue,) = problem(api.post("/handoffs", json=[payload(), payload()]), 422)["issues"]
    assert issue["code"] == "structure.wrong_type"
    assert issue["hint"].endswith("Send a list of handoffs to POST /api/v1/handoffs/batch.")


def test_a_batch_has_limits_of_its_own(api: httpx.Client, settings) -> None:
    settings.MAX_BATCH_ITEMS = 2
    settings.MAX_BATCH_BYTES = 1500
    assert problem(api.post("/handoffs/batch", json=[payload()] * 3), 413)["limit"] == 2
    assert problem(api.post("/handoffs/batch", content=b" " * 1501), 413)["limit"] == 1500
    settings.MAX_BODY_BYTES = 100
    assert api.post("/handoffs/batch", json=[payload()]).json()["items"][0]["status"] == 413


def test_a_batch_takes_the_format_too(api: httpx.Client) -> None:
    answer = api.post("/handoffs/batch?format=universal", json=[payload(), examples.UNIVERSAL]).json()
    assert [item["status"] for item in answer["items"]] == [202, 202]
    assert set(Handoff.objects.values_list("format", flat=True)) == {"universal"}


def test_a_compressed_body_is_no_json_and_says_so(api: httpx.Client) -> None:
    sent = gzip.compress(orjson.dumps(payload()))
    (issue,) = problem(api.post("/handoffs", content=sent), 422)["issues"]
    assert issue["code"] == "structure.json_parse"


def test_every_example_of_the_documentation_submits_as_often_as_it_is_sent(api: httpx.Client) -> None:
    single = examples.SUBMIT["requestBody"]["content"]["application/json"]["examples"]
    sent = [orjson.dumps(one["value"]).replace(b'"default"', b'"acme"') for one in single.values()]
    batch = orjson.dumps(examples.MANY).replace(b'"default"', b'"acme"')
    for status in (202, 200, 200, 200):
        assert [api.post("/handoffs", content=one).status_code for one in sent] == [status] * len(sent)
        assert api.post("/handoffs/batch", content=batch).json()["totals"] == {str(status): 2}
        judge.drain()
    handoffs = Handoff.objects.all()
    assert {(one.state, *one.codes) for one in handoffs} == {(State.ACCEPTED,)}
    assert len(handoffs) == len(sent) + 2


def test_every_example_is_accepted(api: httpx.Client) -> None:
    for document in (examples.PAYLOAD | {"tenant_id": "acme"}, examples.UNIVERSAL):
        pk = submitted(api, document)
        shown = api.get(f"/handoffs/{pk}").json()
        assert (shown["state"], shown["codes"]) == (State.ACCEPTED, []), shown["verdict"]["issues"]


def test_rejected_by_a_layer_is_no_refused_submission(api: httpx.Client) -> None:
    assert api.post("/handoffs", json=circular()).status_code == 202
