"""A log that comes in by a request: stored at once where it is small, else kept in parts for a worker
(`docs/decisions/0041-large-logs-in-parts.md`)."""

from collections.abc import Iterable, Iterator
from typing import Final

from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.logs import reading, storing
from handoffaudit.diagnostics.logs.cutting import APART
from handoffaudit.diagnostics.logs.packing import packed
from handoffaudit.diagnostics.models import LogImport, LogPart

# What a request stores itself: a moment of work. `handoffaudit import-log --url` sends parts that are smaller.
INLINE_BYTES: Final = 9 * 1024 * 1024
INLINE_LINES: Final = 250_000
# A part is stored by a worker in one transaction.
PART_BYTES: Final = 4 * 1024 * 1024
PART_LINES: Final = 250_000


def receive(
    tenant: Tenant, source: str, sent_by: str, pieces: Iterable[bytes], *, first_line: int = 1, keep_broken: bool
) -> LogImport:
    """Take in a log whose content comes in pieces. It is durable when this returns, and each of its lines is stored or
    in a part that waits for a worker.

    What the stream raises is raised. What came before is kept, with the error, where `keep_broken` says so.
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
                    tenant, source, sent_by, _resumed(begun, stream), first_line, keep_broken=keep_broken
                )
    except Exception as error:
        if not keep_broken or size > INLINE_BYTES or lines > INLINE_LINES:
            raise
        broken = error
    return storing.take(tenant, source, sent_by, _with_error(begun, broken), first_line=first_line)


def _resumed(begun: list[bytes], stream: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces that were taken already, without keeping them, and the rest."""
    begun.reverse()
    while begun:
        yield begun.pop()
    yield from stream


def _with_error(begun: list[bytes], broken: Exception | None) -> Iterator[bytes]:
    yield from begun
    if broken:
        raise broken


def _receive_parts(
    tenant: Tenant, source: str, sent_by: str, stream: Iterator[bytes], first_line: int, *, keep_broken: bool
) -> LogImport:
    row = storing.begin(tenant, source, sent_by)
    try:
        for number, part in enumerate(_parts(stream)):
            _put(row, number, part, first_line)
    except BaseException as error:
        if keep_broken:
            LogImport.objects.filter(pk=row.pk).update(error=storing.broken(str(error)))
            reading.wake()
        else:
            row.delete()
        raise
    with transaction.atomic():
        # From here on it is acknowledged, and a worker may begin.
        LogImport.objects.filter(pk=row.pk).update(received_at=timezone.now())
        reading.wake()
    row.refresh_from_db()
    return row


def _parts(stream: Iterator[bytes]) -> Iterator[bytes]:
    """What came before the stream broke off is a part too."""
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
    """Keep a part, in a transaction of its own: others must not wait until a large log has come."""
    row.size += len(part)
    with transaction.atomic():
        LogPart.objects.create(
            imported=row, number=number, packed=packed(part), size=len(part), first_line=first_line, since=APART
        )
        LogImport.objects.filter(pk=row.pk).update(size=row.size)
