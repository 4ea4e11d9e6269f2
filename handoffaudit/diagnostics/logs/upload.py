"""Logs that a request uploads. The request stores the lines of a small log; a worker stores a large log in parts."""

import math
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import chain
from typing import Final
from zlib import decompress

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, Sum
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.compression import DECOMPRESSORS, compress
from handoffaudit.diagnostics.logs import index, store
from handoffaudit.diagnostics.models import LogBlock, LogImport, LogPart
from handoffaudit.handoffs import leases
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.validation.logs.blocks import Cutter

# A request stores logs up to this size itself, which takes a moment. `handoffaudit import-log --url` sends smaller
# parts.
INLINE_BYTES: Final = 9 * 1024 * 1024

INLINE_LINES: Final = 250_000

# A part ends with the piece of the stream that reaches one of these limits. A worker stores a part in one transaction.
PART_BYTES: Final = 4 * 1024 * 1024

PART_LINES: Final = 250_000


def receive_log(
    tenant: Tenant, source: str, sent_by: str, pieces: Iterable[bytes], *, first_line: int = 1, keep_broken: bool
) -> LogImport:
    """Receive a log whose content comes in pieces.

    After the return, no line of the log can be lost: each line is stored, or is in a stored part that waits for a
    worker. An exception of the stream is raised again. With `keep_broken`, the error and the content before the error
    are stored. Without `keep_broken`, nothing of the log stays stored.
    """
    stream = iter(pieces)
    begun: list[bytes] = []
    size = lines = 0
    broken: Exception | None = None
    try:
        for piece in stream:
            begun.append(piece)
            size += len(piece)
            lines += piece.count(b"\n")
            if size > INLINE_BYTES or lines > INLINE_LINES:
                return _receive_parts(
                    tenant, source, sent_by, _resume(begun, stream), first_line, keep_broken=keep_broken
                )
    except Exception as error:
        if not keep_broken or size > INLINE_BYTES or lines > INLINE_LINES:
            raise
        broken = error
    return store.store_log(tenant, source, sent_by, _end_with_error(begun, broken), first_line=first_line)


def _resume(begun: list[bytes], stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces that were read already, removing each from the list to free its memory, and then the rest."""
    begun.reverse()
    while begun:
        yield begun.pop()
    yield from stream


def _end_with_error(begun: list[bytes], broken: Exception | None) -> Iterator[bytes]:
    yield from begun
    if broken:
        raise broken


def _receive_parts(
    tenant: Tenant, source: str, sent_by: str, stream: Iterator[bytes], first_line: int, *, keep_broken: bool
) -> LogImport:
    row = store.begin_import(tenant, source, sent_by)
    try:
        for number, part in enumerate(_cut_parts(stream)):
            _put(row, number, part, first_line)
    except BaseException as error:
        if keep_broken:
            LogImport.objects.filter(pk=row.pk).update(error=store.broken_message(str(error)))
            index.wake()
        else:
            row.delete()
        raise
    with transaction.atomic():
        # Workers may store the parts from now on. Until here, the request could fail and delete the parts.
        LogImport.objects.filter(pk=row.pk).update(received_at=timezone.now())
        index.wake()
    row.refresh_from_db()
    return row


def _cut_parts(stream: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the parts of a stream. The content before an error of the stream is the last part."""
    part: list[bytes] = []
    size = lines = 0
    try:
        for piece in stream:
            part.append(piece)
            size += len(piece)
            lines += piece.count(b"\n")
            if size >= PART_BYTES or lines >= PART_LINES:
                yield b"".join(part)
                part, size, lines = [], 0, 0
    except Exception:
        if part:
            yield b"".join(part)
        raise
    if part:
        yield b"".join(part)


def _put(row: LogImport, number: int, part: bytes, first_line: int) -> None:
    """Store a part in its own transaction, so that other writers do not wait until the whole log has arrived."""
    row.size += len(part)
    with transaction.atomic():
        LogPart.objects.create(
            imported=row,
            number=number,
            packed=compress(part),
            size=len(part),
            first_line=first_line,
            since=Cutter(first_line).since,
        )
        LogImport.objects.filter(pk=row.pk).update(size=row.size)


log = structlog.get_logger(__name__)

# No request uploads a log for longer than this. If an upload has no end by then, its server died.
ABANDONED: Final = timedelta(hours=1)

# After this time without a new block, a process that stores a log itself, as `handoffaudit import-log` does, counts as
# ended.
STOPPED: Final = timedelta(days=1)

# The cutter splits this many bytes into lines at a time.
_PIECE: Final = 64 * 1024


class _Lost(Exception):
    """The error for a part whose lease expired, so that another worker has the part."""


def anything_waits() -> bool:
    """Return whether a worker should be woken for parts or for an abandoned upload."""
    return _free().exists() or _filter_abandoned().exists() or _filter_exhausted().exists()


def drain(seconds: float = math.inf) -> bool:
    """Store parts until no part is free, or for about `seconds`; return False if the time ended first."""
    _end_abandoned()
    park_exhausted()
    end = time.monotonic() + seconds
    with ThreadPoolExecutor(2, thread_name_prefix="log-parts") as pool:
        while part := lease_part(uuid.uuid4()):
            _store_one(part, pool)
            if time.monotonic() > end:
                return False
    return True


def lease_part(token: uuid.UUID) -> LogPart | None:
    """Lease and return the part that `_free` lists first. Return None if no part is free.

    Also return None if other workers took the first two parts meanwhile.
    """
    for pk in list(_free().order_by("imported_id", "number").values_list("pk", flat=True)[:2]):
        # The UPDATE checks again that the part is free, because two workers may have picked the same part.
        free = LogPart.objects.filter(_is_free(), pk=pk, stored_at=None)
        if leases.take(free, token, **leases.COUNT_TRY):
            return leases.filter_held(LogPart, pk, token).select_related("imported").first()
    return None


def count_unstored_bytes(imports: Iterable[LogImport]) -> dict[uuid.UUID, int]:
    """Return the number of bytes that wait for a worker, by import. Imports without such bytes are left out."""
    waiting = LogPart.objects.filter(imported__in=list(imports), stored_at=None)
    return dict(waiting.values_list("imported").annotate(Sum("size")).order_by())


def _has_bytes() -> Q:
    """Return the condition that the upload of an import has ended, completely or with an error."""
    return Q(imported__received_at__isnull=False) | ~Q(imported__error="")


def _is_free() -> Q:
    return leases.NEVER_LEASED | leases.is_expired() & Q(tries__lt=settings.LEASE_TRIES)


def _free() -> "QuerySet[LogPart]":
    """Return the first waiting part of the oldest import of each log, if no worker has the part."""
    waiting = LogPart.objects.filter(_has_bytes(), stored_at=None)
    same = waiting.filter(imported__tenant=OuterRef("imported__tenant"), imported__source=OuterRef("imported__source"))
    earlier = same.filter(
        Q(imported__lt=OuterRef("imported")) | Q(imported=OuterRef("imported"), number__lt=OuterRef("number"))
    )
    return waiting.filter(_is_free()).exclude(Exists(earlier))


def _store_one(part: LogPart, pool: ThreadPoolExecutor) -> None:
    try:
        _store(part, pool)
    except _Lost:
        log.warning("another worker has the part of a log", part=str(part.pk))
    except Exception as error:
        held = leases.filter_held(LogPart, part.pk, part.claim)
        if leases.undo_if_blameless(held, error):
            raise
        # An error must not affect other logs. This part is tried again, and its import is parked after too many tries.
        log.exception("a part of a log can't be stored", part=str(part.pk))
        leases.release(held, part.tries)


def _store(part: LogPart, pool: ThreadPoolExecutor) -> None:
    text = decompress(part.packed)
    cutter = Cutter(part.first_line, part.since)
    blocks = list(cutter.feed(text[at : at + _PIECE] for at in range(0, len(text), _PIECE)))
    following = LogPart.objects.filter(imported=part.imported, number=part.number + 1).first()
    if following is None:
        blocks += cutter.close()
    before = LogPart.objects.filter(imported=part.imported, number__lt=part.number).values_list("digests", flat=True)
    occurrences = Counter(digest for digests in before for digest in digests.split())

    def note(digests: list[str], shift: int) -> None:
        stored = leases.filter_held(LogPart, part.pk, part.claim).filter(stored_at=None)
        if not stored.update(stored_at=timezone.now(), packed=b"", digests="\n".join(digests)):
            raise _Lost
        if following is None:
            LogPart.objects.filter(imported=part.imported).delete()
            return
        carried = compress(cutter.carry + decompress(following.packed))
        LogPart.objects.filter(pk=following.pk).update(
            packed=carried, first_line=cutter.first_line, since=cutter.since, shift=shift
        )

    taking = store.LogWriter(part.imported, occurrences=occurrences, shift=part.shift)
    taking.add(blocks, pool, note)
    if following is None:
        index.finish(part.imported_id)


def _filter_exhausted() -> "QuerySet[LogPart]":
    return LogPart.objects.filter(leases.is_exhausted(), stored_at=None)


def park_exhausted() -> None:
    """Park imports with a part that failed in all its tries: delete the parts and record the error on the imports."""
    for part in _filter_exhausted().order_by("id")[:100]:
        message = (
            f"The lines from {part.first_line:,} on could not be stored in {part.tries} tries and are not counted."
        )
        if _filter_exhausted().filter(pk=part.pk).update(claim=uuid.uuid4()):
            LogPart.objects.filter(imported=part.imported_id).delete()
            LogImport.objects.filter(pk=part.imported_id).update(error=message)
            log.error("an import of a log is parked", log_import=str(part.imported_id), said=message)
            index.finish(part.imported_id)


def _filter_abandoned() -> "QuerySet[LogImport]":
    now = timezone.now()
    is_abandoned = Q(started_at__lt=now - STOPPED) | Q(started_at__lt=now - ABANDONED, parts__isnull=False)
    # A process that reads from a pipe may run for longer.
    grows = LogBlock.objects.filter(imported=OuterRef("pk"), id__gte=first_id_at(now - STOPPED))
    return LogImport.objects.filter(is_abandoned, ~Exists(grows), received_at=None, error="").distinct()


def _end_abandoned() -> None:
    """Record that the rest of an abandoned log will not arrive, so that workers store the parts that arrived."""
    found = list(_filter_abandoned().values_list("pk", flat=True)[:100])
    LogImport.objects.filter(pk__in=found).update(error=store.ABANDONED_ERROR)


MAGIC: Final = b"\x1f\x8b"

# The compression ratio is checked only above this size.
FREE_BYTES: Final = 8 * 1024 * 1024


class TooLarge(Exception):
    """The error for content above a limit. The message names the limit and its setting."""

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


def limit_stream(
    stream: Iterable[bytes], most: int, ratio: int, setting: str, *, encoding: str = ""
) -> Iterator[bytes]:
    """Yield the content of a stream with or without compression, in pieces of at most a megabyte.

    `encoding` is gzip, zstd or empty; without an encoding, the first bytes show whether the stream is gzip. Pass the
    stream in pieces of `compression.PIECE` bytes. Raise `TooLarge` if the content has more than `most` bytes (`setting`
    names the limit). Also raise `TooLarge` if it has more than `FREE_BYTES` and more than `ratio` times the compressed
    size. Raise `DamagedStream` if the stream cannot be unpacked.
    """
    came = size = 0

    def count_bytes() -> Iterator[bytes]:
        nonlocal came
        for piece in stream:
            came += len(piece)
            yield piece

    whole = count_bytes()
    head = b""
    for piece in whole:
        head += piece
        if len(head) >= len(MAGIC):
            break
    encoding = encoding or ("gzip" if head.startswith(MAGIC) else "")
    is_packed = bool(encoding)
    everything = chain([head] if head else [], whole)
    for piece in DECOMPRESSORS[encoding](everything) if is_packed else everything:
        size += len(piece)
        if size > most:
            raise TooLarge(f"has more than {most:,} bytes{' unpacked' * is_packed}, the maximum ({setting})", most)
        if is_packed and size > max(FREE_BYTES, ratio * came):
            message = (
                f"unpacks to more than {ratio} times its size ({size:,} bytes from {came:,}), the maximum"
                " (HANDOFFAUDIT_MAX_LOG_RATIO)"
            )
            raise TooLarge(message, ratio)
        yield piece
