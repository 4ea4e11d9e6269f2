"""The periodic job that finds the handoffs in the spans of a trace, and stores them as any other handoff.

A trace is looked at soon after its root ended, and when it has been quiet for a while. It is looked at again when its
missing spans are no longer expected, and before its spans are removed. Each look finds all handoffs again. A stored
handoff does not change. A stored tool result is replaced only by a result of a better grade.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Any, Final

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from pydantic import ValidationError

from handoffaudit.accounts import audit
from handoffaudit.accounts.keys import AUDIT_SECONDS, MOST_AUDITED, KeyIdentity, identity_of
from handoffaudit.accounts.models import AuditEntry, Key, Tenant
from handoffaudit.handoffs import leases, tool_results
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.ingest import store as ingest
from handoffaudit.handoffs.ingest.prepare import Receipt
from handoffaudit.handoffs.models import Handoff, TelemetryTrace, ToolResult
from handoffaudit.handoffs.span_store import load_spans, remove_traces
from handoffaudit.handoffs.tool_results import ToolResultIn
from handoffaudit.handoffs.transitions import Actor
from handoffaudit.validation import json_text
from handoffaudit.validation.formats import framework
from handoffaudit.validation.formats.framework_traces import make_document, moment_of
from handoffaudit.validation.record import Envelope
from handoffaudit.validation.submission import Submission
from handoffaudit.validation.telemetry import outputs
from handoffaudit.validation.telemetry.facts import Facts, Span
from handoffaudit.validation.telemetry.handoff_rules import Found, acting_agent, find_in, list_calls
from handoffaudit.validation.telemetry.trees import Tree
from handoffaudit.validation.text import trace_name
from handoffaudit.validation.tool_results import TOO_LONG, Grade

# One look stores at most this many results and characters: results of the best grade first, then the newest. Masking
# results takes longer than storing handoffs.
_MOST_RESULTS: Final = 200
_MOST_CHARACTERS: Final = 2 * 1024 * 1024


def store_results(
    tenant_id: int, tree: Tree, found: Sequence[Found], traces: set[str], keys: dict[int, KeyIdentity]
) -> None:
    """Store the new tool results of some traces."""
    by_sender: dict[tuple[str, int], list[ToolResultIn]] = defaultdict(list)
    spans = [span for span in list_calls(tree, found, _ranks_of(keys)) if span.trace_id in traces]
    for span in _take_newest(spans):
        agent = acting_agent(tree, span)
        if keys[span.sender].agents.allows(agent) and (result := _read_result(span, agent)):
            by_sender[(trace_name(tree.conversation_of(span)), span.sender)].append(result)
    now = timezone.now()
    for (trace_id, sender), some in sorted(by_sender.items()):
        key = keys[sender]
        stored = ToolResult.objects.filter(tenant=tenant_id, trace_id=trace_id, grade__in=key.grade.as_good)
        known = set(stored.filter(call_id__in=[one.call_id for one in some]).values_list("call_id", flat=True))
        rows = tool_results.make_rows(tenant_id, trace_id, [one for one in some if one.call_id not in known], now)
        if rows:
            with write_turn(), transaction.atomic():
                tool_results.store(sorted(rows, key=lambda row: row.call_id), key.name, key.grade, now)


def _ranks_of(keys: Mapping[int, KeyIdentity]) -> dict[int, int]:
    return {number: key.grade.rank for number, key in keys.items()}


def _take_newest(spans: list[Span]) -> list[Span]:
    sizes = accumulate(len(span.facts.result) for span in reversed(spans))
    number = sum(size <= _MOST_CHARACTERS for size in islice(sizes, _MOST_RESULTS))
    return spans[len(spans) - number :]


def _read_result(span: Span, agent: str) -> ToolResultIn | None:
    facts = span.facts
    result = outputs.parse(facts.result)
    try:
        return ToolResultIn(
            tool=facts.tool,
            call_id=facts.call_id or f"{span.trace_id}-{span.span_id}",
            agent=agent,
            at=moment_of(span.ended),
            arguments=_read_arguments(facts),
            result=facts.result if result is None else result,
        )
    except ValidationError:
        # A tool without a usable name cannot be cited.
        return None


def _read_arguments(facts: Facts) -> Any:
    """Return the arguments of a tool as the span states them, and without the wrapping of frameworks."""
    if facts.is_cut:
        return TOO_LONG
    bare = outputs.parse(facts.arguments) or facts.arguments or None
    return [outputs.parse(facts.stated) or facts.stated, bare] if facts.stated else bare


log = structlog.get_logger(__name__)

# Other periodic jobs wait for this job, so the job stops after a while and continues in the next round.
_MOST_SECONDS: Final = 5.0
_TRACES_AT_ONCE: Final = 50
_MOST_BYTES_AT_ONCE: Final = 4 * 1024 * 1024
_REMOVED_AT_ONCE: Final = 20
_MOST_TRIES: Final = 5
# At most this many other traces of a conversation are loaded, the newest first.
_MOST_JOINED: Final = 20
_HANDOFFS_AT_ONCE: Final = 500
# A handoff that a missing span would probably change waits this many times `TELEMETRY_QUIET_SECONDS` for the span.
_PATIENCE: Final = 30
# A trace remembers at most this many refused handoffs. Further refused handoffs are offered again at the next look.
_MOST_REFUSED: Final = 1_000
_REFUSED: Final = "trace.refuse"


@dataclass(frozen=True, slots=True)
class _Stage:
    """The stage of a trace, and when to look next.

    `is_quiet` says whether no span came for a while, `is_patient` whether missing spans may still come, and `is_over`
    whether the spans are due for removal.
    """

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
    while time.monotonic() < end and (rows := _take()):
        for lot in _split(rows):
            if time.monotonic() < end:
                _assemble(lot)
            else:
                _give_back(lot)
    _remove_exhausted()


def _take() -> list[TelemetryTrace]:
    with transaction.atomic():
        _, rows = leases.take_first(
            TelemetryTrace,
            "claim_expires_at < %s AND tries < %s",
            [timezone.now(), _MOST_TRIES],
            order="claim_expires_at",
            limit=_TRACES_AT_ONCE,
            changes="tries = tries + 1",
        )
    return rows


def _give_back(rows: Sequence[TelemetryTrace]) -> None:
    for row in rows:
        leases.end(leases.filter_held(TelemetryTrace, row.pk, row.claim), at=timezone.now(), tries=F("tries") - 1)


def _split(rows: Sequence[TelemetryTrace]) -> Iterator[list[TelemetryTrace]]:
    """Yield the traces in lots whose spans fit into memory together."""
    lot: list[TelemetryTrace] = []
    size = 0
    for row in sorted(rows, key=lambda row: (row.tenant_id, row.conversation)):
        if lot and size + row.size > _MOST_BYTES_AT_ONCE:
            yield lot
            lot, size = [], 0
        lot.append(row)
        size += row.size
    if lot:
        yield lot


def _remove_exhausted() -> None:
    """Remove traces that failed again and again, after twice the time for which spans are kept."""
    before = timezone.now() - 2 * timedelta(seconds=settings.TELEMETRY_KEEP_SECONDS)
    for row in TelemetryTrace.objects.filter(tries__gte=_MOST_TRIES, since__lt=before)[:_REMOVED_AT_ONCE]:
        with transaction.atomic():
            remove_traces(row.tenant_id, [row.trace_id])


def _assemble(rows: Sequence[TelemetryTrace]) -> None:
    """Make the handoffs of some traces, with few statements and commits."""
    now = timezone.now()
    by_tenant: dict[int, list[TelemetryTrace]] = defaultdict(list)
    for row in rows:
        by_tenant[row.tenant_id].append(row)
    # An exception here is a bug of this product. It must not affect the other traces.
    try:
        for tenant_id, some in by_tenant.items():
            _make_handoffs(tenant_id, some, now)
        _finish(rows, now)
    except Exception as error:
        if leases.undo_if_blameless(TelemetryTrace.objects.filter(claim=rows[0].claim), error):
            raise
        if len(rows) > 1:
            for row in rows:
                _assemble([row])
            return
        (row,) = rows
        log.exception("the handoffs of a trace could not be made", trace=row.trace_id, tenant=row.tenant_id)
        leases.release(leases.filter_held(TelemetryTrace, row.pk, row.claim), row.tries)


# A handoff that was found, and the submission that stores it.
_Offer = tuple[Found, Submission]


def _make_handoffs(tenant_id: int, rows: Sequence[TelemetryTrace], now: datetime) -> None:
    """Find and store the handoffs of some traces of one tenant, and the results of their tools."""
    spans: dict[str, list[Span]] = defaultdict(list)
    for span in load_spans(tenant_id, [row.trace_id for row in rows]):
        spans[span.trace_id].append(span)
    keys = _load_keys(tenant_id, {span.sender for some in spans.values() for span in some})
    by_work: dict[str, list[TelemetryTrace]] = defaultdict(list)
    for row in rows:
        by_work[row.conversation or row.trace_id].append(row)
    offers: dict[str, _Offer] = {}
    for some in by_work.values():
        offers |= _look(some, [span for row in some for span in spans.pop(row.trace_id, ())], keys, now)
    _store_handoffs(offers, keys)


def _look(
    rows: Sequence[TelemetryTrace], spans: list[Span], keys: dict[int, KeyIdentity], now: datetime
) -> dict[str, _Offer]:
    """Return the handoffs that can be made now, by their ids, and store the tool results of quiet traces.

    `rows` are traces of one conversation. The result also has handoffs of other traces of this conversation. `spans`
    are the spans of `rows`, and `keys` gets the keys of the other traces.
    """
    tenant_id, joined = rows[0].tenant_id, _list_joined(rows)
    stages = {one.trace_id: _Stage.of(one, now) for one in (*rows, *joined)}
    # The spans of the due traces are loaded already, so the limit of `load_spans` can cut off only spans of `joined`.
    spans += load_spans(tenant_id, [one.trace_id for one in joined])
    if unknown := {span.sender for span in spans} - keys.keys():
        keys |= _load_keys(tenant_id, unknown)
    ranks = _ranks_of(keys)
    # If two keys sent a span, the span of the key with the better grade counts.
    tree = Tree(sorted(spans, key=lambda span: ranks.get(span.sender, len(Grade))))
    found = find_in(tree)
    quiet = {trace_id for trace_id, stage in stages.items() if stage.is_quiet}
    # Results are stored before the handoffs, because the verdicts on the handoffs use them as evidence.
    store_results(tenant_id, tree, found, quiet, keys)
    refused = {(one.trace_id, *handoff) for one in (*rows, *joined) for handoff in one.refused}
    allowed = (one for one in found if stages[one.span.trace_id].allows(one))
    due = [one for one in allowed if (one.span.trace_id, *_refusal_of(one)) not in refused]
    return {_name_of(one): (one, _make_submission(tree, one)) for one in due}


def _list_joined(rows: Sequence[TelemetryTrace]) -> list[TelemetryTrace]:
    """Return the newest other traces of the conversation that `rows` share, as many as fit into memory."""
    first = rows[0]
    if not first.conversation:
        return []
    others = TelemetryTrace.objects.filter(tenant=first.tenant_id, conversation=first.conversation)
    found = list(others.exclude(pk__in=[row.pk for row in rows]).order_by("-since")[:_MOST_JOINED])
    sizes = accumulate(row.size for row in found)
    return [row for row, size in zip(found, sizes, strict=True) if size <= _MOST_BYTES_AT_ONCE]


def _load_keys(tenant_id: int, numbers: set[int]) -> dict[int, KeyIdentity]:
    """Return the identities of keys. Revoked keys count, too: they were valid when their spans were acknowledged."""
    found = Key.objects.filter(tenant=tenant_id, pk__in=numbers).select_related("tenant")
    return {key.pk: identity_of(key) for key in found}


def _store_handoffs(offers: dict[str, _Offer], keys: Mapping[int, KeyIdentity]) -> None:
    """Store the new handoffs, each in the name of the key that sent its span."""
    by_key: dict[KeyIdentity, dict[str, _Offer]] = defaultdict(dict)
    for name, offer in offers.items():
        if key := keys.get(offer[0].span.sender):
            by_key[key][name] = offer
    for key, some in by_key.items():
        names = list(some)
        for start in range(0, len(names), _HANDOFFS_AT_ONCE):
            part = names[start : start + _HANDOFFS_AT_ONCE]
            stored = Handoff.objects.filter(tenant=key.tenant_id, handoff_id__in=part)
            known = set(stored.values_list("handoff_id", flat=True))
            if new := [some[name] for name in part if name not in known]:
                _submit(key, new)


def _submit(key: KeyIdentity, offers: Sequence[_Offer]) -> None:
    tenant, sender = Tenant(pk=key.tenant_id, slug=key.tenant_slug), Actor.key(key.name, key.agents)
    receipts = ingest.accept_many(tenant, sender, [submission for _, submission in offers], key.grade)
    refused = [(one, receipt) for (one, _), receipt in zip(offers, receipts, strict=True) if not receipt.id]
    if refused:
        _remember_refused(tenant, f"key {key.name}", refused)


def _refusal_of(found: Found) -> tuple[str, str, str]:
    """Return the identity of a refused handoff of a trace: its span, source and target.

    A later look may find another source for the same span. Then the key may be allowed to send the handoff, so the
    refusal of one source must not exclude another.
    """
    return found.span.span_id, found.source, found.target


def _remember_refused(tenant: Tenant, actor: str, refused: Sequence[tuple[Found, Receipt]]) -> None:
    """Leave the refused handoffs out of later looks, and record the reasons in the audit log."""
    by_trace: dict[str, list[tuple[Found, Receipt]]] = defaultdict(list)
    for one, receipt in refused:
        by_trace[one.span.trace_id].append((one, receipt))
    with write_turn(), transaction.atomic():
        rows = TelemetryTrace.objects.filter(tenant=tenant, trace_id__in=by_trace).order_by("trace_id")
        for row in rows.select_for_update():
            known = [*row.refused, *(_refusal_of(one) for one, _ in by_trace[row.trace_id])]
            TelemetryTrace.objects.filter(pk=row.pk).update(refused=known[:_MOST_REFUSED])
    for trace_id, some in sorted(by_trace.items()):
        # Agents that the key may not speak for are in the audit log already.
        reasons = [receipt.detail for _, receipt in some if not receipt.refused_agent]
        if reasons:
            _record_refusal(tenant, actor, trace_id, reasons)


def _record_refusal(tenant: Tenant, actor: str, trace_id: str, reasons: Sequence[str]) -> None:
    """Record why handoffs of a trace were refused, for at most `MOST_AUDITED` traces of a key per hour."""
    with write_turn(), transaction.atomic():
        audit.lock_tenant(tenant)
        since = timezone.now() - timedelta(seconds=AUDIT_SECONDS)
        recent = AuditEntry.objects.filter(tenant=tenant, action=_REFUSED, actor=actor, at__gt=since)
        if len(recent.values_list("number")[:MOST_AUDITED]) < MOST_AUDITED:
            detail = {"handoffs": len(reasons), "reason": reasons[0]}
            audit.record(tenant=tenant, actor=actor, action=_REFUSED, target=trace_id, detail=detail)


def _name_of(found: Found) -> str:
    """Return the id of a handoff, which is the same for each export of its span.

    The span of a node can name several next nodes. The id of a handoff ends with the number of its next node, but the
    id of the handoff to the first next node has no number.
    """
    goto = found.span.facts.goto
    number = goto.index(found.target) if found.rule == "goto" and found.target in goto else 0
    return f"{found.span.trace_id}-{found.span.span_id}{f'-{number + 1}' if number else ''}"


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


def _finish(rows: Sequence[TelemetryTrace], now: datetime) -> None:
    """End the leases, set the times of the next looks, and remove the traces that need no further look.

    A trace that got more spans meanwhile is due at the time that its last export set.
    """
    over: dict[int, list[str]] = defaultdict(list)
    # Traces of one export are due at the same time.
    due: dict[datetime | None, list[int]] = defaultdict(list)
    with transaction.atomic():
        # Exports lock the traces in the same order.
        locked = TelemetryTrace.objects.filter(pk__in=[row.pk for row in rows]).order_by("tenant_id", "trace_id")
        current = {row.pk: row for row in locked.select_for_update()}
        for row in rows:
            held, stage = current.get(row.pk), _Stage.of(row, now)
            if held is None or held.claim != row.claim:
                continue
            if held.since == row.since and stage.is_over:
                over[row.tenant_id].append(row.trace_id)
                continue
            due[stage.next_look if held.since == row.since else held.claim_expires_at].append(row.pk)
        for at, numbers in due.items():
            leases.end(TelemetryTrace.objects.filter(pk__in=numbers), at=at, tries=0)
        for tenant_id, trace_ids in over.items():
            remove_traces(tenant_id, trace_ids)
