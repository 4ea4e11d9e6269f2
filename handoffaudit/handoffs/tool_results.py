"""Tool results of a trace: their parsing and storage, and their use as evidence of handoffs."""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, Final
from uuid import UUID
from zlib import crc32

import orjson
from django.conf import settings
from django.db import connection
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import Handoff, JudgeLease, LateResults, State, ToolResult
from handoffaudit.validation.claims import Source
from handoffaudit.validation.json_text import could_be_deeper, deeper_than
from handoffaudit.validation.text import pluralize, storable, trace_name
from handoffaudit.validation.tool_results import EVIDENCE, Grade, capture, label_of, sources_of

MOST_RESULTS: Final = 200
MOST_OF_A_TRACE: Final = 1024 * 1024
# Each result counts as this many bytes more than its texts, so that many small results are limited, too.
_ROW_BYTES: Final = 256
# The first key of the advisory locks of traces.
_LOCKS: Final = 0x48415452
_TRACES_IN_MEMORY: Final = 8
_MOST_ERRORS: Final = 5
# With this pause, a burst of late results leads to only one new judging.
_PAUSE: Final = timedelta(seconds=2)
# A result may be this much later than the time that the sender gave its handoff. The sender may round that time, and
# the sender's clock may differ from the collector's clock.
_LATE_CLOCK: Final = timedelta(seconds=5)
# The states of handoffs that may have a verdict without the late results. A handoff in the state `received` has no
# verdict yet. Its verdict can lack the late results only if a worker is judging the handoff now.
_MAY_BE_JUDGED: Final = (State.VALIDATING, State.ACCEPTED, State.HELD, State.APPROVED, State.REJECTED)


def _check_text(text: str) -> str:
    if not storable(text):
        raise PydanticCustomError("string_unicode", "It contains characters that can't be stored")
    return text


def _check_time(at: datetime) -> datetime:
    if not 2000 <= at.year < 2200:
        raise PydanticCustomError("datetime_range", "It is not a time from 2000 to 2199")
    return at.astimezone(UTC)


# The check comes before the conversion to UTC, which fails at both ends of the calendar.
Time = Annotated[AwareDatetime, AfterValidator(_check_time)]

_Name = Annotated[str, AfterValidator(_check_text), Field(min_length=1, max_length=200)]


class ToolResultIn(BaseModel):
    """One result of a tool, as the host captured it."""

    model_config = ConfigDict(extra="forbid")

    tool: _Name = Field(description="The name of the tool.", examples=["get_order"])
    call_id: _Name = Field(
        description="The id of the call. A trace has one result for each call: the same result sent twice is stored "
        "once.",
        examples=["call_17"],
    )
    agent: Annotated[str, AfterValidator(_check_text)] = Field(
        "", max_length=200, description="The agent that called the tool.", examples=["assistant"]
    )
    at: Time = Field(
        description="When the tool returned. If this time is later than the arrival, the time of arrival is stored.",
        examples=["2026-02-15T00:15:00Z"],
    )
    arguments: Any = Field(
        None,
        description="The arguments of the call, which are not stored. A value that appears in them is not evidence.",
        examples=[{"order_id": "W123"}],
    )
    result: Any = Field(description="What the tool returned: any JSON.", examples=[{"total": 54.2}])


_READER: Final = TypeAdapter(Annotated[list[ToolResultIn], Field(max_length=MOST_RESULTS)])


class WrongToolResults(Exception):
    """Tool results that cannot be read. The sender sees the text."""


class Storage(StrEnum):
    """The outcome of storing a result."""

    STORED = "stored"
    KNOWN = "known"
    REPLACED = "replaced"
    CONFLICT = "conflict"
    REFUSED = "refused"


def read_beside(raw: bytes | None) -> list[ToolResultIn]:
    """Return the `tool_results` beside a document. Raise `WrongToolResults`."""
    if not raw or raw == b"null":
        return []
    try:
        check_nesting(raw)
        return _READER.validate_python(orjson.loads(raw))
    except (ValidationError, orjson.JSONDecodeError) as error:
        raise WrongToolResults(_describe(error)) from error


def check_nesting(raw: bytes) -> None:
    """Raise `WrongToolResults` if the JSON is nested too deep to be masked.

    Only text with many brackets is parsed. Such text raises `orjson.JSONDecodeError` if it is not JSON.
    """
    most = settings.MAX_NESTING
    if could_be_deeper(raw, most) and deeper_than(orjson.loads(raw), most):
        raise WrongToolResults(f"The tool results are nested more than {most} levels deep: flatten them.")


def _describe(error: ValidationError | orjson.JSONDecodeError) -> str:
    if isinstance(error, orjson.JSONDecodeError):
        return f"tool_results is not JSON: {error}."
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"tool_results{_place(one['loc'])}: {one['msg']}." for one in found[:_MOST_ERRORS]]
    more = len(found) - len(lines)
    return " ".join([*lines, *([f"And {pluralize(more, 'other problem')}."] if more else [])])


def _place(location: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def make_rows(tenant_id: int, trace_id: str, results: Iterable[ToolResultIn], now: datetime) -> list[ToolResult]:
    """Return the rows to store. Masking takes a while, so call this outside a transaction."""
    return [_make_row(tenant_id, trace_name(trace_id), one, now) for one in results]


def _make_row(tenant_id: int, trace_id: str, one: ToolResultIn, now: datetime) -> ToolResult:
    found = capture(one.result, one.arguments)
    content, evidence = (orjson.dumps(value).decode() for value in (found.content, found.evidence))
    row = ToolResult(
        tenant_id=tenant_id,
        trace_id=trace_id,
        call_id=one.call_id,
        tool=one.tool,
        agent=one.agent,
        at=min(one.at, now),
        grade=Grade.SAID,
        sha256=found.sha256,
        content=content,
        evidence="" if evidence == content else evidence,
        values=orjson.dumps(found.values).decode() if found.values else "",
        is_cut=found.is_cut,
    )
    row.size = sum(len(text.encode()) for text in (row.content, row.evidence, row.values)) + _ROW_BYTES
    return row


def store_all(rows: Iterable[ToolResult], sender: str, grade: Grade) -> None:
    """Store the results of several traces; call inside a transaction."""
    by_trace: dict[str, list[ToolResult]] = {}
    for row in rows:
        by_trace.setdefault(row.trace_id, []).append(row)
    # Every process inserts in the same order, so that two batches cannot deadlock.
    for _, some in sorted(by_trace.items()):
        store(sorted(some, key=attrgetter("call_id")), sender, grade, timezone.now())


def store(rows: Sequence[ToolResult], sender: str, grade: Grade, now: datetime) -> list[Storage]:
    """Store the results of one trace, and return the outcome for each row in order; call inside a transaction.

    The first result of a call stays. Only a result of a better grade replaces the first result, so that a sender cannot
    keep out the result that a collector captures later. Handoffs that were judged without the new evidence are queued
    to be judged again. Under a legal hold, earlier results stay: see `_make_room_beside`.
    """
    if not rows:
        return []
    tenant_id, trace_id = rows[0].tenant_id, rows[0].trace_id
    # Without the lock, two senders of one call could both be told that their result is stored.
    db.take_lock(_LOCKS, crc32(f"{tenant_id} {trace_id}".encode()) - 2**31)
    of_trace = ToolResult.objects.filter(tenant=tenant_id, trace_id=trace_id)
    known = {row.call_id: row for row in of_trace.filter(call_id__in=[row.call_id for row in rows])}
    taken: dict[str, ToolResult] = {}
    replaced: dict[str, ToolResult] = {}
    answers = []
    for row in rows:
        row.sender, row.grade = sender[:200], grade
        before = known.get(row.call_id)
        answers.append(_compare(row, before))
        if answers[-1] in (Storage.STORED, Storage.REPLACED):
            known[row.call_id] = taken[row.call_id] = row
            if before is not None:
                replaced[row.call_id] = before
    if not taken:
        db.await_standby()
        return answers
    is_over = _size_of(of_trace) + _sum(taken) - _sum(replaced) > MOST_OF_A_TRACE
    is_held = (is_over or replaced) and _is_held(tenant_id, trace_id)
    if is_held:
        refused = _make_room_beside(of_trace, taken, replaced, grade)
        answers = [Storage.REFUSED if row.call_id in refused else one for row, one in zip(rows, answers, strict=True)]
    _write(taken, replaced)
    if is_over and not is_held:
        _trim(of_trace)
    if taken and grade.is_evidence:
        _queue_judging(tenant_id, trace_id, min(row.at for row in taken.values()), now)
    return answers


def _compare(row: ToolResult, before: ToolResult | None) -> Storage:
    if before is None:
        return Storage.STORED
    if Grade(row.grade).rank < Grade(before.grade).rank:
        return Storage.REPLACED
    return Storage.KNOWN if row.sha256 == before.sha256 else Storage.CONFLICT


def _write(taken: dict[str, ToolResult], replaced: dict[str, ToolResult]) -> None:
    """Write the rows of `taken`. A row takes the place of the row with the same call id in `replaced`."""
    ToolResult.objects.bulk_create([row for call_id, row in taken.items() if call_id not in replaced])
    for call_id, before in replaced.items():
        taken[call_id].pk = before.pk
        taken[call_id].save(force_update=True)


def _is_held(tenant_id: int, trace_id: str) -> bool:
    """Return whether a legal hold keeps the results of a trace. Until the transaction ends, no hold can be placed."""
    from handoffaudit.handoffs import legal_holds  # noqa: PLC0415 -- its module reads handoffs, which need this module

    return legal_holds.share(Tenant(pk=tenant_id)).covers_trace(trace_id)


def _make_room_beside(
    of_trace: "QuerySet[ToolResult]", taken: dict[str, ToolResult], replaced: dict[str, ToolResult], grade: Grade
) -> set[str]:
    """Rename replaced rows so that they stay. Remove rows that do not fit from `taken`, and return their call ids.

    Results of the grade `said` take no room from evidence. Otherwise, senders could fill a held trace with such
    results.
    """
    size = _size_of(of_trace.filter(grade__in=EVIDENCE) if grade.is_evidence else of_trace)
    refused = set()
    for call_id, row in list(taken.items()):
        if size + row.size > MOST_OF_A_TRACE:
            refused.add(call_id)
            del taken[call_id]
        else:
            size += row.size
            if call_id in replaced:
                before = replaced[call_id]
                name = f"{call_id[:130]} (replaced {before.grade} {row.pk.hex})"
                # The earlier result stays, but is no longer evidence beside the better result.
                of_trace.filter(pk=before.pk).update(call_id=name, grade=Grade.SAID)
    replaced.clear()
    return refused


def _size_of(results: "QuerySet[ToolResult]") -> int:
    return results.aggregate(bytes=Sum("size"))["bytes"] or 0


def _sum(rows: dict[str, ToolResult]) -> int:
    return sum(row.size for row in rows.values())


def _trim(of_trace: "QuerySet[ToolResult]") -> None:
    """Delete the oldest results of a trace that has more than 1 MiB. Results that are no evidence go first."""
    over = _size_of(of_trace) - MOST_OF_A_TRACE
    found = of_trace.values_list("grade", "at", "id", "size")
    gone: list[UUID] = []
    for _, _, pk, size in sorted(found, key=lambda row: (row[0] in EVIDENCE, row[1], row[2])):
        if over <= 0:
            break
        gone.append(pk)
        over -= size
    of_trace.filter(pk__in=gone).delete()


def _queue_judging(tenant_id: int, trace_id: str, earliest: datetime, now: datetime) -> None:
    """Queue the trace if it has handoffs that the evidence reached too late."""
    rows = Handoff.objects.filter(tenant=tenant_id, trace_id=trace_id, id__gte=first_id_at(earliest - _LATE_CLOCK))
    if rows.filter(Q(state__in=_MAY_BE_JUDGED) | Q(pk__in=JudgeLease.select_handoffs())).exists():
        LateResults.objects.bulk_create(
            [LateResults(tenant_id=tenant_id, trace_id=trace_id, since=now, claim_expires_at=now + _PAUSE)],
            update_conflicts=True,
            unique_fields=["tenant", "trace_id"],
            update_fields=["since", "tries"],
        )


@dataclass(slots=True)
class TraceEvidence:
    """The evidence of the traces of some handoffs of one tenant. A few traces at a time are in memory."""

    tenant_id: int
    traces: frozenset[str]
    _loaded: "OrderedDict[str, list[tuple[datetime, tuple[Source, ...]]]]"

    def of(self, handoff: Handoff) -> tuple[Source, ...]:
        """Return the results that the tools of the trace had returned by the time of the handoff, newest first."""
        trace_id = trace_name(handoff.trace_id)
        if trace_id not in self.traces:
            return ()
        if trace_id not in self._loaded:
            while len(self._loaded) >= _TRACES_IN_MEMORY:
                self._loaded.popitem(last=False)
            self._loaded[trace_id] = _load_sources(self.tenant_id, trace_id)
        until = handoff.at + _LATE_CLOCK if handoff.sent_at else handoff.received_at
        return tuple(one for at, some in self._loaded[trace_id] if at <= until for one in some)


def load_evidence(handoffs: Sequence[Handoff]) -> TraceEvidence:
    """Return the evidence of the traces of these handoffs, which must be of one tenant.

    One query finds the traces that have evidence. Traces without evidence cost nothing else.
    """
    names = {trace_name(handoff.trace_id) for handoff in handoffs if handoff.trace_id}
    if not names:
        return TraceEvidence(0, frozenset(), OrderedDict())
    tenant_id = handoffs[0].tenant_id
    among, values = db.among(list(names))
    with connection.cursor() as cursor:
        cursor.execute(_WITH_EVIDENCE.format(among=among), [tenant_id, *values])
        traces = frozenset(trace_id for (trace_id,) in cursor.fetchall())
    return TraceEvidence(tenant_id, traces, OrderedDict())


# Every verdict needs this statement, which the ORM builds more slowly than the database runs it.
_GRADES: Final = ", ".join(f"'{grade.value}'" for grade in sorted(EVIDENCE))
_WITH_EVIDENCE: Final = f"""
    SELECT DISTINCT trace_id FROM "{ToolResult._meta.db_table}"
    WHERE tenant_id = %s AND trace_id {{among}} AND grade IN ({_GRADES})
"""  # noqa: S608, SLF001 -- Django's documented API


def _load_sources(tenant_id: int, trace_id: str) -> list[tuple[datetime, tuple[Source, ...]]]:
    found = ToolResult.objects.filter(tenant=tenant_id, trace_id=trace_id, grade__in=EVIDENCE)
    return [(row.at, sources_of_row(row)) for row in found.order_by("-at", "-id")]


def sources_of_row(row: ToolResult) -> tuple[Source, ...]:
    label = label_of(row.tool, row.call_id)
    values = orjson.loads(row.values) if row.values else ()
    return tuple(sources_of(label, orjson.loads(row.evidence or row.content), values))


def list_results(
    tenant_id: int, trace_id: str, *, after: UUID | None = None, limit: int, only_evidence: bool = False
) -> list[ToolResult]:
    """Return at most `limit` results of a trace in the order of their arrival.

    `after` is the id of a result: with it, return only results that arrived later. With `only_evidence`, return only
    results that are evidence, and without their content.
    """
    if not storable(trace_id):
        return []
    found = ToolResult.objects.filter(tenant=tenant_id, trace_id=trace_name(trace_id))
    if only_evidence:
        found = found.filter(grade__in=EVIDENCE).defer("content", "evidence", "values")
    return list((found.filter(pk__gt=after) if after else found).order_by("id")[:limit])
