"""Tests of the API of retention periods."""

import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics import erasure
from handoffaudit.diagnostics.models import FileReport
from handoffaudit.handoffs.models import HookEvent, RemovedDocument, ValidationState
from handoffaudit.policy.kinds import retention
from tests.api.support import client, make_key, problem
from tests.diagnostics.files.support import AT, report
from tests.diagnostics.logs.support import health
from tests.diagnostics.retention.support import age, aged, days_ago, keep, old_id, run_all
from tests.handoffs.support import judged, payload

pytestmark = pytest.mark.django_db


def test_it_is_read_and_saved(tenant: Tenant) -> None:
    api = client(make_key(tenant, "admin"))
    shown = api.get("/retention").json()
    assert (shown["version"], {row["name"]: row["days"] for row in shown["rows"]}["logs"]) == (0, None)
    rows = [{"name": "logs", "days": 30}]
    saved = api.put("/retention", json={"base_version": 0, "rows": rows})
    assert saved.status_code == 200, saved.text
    [logs] = [one for one in saved.json()["standing"] if one["name"] == "logs"]
    assert (logs["there"], logs["goes"], logs["least_days"]) == (
        {"number": 0, "more": False},
        {"number": 0, "more": False},
        1,
    )
    assert logs["next_run"]
    assert api.put("/retention", json={"base_version": 0, "rows": rows}).status_code == 409
    wrong = api.put("/retention", json={"base_version": 1, "rows": [{"name": "verdicts", "days": 0}]})
    assert wrong.status_code == 422
    assert "There is no such kind of data." in wrong.text


@pytest.mark.parametrize(("days", "warns"), [(182, True), (183, False), (None, False)])
def test_less_than_six_months_is_warned_of(tenant: Tenant, days: int | None, *, warns: bool) -> None:
    api = client(make_key(tenant, "admin"))
    rows = [{"name": "hook_events", "days": days}, {"name": "tool_results", "days": 183}]
    saved = api.put("/retention", json={"base_version": 0, "rows": rows})
    warnings = {one["name"]: one["warning"] for one in saved.json()["standing"]}
    assert ("six months" in (warnings["hook_events"] or "")) is warns
    # A delivery is a copy of an event that stays.
    assert warnings["deliveries"] is None


def test_a_report_that_was_removed_is_answered_again_and_not_counted(tenant: Tenant) -> None:
    api = client(make_key(tenant, "ingest", "read"))
    sent = report({}, timestamp=AT)
    first = api.post("/handoff-files", json=sent)
    assert first.status_code == 201
    before = health(tenant)
    aged(FileReport.objects.get(), 40)
    judged(tenant, payload())
    keep(tenant, file_reports=30)
    run_all()
    again = api.post("/handoff-files", json=sent)
    assert again.status_code == 200, again.text
    same = ("handoff", "handoff_id", "agent", "phase", "source", "reason", "failed", "line")
    assert {name: again.json()[name] for name in same} == {name: first.json()[name] for name in same}
    assert (health(tenant), FileReport.objects.count()) == (before, 0)
    gone = api.get(f"/handoff-files/{first.json()['id']}")
    assert gone.status_code == 404
    assert "Retention removed data" in gone.json()["detail"]


def test_a_state_that_was_removed_says_so(tenant: Tenant) -> None:
    event = HookEvent.objects.create(id=old_id(40), tenant=tenant, key="k", name="x", at=days_ago(40))
    ValidationState.objects.create(
        tenant=tenant, event=event.pk, workflow_id="w", phase_id="p", status="PASSED", content="{}"
    )
    keep(tenant, hook_events=30)
    run_all()
    gone = client(make_key(tenant, "read")).get("/validation-state/w/p")
    assert gone.status_code == 404
    assert "Retention removed data" in gone.json()["detail"]


def test_the_api_answers_null_and_when_it_was_removed(tenant: Tenant) -> None:
    gone = age(judged(tenant, payload()))
    keep(tenant, documents=30)
    run_all()
    api = client(make_key(tenant, "ingest", "read", "review", "admin"))
    shown = api.get(f"/handoffs/{gone.pk}").json()
    left = RemovedDocument.objects.get()
    nothing = ("document", "raw", "lifted", "context", "evidence")
    assert {name: shown[name] for name in nothing} == dict.fromkeys(nothing)
    assert (shown["original_sha256"], bool(shown["removed_at"])) == (left.sha256, True)
    assert shown["verdict"]["outcome"] == "accepted"
    for below in ("verdicts", "events", "attempts", "chain.svg"):
        assert api.get(f"/handoffs/{gone.pk}/{below}").status_code in (200, 404), below
    assert api.post(f"/handoffs/{gone.pk}/repair").status_code == 409
    other = api.get(f"/handoffs/{judged(tenant, payload()).pk}").json()
    assert (other["removed_at"], bool(other["document"])) == (None, True)


def test_runs_are_reported(tenant: Tenant) -> None:
    gone = age(judged(tenant, payload()))
    keep(tenant, handoffs=30)
    run_all()
    api = client(make_key(tenant, "read", "admin"))
    assert api.get(f"/handoffs/{gone.pk}").status_code == 404
    [run] = api.get("/retention/runs").json()["items"]
    assert (run["name"], run["removed"], run["report"]["kept_days"]) == ("handoffs", 1, 30)
    assert api.get("/retention/runs", params={"limit": 101}).status_code == 422


def test_a_preview_counts_without_saving(tenant: Tenant) -> None:
    age(judged(tenant, payload()), 40)
    api = client(make_key(tenant, "admin"))
    rows = [{"name": "handoffs", "days": 30}, {"name": "documents", "days": None, "types": {"nothing": 3}}]
    shown = api.post("/retention/preview", json={"rows": rows}).json()["items"]
    assert [(one["name"], one["goes"]["number"]) for one in shown] == [("handoffs", 1), ("documents", 0)]
    assert retention.current(tenant).version == 0
    assert api.post("/retention/preview", json={"rows": [{"name": "verdicts", "days": 1}]}).status_code == 422
    assert api.post("/retention/preview", json={"rows": rows * 50}).status_code == 422


def test_holds_are_placed_listed_and_lifted(tenant: Tenant, other_tenant: Tenant) -> None:
    kept = age(judged(tenant, payload()))
    api = client(make_key(tenant, "admin"))
    made = api.post("/legal-holds", json={"scope": "handoff", "key": kept.handoff_id, "reason": "a case"})
    assert (made.status_code, made.json()["key"]) == (201, str(kept.pk))
    again = api.post("/legal-holds", json={"scope": "handoff", "key": str(kept.pk), "reason": "another"})
    assert again.json()["id"] == made.json()["id"]
    theirs = client(make_key(other_tenant, "admin"))
    assert theirs.get("/legal-holds").json()["items"] == []
    address = f"/legal-holds/{made.json()['id']}/lift"
    assert theirs.post(address, json={"reason": "x"}).status_code == 404
    assert api.post(address, json={"reason": " "}).status_code == 422
    assert api.post(address, json={"reason": "over"}).json()["lifted_at"]
    for wrong in (
        {"scope": "all", "reason": "x"},
        {"scope": "handoff", "key": "nothing", "reason": "x"},
        {"scope": "trace", "key": "a\0b", "reason": "x"},
        {"scope": "trace", "key": "x" * 10_000, "reason": "x"},
        {"scope": "tenant", "reason": ""},
        {"scope": "tenant", "reason": "x" * 2_001},
    ):
        assert api.post("/legal-holds", json=wrong).status_code == 422, wrong
    assert api.post(f"/legal-holds/{2**70}/lift", json={"reason": "x"}).status_code == 404


def test_a_case_under_a_legal_hold_is_not_removed(tenant: Tenant) -> None:
    kept = judged(tenant, payload())
    api = client(make_key(tenant, "admin", "review", "read"))
    case = api.post("/policies/cases", json={"handoff": kept.handoff_id, "expected": "accepted"}).json()["id"]
    hold = api.post("/legal-holds", json={"scope": "handoff", "key": kept.handoff_id, "reason": "a case"}).json()["id"]
    refused = problem(api.delete(f"/policies/cases/{case}"), 409)
    assert "under a legal hold" in refused["detail"]
    assert len(api.get("/policies/cases").json()["items"]) == 1
    assert api.post(f"/legal-holds/{hold}/lift", json={"reason": "over"}).status_code == 200
    assert api.delete(f"/policies/cases/{case}").status_code == 204
    assert api.get("/policies/cases").json()["items"] == []


def test_a_value_is_counted_confirmed_and_erased(tenant: Tenant, other_tenant: Tenant) -> None:
    judged(tenant, payload(data={"contact": "Ada.Lovelace@example.com"}))
    api = client(make_key(tenant, "admin"))
    made = api.post("/erasures", json={"value": "ada.lovelace@example.com", "reason": "she asked"})
    assert (made.status_code, made.json()["state"], "value" in made.json()) == (202, "counting", False)
    address = f"/erasures/{made.json()['id']}"
    assert api.post(f"{address}/confirm").status_code == 409
    erasure.run(60)
    assert api.get(address).json()["found"]["documents"] == 1
    assert client(make_key(other_tenant, "admin")).post(f"{address}/confirm").status_code == 404
    assert api.post(f"{address}/confirm").status_code == 202
    erasure.run(60)
    done = api.get("/erasures").json()["items"][0]
    assert (done["state"], done["erased"]["documents"], bool(done["finished_at"])) == ("done", 1, True)
    assert api.post(f"{address}/cancel").status_code == 409
    for wrong in ("a", "x" * 201, "12345678", "true", "accepted", "a\0bcd", "  "):
        assert api.post("/erasures", json={"value": wrong, "reason": "x"}).status_code == 422, wrong
