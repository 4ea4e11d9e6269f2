"""Searching the lines of logs, newest first; a search that has looked at enough says from where to look further."""

import heapq
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from django.db.models import F, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.facets import Facets
from handoffaudit.diagnostics.logs.packing import lines_of, text_of
from handoffaudit.diagnostics.logs.queries import Query
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.handoffs.filters import BadFilter
from handoffaudit.validation.loglines import BadLine, Kind, Line, read_bytes

# Blocks that one search looks into: about 10 MB of log.
MOST_BLOCKS = 80
# Blocks that one search passes over by their facets.
MOST_PASSED = 4_000
# Blocks that hold the same moment. There are as many only where lines have wild times.
MOST_AT_ONCE = 200
MOST_AROUND = 200
_LAST = (1 << 128) - 1


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line where it stands. `at` is its own time, None for a bad one; `text` is what it was read from, with what is
    no text replaced."""

    source: str
    number: int
    line: Line
    text: str
    block: uuid.UUID

    @property
    def at(self) -> datetime | None:
        return None if isinstance(self.line, BadLine) else self.line.at

    @property
    def kind(self) -> Kind:
        return self.line.kind

    @property
    def why(self) -> str:
        """Of a bad line, what is wrong."""
        return self.line.why if isinstance(self.line, BadLine) else ""


@dataclass(frozen=True, slots=True)
class Page:
    """`next` is the cursor that goes on from here, None where nothing is left. A page may be short, or empty, and have
    a next one: then the search has looked at enough, back to `reached`. `crowded`: at some moment there were more
    blocks than one search looks into, and lines may be missing; a narrower source or time finds them."""

    items: list[FoundLine]
    next: str | None = None
    reached: datetime | None = None
    crowded: bool = False


@dataclass(frozen=True, slots=True, order=True)
class _Place:
    """Where a line stands in the order of all: by time, then by block, then within it."""

    at: datetime
    block: int = _LAST
    index: int = _LAST

    def __str__(self) -> str:
        micros = (self.at - _EPOCH) // timedelta(microseconds=1)
        return f"{micros:x}.{self.block:x}.{self.index:x}"

    @classmethod
    def read(cls, cursor: str) -> "_Place":
        try:
            micros, block, index = (int(part, 16) for part in cursor.split("."))
            return cls(_EPOCH + timedelta(microseconds=micros), block, index)
        except (ValueError, OverflowError):
            remedy = "use the value of `next` from the page before, as it was."
            raise BadFilter("cursor", cursor[:40], remedy) from None


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class _Search:
    tenant: Tenant
    query: Query
    start: _Place | None
    limit: int
    found: list[tuple[float, int, int, FoundLine, _Place]] = field(default_factory=list)
    items: list[FoundLine] = field(default_factory=list)
    last: _Place | None = None

    def open(self, block: LogBlock) -> None:
        """Puts its lines that are asked for beside those that are found already."""
        for place, line in _matching(block, self.query):
            if self.start is None or place < self.start:
                heapq.heappush(self.found, (-place.at.timestamp(), -place.block, -place.index, line, place))

    def give(self, later_than: datetime | None) -> bool:
        """Moves lines into the page, those later than that; True where it is full."""
        while self.found and (later_than is None or self.found[0][4].at > later_than):
            if len(self.items) == self.limit:
                return True
            *_, line, self.last = heapq.heappop(self.found)
            self.items.append(line)
        return False

    def beyond(self, minute: datetime | None) -> Page:
        """Of a minute that can't be looked into wholly: what was found, and from where to go on below it."""
        full = self.give(None)
        stopped = None if full or minute is None else minute - timedelta(minutes=1)
        return self.page(stopped, more=True, crowded=True)

    def page(self, stopped: datetime | None, *, more: bool, crowded: bool) -> Page:
        if stopped is not None:
            return Page(self.items, str(_Place(stopped)), stopped, crowded)
        return Page(self.items, str(self.last) if more else None, self.last.at if self.last else None, crowded)


def search(tenant: Tenant, query: Query, cursor: str = "", limit: int = 50) -> Page:
    """Lines of the tenant's logs, newest first. A bad line stands at the time of the line before it, or of the import.
    Looks at no more than some blocks. Raises `BadFilter` for a cursor that is none."""
    start = _Place.read(cursor) if cursor else None
    rows = _in_time(tenant, query)
    made = _Search(tenant, query, start, limit)
    crowded = False
    before = rows.order_by("-last_at", "-id")
    if start:
        begun = list(rows.filter(last_at__gt=start.at, first_at__lte=start.at).order_by("last_at")[: MOST_AT_ONCE + 1])
        crowded = len(begun) > MOST_AT_ONCE
        for block in _may_have(begun[:MOST_AT_ONCE], query):
            made.open(block)
        before = before.filter(last_at__lte=start.at)
    left = MOST_BLOCKS
    newest: datetime | None = None
    for passed, block in enumerate(before[: MOST_PASSED + 1].iterator(chunk_size=200)):
        if made.give(block.last_at):
            return made.page(None, more=True, crowded=crowded)
        newest = newest or block.last_at
        enough = left <= 0 or passed == MOST_PASSED
        # Blocks that end in one minute are looked into together: a cursor can't stand between them.
        if enough and block.last_at != newest:
            return made.page(block.last_at, more=True, crowded=crowded)
        if enough and (left <= -MOST_AT_ONCE or passed == MOST_PASSED):
            return made.beyond(newest)
        if query.may_match(Facets.loaded(block.facets)):
            made.open(block)
            left -= 1
    return made.page(None, more=made.give(None), crowded=crowded)


def _in_time(tenant: Tenant, query: Query) -> "QuerySet[LogBlock]":
    rows = LogBlock.objects.filter(tenant=tenant, removed_at=None).exclude(parsed_at=None).exclude(last_at=None)
    if query.source:
        rows = rows.filter(source=query.source)
    if query.since:
        rows = rows.filter(last_at__gte=query.since)
    if query.until:
        rows = rows.filter(first_at__lt=query.until)
    return rows


def around(
    tenant: Tenant, trace_id: str, agents: Iterable[str], at: datetime, minutes: int = 15, limit: int = MOST_AROUND
) -> Page:
    """The lines of a trace (or run), or of one of the agents, at most so many minutes before or after; newest first."""
    since, until = at - timedelta(minutes=minutes), at + timedelta(minutes=minutes)
    asked = [Query(trace=trace_id, since=since, until=until)] if trace_id else []
    asked += [Query(agent=agent, since=since, until=until) for agent in dict.fromkeys(agents) if agent]
    pages = [search(tenant, query, limit=limit) for query in asked]
    lines = {(line.block, line.number): line for page in pages for line in page.items}
    ordered = sorted(lines.values(), key=lambda line: (line.at or since, line.number), reverse=True)
    cut = len(ordered) > limit or any(page.next for page in pages)
    return Page(ordered[:limit], None, since, crowded=cut)


def bad_lines(imported: LogImport, cursor: str = "", limit: int = 50) -> Page:
    """The lines in no known form that an import was the first to have, in their order. Raises `BadFilter`."""
    found = LogBlock.objects.filter(tenant=imported.tenant_id, imported=imported, bad__gt=0, removed_at=None)
    rows = found.order_by("first_line", "id")
    after = _number(cursor)
    items: list[FoundLine] = []
    ends = F("first_line") + F("lines")
    for block in rows.alias(end=ends).filter(end__gt=after + 1).iterator(chunk_size=50):
        for line in _read(block):
            if line.number <= max(after, block.first_line + block.known - 1) or line.kind is not Kind.BAD:
                continue
            if len(items) == limit:
                return Page(items, str(items[-1].number))
            items.append(line)
    return Page(items)


def imports(tenant: Tenant, cursor: str = "", limit: int = 50) -> tuple[list[LogImport], str | None]:
    """Imports, newest first, and the cursor of those before them. Raises `BadFilter`."""
    rows = LogImport.objects.filter(tenant=tenant).order_by("-id")
    if cursor:
        try:
            rows = rows.filter(id__lt=uuid.UUID(cursor))
        except ValueError:
            remedy = "use the value of `next` from the page before, as it was."
            raise BadFilter("cursor", cursor[:40], remedy) from None
    found = list(rows[: limit + 1])
    return found[:limit], str(found[limit - 1].pk) if len(found) > limit else None


def sources(tenant: Tenant, most: int = 100) -> list[str]:
    """The names of logs, at most so many, in order."""
    return list(
        LogImport.objects.filter(tenant=tenant).values_list("source", flat=True).distinct().order_by("source")[:most]
    )


def _number(cursor: str) -> int:
    if not cursor:
        return 0
    if not cursor.isdecimal() or len(cursor) > 18:
        raise BadFilter("cursor", cursor[:40], "use the value of `next` from the page before, as it was.")
    return int(cursor)


def _may_have(blocks: Iterable[LogBlock], query: Query) -> Iterator[LogBlock]:
    return (block for block in blocks if query.may_match(Facets.loaded(block.facets)))


def _matching(block: LogBlock, query: Query) -> Iterator[tuple[_Place, FoundLine]]:
    """The lines of a block that are asked for, with their places."""
    if block.first_at is None:
        return
    text = _text(block)
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
        said = raw.decode(errors="replace").rstrip("\r")
        if wanted and wanted not in said.casefold():
            continue
        place = _Place(at, block.pk.int, index)
        yield place, FoundLine(block.source, block.first_line + index, line, said, block.pk)


def _read(block: LogBlock) -> Iterator[FoundLine]:
    for index, raw in enumerate(lines_of(_text(block))):
        if raw.strip():
            text = raw.decode(errors="replace").rstrip("\r")
            yield FoundLine(block.source, block.first_line + index, read_bytes(raw), text, block.pk)


def _text(block: LogBlock) -> bytes:
    try:
        return text_of(block.pk)
    except LogText.DoesNotExist:
        # Retention took it since the block was looked up.
        return b""
