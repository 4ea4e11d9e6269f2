"""Tests of two tenants that send the same trace: same ids, agents, tools and conversation, with other content."""

from collections import defaultdict
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.handoffs import judge, span_assembly, span_store
from handoffaudit.handoffs.models import Handoff, TelemetrySpan, TelemetryTrace, ToolResult
from handoffaudit.validation.telemetry.otlp import JSON
from tests.access.support import everything
from tests.access.test_api import PHASE, SCOPES
from tests.access.test_api import TABLE as OPERATIONS
from tests.api.support import client, make_key
from tests.validation.telemetry.support import TRACE, agent, export, tool, transfer

pytestmark = pytest.mark.django_db
CONVERSATION = "order-17"
NAME = f"{TRACE}-{2:016x}"


@pytest.fixture(autouse=True)
def _recent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("handoffaudit.handoffs.ingest.prepare.LATEST", timedelta(days=36_500))


@pytest.fixture
def secrets(tenant: Tenant, other_tenant: Tenant) -> dict[str, str]:
    """Return a key of each tenant that may do everything, by the word that only this tenant sends."""
    return {
        word: make_key(one, *SCOPES, name=f"key of {word}")
        for word, one in (("alphaword", tenant), ("betaword", other_tenant))
    }


def send(secret: str, *spans: dict[str, Any]) -> dict[str, Any]:
    with client(secret) as api:
        response = api.post("/otlp/traces", content=export(spans), headers={"Content-Type": JSON})
    assert response.status_code == 200, response.text
    answered: dict[str, Any] = response.json()
    return answered


def spans_with(word: str) -> list[dict[str, Any]]:
    return [
        agent(1, "triage", gen_ai__conversation__id=CONVERSATION),
        transfer(2, "writer", 1, at=50, gen_ai__tool__call__arguments={"summary": f"It is {word}."}),
        tool(3, "get_order", 1, at=5, gen_ai__tool__call__id="call_7", gen_ai__tool__call__result={"total": word}),
        agent(4, f"agent-{word}", 1, at=500),
    ]


def assemble() -> None:
    past = timezone.now() - timedelta(seconds=11)
    TelemetryTrace.objects.update(since=past, claim_expires_at=past)
    span_assembly.look_for_traces()
    judge.drain()


@pytest.fixture
def both(secrets: dict[str, str]) -> dict[str, str]:
    for word, secret in secrets.items():
        assert send(secret, *spans_with(word)) == {}
    assemble()
    return secrets


def test_each_tenant_has_its_own_spans_handoffs_and_results(both: dict[str, str], tenant: Tenant) -> None:
    for model in (TelemetrySpan, TelemetryTrace, Handoff, ToolResult):
        rows = model.objects.all()
        assert rows.filter(tenant=tenant).count() * 2 == rows.count() > 0, model


def test_no_answer_of_the_api_shows_what_another_tenant_sent(both: dict[str, str]) -> None:
    pks = [str(pk) for pk in Handoff.objects.values_list("pk", flat=True)]
    ids = {"group": 1, "webhook": 1, "name": "payload", **PHASE}
    addresses = {
        path.format_map(defaultdict(lambda: pks[0], ids, reference=reference, trace_id=trace_id))
        for method, path in OPERATIONS
        for reference in (NAME, *pks)
        for trace_id in (TRACE, CONVERSATION)
        if method == "GET"
    }
    shown = {}
    for word, secret in both.items():
        with client(secret) as api:
            shown[word] = "".join(api.get(address).text for address in sorted(addresses))
    # Both tenants read their own handoffs, results and routes.
    assert all(word in text for word, text in shown.items())
    assert "betaword" not in shown["alphaword"]
    assert "alphaword" not in shown["betaword"]


def test_no_page_shows_what_another_tenant_sent(both: dict[str, str], viewer: Person) -> None:
    browser = Client()
    browser.force_login(viewer)
    addresses = [("overview",), ("handoffs",), ("traces",), ("trace", CONVERSATION), ("trace", TRACE), ("agents",)]
    addresses += [("search",), ("groups",), ("agent", "writer"), ("agent", "agent-betaword")]
    addresses += [("handoff", pk) for pk in Handoff.objects.values_list("pk", flat=True)]
    addresses += [("tool_result", pk) for pk in ToolResult.objects.values_list("pk", flat=True)]

    def get(tenant: str, name: str, *about: Any) -> Any:
        return browser.get(reverse(f"dashboard:{name}", args=[tenant, *about]), {"q": "betawor"}, follow=True)

    pages = {address: get("acme", *address) for address in addresses}
    unknown = {address for address, page in pages.items() if page.status_code == 404}
    rows = {"handoff": Handoff, "tool_result": ToolResult}
    theirs = {(name, row.pk) for name, model in rows.items() for row in model.objects.exclude(tenant__slug="acme")}
    assert unknown == theirs | {("trace", TRACE), ("agent", "agent-betaword")}
    shown = "".join(page.content.decode() for address, page in pages.items() if address not in unknown)
    assert "alphaword" in shown
    assert "betaword" not in shown
    assert {get("globex", *address).status_code for address in addresses} == {404}


def rows_of(tenant: Tenant) -> dict[str, list[Any]]:
    """Return the rows of the telemetry, handoffs and results of a tenant."""
    models = (TelemetrySpan, TelemetryTrace, Handoff, ToolResult)
    return {model.__name__: list(model.objects.filter(tenant=tenant).order_by("pk").values()) for model in models}


def test_nothing_that_a_tenant_sends_changes_the_trace_of_another(
    both: dict[str, str], other_tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sender knows all ids of the other tenant, names its agents, and fills the trace to its limit."""
    monkeypatch.setattr(span_store, "MOST_SPANS_OF_TRACE", 20)
    before = rows_of(other_tenant)
    more = [tool(number, "Agent", 4, at=number, subagent_type="agent-betaword") for number in range(5, 60)]
    assert send(both["alphaword"], *spans_with("betaword"), *more)["partialSuccess"]["rejectedSpans"] == "39"
    TelemetryTrace.objects.exclude(tenant=other_tenant).update(
        since=timezone.now() - timedelta(hours=3), claim_expires_at=timezone.now() - timedelta(hours=1)
    )
    span_assembly.look_for_traces()
    assert not TelemetryTrace.objects.exclude(tenant=other_tenant).exists()
    assert rows_of(other_tenant) == before
    # The trace of the other tenant still has room.
    assert send(both["betaword"], agent(99, "late", 1)) == {}


def test_a_key_that_may_not_send_changes_nothing(both: dict[str, str], tenant: Tenant) -> None:
    for scopes in (("read",), ("observe",), ("review", "admin")):
        secret = make_key(tenant, *scopes, name=" ".join(scopes))
        before = everything()
        with client(secret) as api:
            answer = api.post("/otlp/traces", content=export(spans_with("x")), headers={"Content-Type": JSON})
        assert answer.status_code == 403
        assert everything() == before
