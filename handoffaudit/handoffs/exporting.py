"""Lists as files: exactly what a filter shows, in its order, a part at a time, so that any number of rows fits."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.queries import Page
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


Row = Mapping[str, Any]


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


CONTENT_TYPES = {Form.CSV: "text/csv; charset=utf-8", Form.NDJSON: "application/x-ndjson"}


def parts(tenant: Tenant, filters: Filters, form: Form) -> Iterator[bytes]:
    """The file of the list of handoffs, in parts. What arrives meanwhile is newer than its beginning, and is not in
    it."""
    return of_handoffs(lambda cursor: queries.list_handoffs(tenant, filters, cursor=cursor, limit=PART), form)


def of_handoffs(page: Callable[[str], Page], form: Form) -> Iterator[bytes]:
    """The file of a list of handoffs; `page` reads the one that begins at a cursor."""
    return written(COLUMNS, _rows(page), form)


def written(columns: Sequence[str], parts: Iterable[Sequence[Row]], form: Form) -> Iterator[bytes]:
    """A file of rows, a part of it for each part of the rows."""
    if form is Form.CSV:
        yield _csv_lines([columns])
    for rows in parts:
        if rows:
            yield _csv(columns, rows) if form is Form.CSV else _ndjson(columns, rows)


def _rows(page: Callable[[str], Page]) -> Iterator[list[Row]]:
    cursor: str | None = ""
    while cursor is not None:
        found = page(cursor)
        yield [{name: getattr(handoff, name) for name in COLUMNS} for handoff in found.items]
        cursor = found.next


def _ndjson(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
    lines = ({name: _value(row[name]) for name in columns} for row in rows)
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _csv(columns: Sequence[str], rows: Iterable[Row]) -> bytes:
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
