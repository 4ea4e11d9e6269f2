"""Imports of logs: their list, the bad lines of one import, and the number of lines in new imports."""

import uuid
from datetime import datetime

from django.db.models import F

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.blocks import lines_of
from handoffaudit.diagnostics.logs.filters import Facets, LogQuery
from handoffaudit.diagnostics.logs.search import (
    PAGE_BYTES,
    ROWS,
    SEARCH_SECONDS,
    Deadline,
    FoundLine,
    Page,
    match_lines,
    read_text,
)
from handoffaudit.diagnostics.models import LogBlock, LogImport
from handoffaudit.filter_fields import FilterError
from handoffaudit.handoffs.filters import CURSOR_REMEDY
from handoffaudit.validation.logs.lines import BadLine
from handoffaudit.validation.logs.reader import read_bytes

# At most this many of the newest imports are read. If more imports end between two calls, the number is too small.
MOST_NEW_IMPORTS = 20

MOST_NEW_BLOCKS = 20


def list_imports(tenant: Tenant, cursor: str = "", limit: int = 50) -> tuple[list[LogImport], str | None]:
    """Return imports, newest first, and the cursor of the next page. Raise `FilterError` for an invalid cursor."""
    rows = LogImport.objects.filter(tenant=tenant).order_by("-id")
    if cursor:
        try:
            rows = rows.filter(id__lt=uuid.UUID(cursor))
        except ValueError:
            raise FilterError("cursor", cursor[:40], CURSOR_REMEDY) from None
    found = list(rows[: limit + 1])
    return found[:limit], str(found[limit - 1].pk) if len(found) > limit else None


def list_bad_lines(imported: LogImport, cursor: str = "", limit: int = 50) -> Page:
    """Return the bad lines of an import that no earlier import had, in their order.

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
        for index, raw in enumerate(lines_of(read_text(block))):
            # Earlier pages had the lines up to `after`, and an earlier import the lines before `known`.
            if index < block.known or block.first_line + index <= after:
                continue
            if not raw.strip() or not isinstance(read_bytes(raw), BadLine):
                continue
            if len(items) == limit or (items and size + len(raw) > PAGE_BYTES):
                return Page(items, str(items[-1].number))
            items.append(FoundLine.read(block, index, raw))
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

    If no import ended, the function makes only one query. At most `MOST_NEW_BLOCKS` blocks are opened, so the number
    may be too small.
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
        if query.may_match(Facets.loaded(block.facets)):
            looked += 1
            # An earlier import already had the lines before `known`.
            number += sum(place.index >= block.known for place, _ in match_lines(block, query))
    return min(number, most)
