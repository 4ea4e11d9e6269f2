"""Tests of the read operations of the API: lists, single handoffs, verdicts, events, drawings and schemas."""

import hashlib
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree

import httpx
import jsonschema_rs
import orjson
import pytest
from django.db import connection
from django.utils import timezone

from handoffaudit import database_faults
from handoffaudit.accounts.models import Tenant
from handoffaudit.api.policies import PUBLISHED_NAMES
from handoffaudit.diagnostics.models import Watermark
from handoffaudit.handoffs import attempts
from handoffaudit.handoffs.models import Alert, Handoff, HandoffBody
from tests.api.support import problem, submitted
from tests.handoffs.support import NOT_JSON, circular, held, judged, payload, submit

pytestmark = pytest.mark.django_db
SVG = "{http://www.w3.org/2000/svg}"


def test_a_list_has_items_and_a_cursor_that_leads_through_all(api: httpx.Client) -> None:
    made = [api.post("/handoffs", json=payload()).json()["id"] for _ in range(5)]
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = api.get("/handoffs", params={"limit": 2, "cursor": cursor}).json()
        assert set(page) == {"items", "next"}
        seen += [item["id"] for item in page["items"]]
        cursor = page["next"]
    assert seen == made[::-1]


def test_a_list_takes_filters(api: httpx.Client) -> None:
    loop, wait = submitted(api, circular()), submitted(api, held(handoff_type="x"))
    for query, expected in (
        ("state=held", [wait]),
        ("state=held,rejected", [wait, loop]),
        ("state=held&state=rejected", [wait, loop]),
        ("type=x", [wait]),
        ("code=chain.circular&since=1h", [loop]),
        ("until=2020-01-01", []),
        ("flag=overdue", []),
    ):
        assert [item["id"] for item in api.get(f"/handoffs?{query}").json()["items"]] == expected, query


def test_one_whose_name_has_a_slash_is_found_by_its_name(api: httpx.Client) -> None:
    pk = submitted(api, payload(handoff_id="An expired hold / 7"))
    submitted(api, payload(handoff_id="An expired hold "))
    (found,) = api.get("/handoffs", params={"handoff_id": "An expired hold / 7"}).json()["items"]
    assert found["id"] == pk
    assert api.get(f"/handoffs/{found['id']}").json()["handoff_id"] == "An expired hold / 7"


def test_a_superseded_one_names_the_attempt_that_stands(api: httpx.Client, django_assert_num_queries) -> None:
    for name, before in (("a", None), ("b", "a"), ("c", "b")):
        submitted(api, circular(handoff_id=name), **({"retry_of": before} if before else {}))
    for name in "ab":
        later = api.get(f"/handoffs/{name}").json()["superseded_by"]
        assert (later["handoff_id"], later["state"], later["attempt"]) == ("c", "rejected", 3)
    standing = Handoff.objects.get(handoff_id="c")
    with django_assert_num_queries(0):
        assert attempts.later_attempt(standing) is None
    assert "superseded_by" not in api.get("/handoffs").json()["items"][0]


def test_one_is_shown_with_its_document_and_verdict(api: httpx.Client) -> None:
    pk = submitted(api, circular(handoff_id="h"), context={"q": 1}, evidence=[1], trace_id="t", step=2)
    shown = api.get(f"/handoffs/{pk}").json()
    assert shown == api.get("/handoffs/h").json()
    assert (shown["document"], shown["raw"], shown["context"], shown["evidence"]) == (
        circular(handoff_id="h"),
        None,
        {"q": 1},
        [1],
    )
    assert (shown["state"], shown["codes"][0]) == ("rejected", "chain.circular")
    assert shown["verdict"]["outcome"] == "rejected"
    assert shown["original_sha256"] == hashlib.sha256(bytes(HandoffBody.objects.get().original)).hexdigest()
    assert (shown["trace_id"], shown["step"], shown["parent_handoff_id"]) == ("t", 2, None)
    (issue,) = [issue for issue in shown["verdict"]["issues"] if issue["layer"] == "chain"]
    assert (issue["json_pointer"], issue["issue_id"]) == ("/target_agent_id", "issue-1")


def test_numbers_come_back_as_they_were_sent(api: httpx.Client) -> None:
    sent = orjson.dumps(payload()).replace(b'"suppliers":3', b'"suppliers":12345678901234567890123, "price": 1.50')
    pk = api.post("/handoffs", content=sent).json()["id"]
    assert b"12345678901234567890123" in api.get(f"/handoffs/{pk}").content
    assert b"1.50" in api.get(f"/handoffs/{pk}").content


@pytest.mark.parametrize(("sent", "raw"), [(NOT_JSON, NOT_JSON.decode()), (b"\xff\x00<b>", "\ufffd\x00<b>")])
def test_what_is_no_json_is_shown_as_text(api: httpx.Client, tenant: Tenant, sent: bytes, raw: str) -> None:
    shown = api.get(f"/handoffs/{submit(tenant, sent).id}").json()
    assert (shown["document"], shown["raw"]) == (None, raw)


def test_verdicts_and_events(api: httpx.Client) -> None:
    pk = submitted(api, held())
    (verdict,) = api.get(f"/handoffs/{pk}/verdicts").json()["items"]
    assert verdict == api.get(f"/handoffs/{pk}").json()["verdict"]
    events = api.get(f"/handoffs/{pk}/events").json()
    assert events["next"] is None
    assert [(event["from_state"], event["to_state"], event["actor"]["kind"]) for event in events["items"]] == [
        (None, "received", "key"),
        ("received", "validating", "system"),
        ("validating", "held", "system"),
    ]
    assert events["items"][0]["actor"]["name"] == "sender"


def test_what_is_due_after_repair_failed_is_so_until_a_person_decided(api: httpx.Client, tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="h"))
    Handoff.objects.update(escalated=True)

    def told() -> list[str]:
        shown, verdicts = api.get("/handoffs/h").json(), api.get("/handoffs/h/verdicts").json()["items"]
        assert verdicts == [shown["verdict"]]
        assert shown["flags"]["escalated"] == (shown["state"] == "rejected")
        return [shown["state"], shown["verdict"]["recommended_action"]]

    assert told() == ["rejected", "escalate"]
    assert api.post("/handoffs/h/review", json={"decision": "approve", "note": "It may."}).status_code == 200
    assert told() == ["approved", "retry"]
    api.post("/handoffs/h/review", json={"decision": "reopen", "note": "It may not."})
    assert told() == ["rejected", "escalate"]
    judged(tenant, payload(handoff_id="next"), retry_of="h")
    assert told() == ["superseded", "retry"]


@pytest.mark.parametrize("path", ["", "/verdicts", "/events", "/attempts", "/chain.svg"])
def test_what_does_not_exist_is_404(api: httpx.Client, path: str) -> None:
    for reference in ("nothing", "01963f0e-7a1c-7bb2-8a35-0f4a3c1f2d6e", "x" * 3000):
        problem(api.get(f"/handoffs/{reference}{path}"), 404)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"target_agent_id": "planner"},
        {"call_chain": [f"agent-{number}" for number in range(40)] + ["researcher"]},
        {
            "source_agent_id": "<script>alert(1)</script>",
            "target_agent_id": '" onload="x\' & ]]> \u202e\u0007',
            "call_chain": ["<script>alert(1)</script>", "javascript:x", "\u0000\ufffe"],
        },
    ],
)
def test_the_chain_is_drawn_well_formed_and_without_anything_active(
    api: httpx.Client, changes: dict[str, object]
) -> None:
    pk = submitted(api, payload(**changes))
    response = api.get(f"/handoffs/{pk}/chain.svg")
    assert response.headers["Content-Type"].startswith("image/svg+xml")
    assert "sandbox" in response.headers["Content-Security-Policy"]
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    root = ElementTree.fromstring(response.content)  # noqa: S314 -- our own drawing
    assert root.tag == f"{SVG}svg"
    for element in root.iter():
        assert element.tag.removeprefix(SVG) not in {"script", "foreignObject", "iframe", "image", "use"}
        for name, value in element.attrib.items():
            assert not name.lower().startswith("on")
            assert "javascript:" not in value or name.startswith("aria") or element.tag != f"{SVG}a"


def test_the_chain_of_what_is_not_judged_or_cannot_be_read_is_drawn_too(api: httpx.Client, tenant: Tenant) -> None:
    for receipt in (submit(tenant, payload()), submit(tenant, NOT_JSON)):
        drawn = api.get(f"/handoffs/{receipt.id}/chain.svg").content
        assert ElementTree.fromstring(drawn).tag == f"{SVG}svg"  # noqa: S314 -- our own drawing


def test_a_decision_is_taken_and_shown(api: httpx.Client) -> None:
    pk = submitted(api, circular())
    assert problem(api.post(f"/handoffs/{pk}/review", json={"decision": "approve"}), 422)["field"] == "note"
    sent = {"decision": "approve", "note": "Checked with the desk.", "seen_version": 2}
    decided = api.post(f"/handoffs/{pk}/review", json=sent)
    assert decided.status_code == 200
    assert (decided.json()["state"], decided.json()["version"], decided.json()["user_approved"]) == (
        "approved",
        3,
        True,
    )
    event = api.get(f"/handoffs/{pk}/events").json()["items"][-1]
    assert (event["actor"], event["reason"]) == ({"kind": "key", "name": "sender"}, "Checked with the desk.")


def test_the_strictness_table_is_read_saved_and_in_force(api: httpx.Client) -> None:
    table = api.get("/strictness").json()
    assert (table["version"], table["rows"][-1]["handoff_type"]) == (0, "*")
    row = table["rows"][-1] | {"handoff_type": "slow", "approval_length": 1, "mode": "enforce"}
    saved = api.put("/strictness", json={"base_version": 0, "rows": [*table["rows"], row], "note": "tighter"})
    assert saved.status_code == 200, saved.text
    assert (saved.json()["version"], saved.json()["note"], saved.json()["changed_by"]) == (1, "tighter", "key sender")
    assert api.get("/strictness").json() == saved.json()
    assert api.get(f"/handoffs/{submitted(api, payload(handoff_type='slow'))}").json()["state"] == "held"


@pytest.mark.parametrize("name", PUBLISHED_NAMES)
def test_a_published_schema_is_a_schema(api: httpx.Client, name: str) -> None:
    jsonschema_rs.meta.validate(api.get(f"/schemas/{name}.json").json())


def test_published_schemas_hold_for_real_documents(api: httpx.Client) -> None:
    verdict_schema = api.get("/schemas/verdict.json").json()
    issue_schema = api.get("/schemas/issue.json").json()
    payload_schema = api.get("/schemas/payload.json").json()
    jsonschema_rs.validate(payload_schema, payload())
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(payload_schema, payload(call_chain=[]))
    for document in (payload(), circular(), held(), payload(call_chain=[])):
        verdict = api.get(f"/handoffs/{submitted(api, document)}").json()["verdict"]
        jsonschema_rs.validate(verdict_schema, verdict)
        for issue in verdict["issues"]:
            jsonschema_rs.validate(issue_schema, issue)


def test_a_schema_that_there_is_not_names_those_there_are(api: httpx.Client) -> None:
    assert all(name in problem(api.get("/schemas/nothing.json"), 404)["detail"] for name in PUBLISHED_NAMES)


def test_it_is_alive_and_ready(api: httpx.Client, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.QUEUE_FOLDER.mkdir(parents=True, exist_ok=True)
    settings.REDIS_URL = ""
    assert api.get("http://testserver/healthz").json() == {"status": "ok"}
    ready = api.get("http://testserver/readyz")
    assert (ready.status_code, set(ready.json()["checks"].values())) == (200, {"ok"})
    # It takes handoffs all the same.
    assert ready.json()["workers"] == {"worker": "none seen yet"}
    Watermark.objects.create(name="worker", at=timezone.now())
    assert api.get("http://testserver/readyz").json()["workers"] == {"worker": "ok"}
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    away = api.get("http://testserver/readyz")
    # The database wakes the workers in place of Redis.
    assert (away.status_code, away.json()["status"]) == (200, "degraded")
    assert "REDIS_URL" in away.json()["checks"]["queue"]
    assert away.json()["workers"] == {"worker": "ok"}
    settings.MIN_FREE_BYTES, share = 10**18, 1.0
    monkeypatch.setattr(database_faults, "LEAST_FREE_SHARE", share)
    full = api.get("http://testserver/readyz")
    # The disk of a PostgreSQL server cannot be seen from here.
    expected = (503, "not ready") if connection.vendor == "sqlite" else (200, "degraded")
    assert (full.status_code, full.json()["status"]) == expected


def test_without_the_folder_of_the_queue_it_is_not_ready(api: httpx.Client, settings, tmp_path: Path) -> None:
    settings.REDIS_URL, settings.QUEUE_FOLDER = "", tmp_path / "none"
    away = api.get("http://testserver/readyz")
    assert (away.status_code, away.json()["status"]) == (503, "not ready")


def test_thresholds_are_looked_at_by_who_asks_whether_it_is_ready_also_without_a_queue(
    api: httpx.Client, settings, tenant: Tenant
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    submit(tenant, payload())
    Handoff.objects.update(received_at=timezone.now() - timedelta(minutes=20))
    assert api.get("http://testserver/readyz").json()["status"] == "degraded"
    assert Alert.objects.get().kind == "queue_age"
