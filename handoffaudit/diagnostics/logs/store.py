"""Storage of logs, and their imports.

Each block is stored once, even if it is sent again (`docs/decisions/0029-log-blocks.md`). Each batch of blocks is
committed before the next bytes are read. A block is known if an earlier import of the same source had it. A block that
continues the last block of an earlier import extends that block.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.compression import compress
from handoffaudit.diagnostics.file_stats import HealthDeltas, LogDeltas
from handoffaudit.diagnostics.logs import index
from handoffaudit.diagnostics.logs.filters import IMPORT_ORDERS, Facets, LogQuery
from handoffaudit.diagnostics.logs.search import (
    PAGE_BYTES,
    ROWS,
    SEARCH_SECONDS,
    Deadline,
    FoundLine,
    Page,
    lines_of,
    match_lines,
    read_text,
)
from handoffaudit.diagnostics.logs.write_plan import Piece, Write, digest_of, plan_writes
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.filter_fields import FilterError, Order
from handoffaudit.handoffs.db import write_turn
from handoffaudit.handoffs.filters import CURSOR_REMEDY, NEWEST
from handoffaudit.validation.logs.blocks import Block, cut_blocks
from handoffaudit.validation.logs.lines import BadLine
from handoffaudit.validation.logs.reader import read_bytes
from handoffaudit.validation.logs.sums import Counts
from handoffaudit.validation.logs.tally import tally
from handoffaudit.validation.text import clean

# One transaction stores at most this many blocks and about this many bytes.
BATCH_BLOCKS = 64

BATCH_BYTES = 4 * 1024 * 1024

LONGEST_SOURCE = 200

# A batch is tried this many times, because another import may store the same block between the look-up and the write.
_TRIES = 20

Note = Callable[[list[str], int], None]


class _Moved(Exception):
    """The error for a batch with a block that another process has stored or changed since the look-up."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A write with its rows: `row` is the row to store, `tail` the row to extend, in the state that was read."""

    write: Write
    row: LogBlock
    tail: LogBlock | None


def store_log(
    tenant: Tenant,
    source: str,
    sent_by: str,
    stream: Iterable[bytes],
    *,
    first_line: int = 1,
    read_here: bool = False,
    on_progress: Callable[[LogImport], None] | None = None,
) -> LogImport:
    """Store the new lines of a log in bounded memory. A worker indexes them or, with `read_here`, this function.

    `stream` yields the bytes in pieces of any size. `first_line` is the number of the first line of the stream, for a
    log that comes in parts. `on_progress` is called with the import after each batch.

    If the stream breaks off or the process ends, the stored lines stay. When the same log is sent again, the new import
    adds only the missing lines. An exception of the stream is recorded as the import's error and raised again.
    """
    taking = LogWriter(begin_import(tenant, source, sent_by), read_here=read_here)
    try:
        with ThreadPoolExecutor(2, thread_name_prefix="log-blocks") as pool:
            for part in _batch_blocks(cut_blocks(taking.watch(stream), first_line)):
                taking.add(part, pool)
                if on_progress:
                    on_progress(taking.refresh())
    except BaseException as error:
        taking.break_off(str(error) or "it was stopped.")
        raise
    taking.end()
    return taking.refresh()


def begin_import(tenant: Tenant, source: str, sent_by: str) -> LogImport:
    """Create the row of an import before its bytes arrive."""
    return LogImport.objects.create(
        tenant=tenant, source=clean(source, LONGEST_SOURCE), sent_by=clean(sent_by), started_at=timezone.now()
    )


def broken_message(why: str) -> str:
    """Return the error message of an import whose bytes stopped coming."""
    return clean(f"The import broke off: {why}", 500)


ABANDONED_ERROR: Final = broken_message("the process that received it ended. The lines that arrived are stored.")


def _batch_blocks(found: Iterator[Block]) -> Iterator[list[Block]]:
    """Yield blocks in batches. The blocks before an error of the stream are the last batch."""
    part: list[Block] = []
    size = 0
    broken: Exception | None = None
    while True:
        try:
            block = next(found, None)
        except Exception as error:  # noqa: BLE001 -- raised again below
            block, broken = None, error
        if block is not None:
            part.append(block)
            size += len(block.text)
        if part and (block is None or len(part) == BATCH_BLOCKS or size >= BATCH_BYTES):
            yield part
            part, size = [], 0
        if block is None:
            break
    if broken:
        raise broken


class LogWriter:
    """A writer of the blocks of an import.

    If the import already has blocks, `occurrences` counts them by digest, and `shift` is their `Plan.shift`.
    """

    def __init__(
        self, row: LogImport, *, read_here: bool = False, occurrences: Counter[str] | None = None, shift: int = 0
    ) -> None:
        self._row = row
        self._read_here = read_here
        self._size = row.size
        self._occurrences: Counter[str] = occurrences or Counter()
        self._shift = shift
        self._begins = not self._occurrences

    def watch(self, stream: Iterable[bytes]) -> Iterator[bytes]:
        for piece in stream:
            self._size += len(piece)
            yield piece

    def refresh(self) -> LogImport:
        self._row.refresh_from_db()
        return self._row

    def add(self, part: list[Block], pool: ThreadPoolExecutor, note: Note | None = None) -> None:
        """Store blocks in one transaction. Inside it, call `note` with the digests of the blocks and the new shift."""
        digests = pool.map(digest_of, [block.text for block in part])
        pieces = [self._make_piece(block, digest) for block, digest in zip(part, digests, strict=True)]
        self._store(pieces, pool, note)

    def end(self) -> None:
        # A clean-up may have recorded this import as abandoned, although its process was still running.
        error = Case(When(error=ABANDONED_ERROR, then=Value("")), default=F("error"))
        LogImport.objects.filter(pk=self._row.pk).update(size=self._size, received_at=timezone.now(), error=error)
        index.finish(self._row.pk)

    def break_off(self, why: str) -> None:
        LogImport.objects.filter(pk=self._row.pk).update(size=self._size, error=broken_message(why))

    def _make_piece(self, block: Block, digest: str) -> Piece:
        self._occurrences[digest] += 1
        return Piece(block, digest, self._occurrences[digest] - 1)

    def _store(self, pieces: list[Piece], pool: ThreadPoolExecutor, note: Note | None) -> None:
        for last in (False,) * (_TRIES - 1) + (True,):
            try:
                self._store_once(pieces, pool, note)
            except (IntegrityError, _Moved):
                if last:
                    raise
            else:
                return

    def _store_once(self, pieces: list[Piece], pool: ThreadPoolExecutor, note: Note | None) -> None:
        planned = plan_writes(self._row, pieces, self._shift, begins=self._begins)
        packing = pool.map(compress, [write.text for write in planned.writes])
        made = [self._prepare_row(write) for write in planned.writes]
        # The blocks are read before the transaction, because the transaction must be short. Meanwhile, other threads
        # compress the texts.
        reports = self._read_here and index.has_reports(self._row.tenant_id)
        counts = Counts()
        reads = [index.read_block(one.row, one.write.text, counts, reports=reports) for one in made if self._read_here]
        for read in reads:
            index.mark(read)
        texts = list(packing)
        with write_turn(), transaction.atomic():
            ours = self._insert([one.row for one in made if one.tail is None])
            for one in made:
                if one.tail is not None:
                    self._put_in_place(one)
                    ours.add(one.row.pk)
            LogText.objects.bulk_create(
                [
                    LogText(block=one.row, packed=text)
                    for one, text in zip(made, texts, strict=True)
                    if one.row.pk in ours
                ],
                update_conflicts=True,
                unique_fields=["block"],
                update_fields=["packed"],
            )
            lines = sum(piece.block.lines for piece in pieces)
            new = sum(one.row.lines - one.row.known for one in made if one.row.pk in ours)
            LogImport.objects.filter(pk=self._row.pk).update(
                size=self._size, lines=F("lines") + lines, known=F("known") + max(0, lines - new)
            )
            if reads and len(ours) < len(made):
                # The counts cover the whole batch, so a batch that is stored only in part is tried again.
                raise _Moved
            index.count_blocks(reads)
            if ours and not self._read_here:
                index.wake()
            if note:
                note([piece.digest for piece in pieces], planned.shift)
        self._shift = planned.shift
        self._begins = False
        for pk in {one.tail.imported_id for one in made if one.tail is not None}:
            index.finish(pk)

    def _prepare_row(self, write: Write) -> _Made:
        """Return the row to store for a write, without storing anything."""
        row = copy(write.tail) if write.tail else LogBlock(occurrence=write.piece.occurrence)
        if write.tail:
            known = write.text[: write.kept]
            row.known = known.count(b"\n")
            if write.kept == write.begun:
                row.occurrence = write.piece.occurrence
            # If the last known line had no line end, it is longer now, so it is counted again. The lines of a parked
            # block are not counted yet.
            row.counted = min(row.counted, known.rfind(b"\n") + 1)
        row.tenant_id, row.imported, row.source = self._row.tenant_id, self._row, self._row.source
        row.digest = digest_of(write.text) if write.tail else write.piece.digest
        row.first_line, row.lines = write.first_line, write.text.removesuffix(b"\n").count(b"\n") + 1
        row.size, row.tail = len(write.text), not write.piece.block.ended
        row.parsed_at, row.tries = None, 0
        row.claim = row.claim_expires_at = None
        return _Made(write, row, write.tail)

    def _insert(self, rows: list[LogBlock]) -> set[uuid.UUID]:
        """Insert the rows that no other import has stored meanwhile; return the ids of the inserted rows."""
        LogBlock.objects.bulk_create(rows, ignore_conflicts=True)
        return set(LogBlock.objects.filter(pk__in=[row.pk for row in rows]).values_list("pk", flat=True))

    def _put_in_place(self, made: _Made) -> None:
        """Replace the tail by the longer block. If the tail ended inside a line, subtract that line from the counts."""
        tail = made.tail
        if tail is None:
            return
        still = LogBlock.objects.select_for_update().filter(
            pk=tail.pk, digest=tail.digest, counted=tail.counted, parsed_at=tail.parsed_at, removed_at=None
        )
        if not still.exists():
            raise _Moved
        made.row.save(force_update=True)
        if tail.counted == tail.size:
            known = made.write.text[: made.write.kept]
            self._take_back(tail, known[known.rfind(b"\n") + 1 :])

    def _take_back(self, tail: LogBlock, unended: bytes) -> None:
        if not unended:
            return
        counted = tally(unended)
        index.leave_out_reported(tail.tenant_id, counted, unended)
        health: HealthDeltas = Counter()
        lines: LogDeltas = Counter()
        index.add_counts(health, lines, [counted], tail.imported.started_at, sign=-1)
        index.count(tail.tenant_id, health, lines)


# `count_new` reads only this many of the newest imports, so its result may be too small.
MOST_NEW_IMPORTS = 20

MOST_NEW_BLOCKS = 20


def list_imports(
    tenant: Tenant, order: Order = IMPORT_ORDERS[NEWEST], cursor: str = "", limit: int = 50
) -> tuple[list[LogImport], str | None]:
    """Return a page of imports and the cursor of the next page. Raise `FilterError` for an invalid cursor."""
    rows = LogImport.objects.filter(tenant=tenant).order_by(*order.columns)
    found = list((rows.filter(_is_after(order, cursor)) if cursor else rows)[: limit + 1])
    if len(found) <= limit:
        return found, None
    last, column = found[limit - 1], order.columns[0].removeprefix("-")
    return found[:limit], str(last.pk) if column == "id" else f"{last.pk}.{getattr(last, column)}"


def _is_after(order: Order, cursor: str) -> Q:
    """Return the condition for imports after a cursor: an id or, in an order by another column, an id and a value."""
    column, side = order.columns[0].removeprefix("-"), "lt" if order.is_descending else "gt"
    pk, point, text = cursor.partition(".")
    # Without the second value, the text would be empty, and every import would come after the cursor.
    if bool(point) == (column == "id"):
        raise FilterError("cursor", cursor[:40], CURSOR_REMEDY)
    try:
        after = Q((f"id__{side}", uuid.UUID(pk)))
        if column == "id":
            return after
        value = clean(text, LONGEST_SOURCE) if column == "source" else int(text[:18])
    except ValueError:
        raise FilterError("cursor", cursor[:40], CURSOR_REMEDY) from None
    # The first condition lets the database read a range of the index.
    return Q((f"{column}__{side}e", value)) & (Q((f"{column}__{side}", value)) | after)


def list_bad_lines(imported: LogImport, cursor: str = "", limit: int = 50) -> Page:
    """Return the bad lines of an import in their order, without lines that an earlier import already had.

    If the lines are long, or if the search takes long, a page can have fewer than `limit` lines and still have a next
    page. Raise `FilterError` for an invalid cursor.
    """
    found = LogBlock.objects.filter(tenant=imported.tenant_id, imported=imported, bad__gt=0, removed_at=None)
    rows = found.order_by("first_line", "id")
    after = _read_line_number(cursor)
    items: list[FoundLine] = []
    size = 0
    deadline = Deadline(SEARCH_SECONDS)
    ends = F("first_line") + F("lines")
    for block in rows.alias(end=ends).filter(end__gt=after + 1).iterator(chunk_size=ROWS):
        if deadline.is_over:
            return Page(items, str(max(after, block.first_line - 1)))
        for place, raw in enumerate(lines_of(read_text(block))):
            # Earlier pages had the lines up to `after`, and an earlier import the lines before `known`.
            if place < block.known or block.first_line + place <= after:
                continue
            if not raw.strip() or not isinstance(read_bytes(raw), BadLine):
                continue
            if len(items) == limit or (items and size + len(raw) > PAGE_BYTES):
                return Page(items, str(items[-1].number))
            items.append(FoundLine.read(block, place, raw))
            size += len(raw)
    return Page(items)


def _read_line_number(cursor: str) -> int:
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > 18:
        raise FilterError("cursor", cursor[:40], CURSOR_REMEDY)
    return int(cursor)


def count_new(tenant: Tenant, query: LogQuery, after: datetime, most: int) -> int:
    """Return the number of matching lines in imports that ended after `after`, at most `most`.

    If no import ended, the function makes only one query. The function opens at most `MOST_NEW_BLOCKS` blocks and stops
    after `SEARCH_SECONDS`, so the number may be too small.
    """
    newest = LogImport.objects.filter(tenant=tenant).order_by("-id").values_list("pk", "finished_at")[:MOST_NEW_IMPORTS]
    ended = [pk for pk, finished_at in newest if finished_at and finished_at > after]
    if not ended:
        return 0
    blocks = LogBlock.objects.filter(tenant=tenant, imported__in=ended, parsed_at__gt=after, removed_at=None)
    blocks = blocks.order_by("-last_at")
    if query.source:
        blocks = blocks.filter(source=query.source)
    if query.since:
        blocks = blocks.filter(last_at__gte=query.since)
    number = looked = 0
    deadline = Deadline(SEARCH_SECONDS)
    for block in blocks.iterator(chunk_size=ROWS):
        if number >= most or looked == MOST_NEW_BLOCKS or (looked and deadline.is_over):
            break
        if query.may_match(Facets.load(block.facets)):
            looked += 1
            # An earlier import already had the lines before `known`.
            number += sum(place.index >= block.known for place, _ in match_lines(block, query))
    return min(number, most)
