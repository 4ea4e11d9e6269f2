"""Plans of writes: which blocks of a log are new, which are known, and which continue a tail of an earlier import.

A tail is the last block of an import, if the log ended before a line that ends the block.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Final

from django.db.models import F, Q, QuerySet

from handoffaudit.diagnostics.models import LogBlock, LogImport, LogText
from handoffaudit.validation.logs import blocks
from handoffaudit.validation.logs.blocks import LONGEST_BLOCK, Block, Cutter, ends_block
from handoffaudit.validation.logs.lines import BadLine
from handoffaudit.validation.logs.reader import read_bytes

# A block is compared with this many of the newest tails of its source, and with all tails that have the same first
# line. It is also compared with this many of the newest blocks that begin at the same line number.
_NEWEST_TAILS: Final = 8

# The beginning of a log is compared with the first `_NEWEST_TAILS` blocks of its source whose times include the first
# time of the log. They are sought among this many blocks of the tenant that end at or after that time.
_NEAREST: Final = 200

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
    bytes of `text` are the old text of the tail. The last `begun` of these bytes also begin the block of `piece`.
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
    """Plan the writes of consecutive blocks.

    `shift` is the number of lines that the log has lost at its start, by the plan of the previous blocks. `begins` is
    true if the blocks are the first blocks of the log.
    """
    if not pieces:
        # A part of an upload that lies within one very long line completes no block.
        return Plan(shift=shift)
    source = LogBlock.objects.filter(tenant=imported.tenant_id, source=imported.source)
    same = source.filter(digest__in={piece.digest for piece in pieces}).defer("facets")
    known = {(row.digest, row.occurrence): row for row in same}
    rows = [known.get((piece.digest, piece.occurrence)) for piece in pieces]
    head, shift = _find_head(source.filter(tail=False).order_by("-id"), pieces, rows) if begins else (0, shift)
    if begins and not head and not rows[0]:
        head, shift = _find_copy(imported.tenant_id, source, pieces)
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
    """Return the pieces with the first two joined if the first piece ends no block in the tail that the log continues.

    Otherwise, return None. If a log lost its first lines, its first block ends after the first line that may end a
    block. In the tail, the same line ends no block if another line that may end a block stands less than `APART` bytes
    before it. The log has lost that other line.
    """
    block, row = pieces[0].block, rows[0]
    may_join = block.ended and len(block.text) < blocks.APART and (not row or row.tail) and not any(rows[1:2])
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
    """Plan the write of a block that no import had: the block is new, or continues a tail.

    Plan no write if the lines of the block are stored already.
    """
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
        while is_line and len(places) < _PLACES and (place := tail.find(b"\n" + text[: blocks.APART], place) + 1):
            places.append(place)
        # From these places on, the tail may be shorter than the first `APART` bytes of the text.
        place = max(0, len(tail) - blocks.APART)
        while place := tail.find(b"\n", place, len(tail) - 1) + 1:
            places.append(place)
    return next((at for at in places if text.startswith(tail[at:]) or (is_line and tail.startswith(text, at))), None)


def _find_head(ended: "QuerySet[LogBlock]", pieces: list[Piece], rows: list[LogBlock | None]) -> tuple[int, int]:
    """Return how many of the first blocks are the end of known blocks, and the number of lines that the log has lost.

    `ended` are the blocks of the source that are no tails, newest first; `rows` has the known block of each piece. If a
    log has lost its first lines, a block that ended at a size limit in an earlier import ends elsewhere in this import.
    So do the blocks after it, up to the next line that ends a block. In the first `APART` bytes, a line may end a block
    although the same line ended none in an earlier import.
    """
    head, ends = list[bytes](), list[int]()
    for piece, row in zip(pieces, rows, strict=True):
        if row or not piece.block.ended:
            break
        head.append(piece.block.text)
        if ends_block(head[-1][:-1].rpartition(b"\n")[2]):
            ends.append(len(head))
            if sum(map(len, head)) >= blocks.APART:
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
    """Return whether the stored lines of the source, up to the end of the block `row`, end with the text.

    Lines that were removed are unknown. With `is_next`, the same known block follows the stored block and the text, so
    the unknown lines must be those of the text.
    """
    while row:
        try:
            stored = row.load_text()
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


def _find_copy(tenant_id: int, source: "QuerySet[LogBlock]", pieces: list[Piece]) -> tuple[int, int]:
    """Return how many of the first blocks are inside a known block, and the number of lines that the log has lost.

    These blocks must be the whole log, or reach to the end of the known block. At least two of their lines must have
    different times, because a log may repeat lines without a time, and lines of the same moment.
    """
    times = ((at, count) for count, piece in enumerate(pieces[:2], 1) for at in _read_times(piece.block.text))
    first, _ = next(times, (None, 0))
    least = next((count for at, count in times if at != first), None)
    if least is None:
        return 0, 0
    nearest = LogBlock.objects.filter(tenant=tenant_id, last_at__gte=first).order_by("last_at").values("pk")
    rows = source.filter(pk__in=nearest[:_NEAREST], first_at__lte=first, tail=False).order_by("last_at", "id")
    found = {row.pk: row for row in rows.defer("facets")[:_NEWEST_TAILS]}
    for pk, packed in LogText.objects.filter(block__in=found).values_list("block", "packed"):
        text = zlib.decompress(packed)
        for place in islice(_find_lines(text, pieces[0].block.text), _PLACES):
            count, end = 0, place
            while count < len(pieces) and text.startswith(piece := pieces[count].block.text, end):
                count, end = count + 1, end + len(piece)
            if count >= least and (count == len(pieces) or end == len(text)):
                return count, found[pk].first_line + text.count(b"\n", 0, place) - pieces[0].block.first_line
    return 0, 0


def _read_times(text: bytes) -> Iterator[datetime]:
    return (line.at for line in map(read_bytes, text.split(b"\n")) if not isinstance(line, BadLine))


def _find_lines(text: bytes, lines: bytes) -> Iterator[int]:
    """Yield the positions of lines in a text. The last of the lines may be only the beginning of a line of the text."""
    whole, sought, place = b"\n" + text, b"\n" + lines, -1
    while (place := whole.find(sought, place + 1)) >= 0:
        yield place


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
        """Return whether a stored block at this line begins with `block`.

        The log is then an older or incomplete copy that ends with `block`.
        """
        newest = self._source.filter(first_line=first_line).order_by("-id")[:_NEWEST_TAILS]
        texts = LogText.objects.filter(block__in=newest).values_list("packed", flat=True)
        return any(zlib.decompress(packed).startswith(block.text) for packed in texts)

    def is_known(self, digest: str) -> bool:
        return self._source.filter(digest=digest).exists()

    def forget(self, tail: LogBlock) -> None:
        self._rows = [(row, text) for row, text in self._rows if row.pk != tail.pk]
