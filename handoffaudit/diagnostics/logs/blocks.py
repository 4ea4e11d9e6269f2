"""Log blocks: cutting a stream of bytes into blocks of whole lines, and finding blocks of earlier imports.

A block ends after a line whose checksum is small for its length. The ends of blocks therefore depend only on the lines:
the same lines form the same blocks, even if a file grew or lost its first lines.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from uuid import UUID
from zlib import crc32

from django.db.models import F, Q, QuerySet

from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.validation.logs.reader import LineSplitter

# A block is 128 KiB long on average: 2 ** 32 / 2 ** 15.
_RATE_BITS: Final = 15

# The smallest distance between two lines that end a block, in bytes, so that a line that repeats often does not end a
# block each time.
APART: Final = 4096

LONGEST_BLOCK: Final = 512 * 1024

# A search reads whole blocks, and a block with more lines than this would take seconds. Blocks in known formats have
# fewer lines, so the limit does not change how earlier logs were cut.
MOST_LINES: Final = 16_384


@dataclass(frozen=True, slots=True)
class Block:
    """A block of whole lines.

    `text` ends with a line end, except in the last block of a stream, where the line end may be missing. `ended` says
    that the lines end the block here; otherwise, the stream ended, and the block may grow when the log is sent again.
    `first_line` counts from 1. `text` has only the beginning of a line that is too long.
    """

    text: bytes
    ended: bool
    first_line: int
    lines: int


def cut_blocks(stream: Iterable[bytes], first_line: int = 1) -> Iterator[Block]:
    """Yield the blocks of a stream that comes in pieces of any size. The lines before an error are the last block."""
    cutter = Cutter(first_line)
    try:
        yield from cutter.feed(stream)
    except Exception:
        yield from cutter.close()
        raise
    yield from cutter.close()


def ends_block(line: bytes) -> bool:
    """Return whether a block may end after this line, given without its line end.

    The block ends there, unless the last such line is less than `APART` bytes before.
    """
    # An empty line never ends a block, although its checksum 0 is always small enough.
    return bool(line) and crc32(line) < (len(line) + 1) << _RATE_BITS


class Cutter:
    """A cutter of a stream, or of one part of a stream.

    To cut the next part, create a cutter with the `first_line` and `since` of the previous part's cutter, and put its
    `carry` before the bytes of the next part. Without `since`, any line before `first_line` ended a block.
    """

    def __init__(self, first_line: int = 1, since: int | None = None) -> None:
        self.first_line = first_line
        # The number of bytes from the last line that may end a block to the beginning of the open block.
        self.since = (APART if first_line == 1 else 0) if since is None else since
        self._lines: list[bytes] = []
        self._size = 0
        self._since = self.since
        self._whole = LineSplitter()

    def feed(self, stream: Iterable[bytes]) -> Iterator[Block]:
        """Yield the blocks of the stream. The lines after the last block stay in the open block."""
        for piece in stream:
            begin = seen = 0
            whole = self._whole.add(piece)
            # Very few lines may end a block. A quick comparison finds the candidates, because a call for each line
            # would take most of the time.
            few = (max(map(len, whole), default=0) + 1) << _RATE_BITS
            for at in [at for at, checksum in enumerate(map(crc32, whole), 1) if checksum < few]:
                if ends_block(whole[at - 1]):
                    apart = self._since + _size(whole[seen:at]) >= APART
                    seen, self._since = at, 0
                    if apart:
                        yield from self._grow(whole[begin:at])
                        yield self._cut(ended=True)
                        begin = at
            self._since += _size(whole[seen:])
            yield from self._grow(whole[begin:])

    def close(self) -> Iterator[Block]:
        """Yield the last block of a stream that has ended, if any lines are left."""
        rest = self._whole.rest
        if rest:
            yield from self._grow([rest])
        if self._lines:
            yield self._cut(ended=False, end=b"" if rest else b"\n")

    @property
    def carry(self) -> bytes:
        """Return the bytes of the open block, with which the next part begins."""
        return b"".join(line + b"\n" for line in self._lines) + self._whole.rest

    def _grow(self, lines: list[bytes]) -> Iterator[Block]:
        """Add lines to the open block. If the block would grow too long, end it where its lines reach the limit."""
        size = _size(lines)
        if self._size + size <= LONGEST_BLOCK and len(self._lines) + len(lines) <= MOST_LINES:
            self._lines += lines
            self._size += size
            return
        for line in lines:
            if self._size + len(line) + 1 > LONGEST_BLOCK or len(self._lines) == MOST_LINES:
                yield self._cut(ended=True)
            self._lines.append(line)
            self._size += len(line) + 1

    def _cut(self, *, ended: bool, end: bytes = b"\n") -> Block:
        block = Block(b"\n".join(self._lines) + end, ended, self.first_line, len(self._lines))
        self.first_line += len(self._lines)
        self.since = self._count_after_last_end()
        self._lines, self._size = [], 0
        return block

    def _count_after_last_end(self) -> int:
        """Return the number of bytes in the open block after the last line that may end it, exact up to `APART`."""
        size = 0
        for line in reversed(self._lines):
            if size >= APART or ends_block(line):
                break
            size += len(line) + 1
        return size


def _size(lines: list[bytes]) -> int:
    return sum(map(len, lines)) + len(lines)


def text_of(block: UUID) -> bytes:
    """Return the text of a block. Raise `LogText.DoesNotExist` if the text was removed."""
    return zlib.decompress(LogText.objects.values_list("packed", flat=True).get(block=block))


# A block is compared with this many of the newest tails of its source, with the tails that begin with its first line,
# and with this many of the newest blocks from its place on.
_NEWEST_TAILS: Final = 8

_FIRST_LINE_LENGTH: Final = 16

# Even the first `APART` bytes of a block may occur often in a tail, so at most this many places are tried.
_PLACES: Final = 64


@dataclass(frozen=True, slots=True)
class Piece:
    """A block with its digest, and the number of equal blocks before it."""

    block: Block
    digest: str
    occurrence: int


@dataclass(frozen=True, slots=True)
class Write:
    """A planned write of a block.

    `text` is stored as a new block or, with `tail`, replaces the text of the tail. In the second case, the first `kept`
    bytes of `text` are the old text of the tail, and the last `begun` of these bytes also begin the new block.
    """

    piece: Piece
    text: bytes
    first_line: int
    tail: LogBlock | None = None
    kept: int = 0
    begun: int = 0


@dataclass(slots=True)
class Plan:
    """The planned writes of some blocks. `shift` is the number of lines that the log has lost at its start."""

    writes: list[Write] = field(default_factory=list)
    shift: int = 0


def digest_of(text: bytes) -> str:
    """Return a digest of 64 characters: the first 16 identify the first line, the others the whole text."""
    first = sha256(text[: text.find(b"\n") + 1]).hexdigest()
    return first[:_FIRST_LINE_LENGTH] + sha256(text).hexdigest()[_FIRST_LINE_LENGTH:]


def plan_writes(imported: LogImport, pieces: list[Piece], shift: int, *, begins: bool) -> Plan:
    """Plan the writes of consecutive blocks. `begins` says that they are the first blocks of the log."""
    source = LogBlock.objects.filter(tenant=imported.tenant_id, source=imported.source)
    same = source.filter(digest__in={piece.digest for piece in pieces}).defer("facets")
    known = {(row.digest, row.occurrence): row for row in same}
    rows = [known.get((piece.digest, piece.occurrence)) for piece in pieces]
    head, shift = _find_head(source.filter(tail=False).order_by("-id"), pieces, rows) if begins else (0, shift)
    made = Plan(shift=shift)
    unknown = [piece for piece, row in zip(pieces[head:], rows[head:], strict=True) if row is None]
    tails = _Tails(source, unknown) if unknown else None
    if tails and begins and not head and (joined := _join_first(pieces, rows, tails)):
        return plan_writes(imported, joined, shift, begins=True)
    for at, (piece, row) in enumerate(zip(pieces, rows, strict=True)):
        if row:
            made.shift = row.first_line - piece.block.first_line
        elif tails and at >= head:
            _continue(made, piece, tails, begins=begins and not at)
    return made


def _join_first(pieces: list[Piece], rows: list[LogBlock | None], tails: "_Tails") -> list[Piece] | None:
    """Join the first two blocks if the log continues a tail in which no block ends between them. Otherwise return None.

    The first block of a log that lost its head ends after the first line that may end a block. In the tail, that line
    may be too near to a line that the log has lost.
    """
    block, row = pieces[0].block, rows[0]
    may_join = block.ended and len(block.text) < APART and (not row or row.tail) and not any(rows[1:2])
    found = tails.longest(block, begins=True) if may_join else None
    if not found:
        return None
    tail, text, place = found
    cutter = Cutter(tail.first_line)
    list(cutter.feed([text[:place], block.text]))
    if not cutter.carry:
        return None
    both = [piece.block for piece in pieces[:2]]
    whole, ended = b"".join(block.text for block in both), len(both) > 1 and both[-1].ended
    joined = Block(whole, ended, block.first_line, sum(block.lines for block in both))
    return [Piece(joined, digest_of(whole), 0), *pieces[2:]]


def _continue(made: Plan, piece: Piece, tails: "_Tails", *, begins: bool) -> None:
    """Plan the write of a block that no import had: the block is new, or continues a tail."""
    block = piece.block
    found = tails.longest(block, begins=begins)
    if found:
        tail, text, place = found
        begun = len(text) - place
        made.shift = tail.first_line + text.count(b"\n", 0, place) - block.first_line
        whole = text + block.text[begun:]
        # If a log lost its first lines and was sent before, another block already has the text that the tail would get.
        if begun >= len(block.text) or (place and tails.is_known(digest_of(whole))):
            return
        if place + len(block.text) > 2 * LONGEST_BLOCK:
            # A block must not grow without limit, so the new lines become another block.
            alone = _cut_from(block, begun)
            made.writes.append(Write(alone, alone.block.text, alone.block.first_line + made.shift))
        else:
            made.writes.append(Write(piece, whole, tail.first_line, tail, len(text), begun))
            tails.forget(tail)
    elif not block.ended and tails.has_grown(block, block.first_line + made.shift):
        return
    elif removed := tails.find_removed(block):
        _continue_removed(made, piece, removed, tails)
    else:
        made.writes.append(Write(piece, block.text, block.first_line + made.shift))


def _continue_removed(made: Plan, piece: Piece, tail: LogBlock, tails: "_Tails") -> None:
    """Plan a new block of the lines after a tail. Retention has removed the lines of the tail itself.

    If the last line of the tail had no line end, the line was counted with the tail, and its rest is left out.
    """
    block = piece.block
    at = block.text.find(b"\n", tail.size - 1) + 1
    made.shift = tail.first_line - block.first_line
    has_more = at not in (0, len(block.text))
    if has_more and not tails.is_known((alone := _cut_from(block, at)).digest):
        _continue(made, alone, tails, begins=False)


def _cut_from(block: Block, at: int) -> Piece:
    """Return the lines of a block from this place on as a block of their own."""
    rest = block.text[at:]
    first = block.first_line + block.text.count(b"\n", 0, at)
    return Piece(Block(rest, block.ended, first, rest.removesuffix(b"\n").count(b"\n") + 1), digest_of(rest), 0)


def overlap(tail: bytes, text: bytes, *, anywhere: bool) -> int | None:
    """Return the position in the tail from which on the tail and the text agree, or None.

    Without `anywhere`, only the beginning of the tail is tried.
    """
    places, place, is_line = [0], 0, b"\n" in text
    if anywhere:
        while is_line and len(places) < _PLACES and (place := tail.find(b"\n" + text[:APART], place) + 1):
            places.append(place)
        # From these places on, the tail may be shorter than the first `APART` bytes of the text.
        place = max(0, len(tail) - APART)
        while place := tail.find(b"\n", place, len(tail) - 1) + 1:
            places.append(place)
    return next((at for at in places if text.startswith(tail[at:]) or (is_line and tail.startswith(text, at))), None)


def _find_head(ended: "QuerySet[LogBlock]", pieces: list[Piece], rows: list[LogBlock | None]) -> tuple[int, int]:
    """Return how many of the first blocks are the end of known blocks, and the number of lines that the log has lost.

    `ended` are the blocks of the source that are no tails, newest first; `rows` has the known block of each piece. A
    block that ended at a limit ends elsewhere in a log without its first lines, and so do the following blocks, up to
    the next line that ends a block. A line in the first `APART` bytes may end a block only in the log without its head.
    """
    head, ends = list[bytes](), list[int]()
    for piece, row in zip(pieces, rows, strict=True):
        if row or not piece.block.ended:
            break
        head.append(piece.block.text)
        if ends_block(head[-1][:-1].rpartition(b"\n")[2]):
            ends.append(len(head))
            if sum(map(len, head)) >= APART:
                break
    for count in dict.fromkeys([len(head), *ends] if head else ()):
        follower = rows[count] if count < len(rows) else None
        before = ended.filter(first_line=follower.first_line - F("lines")) if follower else ended
        for row in before[:2]:
            if _ends_with(ended, row, b"".join(head[:count]), is_next=bool(follower)):
                last = pieces[count - 1].block
                return count, row.first_line + row.lines - last.first_line - last.lines
    return 0, 0


def _ends_with(ended: "QuerySet[LogBlock]", row: LogBlock | None, text: bytes, *, is_next: bool) -> bool:
    """Return whether the stored lines up to the end of a block end with the text.

    Lines that were removed are unknown. With `is_next`, the same known block follows the stored block and the text, so
    the unknown lines must be those of the text.
    """
    while row:
        try:
            stored = text_of(row.pk)
        except LogText.DoesNotExist:
            if not is_next:
                return False
            stored = text[-row.size :]
        if stored.endswith(text):
            return True
        if not text.endswith(stored):
            return False
        text = text.removesuffix(stored)
        row = ended.filter(first_line=row.first_line - F("lines")).first()
    return False


class _Tails:
    """The last blocks of earlier imports of a source (tails), newest first, with their texts."""

    def __init__(self, source: "QuerySet[LogBlock]", unknown: list[Piece]) -> None:
        self._source = source
        rows = source.filter(tail=True).order_by("-id")
        found = {row.pk: row for row in rows[:_NEWEST_TAILS]}
        if len(found) == _NEWEST_TAILS:
            begun = Q()
            for piece in unknown:
                begun |= Q(digest__startswith=piece.digest[:_FIRST_LINE_LENGTH])
            found |= {row.pk: row for row in rows.filter(begun)}
        texts = dict(LogText.objects.filter(block__in=found).values_list("block", "packed"))
        self._rows = [(row, zlib.decompress(texts[pk])) for pk, row in found.items() if pk in texts]
        self._removed = [row for pk, row in found.items() if pk not in texts]

    def longest(self, block: Block, *, begins: bool) -> tuple[LogBlock, bytes, int] | None:
        """Return the tail that the block continues, its text, and the position in the text at which the block begins.

        Of several tails, return the tail that contains most of the block. Return None if there is no such tail.
        """
        places = [(row, text, overlap(text, block.text, anywhere=begins)) for row, text in self._rows]
        found = [(row, text, place) for row, text, place in places if place is not None]
        return max(found, key=lambda one: len(one[1]) - one[2], default=None)

    def find_removed(self, block: Block) -> LogBlock | None:
        """Return the longest tail with which the block begins, among tails whose lines were removed, or None."""
        fits = (row for row in self._removed if digest_of(block.text[: row.size]) == row.digest)
        return max(fits, key=lambda row: row.size, default=None)

    def has_grown(self, block: Block, first_line: int) -> bool:
        """Return whether a stored block from this line on begins with the last block of an older or incomplete copy."""
        newest = self._source.filter(first_line=first_line).order_by("-id")[:_NEWEST_TAILS]
        texts = LogText.objects.filter(block__in=newest).values_list("packed", flat=True)
        return any(zlib.decompress(packed).startswith(block.text) for packed in texts)

    def is_known(self, digest: str) -> bool:
        return self._source.filter(digest=digest).exists()

    def forget(self, tail: LogBlock) -> None:
        self._rows = [(row, text) for row, text in self._rows if row.pk != tail.pk]
