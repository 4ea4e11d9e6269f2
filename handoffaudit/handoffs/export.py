"""Export of handoffs: lists as CSV or NDJSON files, and stored handoffs as submissions again, a part at a time."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import msgspec
import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.queries import Page
from handoffaudit.handoffs.verdicts import chunk_by_size
from handoffaudit.validation.times import utc_text

PART = 1000

COLUMNS = (
    "id",
    "handoff_id",
    "received_at",
    "judged_at",
    "state",
    "source_agent_id",
    "target_agent_id",
    "handoff_type",
    "trace_id",
    "step",
    "attempt",
    "format",
    "size_bytes",
    "score",
    "token_count",
    "codes",
    "would_decide",
    "unverified",
    "flagged",
    "open",
    "parked",
    "review_due_at",
)

# A table calculator takes what begins so for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

ExportRow = Mapping[str, Any]


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


CONTENT_TYPES = {Form.CSV: "text/csv; charset=utf-8", Form.NDJSON: "application/x-ndjson"}


def render_list(tenant: Tenant, filters: Filters, form: Form) -> Iterator[bytes]:
    """The file of the list of handoffs, in parts. What arrives meanwhile is newer than its beginning, and is not in
    it."""
    return render_handoffs(lambda cursor: queries.list_handoffs(tenant, filters, cursor=cursor, limit=PART), form)


def render_handoffs(page: Callable[[str], Page], form: Form) -> Iterator[bytes]:
    """The file of a list of handoffs; `page` reads the one that begins at a cursor."""
    return render_rows(COLUMNS, _rows(page), form)


def render_rows(columns: Sequence[str], parts: Iterable[Sequence[ExportRow]], form: Form) -> Iterator[bytes]:
    """A file of rows, a part of it for each part of the rows."""
    if form is Form.CSV:
        yield _csv_lines([columns])
    for rows in parts:
        if rows:
            yield _csv(columns, rows) if form is Form.CSV else _ndjson(columns, rows)


def _rows(page: Callable[[str], Page]) -> Iterator[list[ExportRow]]:
    cursor: str | None = ""
    while cursor is not None:
        found = page(cursor)
        yield [{name: getattr(handoff, name) for name in COLUMNS} for handoff in found.items]
        cursor = found.next


def _ndjson(columns: Sequence[str], rows: Iterable[ExportRow]) -> bytes:
    lines = ({name: _value(row[name]) for name in columns} for row in rows)
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _csv(columns: Sequence[str], rows: Iterable[ExportRow]) -> bytes:
    return _csv_lines([_cell(_value(row[name])) for name in columns] for row in rows)


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    # What a sender wrote may hold half a character of JSON's.
    return text.getvalue().encode(errors="replace")


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc_text(value)
    return str(value) if isinstance(value, UUID) else value


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    # A quote before it shows as text, and is what table calculators themselves write. Some skip what is blank before.
    is_formula = isinstance(value, str) and value.lstrip(" \u00a0").startswith(FORMULA)
    return f"'{value}" if is_formula else value


DECIDED = (State.APPROVED, State.DECLINED)

_PART = 500

_TEXTS = ("format", "handoff_id", "trace_id", "parent_handoff_id", "retry_of")

# Only spaces may stand between the parts of a JSON document, so these never belong to a text in it.
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True, slots=True)
class Line:
    """`text`: the submission as one line of JSON, without its end; None where what was sent is no JSON, or
    `is_removed` by retention."""

    handoff: Handoff
    text: bytes | None
    is_removed: bool = False


def lines(tenant: Tenant, filters: Filters, *, reviews: bool = False) -> Iterator[Line]:
    """Those that match, the oldest first, read a few at a time; with `reviews`, those that a person decided, and what
    was decided beside each (`docs/eval.md`)."""
    rows = queries.matching(tenant, filters).order_by("id")
    if reviews:
        rows = rows.filter(state__in=DECIDED)
    after = UUID(int=0)
    while some := list(rows.filter(id__gt=after)[:_PART]):
        for part in chunk_by_size(some):
            bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in part])
            for handoff in part:
                body = bodies.get(handoff.pk)
                text = _submission(handoff, body, reviews=reviews) if body else None
                yield Line(handoff, text, is_removed=body is None)
        after = some[-1].pk


def _submission(handoff: Handoff, body: HandoffBody, *, reviews: bool) -> bytes | None:
    document = bytes(body.original)
    if not _is_json(document):
        return None
    fields = {"document": document}
    fields |= {name: orjson.dumps(value) for name in _TEXTS if (value := getattr(handoff, name))}
    if handoff.step is not None:
        fields["step"] = orjson.dumps(handoff.step)
    if handoff.source_agent_id:
        fields["agent"] = orjson.dumps(handoff.source_agent_id)
    if handoff.adapt:
        fields["adapt"] = b"true"
    fields |= {name: bytes(raw) for name in ("context", "evidence") if (raw := getattr(body, name)) is not None}
    if reviews:
        fields["review"] = orjson.dumps({"decision": handoff.state, "codes": handoff.codes})
    inside = b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in fields.items())
    return b"{%s}" % inside.translate(_LINE_ENDS)


def _is_json(document: bytes) -> bool:
    try:
        msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True
