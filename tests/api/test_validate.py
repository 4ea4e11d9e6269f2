"""Tests of validation without storage."""

import time
from contextlib import ExitStack

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.api import validate
from handoffaudit.api.examples import UNIVERSAL
from handoffaudit.handoffs.models import Event, Handoff
from tests.api.support import problem
from tests.handoffs.support import NOT_JSON, circular, judged, payload
from tests.messages_api.requests import Request
from tests.messages_api.server import MessagesServer

pytestmark = pytest.mark.django_db


def test_validate_answers_the_verdict_and_keeps_nothing(api: httpx.Client) -> None:
    answer = api.post("/validate", json={"document": circular(handoff_id="h")})
    assert answer.status_code == 200
    verdict = answer.json()
    assert (verdict["outcome"], verdict["handoff_id"], verdict["valid"]) == ("rejected", "h", False)
    assert [issue["code"] for issue in verdict["issues"]] == ["chain.circular"]
    assert (Handoff.objects.count(), Event.objects.count()) == (0, 0)


def test_validate_takes_a_bare_document_and_says_what_cannot_be_read(api: httpx.Client) -> None:
    assert api.post("/validate?format=payload", json=payload()).json()["outcome"] == "accepted"
    verdict = api.post("/validate", content=NOT_JSON).json()
    assert (verdict["outcome"], verdict["issues"][0]["code"]) == ("rejected", "structure.json_parse")


def test_an_integer_that_python_does_not_write_is_no_fault_of_the_server(api: httpx.Client) -> None:
    sent = {"document": payload(), "context": {"page": "{'width': 0x" + "f" * 5_000 + "}"}}
    assert api.post("/validate", json=sent).json()["outcome"] == "accepted"


def test_validate_sees_the_trace_that_the_handoff_would_stand_in(api: httpx.Client, tenant: Tenant) -> None:
    for name in ("one", "two"):
        judged(tenant, payload(handoff_id=name), trace_id="t")
    verdict = api.post("/validate", json={"document": payload(), "trace_id": "t"}).json()
    assert [issue["code"] for issue in verdict["issues"]] == ["chain.repeats_without_progress"]


def test_another_tenants_document_is_refused(api: httpx.Client) -> None:
    problem(api.post("/validate", json={"document": payload(tenant_id="other")}), 403)


def test_attempts_are_listed_with_what_each_changed(api: httpx.Client, tenant: Tenant) -> None:
    judged(tenant, circular(handoff_id="one"))
    judged(tenant, payload(handoff_id="two"), retry_of="one")
    answer = api.get("/handoffs/one/attempts").json()
    assert [(item["handoff_id"], item["attempt"], item["state"]) for item in answer["items"]] == [
        ("one", 1, "superseded"),
        ("two", 2, "accepted"),
    ]
    assert answer["items"][0]["changes"] is None
    changes = {change["field_path"]: (change["before"], change["after"]) for change in answer["items"][1]["changes"]}
    assert changes == {"handoff_id": ("one", "two"), "target_agent_id": ("planner", "writer")}
    asked = answer["remediation"]
    assert (asked["state"], asked["resolution"]) == ("resolved", "passed")
    assert [action["action"] for action in asked["actions_taken"]] == ["retry", "accept"]


def test_repair_answers_the_candidate_its_changes_and_its_verdict_and_keeps_nothing(api: httpx.Client) -> None:
    broken = {"handoff": {name: value for name, value in UNIVERSAL["handoff"].items() if name != "version"}}
    answer = api.post("/repair", json={"document": broken}).json()
    assert (answer["status"], answer["repaired_by"], answer["verdict"]["outcome"]) == ("repaired", 1, "accepted")
    assert answer["document"]["handoff"]["version"] == "3.0"
    assert "handoff.version" in [change["field_path"] for change in answer["attempts"][0]["changes"]]
    assert Handoff.objects.count() == 0


def test_repair_answers_the_session_that_did_not_fit(api: httpx.Client) -> None:
    session = {"state": {"log": "The supplier was called. " * 600}}
    handoff = UNIVERSAL["handoff"]
    sent = {"handoff": handoff | {"payload": handoff["payload"] | {"session": session}}}
    answer = api.post("/repair", json={"document": sent}).json()
    path = f"{handoff['source']['session_path']}/handoffs/session-context.json"
    assert answer["session_context"] == {"path": path, "content": session}
    candidate = answer["document"]["handoff"]["payload"]
    assert "session" not in candidate
    assert path in [entry["path"] for entry in candidate["references"]["files"]]


@pytest.mark.parametrize("folder", ["../../x", "a/../../x", "..\\x", "a\0b"])
def test_repair_answers_no_path_that_leads_out_of_its_folder(api: httpx.Client, folder: str) -> None:
    handoff = UNIVERSAL["handoff"]
    session = {"state": {"log": "The supplier was called. " * 600}}
    sent = {
        "handoff": handoff
        | {"source": handoff["source"] | {"session_path": folder}, "payload": handoff["payload"] | {"session": session}}
    }
    answer = api.post("/repair", json={"document": sent}).json()
    assert answer["session_context"] is None
    changes = [change for attempt in answer["attempts"] for change in attempt["changes"]]
    why = next(change["why"] for change in changes if change["field_path"] == "handoff.payload.session")
    assert why.startswith("dropped to meet the token budget; it could not be stored: ")


@pytest.mark.parametrize(
    ("sent", "status"), [(payload(), "not_needed"), (circular(), "escalated"), ({"a": 1}, "not_possible")]
)
def test_repair_says_where_there_is_nothing_to_offer(api: httpx.Client, sent: object, status: str) -> None:
    answer = api.post("/repair", json={"document": sent}).json()
    assert (answer["status"], answer["document"], answer["verdict"]) == (status, None, None)
    assert answer["why"]


def test_a_reviewer_repairs_what_was_rejected_once(api: httpx.Client, tenant: Tenant) -> None:
    broken = {"handoff": {name: value for name, value in UNIVERSAL["handoff"].items() if name != "version"}}
    judged(tenant, broken, handoff_id="h", format="universal")
    assert api.post("/handoffs/h/repair").json()["status"] == "repaired"
    states = {item["handoff_id"]: item["state"] for item in api.get("/handoffs/h/attempts").json()["items"]}
    assert states == {"h": "superseded", "h~2": "accepted"}
    problem(api.post("/handoffs/h/repair"), 409)


def test_only_a_few_are_judged_on_request_at_once(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validate, "WAIT_SECONDS", 0.01)
    with ExitStack() as others:
        for _ in range(validate.AT_ONCE):
            others.enter_context(validate._turn())
        for address in ("/validate", "/repair"):
            busy = api.post(address, json=payload())
            assert (problem(busy, 503)["title"], busy.headers["Retry-After"]) == ("Busy judging", "1")
        assert api.post("/handoffs", json=payload()).status_code == 202
    assert api.post("/validate", json=payload()).status_code == 200


def test_who_would_wait_with_too_many_is_told_at_once(api: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [validate._places.acquire(timeout=60) for _ in range(validate.AT_ONCE + validate.MOST_WAITING)]
    monkeypatch.setattr(validate, "WAIT_SECONDS", 300)
    started = time.monotonic()
    try:
        problem(api.post("/validate", json=payload()), 503)
    finally:
        for _ in places:
            validate._places.release()
    assert time.monotonic() - started < 60


@pytest.mark.django_db(transaction=True)
def test_others_judge_while_a_repair_asks_the_model(api: httpx.Client, model: MessagesServer) -> None:
    free = []

    def respond(_: Request) -> None:
        free.append(validate._turns.acquire(timeout=0))
        validate._turns.release()

    model.respond = respond
    with ExitStack() as others:
        for _ in range(validate.AT_ONCE - 1):
            others.enter_context(validate._turn())
        assert api.post("/repair", json=payload(data=["Three suppliers deliver."])).status_code == 200
    assert free == [True]
