"""Handoffs as a file: exactly what a filter shows, newest first, a part at a time, so that any number of them fits."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from enum import StrEnum
from typing import Any

import orjson

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
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


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


CONTENT_TYPES = {Form.CSV: "text/csv; charset=utf-8", Form.NDJSON: "application/x-ndjson"}


def parts(tenant: Tenant, filters: Filters, form: Form) -> Iterator[bytes]:
    """The file, in parts. What arrives meanwhile is newer than its beginning, and is not in it."""
    write = _csv if form is Form.CSV else _ndjson
    if form is Form.CSV:
        yield _csv_lines([COLUMNS])
    cursor: str | None = ""
    while cursor is not None:
        page = queries.list_handoffs(tenant, filters, cursor=cursor, limit=PART)
        if page.items:
            yield write(page.items)
        cursor = page.next


def count(tenant: Tenant, filters: Filters, most: int) -> int:
    """How many the file will hold, counted up to `most`."""
    return queries.count(tenant, filters, most)


def _ndjson(handoffs: list[Handoff]) -> bytes:
    lines = ({name: _value(handoff, name) for name in COLUMNS} for handoff in handoffs)
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _csv(handoffs: list[Handoff]) -> bytes:
    return _csv_lines([_cell(_value(handoff, name)) for name in COLUMNS] for handoff in handoffs)


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    # What a sender wrote may hold half a character of JSON's.
    return text.getvalue().encode(errors="replace")


def _value(handoff: Handoff, name: str) -> Any:
    value = getattr(handoff, name)
    if isinstance(value, datetime):
        return utc_text(value)
    return str(value) if name == "id" else value


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    # A quote before it shows as text, and is what table calculators themselves write.
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
