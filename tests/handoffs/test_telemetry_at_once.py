"""Tests of exports and of workers that assemble traces at the same time, each with a database connection."""

from datetime import timedelta
from functools import partial

import pytest
from django.utils import timezone

from handoffaudit.accounts import keys
from handoffaudit.accounts.keys import KeyIdentity
from handoffaudit.accounts.models import Key, Tenant
from handoffaudit.handoffs import span_assembly
from handoffaudit.handoffs.models import Handoff, TelemetrySpan, TelemetryTrace, ToolResult
from handoffaudit.handoffs.span_store import store_export
from handoffaudit.validation.telemetry.otlp import JSON, read_export
from tests.handoffs.support import at_once
from tests.validation.telemetry.support import agent, export, tool, transfer

pytestmark = pytest.mark.django_db(transaction=True)
NAMED = {"gen_ai__conversation__id": "order-17"}


@pytest.fixture
def key(tenant: Tenant) -> KeyIdentity:
    made, _ = keys.create(tenant=tenant, name="t", scopes=["ingest"], expires_at=None, actor="tests")
    return keys.identity_of(Key.objects.select_related("tenant").get(pk=made.pk))


def test_exports_at_once_lose_no_counts_and_store_each_span_once(tenant: Tenant, key: KeyIdentity) -> None:
    """Each export has spans of its own in two traces, in different orders, and two spans that all exports have."""

    def send(number: int) -> None:
        traces = [{"traceId": "1" * 32}, {"traceId": "2" * 32}]
        own = [agent(10 * number + at, "triage") for at in range(5)]
        spans = [span | trace for trace in traces for span in (agent(1, "writer"), *own)]
        store_export(tenant, key, read_export(export(spans[:: 1 if number % 2 else -1]), JSON, key.key_id))

    at_once(*(partial(send, number) for number in range(1, 9)))
    for row in TelemetryTrace.objects.all():
        stored = TelemetrySpan.objects.filter(tenant=tenant, trace_id=row.trace_id)
        assert row.spans == stored.count() == 1 + 8 * 5
        assert row.size == sum(256 + len(facts) for facts in stored.values_list("facts", flat=True))


def test_exports_and_workers_at_once_lose_nothing_and_double_nothing(tenant: Tenant, key: KeyIdentity) -> None:
    def send(number: int) -> None:
        """Send a trace with one handoff and one tool result, in two exports of which the second comes twice."""
        trace = {"traceId": f"{number + 1:032x}"}
        handoff = transfer(2, "writer", 1, at=5, input__value='{"text": "It is done."}')
        parts = [
            [handoff | trace],
            [agent(1, "triage", **NAMED) | trace, tool(3, "get", 1, output__value="7") | trace],
        ]
        for part in (*parts, parts[1]):
            store_export(tenant, key, read_export(export(part), JSON, key.key_id))

    def assemble() -> None:
        for _ in range(3):
            past = timezone.now() - timedelta(seconds=11)
            TelemetryTrace.objects.update(claim_expires_at=past)
            span_assembly.look_for_traces()

    at_once(*(partial(send, number) for number in range(6)), assemble, assemble)
    past = timezone.now() - timedelta(seconds=11)
    TelemetryTrace.objects.update(since=past, claim_expires_at=past)
    at_once(assemble, assemble)
    assert TelemetrySpan.objects.count() == 6 * 3
    assert set(Handoff.objects.values_list("source_agent_id", "target_agent_id")) == {("triage", "writer")}
    assert Handoff.objects.count() == 6
    assert ToolResult.objects.count() == 6
    assert set(TelemetryTrace.objects.values_list("claim", "tries")) == {(None, 0)}
