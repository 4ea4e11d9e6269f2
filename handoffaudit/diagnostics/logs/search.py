"""Search in log lines, newest first; a search that reaches its limits returns a cursor to continue from."""

import heapq
import io
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from django.db.models import Q, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.filters import Facets, LogQuery
from handoffaudit.diagnostics.models import LogBlock, LogText
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import CURSOR_REMEDY
from handoffaudit.validation.logs.lines import BadLine, Kind, Line
from handoffaudit.validation.logs.reader import read_bytes

# The lines of a page have at most this many bytes. Rendered lines take about twenty times as much memory.
PAGE_BYTES: Final = 1024 * 1024

LAST: Final = (1 << 128) - 1

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A log line and its position. `at` is None for a bad line. `text` replaces bytes that are not UTF-8."""

    source: str
    number: int
    line: Line
    text: str
    block: uuid.UUID

    @classmethod
    def read(cls, block: LogBlock, index: int, raw: bytes) -> "FoundLine":
        """Read the line of a block at that index, counted from 0."""
        text = raw.decode(errors="replace").rstrip("\r")
        return cls(block.source, block.first_line + index, read_bytes(raw), text, block.pk)

    @property
    def at(self) -> datetime | None:
        return None if isinstance(self.line, BadLine) else self.line.at

    @property
    def kind(self) -> Kind:
        return self.line.kind

    @property
    def why(self) -> str:
        """Return the reason why a line is bad, or an empty text for any other line."""
        return self.line.why if isinstance(self.line, BadLine) else ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page of found lines.

    `next` is the cursor of the next page, or None on the last page. A page may be short or even empty and still have a
    next page, if the search has reached its limits. `reached` is the time back to which the search has looked, or None
    if the search has looked at all lines. `crowded` is true if lines may be missing. Either too many blocks contain the
    same moment or take too long to read, or `lines_around` found more lines than its limit. A narrower search finds the
    missing lines.
    """

    items: list[FoundLine]
    next: str | None = None
    reached: datetime | None = None
    crowded: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    """The position of a line: time, block and index. A cursor without an index is above all lines of the block."""

    at: datetime
    block: int = LAST
    index: int = LAST

    def __str__(self) -> str:
        micros = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"{micros:x}.{self.block:x}.{self.index:x}"

    @classmethod
    def read(cls, cursor: str) -> "Cursor":
        """Read a cursor. Raise `FilterError` if it is invalid."""
        try:
            micros, block, index = (int(part, 16) for part in cursor.split("."))
            found = cls(_EPOCH + timedelta(microseconds=micros), block, index)
        except (ValueError, OverflowError):
            found = None
        if found is None or not 0 <= found.block <= LAST:
            raise FilterError("cursor", cursor[:40], CURSOR_REMEDY)
        return found


@dataclass(slots=True)
class Deadline:
    """The time until which a search may open another block."""

    seconds: float
    _end: float = field(init=False)

    def __post_init__(self) -> None:
        self._end = time.monotonic() + self.seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._end


@dataclass(slots=True)
class NewestLines:
    """The newest lines before `start`: at most `limit` lines, and at most `PAGE_BYTES` unless one line is longer.

    `floor` is the newest line that did not fit. Lines at the floor and older lines are dropped.
    """

    limit: int
    start: Cursor | None = None
    floor: Cursor | None = None
    _held: list[tuple[Cursor, bytes, LogBlock]] = field(default_factory=list)
    _size: int = 0

    def add(self, place: Cursor, raw: bytes, block: LogBlock) -> None:
        """Keep a line if it is among the newest."""
        if (self.start and place >= self.start) or (self.floor and place <= self.floor):
            return
        heapq.heappush(self._held, (place, raw, block))
        self._size += len(raw)
        while len(self._held) > self.limit or (self._size > PAGE_BYTES and len(self._held) > 1):
            self.floor, dropped, _ = heapq.heappop(self._held)
            self._size -= len(dropped)

    def is_complete_above(self, frontier: Cursor) -> bool:
        """Return whether the page is full of lines above the frontier. Older lines then no longer matter."""
        return self.floor is not None and self.floor > frontier

    def page_above(self, frontier: Cursor, *, crowded: bool) -> Page:
        """Return the page of a search that stopped at the frontier, with the lines above the frontier."""
        return Page(self._read(frontier), str(frontier), frontier.at, crowded)

    def page(self, *, crowded: bool) -> Page:
        """Return a page with all collected lines."""
        items = self._read(None)
        last = min(self._held, default=None) if self.floor else None
        return Page(items, str(last[0]) if last else None, last[0].at if last else None, crowded)

    def _read(self, above: Cursor | None) -> list[FoundLine]:
        chosen = sorted((one for one in self._held if above is None or one[0] > above), reverse=True)
        return [FoundLine.read(block, place.index, raw) for place, raw, block in chosen]


# A search stops after this time, and returns a cursor to continue from.
SEARCH_SECONDS: Final = 2.0

# A search opens at most this many blocks, which are about 10 MB of log, unless more blocks end at the same moment.
MOST_BLOCKS = 80

# A search skips at most this many blocks by their facets.
MOST_PASSED = 4_000

# A search opens at most this many blocks around its cursor, and at most this many blocks beyond `MOST_BLOCKS` that end
# at the same moment. Only a log with erratic times has more.
MOST_AT_ONCE = 200

# The longest time for the blocks around the cursor. A line is known to be the newest only after all blocks that contain
# its time were opened.
AT_ONCE_SECONDS = 3 * SEARCH_SECONDS

MOST_AROUND = 200

# At most this many rows of blocks are in memory at once, because their facets may have hundreds of kilobytes.
ROWS = 20


def search_lines(tenant: Tenant, query: LogQuery, cursor: str = "", limit: int = 50) -> Page:
    """Return matching lines of the tenant's logs, newest first.

    A bad line has the time of the line before it. At the beginning of a block, a bad line has `first_at` of the block,
    the beginning of a minute. If no line of the block has a time, its lines have the time of the import. The search
    opens one block at a time, newest first, and holds only the lines of the page in memory. The search stops when the
    page is full, or when it reaches its limits of blocks and seconds. The page then has a cursor to continue from.
    Raise `FilterError` for an invalid cursor.
    """
    start = Cursor.read(cursor) if cursor else None
    rows = _filter_by_time(tenant, query)
    newest = NewestLines(limit, start)
    deadline, crowded = Deadline(SEARCH_SECONDS), False
    if start:
        crowded = _open_spanning(rows, start, query, newest)
        rows = rows.filter(Q(last_at__lt=start.at) | Q(last_at=start.at, id__lte=uuid.UUID(int=start.block)))
    left, first = MOST_BLOCKS, None
    for passed, block in enumerate(rows.order_by("-last_at", "-id")[: MOST_PASSED + 1].iterator(chunk_size=ROWS)):
        # No line of this block, or of a block after it, is above this position.
        frontier = Cursor(_end_of(block), block.pk.int)
        if newest.is_complete_above(frontier):
            return newest.page(crowded=crowded)
        first = first or block.last_at
        # Blocks that end at the same moment are opened in one search, because the next search would open them again.
        together = block.last_at == first and block.first_at != first and left > -MOST_AT_ONCE
        if passed == MOST_PASSED or (left <= 0 and not together) or (left < MOST_BLOCKS and deadline.is_over):
            return newest.page_above(frontier, crowded=crowded)
        if query.may_match(Facets.load(block.facets)):
            _add_matches(block, query, newest)
            left -= 1
    return newest.page(crowded=crowded)


def _end_of(block: LogBlock) -> datetime:
    """Return the time that no line of the block exceeds. Raise `ValueError` for a block without times."""
    if block.last_at is None:
        raise ValueError(f"the block {block.pk} has no times")
    return block.last_at


def _open_spanning(rows: "QuerySet[LogBlock]", start: Cursor, query: LogQuery, newest: NewestLines) -> bool:
    """Open the blocks that have lines on both sides of the cursor. Return True if some were left out."""
    place = uuid.UUID(int=start.block)
    begun = rows.filter(Q(last_at__gt=start.at) | Q(last_at=start.at, id__gt=place), first_at__lte=start.at)
    # If a block begins at the moment of the cursor and has a higher id than the cursor's block, all its lines were
    # shown before.
    begun = begun.exclude(first_at=start.at, id__gt=place).order_by("last_at")
    deadline = Deadline(AT_ONCE_SECONDS)
    for number, block in enumerate(begun[: MOST_AT_ONCE + 1].iterator(chunk_size=ROWS)):
        if number == MOST_AT_ONCE or deadline.is_over:
            return True
        if query.may_match(Facets.load(block.facets)):
            _add_matches(block, query, newest)
    return False


def _add_matches(block: LogBlock, query: LogQuery, newest: NewestLines) -> None:
    """Add the matching lines of a block to the newest lines."""
    for place, raw in match_lines(block, query):
        newest.add(place, raw, block)


def _filter_by_time(tenant: Tenant, query: LogQuery) -> "QuerySet[LogBlock]":
    rows = LogBlock.objects.filter(tenant=tenant, removed_at=None).exclude(parsed_at=None).exclude(last_at=None)
    if query.source:
        rows = rows.filter(source=query.source)
    if query.since:
        rows = rows.filter(last_at__gte=query.since)
    if query.until:
        rows = rows.filter(first_at__lt=query.until)
    return rows


def lines_around(
    tenant: Tenant, trace_id: str, agents: Iterable[str], at: datetime, minutes: int = 15, limit: int = MOST_AROUND
) -> Page:
    """Return lines of a trace (or run) or of the agents, at most `minutes` before or after `at`, newest first."""
    since, until = at - timedelta(minutes=minutes), at + timedelta(minutes=minutes)
    queries = [LogQuery(trace=trace_id, since=since, until=until)] if trace_id else []
    queries += [LogQuery(agent=agent, since=since, until=until) for agent in dict.fromkeys(agents) if agent]
    pages = [search_lines(tenant, query, limit=limit) for query in queries]
    lines = {(line.block, line.number): line for page in pages for line in page.items}
    ordered = sorted(lines.values(), key=lambda line: (line.at or since, line.number), reverse=True)
    cut = len(ordered) > limit or any(page.next for page in pages)
    return Page(ordered[:limit], None, since, crowded=cut)


def read_lines(tenant: Tenant, places: Sequence[tuple[uuid.UUID, int]]) -> list[FoundLine]:
    """Return the lines at these places, each a block and a line number, in the order of the places.

    Places without a line of the tenant are left out.
    """
    wanted: defaultdict[uuid.UUID, set[int]] = defaultdict(set)
    for block_id, number in places:
        wanted[block_id].add(number)
    found = {}
    rows = LogBlock.objects.filter(tenant=tenant, pk__in=list(wanted), removed_at=None).only("source", "first_line")
    for block in rows:
        for index, raw in enumerate(lines_of(read_text(block))):
            if block.first_line + index in wanted[block.pk]:
                found[block.pk, block.first_line + index] = FoundLine.read(block, index, raw)
    return [found[place] for place in places if place in found]


def match_lines(block: LogBlock, query: LogQuery) -> Iterator[tuple[Cursor, bytes]]:
    """Yield the matching lines of a block with their positions."""
    if block.first_at is None:
        return
    text = read_text(block)
    if not query.may_stand_in(text):
        return
    at = block.first_at
    wanted = query.text.casefold()
    for index, raw in enumerate(lines_of(text)):
        if not raw.strip():
            continue
        line = read_bytes(raw)
        at = at if isinstance(line, BadLine) else line.at
        if (query.since and at < query.since) or (query.until and at >= query.until) or not query.matches(line):
            continue
        if wanted and wanted not in raw.decode(errors="replace").casefold():
            continue
        yield Cursor(at, block.pk.int, index), raw


def lines_of(text: bytes) -> Iterator[bytes]:
    """Return an iterator over the lines of a block's text, without line ends.

    A list of short lines would take twenty times the memory of the text.
    """
    return (line.removesuffix(b"\n") for line in io.BytesIO(text))


def read_text(block: LogBlock) -> bytes:
    """Return the text of a block, which is empty if it was removed."""
    try:
        return block.load_text()
    except LogText.DoesNotExist:
        # Retention has removed the text since the row of the block was read.
        return b""
