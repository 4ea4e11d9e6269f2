"""Tests that the report of a strict handoff file and its handoff agree."""

from typing import Any

import httpx
import pytest

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import judge
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.verdicts import PriorContext, verdict_on_stored
from handoffaudit.policy import kinds
from handoffaudit.validation.layers.base import History
from tests.api.support import client, make_key
from tests.diagnostics.files.support import BLOCK, GOOD, report

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def api(tenant: Tenant) -> Any:
    with client(make_key(tenant, "ingest", "read", "admin", "review")) as found:
        yield found


def strict(api: httpx.Client, version: int, *, on: bool) -> None:
    saved = api.put("/handoff-files/policy", json={"base_version": version, "strict_handoff_files": on})
    assert saved.status_code == 200, saved.text


def both(api: httpx.Client, document: dict[str, Any]) -> tuple[bool, str, list[str]]:
    """Return the report's failure flag, and the state and codes of the report's handoff."""
    sent = api.post("/handoff-files", json=document).json()
    judge.drain()
    told = api.get(sent["links"]["self"].removeprefix("/api/v1")).json()
    handoff = api.get(f"/handoffs/{sent['handoff']}").json()
    # Without an LLM key a strict type is unverified, which this test does not cover.
    return told["failed"], handoff["state"], [code for code in handoff["codes"] if code != "semantic.unavailable"]


def test_a_report_that_failed_has_a_rejected_handoff(api: httpx.Client) -> None:
    fallback = report(None, response_text=BLOCK)
    assert both(api, fallback) == (False, "accepted", ["files.text_fallback"])
    strict(api, 0, on=True)
    assert both(api, fallback) == (True, "rejected", ["files.strict", "files.text_fallback"])
    assert both(api, report(GOOD)) == (False, "accepted", [])


def test_the_policy_at_arrival_counts(api: httpx.Client, tenant: Tenant) -> None:
    lax = api.post("/handoff-files", json=report(None, response_text=BLOCK)).json()
    strict(api, 0, on=True)
    firm = api.post("/handoff-files", json=report(None, response_text=BLOCK)).json()
    strict(api, 1, on=False)
    judge.drain()
    states = [api.get(f"/handoffs/{sent['handoff']}").json()["state"] for sent in (lax, firm)]
    assert (states, [lax["failed"], firm["failed"]]) == (["accepted", "rejected"], [False, True])
    again = [
        verdict_on_stored(handoff, handoff.body, PriorContext(History()), kinds.load_config(tenant.pk)).outcome.value
        for handoff in Handoff.objects.order_by("id").select_related("body")
    ]
    assert again == ["accepted", "rejected"]


def test_repair_does_not_stand_in_for_the_file(api: httpx.Client) -> None:
    strict(api, 0, on=True)
    sent = api.post("/handoff-files", json=report(None, response_text=BLOCK)).json()
    judge.drain()
    handoff = Handoff.objects.get(pk=sent["handoff"])
    tried = api.post(f"/handoffs/{handoff.pk}/repair")
    assert "Only the agent can write the handoff file" in tried.text
    assert Handoff.objects.count() == 1
