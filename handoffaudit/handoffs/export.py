"""Export of handoffs: lists as CSV or NDJSON files, and stored handoffs as submissions, read in chunks."""

import csv
import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Self
from uuid import UUID
from weakref import WeakSet

import msgspec
import orjson
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db, queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff, HandoffBody, State
from handoffaudit.handoffs.queries import Page
from handoffaudit.handoffs.verdicts import chunk_by_size
from handoffaudit.validation import formats
from handoffaudit.validation.record import Envelope
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
    "sent_at",
)

# Prefixes that spreadsheets interpret as formulas (CSV injection).
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")

ExportRow = Mapping[str, Any]


class Form(StrEnum):
    CSV = "csv"
    NDJSON = "ndjson"


CONTENT_TYPES = {Form.CSV: "text/csv; charset=utf-8", Form.NDJSON: "application/x-ndjson"}


def render_list(tenant: Tenant, filters: Filters, form: Form) -> Iterator[bytes]:
    """Yield the chunks of the file with the matching handoffs, without handoffs that arrive during the export."""
    return render_handoffs(lambda cursor: queries.list_handoffs(tenant, filters, cursor=cursor, limit=PART), form)


def render_handoffs(page: Callable[[str], Page], form: Form) -> Iterator[bytes]:
    """Yield the chunks of the file with a list of handoffs; `page` reads the page that begins at a cursor."""
    return render_rows(COLUMNS, _make_rows(page), form)


def render_rows(columns: Sequence[str], parts: Iterable[Sequence[ExportRow]], form: Form) -> Iterator[bytes]:
    """Yield the chunks of a file of rows: the heading of a CSV file, and a chunk for each group that has rows."""
    if form is Form.CSV:
        yield _csv_lines([columns])
    for rows in parts:
        if rows:
            yield _csv(columns, rows) if form is Form.CSV else _ndjson(columns, rows)


def _make_rows(page: Callable[[str], Page]) -> Iterator[list[ExportRow]]:
    """Yield the rows of each page, without the handoffs that arrive during the export."""
    started = timezone.now()
    cursor: str | None = ""
    while cursor is not None:
        found = page(cursor)
        there = [handoff for handoff in found.items if handoff.received_at <= started]
        yield [{name: getattr(handoff, name) for name in COLUMNS} for handoff in there]
        cursor = found.next


def _ndjson(columns: Sequence[str], rows: Iterable[ExportRow]) -> bytes:
    lines = ({name: _convert_value(row[name]) for name in columns} for row in rows)
    return b"".join(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE) for line in lines)


def _csv(columns: Sequence[str], rows: Iterable[ExportRow]) -> bytes:
    return _csv_lines([_format_cell(_convert_value(row[name])) for name in columns] for row in rows)


def _csv_lines(rows: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    # A JSON text may contain a lone surrogate, which UTF-8 cannot encode.
    return text.getvalue().encode(errors="replace")


def _convert_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return utc_text(value)
    return str(value) if isinstance(value, UUID) else value


def _format_cell(value: Any) -> Any:
    if isinstance(value, list):
        value = " ".join(map(str, value))
    if isinstance(value, bool):
        return "true" if value else "false"
    # A leading quote makes spreadsheets show the cell as text. Some spreadsheets ignore spaces before a formula.
    is_formula = isinstance(value, str) and value.lstrip(" \u00a0").startswith(FORMULA)
    return f"'{value}" if is_formula else value


DECIDED = (State.APPROVED, State.DECLINED)

_PART = 500

# Columns of a handoff, each with a field of the submission beside the document. The field fills the column if the
# document has no value for the column.
_BESIDE_DOCUMENT = {
    "trace_id": "trace_id",
    "parent_handoff_id": "parent_handoff_id",
    "retry_of": "retry_of",
    "step": "step",
    "source_agent_id": "agent",
}

# A line break in a JSON document can only be whitespace between tokens, so replacing it never changes a string.
_LINE_ENDS = bytes.maketrans(b"\r\n", b"  ")


@dataclass(frozen=True, slots=True)
class Line:
    """The submission of a handoff as one line of JSON, without the line end.

    `text` is None if the document is not JSON, or if retention removed the document (`is_removed`).
    """

    handoff: Handoff
    text: bytes | None
    is_removed: bool = False


def lines(tenant: Tenant, filters: Filters, *, reviews: bool = False) -> Iterator[Line]:
    """Yield the matching handoffs as submissions, oldest first, read in chunks.

    With `reviews`, yield only the handoffs that a person decided, each with the decision (`docs/eval.md`).
    """
    rows = queries.filter_matching(tenant, filters).order_by("id")
    if reviews:
        rows = rows.filter(state__in=DECIDED)
    after = UUID(int=0)
    while some := list(rows.filter(id__gt=after)[:_PART]):
        for part in chunk_by_size(some):
            bodies = HandoffBody.objects.in_bulk([handoff.pk for handoff in part])
            for handoff in part:
                body = bodies.get(handoff.pk)
                text = _make_submission(handoff, body, reviews=reviews) if body else None
                yield Line(handoff, text, is_removed=body is None)
        after = some[-1].pk


def _make_submission(handoff: Handoff, body: HandoffBody, *, reviews: bool) -> bytes | None:
    document = bytes(body.original)
    try:
        parsed = msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    # Fields beside the document are part of the content. A field that repeats a value of the document would change the
    # content. Then a server that already has the handoff would refuse to import the changed handoff.
    record = formats.read(parsed, handoff.format or None, Envelope()).record
    fields = {"document": document, "handoff_id": orjson.dumps(handoff.handoff_id)}
    if handoff.format:
        fields["format"] = orjson.dumps(handoff.format)
    for column, field in _BESIDE_DOCUMENT.items():
        value = getattr(handoff, column)
        if value not in ("", None) and value != getattr(record, column, None):
            fields[field] = orjson.dumps(value)
    if handoff.sent_at:
        fields["sent_at"] = orjson.dumps(utc_text(handoff.sent_at))
    if body.reason:
        fields["reason"] = orjson.dumps(body.reason)
    if handoff.adapt:
        fields["adapt"] = b"true"
    fields |= {name: bytes(raw) for name in ("context", "evidence") if (raw := getattr(body, name)) is not None}
    if reviews:
        fields["review"] = orjson.dumps({"decision": handoff.state, "codes": handoff.codes})
    inside = b", ".join(b'"%s": %s' % (name.encode(), value) for name, value in fields.items())
    return b"{%s}" % inside.translate(_LINE_ENDS)


MOST_AT_ONCE: Final = 2
# A reader may take `PATIENCE_SECONDS` plus the time of a transfer at `LEAST_BYTES_PER_SECOND`. This limit applies to
# each part of a file, and to the whole file.
PATIENCE_SECONDS: Final = 20.0
LEAST_BYTES_PER_SECOND: Final = 64 * 1024
# A download that lost its place holds its thread until the reader reads on or disconnects.
MOST_STALLED: Final = 8
# Nobody closes the iterator of a response that was never sent, so the sets must drop their entries by themselves.
_under_way: "WeakSet[Download]" = WeakSet()
_stalled: "WeakSet[Download]" = WeakSet()
_lock = threading.Lock()


class Busy(Exception):
    """The error for a download that would exceed this process's limit of running or of stalled downloads."""

    def __init__(self) -> None:
        super().__init__(f"This server already sends {MOST_AT_ONCE} files of this kind. Try again in a minute.")


class SlowReader(Exception):
    """The error that ends a download whose reader reads too slowly. The file stays incomplete."""


class Download:
    """The bytes of a large file. A download holds one of the `MOST_AT_ONCE` places of this process until its end.

    A download whose reader is too slow loses its place, at the latest when another download needs the place.
    """

    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts = parts
        self._sent = self._last = 0
        # The time that the reader took. The time in which the server made the parts does not count.
        self._taken = 0.0
        self._handed_at = time.monotonic()
        with _lock:
            for slow in [one for one in _under_way if one.is_slow()]:
                _under_way.discard(slow)
                _stalled.add(slow)
            if len(_under_way) >= MOST_AT_ONCE or len(_stalled) >= MOST_STALLED:
                raise Busy
            _under_way.add(self)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        if self.is_slow() or self not in _under_way:
            self.close()
            raise SlowReader(f"The reader took {self._sent:,} bytes in {self._taken + self._waits():.0f} s.")
        try:
            self._taken, self._handed_at = self._taken + self._waits(), float("inf")
            part = next(self._parts)
        except BaseException:
            self.close()
            raise
        db.release_connection()
        self._last = len(part)
        self._sent += self._last
        self._handed_at = time.monotonic()
        return part

    def _waits(self) -> float:
        """Return how long the reader has had the last part, in seconds."""
        return max(0.0, time.monotonic() - self._handed_at)

    def is_slow(self) -> bool:
        def compute_patience(size: int) -> float:
            return PATIENCE_SECONDS + size / LEAST_BYTES_PER_SECOND

        return self._waits() > compute_patience(self._last) or self._taken + self._waits() > compute_patience(
            self._sent
        )

    def close(self) -> None:
        with _lock:
            _under_way.discard(self)
            _stalled.discard(self)
