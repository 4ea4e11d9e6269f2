"""Storage of the facts of spans, before an export is answered, and their loading."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.agent_limits import record_refusal
from handoffaudit.accounts.keys import KeyIdentity
from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.ingest.store import write_turn
from handoffaudit.handoffs.models import TelemetrySpan, TelemetryTrace, new_id
from handoffaudit.validation.telemetry.facts import Facts, Span
from handoffaudit.validation.telemetry.otlp import Export

MOST_SPANS_OF_TRACE: Final = 10_000
MOST_BYTES_OF_TRACE: Final = 16 * 1024 * 1024
# Counted for each span, so that many small spans are limited, too.
_ROW_BYTES: Final = 256
# A trace whose root has ended may be complete, so it is looked at soon.
_SOON: Final = timedelta(seconds=1)

_SPAN: Final = db.Columns.of(
    TelemetrySpan,
    *("id", "tenant", "trace_id", "span_id", "parent_id", "name", "started", "ended", "conversation", "key", "facts"),
)
_write_facts = msgspec.json.Encoder().encode
_read_facts = msgspec.json.Decoder(Facts).decode


def store_export(tenant: Tenant, key: KeyIdentity, export: Export) -> None:
    """Store the facts of the spans, and reject those that the key or the size of their trace does not allow."""
    _reject_foreign_agents(tenant, key, export)
    if not export.spans:
        return
    with write_turn(), transaction.atomic():
        now = timezone.now()
        traces = _make_room(tenant, export, now)
        # Every process stores in the same order, so that two exports cannot deadlock.
        TelemetryTrace.objects.bulk_create(
            [traces[trace_id] for trace_id in sorted(traces)],
            update_conflicts=True,
            unique_fields=["tenant", "trace_id"],
            update_fields=["conversation", "since", "spans", "size", "tries", "claim_expires_at"],
        )
        db.insert_rows(_SPAN, [_row_of(tenant, key, span) for span in export.spans])


def _row_of(tenant: Tenant, key: KeyIdentity, span: Span) -> tuple[Any, ...]:
    facts = _write_facts(span.facts).decode()
    ids = new_id(), tenant.pk, span.trace_id, span.span_id, span.parent_id
    return *ids, span.name if span.facts.kind else "", span.started, span.ended, span.conversation, key.key_id, facts


def _reject_foreign_agents(tenant: Tenant, key: KeyIdentity, export: Export) -> None:
    """Reject the spans of agents that the key may not speak for, so that they cannot become a source."""
    if not key.agents.patterns:
        return
    kept = []
    for span in export.spans:
        facts = span.facts
        named = (facts.agent if facts.kind == "agent" else "", facts.source, facts.actor)
        foreign = next((agent for agent in named if agent and not key.agents.allows(agent)), "")
        if not foreign:
            kept.append(span)
            continue
        export.reject(key.agents.describe_refusal(foreign, "a span").removesuffix("."))
        with write_turn():
            record_refusal(tenant, key.agents, foreign)
    export.spans = kept


def _make_room(tenant: Tenant, export: Export, now: datetime) -> dict[str, TelemetryTrace]:
    """Return the rows of the traces with the counts after this export, and reject the spans beyond their limits."""
    by_trace: dict[str, list[Span]] = defaultdict(list)
    for span in export.spans:
        by_trace[span.trace_id].append(span)
    found = TelemetryTrace.objects.filter(tenant=tenant, trace_id__in=by_trace)
    known = {row.trace_id: row for row in found}
    rows, kept = {}, []
    for trace_id, spans in by_trace.items():
        row = known.get(trace_id) or TelemetryTrace(tenant=tenant, trace_id=trace_id, spans=0, size=0)
        taken = _take(row, spans)
        if len(taken) < len(spans):
            limits = f"{MOST_SPANS_OF_TRACE:,} spans or {MOST_BYTES_OF_TRACE:,} bytes of facts"
            export.reject(f"the trace {trace_id} has more than {limits}: begin another", len(spans) - len(taken))
        if taken:
            is_ended = any(not span.parent_id for span in taken)
            wait = _SOON if is_ended else timedelta(seconds=settings.TELEMETRY_QUIET_SECONDS)
            row.since, row.tries, row.claim_expires_at = now, 0, now + wait
            row.conversation = row.conversation or next((one.conversation for one in taken if one.conversation), "")
            rows[trace_id] = row
            kept += taken
    export.spans = kept
    return rows


def _take(row: TelemetryTrace, spans: Sequence[Span]) -> list[Span]:
    """Count the spans of a trace as long as there is room, and return them."""
    taken = []
    for span in spans:
        size = _ROW_BYTES + size_of(span.facts)
        if row.spans >= MOST_SPANS_OF_TRACE or row.size + size > MOST_BYTES_OF_TRACE:
            break
        row.spans, row.size = row.spans + 1, row.size + size
        taken.append(span)
    return taken


def size_of(facts: Facts) -> int:
    texts = facts.arguments, facts.result, facts.said, facts.update
    return sum(map(len, texts)) + sum(len(name) + len(arguments) for name, arguments in facts.calls)


def load_spans(tenant_id: int, trace_ids: Iterable[str]) -> list[Span]:
    """Return the spans of some traces in the order of their arrival, up to the limits of one trace."""
    rows = TelemetrySpan.objects.filter(tenant=tenant_id, trace_id__in=list(trace_ids)).order_by("id")
    names = ("trace_id", "span_id", "parent_id", "name", "started", "ended", "conversation", "facts", "key")
    found: list[Span] = []
    size = 0
    for row in rows.values_list(*names)[:MOST_SPANS_OF_TRACE].iterator(chunk_size=500):
        trace_id, span_id, parent_id, name, started, ended, conversation, facts, key = row
        size += _ROW_BYTES + len(facts)
        if size > 2 * MOST_BYTES_OF_TRACE:
            break
        read = _read_facts(facts)
        found.append(Span(trace_id, span_id, parent_id, name, started, ended, conversation, read, key))
    return found


def remove_traces(tenant_id: int, trace_ids: Sequence[str]) -> None:
    """Remove traces with their spans; call inside a transaction."""
    TelemetrySpan.objects.filter(tenant=tenant_id, trace_id__in=trace_ids).delete()
    TelemetryTrace.objects.filter(tenant=tenant_id, trace_id__in=trace_ids).delete()
