"""Storage and loading of the facts of spans. The facts of an export are stored before the export is answered."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import orjson
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from handoffaudit.accounts.keys import KeyIdentity, record_refusal
from handoffaudit.accounts.models import Key, Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.models import TelemetrySpan, TelemetryTrace, new_id
from handoffaudit.validation.telemetry.facts import Facts, Span
from handoffaudit.validation.telemetry.otlp import Export
from handoffaudit.validation.telemetry.trees import namespace_of

MOST_SPANS_OF_TRACE: Final = 10_000
MOST_BYTES_OF_TRACE: Final = 16 * 1024 * 1024
# This allowance is counted for each span, so that many small spans are limited, too.
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
    """Store the facts of the spans, and reject spans that the key or the size of their trace does not allow."""
    _reject_foreign_agents(tenant, key, export)
    if not export.spans:
        return
    # The facts are encoded before the transaction begins. The size of the encoded facts counts for the limits.
    written = [_WrittenSpan(span, _write_facts(span.facts).decode()) for span in export.spans]
    with write_turn(), transaction.atomic():
        traces, kept = _make_room(tenant, key, export, written, timezone.now())
        TelemetryTrace.objects.bulk_create(
            [traces[trace_id] for trace_id in sorted(traces)],
            update_conflicts=True,
            unique_fields=["tenant", "trace_id"],
            update_fields=["conversation", "since", "spans", "size", "tries", "claim_expires_at"],
        )
        db.insert_rows(_SPAN, [_row_of(tenant, key, one) for one in kept])


@dataclass(frozen=True, slots=True)
class _WrittenSpan:
    span: Span
    facts: str

    @property
    def size(self) -> int:
        return _ROW_BYTES + len(self.facts.encode())


def _row_of(tenant: Tenant, key: KeyIdentity, one: _WrittenSpan) -> tuple[Any, ...]:
    span = one.span
    ids = new_id(), tenant.pk, span.trace_id, span.span_id, span.parent_id
    name = span.name if span.facts.kind else ""
    return *ids, name, span.started, span.ended, span.conversation, key.key_id, one.facts


def _reject_foreign_agents(tenant: Tenant, key: KeyIdentity, export: Export) -> None:
    """Reject the spans of agents that the key may not speak for, so that no such agent can become a source.

    Spans of an allowed agent can name other agents in the state of a run and in the nodes of graphs. If the key may not
    speak for such an agent, the name is left out, and the span is stored.
    """
    if not key.agents.patterns:
        return
    kept = []
    for span in export.spans:
        facts = span.facts
        named = (facts.agent if facts.kind == "agent" else "", facts.source, facts.actor, facts.caller)
        foreign = next((agent for agent in named if agent and not key.agents.allows(agent)), "")
        if not foreign:
            facts.current = facts.current if key.agents.allows(facts.current) else ""
            facts.namespace = facts.namespace if all(map(key.agents.allows, namespace_of(span))) else ""
            kept.append(span)
            continue
        export.reject(key.agents.describe_refusal(foreign, "a span").removesuffix("."))
        with write_turn():
            record_refusal(tenant, key.agents, foreign)
    export.spans = kept


def _make_room(
    tenant: Tenant, sender: KeyIdentity, export: Export, written: Sequence[_WrittenSpan], now: datetime
) -> tuple[dict[str, TelemetryTrace], list[_WrittenSpan]]:
    """Lock the traces. Return the traces that change, with the counts after this export, and the spans to store.

    Spans that are stored already change nothing, and the spans beyond the limits of a trace are rejected.
    """
    locked = _lock_traces(tenant, {one.span.trace_id for one in written}, now)
    known = _list_known(tenant, sender, [one.span for one in written if locked[one.span.trace_id].spans])
    by_trace: dict[str, list[_WrittenSpan]] = defaultdict(list)
    for one in written:
        key = one.span.trace_id, one.span.span_id
        if key not in known:
            known.add(key)
            by_trace[one.span.trace_id].append(one)
    rows: dict[str, TelemetryTrace] = {}
    kept: list[_WrittenSpan] = []
    for trace_id, some in by_trace.items():
        row = locked[trace_id]
        taken = _take(row, some)
        if len(taken) < len(some):
            limits = f"{MOST_SPANS_OF_TRACE:,} spans or {MOST_BYTES_OF_TRACE:,} bytes of facts"
            export.reject(f"the trace {trace_id} has more than {limits}: begin another trace", len(some) - len(taken))
        if taken:
            _set_due(row, [one.span for one in taken], now)
            rows[trace_id] = row
            kept += taken
    return rows, kept


def _lock_traces(tenant: Tenant, trace_ids: set[str], now: datetime) -> dict[str, TelemetryTrace]:
    """Return the rows of traces, locked until the transaction ends. New traces get a row with counts of zero.

    Every process inserts and locks in the same order, so that two exports cannot deadlock.
    """
    rows: dict[str, TelemetryTrace] = {}
    # A worker may remove a trace between the two statements, so missing rows are inserted again.
    while missing := sorted(trace_ids - rows.keys()):
        TelemetryTrace.objects.bulk_create(
            [TelemetryTrace(tenant=tenant, trace_id=one, since=now, spans=0, size=0) for one in missing],
            ignore_conflicts=True,
        )
        found = TelemetryTrace.objects.filter(tenant=tenant, trace_id__in=missing).order_by("trace_id")
        rows.update((row.trace_id, row) for row in found.select_for_update())
    return rows


def _list_known(tenant: Tenant, sender: KeyIdentity, spans: Sequence[Span]) -> set[tuple[str, str]]:
    """Return the trace id and span id of each span that a key of the same or a better grade has already stored."""
    if not spans:
        return set()
    pairs = "json_array_elements(%s::json)" if db.is_postgresql() else "json_each(%s)"
    sql = f"""
        SELECT trace_id, span_id, key FROM "{_SPAN.table}"
        WHERE tenant_id = %s AND (trace_id, span_id) IN (SELECT value->>0, value->>1 FROM {pairs})
    """  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [tenant.pk, orjson.dumps([(span.trace_id, span.span_id) for span in spans]).decode()])
        found = cursor.fetchall()
    worse: set[int] = set()
    others = {number for *_, number in found} - {sender.key_id}
    if others and sender.grade.is_evidence:
        keys = Key.objects.filter(tenant=tenant, pk__in=others)
        worse = {key.pk for key in keys if key.grade not in sender.grade.as_good}
    return {(trace_id, span_id) for trace_id, span_id, number in found if number not in worse}


def _set_due(row: TelemetryTrace, spans: Sequence[Span], now: datetime) -> None:
    is_ended = any(not span.parent_id for span in spans)
    wait = _SOON if is_ended else timedelta(seconds=settings.TELEMETRY_QUIET_SECONDS)
    row.since, row.tries, row.claim_expires_at = now, 0, now + wait
    row.conversation = row.conversation or next((span.conversation for span in spans if span.conversation), "")


def _take(row: TelemetryTrace, some: Sequence[_WrittenSpan]) -> list[_WrittenSpan]:
    """Count spans of a trace as long as there is room, and return the counted spans."""
    taken = []
    for one in some:
        if row.spans >= MOST_SPANS_OF_TRACE or row.size + one.size > MOST_BYTES_OF_TRACE:
            break
        row.spans, row.size = row.spans + 1, row.size + one.size
        taken.append(one)
    return taken


def load_spans(tenant_id: int, trace_ids: Sequence[str]) -> list[Span]:
    """Return the spans of some traces in the order of their arrival, up to twice the limits of one trace."""
    if not trace_ids:
        return []
    rows = TelemetrySpan.objects.filter(tenant=tenant_id, trace_id__in=trace_ids).order_by("id")
    names = ("trace_id", "span_id", "parent_id", "name", "started", "ended", "conversation", "facts", "key")
    found: list[Span] = []
    size = 0
    for row in rows.values_list(*names)[: 2 * MOST_SPANS_OF_TRACE].iterator(chunk_size=500):
        trace_id, span_id, parent_id, name, started, ended, conversation, facts, key = row
        size += _ROW_BYTES + len(facts.encode())
        if size > 2 * MOST_BYTES_OF_TRACE:
            break
        read = _read_facts(facts)
        found.append(Span(trace_id, span_id, parent_id, name, started, ended, conversation, read, key))
    return found


def remove_traces(tenant_id: int, trace_ids: Sequence[str]) -> None:
    """Remove traces with their spans; call inside a transaction."""
    TelemetrySpan.objects.filter(tenant=tenant_id, trace_id__in=trace_ids).delete()
    TelemetryTrace.objects.filter(tenant=tenant_id, trace_id__in=trace_ids).delete()
