"""Indexing of log blocks: leasing them, summarizing and counting their lines, and marking them as read."""

import math
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import structlog
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from handoffaudit.diagnostics import file_stats
from handoffaudit.diagnostics.file_stats import HealthDeltas, HealthKey, LogDeltas, LogKey
from handoffaudit.diagnostics.logs.filters import Facets, limit_values
from handoffaudit.diagnostics.models import FileReport, LogBlock, LogImport, LogPart
from handoffaudit.handoffs import leases, notify
from handoffaudit.validation.logs.lines import HealthLine, Kind
from handoffaudit.validation.logs.reader import read_bytes
from handoffaudit.validation.logs.sums import Counts, Tally, key_of
from handoffaudit.validation.logs.tally import tally
from handoffaudit.validation.text import clean
from handoffaudit.validation.times import hour_of

_AT_ONCE = 500

_Known = tuple[str, str, str, str, str, datetime]


def has_reports(tenant_id: int) -> bool:
    """Return whether the tenant has any file report. Log lines may repeat file reports."""
    return FileReport.objects.filter(tenant_id=tenant_id).exists()


def leave_out_reported(tenant_id: int, summed: Tally, text: bytes) -> None:
    """Subtract the lines that repeat a file report from the counts of handoff files.

    Such a line has the run, agent, phase, iteration, reason and time (to the second) of a report. The counts of log
    lines still include the line.
    """
    known = set(_find_known_lines(tenant_id, summed)) if summed.runs else set()
    if not known:
        return
    for raw in text.split(b"\n"):
        if b"run=" not in raw:
            continue
        line = read_bytes(raw)
        if isinstance(line, HealthLine) and _identify(line) in known:
            summed.counts.health[key_of(line)] -= 1


def _find_known_lines(tenant_id: int, summed: Tally) -> Iterator[_Known]:
    rows = FileReport.objects.filter(tenant_id=tenant_id, at__range=(summed.first_at, summed.last_at))
    fields = ("run_id", "agent", "phase", "iteration", "reason", "at")
    runs = sorted(map(clean, summed.runs))
    for start in range(0, len(runs), _AT_ONCE):
        for *names, at in rows.filter(run_id__in=runs[start : start + _AT_ONCE]).values_list(*fields):
            yield (*names, at.replace(microsecond=0))


def _identify(line: HealthLine) -> _Known:
    names = (clean(line.run_id), clean(line.agent), clean(line.phase), clean(line.iteration, 40))
    return (*names, str(line.reason or ""), line.at.replace(microsecond=0))


log = structlog.get_logger(__name__)

TASK = "handoffaudit.diagnostics.tasks.read_logs"

LEASED_AT_ONCE = 16

_LEVEL_LENGTH, _EVENT_LENGTH = 10, 40


@dataclass(frozen=True, slots=True)
class BlockSummary:
    """A summary of a block. `fresh` sums the lines of the block that are not counted yet."""

    block: LogBlock
    fresh: Tally
    facets: Facets
    bad: int
    first_at: datetime | None
    last_at: datetime | None


def read_block(block: LogBlock, text: bytes, counts: Counts | None = None, *, reports: bool = True) -> BlockSummary:
    """Summarize the whole text of a block, and sum its new lines.

    Several blocks can share one `counts`, to which the sums are added. Without `reports`, no line is treated as the
    repeat of a file report.
    """
    fresh = tally(text[block.counted :], counts)
    if reports:
        leave_out_reported(block.tenant_id, fresh, text[block.counted :])
    if not block.counted:
        return BlockSummary(block, fresh, _collect_facets(fresh), fresh.bad, fresh.first_at, fresh.last_at)
    before = tally(text[: block.counted])
    return BlockSummary(
        block,
        fresh,
        _collect_facets(before) | _collect_facets(fresh),
        before.bad + fresh.bad,
        min((one for one in (before.first_at, fresh.first_at) if one), default=None),
        max((one for one in (before.last_at, fresh.last_at) if one), default=None),
    )


def lease_blocks(limit: int, token: uuid.UUID) -> list[LogBlock]:
    """Lease up to `limit` blocks that nobody has tried yet or, if there are none, one block whose lease expired.

    A block whose lease expired is leased alone, so that no other block is affected if this block kills its worker.
    """
    unread = LogBlock.objects.filter(parsed_at=None)
    fresh = unread.filter(leases.NEVER_LEASED)
    behind = unread.filter(leases.is_expired(), tries__lt=settings.LEASE_TRIES)
    for waiting, most in ((fresh, limit), (behind, 1)):
        picked = list(waiting.order_by("id").values_list("pk", flat=True)[:most])
        # The UPDATE checks again that the blocks are free, because two workers may have picked the same block.
        free = LogBlock.objects.filter(leases.is_free(), pk__in=picked, parsed_at=None)
        if picked and leases.take(free, token, **leases.COUNT_TRY):
            taken = LogBlock.objects.filter(pk__in=picked, claim=token, parsed_at=None)
            return list(taken.select_related("imported").order_by("id"))
    return []


def drain(seconds: float = math.inf) -> bool:
    """Read blocks until none waits, or for `seconds`; return whether none waits."""
    park_exhausted()
    end = time.monotonic() + seconds
    while blocks := lease_blocks(LEASED_AT_ONCE, uuid.uuid4()):
        for block in blocks:
            _read_one(block)
        if time.monotonic() > end:
            return False
    return True


def _read_one(block: LogBlock) -> None:
    # `mark` clears the field, also if the transaction fails later.
    claim = block.claim
    try:
        store_summaries([read_block(block, block.load_text())])
    except Exception as error:
        if leases.undo_if_blameless(LogBlock.objects.filter(claim=claim, parsed_at=None), error):
            raise
        # An error must not affect other blocks. This block is tried again alone, and is parked after too many tries.
        log.exception("a block of a log can't be read", block=str(block.pk))
        leases.release(leases.filter_held(LogBlock, block.pk, claim), block.tries)


def store_summaries(reads: list[BlockSummary]) -> None:
    """Count the new lines of blocks that this process has leased, and mark the blocks as read.

    Blocks whose lease was lost are neither counted nor changed.
    """
    with transaction.atomic():
        count_blocks([one for one in reads if _mark_read(one)])
    for pk in {one.block.imported_id for one in reads}:
        finish(pk)


def count_blocks(reads: list[BlockSummary]) -> None:
    """Count the new lines of blocks of one tenant. Call inside the transaction that marks the blocks as read."""
    for imported in {one.block.imported_id: one.block.imported for one in reads}.values():
        sums = [one.fresh for one in reads if one.block.imported_id == imported.pk]
        health: HealthDeltas = Counter()
        lines: LogDeltas = Counter()
        add_counts(health, lines, sums, imported.started_at)
        count(imported.tenant_id, health, lines)
        _add_to(imported.pk, sums)


def mark(one: BlockSummary) -> dict[str, Any]:
    """Mark the block as read, without saving it, and return the changed fields."""
    block = one.block
    changed: dict[str, Any] = {
        "parsed_at": timezone.now(),
        "claim": None,
        "claim_expires_at": None,
        "counted": block.size,
        "bad": one.bad,
        # A block whose lines have no times gets the time of its import.
        "first_at": one.first_at or block.imported.started_at,
        "last_at": one.last_at or block.imported.started_at,
        "facets": one.facets.dump(),
    }
    for name, value in changed.items():
        setattr(block, name, value)
    return changed


def _mark_read(one: BlockSummary) -> bool:
    block = one.block
    still = leases.filter_held(LogBlock, block.pk, block.claim).filter(parsed_at=None, digest=block.digest)
    return bool(still.update(**mark(one)))


def add_counts(
    health: HealthDeltas, lines: LogDeltas, sums: Iterable[Tally], started_at: datetime, sign: int = 1
) -> None:
    """Add sums to `health` and `lines`; with `sign` -1, subtract them."""
    summed = list(sums)
    # Several texts may share one `Counts`.
    for counts in {id(one.counts): one.counts for one in summed}.values():
        for (hour, agent, phase, runtime, *rest), number in counts.health.items():
            health[HealthKey(hour, clean(agent), clean(phase), clean(runtime), *rest)] += sign * number
        for (hour, kind, event, level, component), number in counts.lines.items():
            place = LogKey(hour, kind, clean(event, _EVENT_LENGTH), clean(level, _LEVEL_LENGTH), clean(component))
            lines[place] += sign * number
    bad = sum(one.bad for one in summed)
    if bad:
        lines[LogKey(hour_of(started_at), Kind.BAD.value, "", "", "")] += sign * bad


def count(tenant_id: int, health: HealthDeltas, lines: LogDeltas) -> None:
    file_stats.count_health(tenant_id, health)
    file_stats.count_lines(tenant_id, lines)


def _add_to(pk: uuid.UUID, sums: Iterable[Tally]) -> None:
    imported = LogImport.objects.select_for_update().only("kinds", "read", "bad").get(pk=pk)
    kinds = Counter(imported.kinds)
    for one in sums:
        kinds.update(one.kinds)
    bad = kinds.pop(Kind.BAD.value, 0)
    imported.kinds, imported.read = dict(sorted(kinds.items())), sum(kinds.values())
    imported.bad += bad
    imported.save(update_fields=["kinds", "read", "bad"])


def finish(pk: uuid.UUID) -> None:
    """Record that an import is finished, if none of its parts and blocks waits.

    Call after the commit of each block that may be the last. If two blocks are committed at the same time, the later
    call sees both blocks.
    """
    waits = (
        LogPart.objects.filter(imported=pk).exists() or LogBlock.objects.filter(imported=pk, parsed_at=None).exists()
    )
    if not waits:
        done = LogImport.objects.filter(pk=pk, finished_at=None).exclude(received_at=None)
        done.update(finished_at=timezone.now())


def park_exhausted() -> int:
    """Park up to 100 blocks that failed in all their tries, and return their number.

    The error is recorded on the imports of the blocks.
    """
    given_up = LogBlock.objects.filter(leases.is_exhausted(), parsed_at=None)
    number = 0
    for block in given_up.order_by("id")[:100]:
        still = given_up.filter(pk=block.pk)
        if leases.end(still, parsed_at=timezone.now()):
            number += 1
            last = block.first_line + block.lines - 1
            message = (
                f"Lines {block.first_line:,} to {last:,} could not be read in {block.tries} tries and are not counted."
            )
            LogImport.objects.filter(pk=block.imported_id).update(error=message)
            log.error("a block of a log is parked", block=str(block.pk), said=message)
            finish(block.imported_id)
    return number


def anything_waits() -> bool:
    """Return whether a worker should be woken for a new block, or for a block whose lease expired."""
    return LogBlock.objects.filter(leases.is_free(), parsed_at=None).exists()


def wake() -> None:
    """Wake a worker once the transaction is committed."""
    transaction.on_commit(lambda: notify.send(TASK))


def _collect_facets(summed: Tally) -> Facets:
    return Facets(
        limit_values(kind for kind, number in summed.kinds.items() if number),
        limit_values(summed.agents),
        limit_values(summed.phases),
        limit_values(summed.events),
        limit_values(summed.levels),
        limit_values(summed.traces),
    )
