"""Judging without storing."""

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.models import Event, Handoff
from tests.api.support import problem
from tests.handoffs.support import NOT_JSON, circular, judged, payload

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
