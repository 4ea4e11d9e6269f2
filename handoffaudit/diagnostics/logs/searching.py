"""Search the lines of logs, newest first; a search that has looked at enough says from where to look further."""

import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from django.db.models import F, Q, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.facets import Facets
from handoffaudit.diagnostics.logs.packing import lines_of, text_of
from handoffaudit.diagnostics.logs.page import PAGE_BYTES, SEARCH_SECONDS, Deadline, FoundLine, Newest, Page, Place
from handoffaudit.diagnostics.logs.queries import Query
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.handoffs.filters import FilterError
from handoffaudit.validation.loglines import BadLine, read_bytes

# Blocks that one search looks into: about 10 MB of log.
MOST_BLOCKS = 80
# Blocks that one search passes over by their facets.
MOST_PASSED = 4_000
# Blocks that hold the same moment. There are as many only where lines have wild times.
MOST_AT_ONCE = 200
# All of these have to be looked into before a line is known to be the newest.
AT_ONCE_SECONDS = 3 * SEARCH_SECONDS
MOST_AROUND = 200
# Rows of blocks that are in memory at once: their facets may have some hundred kilobytes.
_ROWS = 20


def search(tenant: Tenant, query: Query, cursor: str = "", limit: int = 50) -> Page:
    """Return lines of the tenant's logs, newest first; a bad line stands at the time of the line before it, or of the
    import.

    Open blocks one at a time, newest first, and keep no more than the lines of the page. Stop where the page is full,
    or after so many blocks or seconds; the page then says from where to go on. Raise `BadFilter` for a wrong cursor.
    """
    start = Place.read(cursor) if cursor else None
    rows = _in_time(tenant, query)
    newest = Newest(limit, start)
    deadline, crowded = Deadline(SEARCH_SECONDS), False
    if start:
        crowded = _open_spanning(rows, start, query, newest)
        rows = rows.filter(Q(last_at__lt=start.at) | Q(last_at=start.at, id__lte=uuid.UUID(int=start.block)))
    left, first = MOST_BLOCKS, None
    for passed, block in enumerate(rows.order_by("-last_at", "-id")[: MOST_PASSED + 1].iterator(chunk_size=_ROWS)):
        # No line of this block, or of one after it, stands above this.
        frontier = Place(_end_of(block), block.pk.int)
        if newest.is_complete_above(frontier):
            return newest.page(crowded=crowded)
        first = first or block.last_at
        # Blocks that end in one minute are looked into together: a cursor between them would open them again.
        together = block.last_at == first and block.first_at != first and left > -MOST_AT_ONCE
        if passed == MOST_PASSED or (left <= 0 and not together) or (left < MOST_BLOCKS and deadline.is_over):
            return newest.page_above(frontier, crowded=crowded)
        if query.may_match(Facets.loaded(block.facets)):
            _open(block, query, newest)
            left -= 1
    return newest.page(crowded=crowded)


def _end_of(block: LogBlock) -> datetime:
    """Return the time that none of its lines is after; only blocks that have one are searched."""
    if block.last_at is None:
        raise ValueError(f"the block {block.pk} has no times")
    return block.last_at


def _open_spanning(rows: "QuerySet[LogBlock]", start: Place, query: Query, newest: Newest) -> bool:
    """Open the blocks that have lines on both sides of the cursor; True where these were too many."""
    place = uuid.UUID(int=start.block)
    begun = rows.filter(Q(last_at__gt=start.at) | Q(last_at=start.at, id__gt=place), first_at__lte=start.at)
    # Of a block that begins at that very moment, and stands after the cursor in it, every line was shown.
    begun = begun.exclude(first_at=start.at, id__gt=place).order_by("last_at")
    deadline = Deadline(AT_ONCE_SECONDS)
    for number, block in enumerate(begun[: MOST_AT_ONCE + 1].iterator(chunk_size=_ROWS)):
        if number == MOST_AT_ONCE or deadline.is_over:
            return True
        if query.may_match(Facets.loaded(block.facets)):
            _open(block, query, newest)
    return False


def _open(block: LogBlock, query: Query, newest: Newest) -> None:
    """Keep those lines of a block that are asked for and are among the newest."""
    for place, raw in _matching(block, query):
        newest.add(place, raw, block)


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
    """Return the lines in no known form that an import was the first to have, in their order; fewer than `limit` with a
    next page where they are long, or where it took long to find them. Raise `BadFilter` for a cursor that is none."""
    found = LogBlock.objects.filter(tenant=imported.tenant_id, imported=imported, bad__gt=0, removed_at=None)
    rows = found.order_by("first_line", "id")
    after = _number(cursor)
    items: list[FoundLine] = []
    size = 0
    deadline = Deadline(SEARCH_SECONDS)
    ends = F("first_line") + F("lines")
    for block in rows.alias(end=ends).filter(end__gt=after + 1).iterator(chunk_size=_ROWS):
        if deadline.is_over:
            return Page(items, str(max(after, block.first_line - 1)))
        for index, raw in _raw_lines(block):
            number = block.first_line + index
            if number <= max(after, block.first_line + block.known - 1):
                continue
            if not isinstance(read_bytes(raw), BadLine):
                continue
            if len(items) == limit or (items and size + len(raw) > PAGE_BYTES):
                return Page(items, str(items[-1].number))
            items.append(FoundLine.read(block, index, raw))
            size += len(raw)
    return Page(items)


def imports(tenant: Tenant, cursor: str = "", limit: int = 50) -> tuple[list[LogImport], str | None]:
    """Imports, newest first, and the cursor of those before them. Raises `BadFilter`."""
    rows = LogImport.objects.filter(tenant=tenant).order_by("-id")
    if cursor:
        try:
            rows = rows.filter(id__lt=uuid.UUID(cursor))
        except ValueError:
            remedy = "use the value of `next` from the page before, as it was."
            raise FilterError("cursor", cursor[:40], remedy) from None
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
        raise FilterError("cursor", cursor[:40], "use the value of `next` from the page before, as it was.")
    return int(cursor)


def _matching(block: LogBlock, query: Query) -> Iterator[tuple[Place, bytes]]:
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
        if wanted and wanted not in raw.decode(errors="replace").casefold():
            continue
        yield Place(at, block.pk.int, index), raw


def _raw_lines(block: LogBlock) -> Iterator[tuple[int, bytes]]:
    """The lines of a block that are not empty, with their indexes."""
    return ((index, raw) for index, raw in enumerate(lines_of(_text(block))) if raw.strip())


def _text(block: LogBlock) -> bytes:
    try:
        return text_of(block.pk)
    except LogText.DoesNotExist:
        # Retention took it since the block was looked up.
        return b""
