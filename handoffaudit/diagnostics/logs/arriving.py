"""What came since somebody looked: a cheap question, so that a page may ask it again and again."""

from datetime import datetime

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs.facets import Facets
from handoffaudit.diagnostics.logs.packing import lines_of, text_of
from handoffaudit.diagnostics.logs.page import SEARCH_SECONDS, Deadline
from handoffaudit.diagnostics.logs.queries import Query
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.validation.loglines import BadLine, read_bytes

# Imports of late that are looked at; where more end between two looks, the number is too small.
MOST_IMPORTS = 20
MOST_BLOCKS = 20


def count_new(tenant: Tenant, query: Query, after: datetime, most: int) -> int:
    """How many lines that are asked for came in imports that ended after that; at most `most`. Where nothing was
    imported it is one question to the database. It looks into some blocks only, so it may be too small."""
    newest = LogImport.objects.filter(tenant=tenant).order_by("-id").values_list("pk", "finished_at")[:MOST_IMPORTS]
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
    for block in blocks.iterator(chunk_size=20):
        if number >= most or looked == MOST_BLOCKS or (looked and deadline.is_over):
            break
        if query.may_match(Facets.loaded(block.facets)):
            looked += 1
            number += _new_lines(block, query)
    return min(number, most)


def _new_lines(block: LogBlock, query: Query) -> int:
    try:
        lines = lines_of(text_of(block.pk))
    except LogText.DoesNotExist:
        return 0
    at, number = block.first_at, 0
    for index, raw in enumerate(lines):
        line = read_bytes(raw)
        at = at if isinstance(line, BadLine) else line.at
        # Those before were there when somebody looked last.
        if index < block.known or at is None or not raw.strip() or not query.matches(line):
            continue
        in_time = (not query.since or at >= query.since) and (not query.until or at < query.until)
        number += in_time and query.text.casefold() in raw.decode(errors="replace").casefold()
    return number
