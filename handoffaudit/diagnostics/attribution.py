"""Attribution of findings to the agents that introduced them, computed trace by trace after handoffs are judged.

While handoffs wait to be judged, attribution lags behind, and catches up later. Each run looks at recent verdicts
again, because some of them may have been committed late.
"""

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
import structlog
from django.db import transaction
from django.db.models import Count, Exists, OuterRef
from django.utils import timezone

from handoffaudit.database_faults import fault_of
from handoffaudit.diagnostics import group_store
from handoffaudit.diagnostics.agents import declared_roles
from handoffaudit.diagnostics.group_members import GroupedFindings, group_findings
from handoffaudit.diagnostics.models import Attribution, TracedHandoff, Watermark
from handoffaudit.diagnostics.traces import MOST_HANDOFFS, sort_by_step
from handoffaudit.handoffs import db, judge_leases
from handoffaudit.handoffs.filters import first_id_at, moment_of
from handoffaudit.handoffs.leases import BEGINNING, NamedLease, background_part
from handoffaudit.handoffs.models import WAITING_STATES, Handoff, HandoffBody, Verdict
from handoffaudit.handoffs.verdicts import chunk_by_size, record_of
from handoffaudit.validation.provenance import Attributed, Flaw, Step, attribute, flaws_of, step_of
from handoffaudit.validation.text import clean

log = structlog.get_logger(__name__)

TASK: Final = "handoffaudit.diagnostics.tasks.attribute_judged"

MARK: Final = "attribution"

LEASE: Final = NamedLease(Watermark, "attribution.claim")

# A verdict gets its id before its transaction ends, so a verdict may become visible up to this long after verdicts with
# higher ids.
OVERLAP: Final = timedelta(minutes=2)

MOST_VERDICTS: Final = 200

# A verdict with many claims may have a size of megabytes.
_VERDICTS_AT_ONCE: Final = 20

# One transaction replaces the rows of about this many handoffs. On SQLite, all other writers wait for it.
MOST_ROWS: Final = 2_000
_MOST_ROWS_ON_SQLITE: Final = 100

_LONGEST_RUN: Final = 60.0

_PAUSE: Final = 0.2

_WORKED_OUT: Final = (
    *("handoff", "tenant", "trace_id", "at", "source_agent_id", "target_agent_id", "took_seconds"),
    *("caused", "passed_on", "verdict"),
)

_TRACED = db.Columns.of(TracedHandoff, *_WORKED_OUT, "grouped")

_ATTRIBUTION = db.Columns.of(
    Attribution, "tenant", "trace_id", "handoff", "at", "agent", "code", "field_path", "value", "caused", "origin"
)

_COLUMNS: Final = (
    *("id", "tenant_id", "trace_id", "parent_handoff_id", "handoff_id", "step", "state", "received_at", "sent_at"),
    *("sender_timestamp", "source_agent_id", "target_agent_id", "verdict", "codes"),
)


@dataclass(slots=True)
class _Worked:
    """The computed rows of some handoffs, by handoff."""

    traced: dict[uuid.UUID, list[Any]] = field(default_factory=dict)
    attributions: dict[uuid.UUID, list[list[Any]]] = field(default_factory=dict)
    grouped: dict[uuid.UUID, GroupedFindings] = field(default_factory=dict)


def anything_due() -> bool:
    """Return whether a judged handoff is not attributed or not grouped yet. Each sweep of a worker calls this."""
    return bool(_list_due(1)) or TracedHandoff.objects.filter(grouped=False).exists()


def run() -> int:
    """Attribute the verdicts that are due, then group the findings of handoffs that are not grouped yet.

    Return how many handoffs were attributed or grouped; 0 if another process is attributing. The run ends when nothing
    is due, or after a minute. If handoffs wait to be judged, the run ends after one part, and a pause follows.
    """
    failed: set[int] = set()
    parts = iter(lambda: _attribute_part(failed) or _group_part(), 0)
    return LEASE.run_parts(parts, _LONGEST_RUN, judge_leases.is_anything_waiting)


def rebuild() -> int:
    """Discard all attributions, attribute everything again, and return the number of handoffs.

    Raise `RuntimeError` if another process is attributing handoffs and does not end, if another process takes over
    meanwhile, or if the findings of a tenant cannot be attributed.
    """
    deadline = time.monotonic() + LEASE.LENGTH.total_seconds() + 1
    while (held_until := LEASE.acquire()) is None:
        if time.monotonic() > deadline:
            raise RuntimeError("another process is attributing handoffs and does not end: try again later")
        time.sleep(_PAUSE)
    number = 0
    try:
        with transaction.atomic():
            Attribution.objects.all().delete()
            TracedHandoff.objects.all().delete()
            Watermark.objects.filter(name=MARK).delete()
            limited = group_store.forget()
        failed: set[int] = set()
        while held_until and (found := _attribute_part(failed)):
            number += found
            held_until = LEASE.renew(held_until)
        if not (held_until and (held_until := LEASE.renew(held_until))):
            raise RuntimeError("the attributions were taken over by another process: try again later")
        if failed:
            raise RuntimeError("the findings of some tenants could not be attributed: the log says why")
        group_store.lower_limits(limited)
        group_store.drop_empty()
    finally:
        LEASE.release(held_until)
    return number


def _attribute_part(failed: set[int]) -> int:
    """Attribute the oldest verdicts that are due, and return the number of their handoffs.

    Return 0 if nothing is due, or if the lease was lost. The verdicts of the tenants in `failed` are left to a later
    run. A tenant whose verdicts cannot be attributed now is added to `failed`.
    """
    now, held_until = timezone.now(), LEASE.read()
    due = _list_due(MOST_VERDICTS, failed)
    due_handoffs = {handoff for _, handoff, _ in due}
    if due:
        handoffs = Handoff.objects.filter(pk__in=due_handoffs).only(*_COLUMNS)
        by_tenant: dict[int, list[Handoff]] = {}
        for row in handoffs:
            by_tenant.setdefault(row.tenant_id, []).append(row)
        for tenant_id, rows in sorted(by_tenant.items()):
            try:
                if not _attribute_handoffs(tenant_id, rows, held_until):
                    return 0
            except Exception as error:
                if fault_of(error):
                    raise
                log.exception("the findings of a tenant could not be attributed", tenant=tenant_id)
                failed.add(tenant_id)
        left = {row.pk for row in handoffs if row.tenant_id in failed}
        _settle([one for one in due if one[1] not in left], {row.pk: row.verdict for row in handoffs})
    # The next part looks at the verdicts of the overlap again, and skips attributed verdicts.
    reached = now if len(due) < MOST_VERDICTS else due[-1][2]
    if not failed:
        _move(min(reached, now - OVERLAP))
    return len(due_handoffs)


def _attribute_handoffs(tenant_id: int, due: Sequence[Handoff], held_until: datetime | None) -> bool:
    """Attribute these handoffs and the others of their traces. Return False if the lease was lost."""
    for traces in _read_traces(tenant_id, due):
        with background_part():
            if not _store(tenant_id, _attribute_traces(traces), held_until):
                return False
    return True


def _group_part() -> int:
    """Group the findings of handoffs that were attributed before finding groups existed.

    Return the number of handoffs, at most `MOST_VERDICTS`.
    """
    missing = list(TracedHandoff.objects.filter(grouped=False).values_list("handoff", flat=True)[:MOST_VERDICTS])
    handoffs = Handoff.objects.filter(pk__in=missing).only(*_COLUMNS)
    by_tenant: dict[int, list[Handoff]] = {}
    for row in handoffs:
        by_tenant.setdefault(row.tenant_id, []).append(row)
    flaws = _load_flaws(list(handoffs))
    with transaction.atomic():
        for tenant_id, rows in sorted(by_tenant.items()):
            group_store.regroup(tenant_id, {row.pk: _group_findings(row, flaws) for row in rows}, old_news=True)
        TracedHandoff.objects.filter(handoff__in=missing).update(grouped=True)
    return len(missing)


def _settle(due: Iterable[tuple[uuid.UUID, uuid.UUID, datetime]], in_force: dict[uuid.UUID, uuid.UUID | None]) -> None:
    """Mark as attributed each verdict newer than the verdict in force. Without the mark, it would stay due forever."""
    for verdict, handoff, _ in due:
        current = in_force.get(handoff)
        if current is None or current < verdict:
            TracedHandoff.objects.filter(handoff=handoff).update(verdict=verdict)


def _list_due(most: int, failed: Collection[int] = ()) -> list[tuple[uuid.UUID, uuid.UUID, datetime]]:
    """Return up to `most` verdicts that are not attributed yet, with their handoffs and times.

    Leave out the tenants in `failed`.
    """
    mark = Watermark.objects.filter(name=MARK).values_list("at", flat=True).first() or BEGINNING
    # A clock that was ahead may have set the mark to a future time. Verdicts before that time must still be found.
    mark = min(mark, timezone.now() - OVERLAP)
    done = TracedHandoff.objects.filter(handoff=OuterRef("handoff_id"), verdict__gte=OuterRef("pk"))
    rows = Verdict.objects.filter(id__gte=first_id_at(mark)).exclude(handoff__state__in=WAITING_STATES)
    rows = rows.exclude(tenant__in=failed) if failed else rows
    found = rows.filter(~Exists(done)).order_by("id").values_list("id", "handoff_id")[:most]
    return [(verdict, handoff, moment_of(verdict)) for verdict, handoff in found]


def _read_traces(tenant_id: int, due: Sequence[Handoff]) -> Iterator[list[Sequence[Handoff]]]:
    """Yield these handoffs and the other handoffs of their traces, some traces at a time.

    Of a trace with more than `MOST_HANDOFFS` handoffs, only the first `MOST_HANDOFFS` are yielded together.
    """
    wanted = {row.trace_id for row in due if row.trace_id}
    of_tenant = Handoff.objects.filter(tenant=tenant_id)
    sizes = dict(of_tenant.filter(trace_id__in=wanted).order_by().values_list("trace_id").annotate(Count("id")))
    long = {trace for trace, size in sizes.items() if size > MOST_HANDOFFS}
    read: set[uuid.UUID] = set()
    for traces in _group_traces({trace: size for trace, size in sizes.items() if trace not in long}):
        rows = of_tenant.filter(trace_id__in=traces).order_by("id").only(*_COLUMNS)[: 2 * MOST_ROWS]
        by_trace: dict[str, list[Handoff]] = {}
        for row in rows:
            by_trace.setdefault(row.trace_id, []).append(row)
        read.update(row.pk for rows_of_trace in by_trace.values() for row in rows_of_trace)
        yield list(by_trace.values())
    for trace in sorted(long):
        first = list(of_tenant.filter(trace_id=trace).order_by("id").only(*_COLUMNS)[:MOST_HANDOFFS])
        if any(row.trace_id == trace and row.pk <= first[-1].pk for row in due):
            read.update(row.pk for row in first)
            yield [first]
    # A handoff without a trace is attributed alone, as is a handoff after the first `MOST_HANDOFFS` of its trace.
    alone = [row for row in due if row.pk not in read]
    for start in range(0, len(alone), _most_rows()):
        yield [[row] for row in alone[start : start + _most_rows()]]


def _most_rows() -> int:
    return MOST_ROWS if db.is_postgresql() else _MOST_ROWS_ON_SQLITE


def _group_traces(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Yield groups of traces with at most `_most_rows()` handoffs each, or one trace with more."""
    group: list[str] = []
    most = room = _most_rows()
    for trace, size in sorted(sizes.items()):
        if group and size > room:
            yield group
            group, room = [], most
        group.append(trace)
        room -= size
    if group:
        yield group


def _attribute_traces(traces: Iterable[Sequence[Handoff]]) -> _Worked:
    ordered = [sort_by_step(rows) for rows in traces]
    flaws = _load_flaws([row for rows in ordered for row in rows])
    worked = _Worked()
    for rows in ordered:
        # An exception here is a bug of this product. It must not stop the attribution of other traces.
        try:
            steps = _make_steps(rows, flaws)
            found = attribute(steps)
        except Exception:
            log.exception("a trace could not be attributed", trace=rows[0].trace_id, handoff=str(rows[0].pk))
            steps = [_make_bare_step(row, flaws) for row in rows]
            found = [Attributed(at, flaw, caused=True, origin=at) for at, one in enumerate(steps) for flaw in one.flaws]
        _add(worked, rows, found, flaws)
    return worked


def _load_flaws(rows: Sequence[Handoff]) -> dict[uuid.UUID, tuple[Flaw, ...]]:
    """Return the findings of the judged handoffs that have findings, by handoff."""
    judged = [row.verdict for row in rows if row.codes and row.verdict and row.state not in WAITING_STATES]
    found: dict[uuid.UUID, tuple[Flaw, ...]] = {}
    for start in range(0, len(judged), MOST_VERDICTS):
        some = Verdict.objects.filter(pk__in=judged[start : start + MOST_VERDICTS])
        for handoff, content in some.values_list("handoff_id", "content").iterator(chunk_size=_VERDICTS_AT_ONCE):
            found[handoff] = flaws_of(orjson.loads(content).get("issues") or ())
    return found


def _make_steps(rows: Sequence[Handoff], flaws: dict[uuid.UUID, tuple[Flaw, ...]]) -> list[Step]:
    """Return the steps of a trace. Bodies are read only if a value can have come from another handoff."""
    if len(rows) < 2 or not any(flaw.value for row in rows for flaw in flaws.get(row.pk, ())):
        return [_make_bare_step(row, flaws) for row in rows]
    steps: list[Step] = []
    roles = declared_roles(rows[0].tenant_id)
    for some in chunk_by_size(rows):
        whole = Handoff.objects.in_bulk([row.pk for row in some])
        bodies = HandoffBody.objects.in_bulk(list(whole))
        for row in some:
            body = bodies.get(row.pk)
            record = record_of(whole[row.pk], body) if body else None
            bare = _make_bare_step(row, flaws)
            role = roles.get(row.source_agent_id)
            steps.append(step_of(bare.key, record, bare.flaws, role) if record else bare)
    return steps


def _make_bare_step(row: Handoff, flaws: dict[uuid.UUID, tuple[Flaw, ...]]) -> Step:
    return Step(str(row.pk), row.source_agent_id, row.target_agent_id, "", flaws=flaws.get(row.pk, ()))


def _group_findings(row: Handoff, flaws: dict[uuid.UUID, tuple[Flaw, ...]]) -> GroupedFindings:
    return group_findings(row.at, row.source_agent_id, row.target_agent_id, flaws.get(row.pk, ()))


def _add(
    worked: _Worked,
    rows: Sequence[Handoff],
    found: Iterable[Attributed],
    flaws: dict[uuid.UUID, tuple[Flaw, ...]],
) -> None:
    by_step: dict[int, list[Attributed]] = {}
    for one in found:
        by_step.setdefault(one.step, []).append(one)
    for at, row in enumerate(rows):
        if row.state in WAITING_STATES:
            continue
        caused = 0
        worked.attributions[row.pk] = lines = []
        for one in by_step.get(at, ()):
            caused += one.caused
            origin = None if one.origin == at else rows[one.origin].pk
            place = (row.tenant_id, row.trace_id, row.pk, row.at, row.source_agent_id)
            flaw = one.flaw
            lines.append([*place, flaw.code, clean(flaw.path, 500), clean(flaw.value), one.caused, origin])
        agents = (row.source_agent_id, row.target_agent_id)
        passed_on = len(lines) - caused
        line = [row.pk, row.tenant_id, row.trace_id, row.at, *agents, _measure_duration(rows, at), caused, passed_on]
        worked.traced[row.pk] = [*line, row.verdict]
        worked.grouped[row.pk] = _group_findings(row, flaws)


def _measure_duration(rows: Sequence[Handoff], at: int) -> float | None:
    """Return the seconds from the time the source received its work to the handoff; None if unknown or negative.

    The work came with the parent or, if the parent is unknown, with the last handoff to the source.
    """
    row = rows[at]
    given = [one for one in rows[:at] if one.target_agent_id == row.source_agent_id]
    if not given or not row.source_agent_id:
        return None
    before = next((one for one in given if one.handoff_id == row.parent_handoff_id), given[-1])
    if row.sender_timestamp and before.sender_timestamp:
        seconds = (row.sender_timestamp - before.sender_timestamp).total_seconds()
    else:
        seconds = (row.at - before.at).total_seconds()
    return seconds if seconds >= 0 else None


def _store(tenant_id: int, worked: _Worked, held_until: datetime | None) -> bool:
    """Replace the stored rows that differ from the computed rows. Return False if the lease was lost.

    An erasure revokes the lease, because the rows may have been computed from verdicts with the erased value.
    """
    handoffs = list(worked.traced)
    if not handoffs:
        return True
    # The rows are compared before the transaction, to keep it short. Nobody changes them without the lease.
    same = _find_same(tenant_id, worked)
    changed = [one for one in handoffs if one not in same]
    with transaction.atomic():
        if LEASE.read(lock=True) != held_until:
            return False
        TracedHandoff.objects.filter(handoff__in=changed).delete()
        Attribution.objects.filter(tenant=tenant_id, handoff__in=changed).delete()
        db.insert_rows(_TRACED, [[*worked.traced[one], True] for one in changed])
        db.insert_rows(_ATTRIBUTION, [line for one in changed for line in worked.attributions[one]])
        group_store.regroup(tenant_id, {one: worked.grouped[one] for one in changed})
    return True


def _find_same(tenant_id: int, worked: _Worked) -> set[uuid.UUID]:
    """Return the handoffs whose stored rows are equal to the computed rows."""
    kept = TracedHandoff.objects.filter(handoff__in=list(worked.traced)).values_list(*_WORKED_OUT)
    same = {row[0] for row in kept if list(row) == worked.traced[row[0]]}
    attributed: dict[uuid.UUID, list[list[Any]]] = {}
    of_these = Attribution.objects.filter(tenant=tenant_id, handoff__in=same).order_by("id")
    for row in of_these.values_list(*_ATTRIBUTION.names):
        attributed.setdefault(row[2], []).append(list(row))
    return {one for one in same if attributed.get(one, []) == worked.attributions[one]}


def _move(reached: datetime) -> None:
    Watermark.objects.get_or_create(name=MARK, defaults={"at": BEGINNING})
    Watermark.objects.filter(name=MARK, at__lt=reached).update(at=reached)
