"""The periodic job that finds the handoffs in the spans of a trace, and stores them as any other handoff.

A trace is looked at soon after its root ended, when it has been quiet for a while, and before its spans are removed.
Each look finds everything again. What is stored already stays as it is.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.keys import KeyIdentity, identity_of
from handoffaudit.accounts.models import Key, Tenant
from handoffaudit.handoffs import leases
from handoffaudit.handoffs.ingest import store as ingest
from handoffaudit.handoffs.models import Handoff, TelemetryTrace
from handoffaudit.handoffs.telemetry import tool_calls
from handoffaudit.handoffs.telemetry.store import load_spans, remove_traces
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation import json_text
from handoffaudit.validation.formats import framework
from handoffaudit.validation.formats.telemetry import make_document, moment_of
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.telemetry.handoff_rules import Found, find_handoffs
from handoffaudit.validation.telemetry.trees import Tree

log = structlog.get_logger(__name__)

# Other periodic jobs wait for this one, so it stops after a while and goes on in the next round.
_MOST_SECONDS: Final = 5.0
_REMOVED_AT_ONCE: Final = 20
_MOST_TRIES: Final = 5
# The newest traces of a conversation.
_MOST_JOINED: Final = 20
_HANDOFFS_AT_ONCE: Final = 500
# What is inferred waits so many times longer while a span is missing that the rest of the trace names as a parent.
_PATIENCE: Final = 30


@dataclass(frozen=True, slots=True)
class _Stage:
    """How far a trace is: whether it has been quiet, whether missing spans are still expected, and the next look."""

    is_quiet: bool
    is_patient: bool
    is_over: bool
    next_look: datetime

    @classmethod
    def of(cls, row: TelemetryTrace, now: datetime) -> "_Stage":
        quiet = timedelta(seconds=settings.TELEMETRY_QUIET_SECONDS)
        kept = max(timedelta(seconds=settings.TELEMETRY_KEEP_SECONDS), 2 * quiet)
        times = [row.since + wait for wait in (quiet, min(_PATIENCE * quiet, kept), kept)]
        later = next((at for at in times if at > now), times[-1])
        return cls(now >= times[0], now < times[1], now >= times[2], later)

    def allows(self, found: Found) -> bool:
        """Return whether a handoff can be made at this stage."""
        return found.is_settled or (self.is_quiet and not (found.is_open and self.is_patient))


def look_for_traces() -> None:
    """Make the handoffs of all traces that are due, for a few seconds at most."""
    end = time.monotonic() + _MOST_SECONDS
    while time.monotonic() < end and (row := _take()):
        # An exception here is a bug of this product. It must not affect the other traces.
        try:
            _assemble(row)
        except Exception:
            log.exception("the handoffs of a trace could not be made", trace=row.trace_id, tenant=row.tenant_id)
            leases.release(leases.filter_held(TelemetryTrace, row.pk, row.claim), row.tries)
    _remove_exhausted()


def _take() -> TelemetryTrace | None:
    with transaction.atomic():
        _, rows = leases.take_first(
            TelemetryTrace,
            "claim_expires_at < %s AND tries < %s",
            [timezone.now(), _MOST_TRIES],
            order="claim_expires_at",
            limit=1,
            changes="tries = tries + 1",
        )
    return rows[0] if rows else None


def _remove_exhausted() -> None:
    """Remove traces that failed again and again, when their time is over."""
    before = timezone.now() - 2 * timedelta(seconds=settings.TELEMETRY_KEEP_SECONDS)
    for row in TelemetryTrace.objects.filter(tries__gte=_MOST_TRIES, since__lt=before)[:_REMOVED_AT_ONCE]:
        with transaction.atomic():
            remove_traces(row.tenant_id, [row.trace_id])


def _assemble(row: TelemetryTrace) -> None:
    now = timezone.now()
    joined = _list_joined(row)
    stages = {one.trace_id: _Stage.of(one, now) for one in joined}
    spans = load_spans(row.tenant_id, stages)
    tree, found = Tree(spans), find_handoffs(spans)
    due = [one for one in found if stages[one.span.trace_id].allows(one)]
    keys = _load_keys(row.tenant_id, {span.sender for span in spans})
    quiet = {trace_id for trace_id, stage in stages.items() if stage.is_quiet}
    # Results come before the handoffs that rest on them.
    tool_calls.store_results(row.tenant_id, tree, found, quiet, keys)
    _store_handoffs(row.tenant_id, tree, due, keys)
    _finish(row, stages[row.trace_id])


def _list_joined(row: TelemetryTrace) -> list[TelemetryTrace]:
    """Return the trace and the newest others of its conversation."""
    if not row.conversation:
        return [row]
    others = TelemetryTrace.objects.filter(tenant=row.tenant_id, conversation=row.conversation).exclude(pk=row.pk)
    return [row, *others.order_by("-since")[:_MOST_JOINED]]


def _load_keys(tenant_id: int, numbers: set[int]) -> dict[int, KeyIdentity]:
    """Return the identities of keys. A key that was revoked since was valid when its spans were acknowledged."""
    found = Key.objects.filter(tenant=tenant_id, pk__in=numbers).select_related("tenant")
    return {key.pk: identity_of(key) for key in found}


def _store_handoffs(tenant_id: int, tree: Tree, found: Sequence[Found], keys: dict[int, KeyIdentity]) -> None:
    """Store the handoffs that are new, in the name of the keys that sent their spans."""
    by_key: dict[int, list[Found]] = defaultdict(list)
    for one in found:
        by_key[one.span.sender].append(one)
    for number, some in by_key.items():
        if key := keys.get(number):
            tenant = Tenant(pk=tenant_id, slug=key.tenant_slug)
            for part in _split_new(tenant_id, some):
                submissions = [_make_submission(tree, one) for one in part]
                receipts = ingest.accept_many(tenant, Actor.key(key.name, key.agents), submissions, key.grade)
                for receipt in receipts:
                    if receipt.status not in (200, 202):
                        log.warning("a handoff of a trace was refused", status=receipt.status, detail=receipt.detail)


def _split_new(tenant_id: int, found: Sequence[Found]) -> Iterator[list[Found]]:
    for start in range(0, len(found), _HANDOFFS_AT_ONCE):
        some = {_name_of(one): one for one in found[start : start + _HANDOFFS_AT_ONCE]}
        stored = Handoff.objects.filter(tenant=tenant_id, handoff_id__in=some)
        for name in stored.values_list("handoff_id", flat=True):
            del some[name]
        if some:
            yield list(some.values())


def _name_of(found: Found) -> str:
    """Return the id of a handoff, which is the same for each export of its span."""
    return f"{found.span.trace_id}-{found.span.span_id}"


def _make_submission(tree: Tree, found: Found) -> Submission:
    return Submission(
        document=json_text.compact(make_document(found)),
        format=framework.NAME,
        envelope=Envelope(
            handoff_id=_name_of(found),
            trace_id=tree.conversation_of(found.span),
            sent_at=moment_of(found.span.started),
        ),
    )


def _finish(row: TelemetryTrace, stage: _Stage) -> None:
    """End the lease until the next look, or remove a trace whose time is over, unless more spans came meanwhile."""
    held = leases.filter_held(TelemetryTrace, row.pk, row.claim)
    with transaction.atomic():
        if not held.filter(since=row.since).select_for_update().exists():
            held.update(claim=None, tries=0)
        elif stage.is_over:
            remove_traces(row.tenant_id, [row.trace_id])
        else:
            leases.end(held, at=stage.next_look, tries=0)
