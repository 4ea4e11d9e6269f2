"""Tests of `POST /handoffs/{reference}/use`, and of approvals and repaired documents in answers."""

from typing import Any

import httpx
import pytest

from handoffaudit.accounts import keys
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Approval
from handoffaudit.policy.kinds import strictness
from handoffaudit.validation.config import ROWS_AS_SHIPPED, TypePolicy
from tests.api.support import client, make_key, problem, submitted
from tests.handoffs.support import held, payload

pytestmark = pytest.mark.django_db


def approved(api: httpx.Client) -> str:
    pk = submitted(api, held(handoff_id="h"))
    assert api.post(f"/handoffs/{pk}/review", json={"decision": "approve"}).json()["state"] == "approved"
    return pk


def use(api: httpx.Client, reference: str, key: str = "") -> httpx.Response:
    return api.post(f"/handoffs/{reference}/use", headers={"Idempotency-Key": key} if key else {})


def test_a_gate_goes_on_once(api: httpx.Client) -> None:
    pk = approved(api)
    shown = api.get(f"/handoffs/{pk}").json()
    assert (shown["state"], shown["approval"]["status"], shown["approval"]["used_at"]) == ("approved", "valid", None)
    used = use(api, "h", "call-1").json()
    assert (used["id"], used["approval"]["status"], used["approval"]["used_by"]) == (pk, "used", "sender")
    assert use(api, pk, "call-1").json() == used
    refused = problem(use(api, pk), 409)
    assert (refused["title"], refused["state"], refused["approval"]) == (
        "The approval can't be used",
        "approved",
        "used",
    )
    # The same content under the same id is stored once, and its approval stays used.
    sent = api.post("/handoffs", json=held(handoff_id="h"), headers={"Prefer": "wait=5"}).json()
    assert (sent["state"], sent["approval"]["status"]) == ("approved", "used")


def test_what_is_not_approved_is_not_used(api: httpx.Client) -> None:
    accepted, waiting = submitted(api, payload()), submitted(api, held())
    for pk, state in ((accepted, "accepted"), (waiting, "held")):
        refused = problem(use(api, pk), 409)
        assert (refused["state"], refused["approval"]) == (state, None)
        assert not api.get(f"/handoffs/{pk}").json()["approval"]
    problem(use(api, "nothing"), 404)


def test_only_a_sender_uses_approvals(api: httpx.Client, tenant: Tenant, other_tenant: Tenant) -> None:
    pk = approved(api)
    for key, status in ((make_key(tenant, "read", "review"), 403), (make_key(other_tenant, "ingest"), 404)):
        with client(key) as other:
            problem(use(other, pk), status)
    limited = keys.create(
        tenant=tenant, name="crew", scopes=["ingest"], expires_at=None, actor="tests", agents=["nobody"]
    )[1]
    with client(limited) as other:
        assert problem(use(other, pk), 403)["title"] == "Another agent"
    assert Approval.objects.get().used_at is None


@pytest.mark.parametrize("given", ["x" * 5000, '"; drop = 1, \x7f'])
def test_any_key_of_a_call_is_taken(api: httpx.Client, given: str) -> None:
    pk = approved(api)
    headers = {"Idempotency-Key": given.encode()}
    for _ in range(2):
        assert api.post(f"/handoffs/{pk}/use", headers=headers).status_code == 200


def switch_on(tenant: Tenant) -> None:
    rows = [row for row in ROWS_AS_SHIPPED if row.handoff_type != "research_result"]
    rows.append(TypePolicy("research_result", return_repaired=True))
    strictness.save(tenant=tenant, base_version=0, rows=rows, note="", actor="ada")


def repaired(api: httpx.Client, **changes: Any) -> Any:
    document = payload(**({"handoff_id": "r", "confidence": "0.8"} | changes))
    pk = submitted(api, document, repair=True)
    judge.drain()
    return api.get(f"/handoffs/{pk}").json()["superseded_by"]


def test_a_repaired_document_is_returned_only_where_the_policy_says_so(api: httpx.Client, tenant: Tenant) -> None:
    assert "document" not in repaired(api, handoff_type="research_result")
    switch_on(tenant)
    later = repaired(api, handoff_type="research_result", handoff_id="r2")
    assert later["state"] == "accepted"
    assert later["document"]["confidence"] == 0.8
    assert later["document"]["data"] == payload()["data"]
    assert "document" not in repaired(api, handoff_type="deal_data", handoff_id="r3")
