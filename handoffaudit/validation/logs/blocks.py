"""The blocks of a log: cutting a stream of bytes into blocks of whole lines.

A block ends after a line whose checksum is small for its length. The ends of blocks therefore depend only on the lines.
The same lines form the same blocks, even if a file grew or lost its first lines.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from zlib import crc32

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

    `text` ends with a line end, except in the last block of a stream, where the line end may be missing. `ended` is
    false if the block ends only because the stream ended: the block may grow when the log is sent again.
    `first_line` counts from 1. `text` has only the beginning of a line that is too long.
    """

    text: bytes
    ended: bool
    first_line: int
    lines: int


def cut_blocks(stream: Iterable[bytes], first_line: int = 1) -> Iterator[Block]:
    """Yield the blocks of a stream that comes in pieces of any size.

    If the stream raises an error, yield the lines before the error as the last block, and raise the error again.
    """
    cutter = Cutter(first_line)
    try:
        yield from cutter.feed(stream)
    except Exception:
        yield from cutter.close()
        raise
    yield from cutter.close()


def ends_block(line: bytes) -> bool:
    """Return whether a block may end after this line, given without its line end.

    The block ends there, unless the previous line after which a block may end is less than `APART` bytes away.
    """
    # An empty line never ends a block, although its checksum 0 is always small enough.
    return bool(line) and crc32(line) < (len(line) + 1) << _RATE_BITS


class Cutter:
    """A cutter of a stream, or of one part of a stream.

    To cut the next part, create a cutter with the `first_line` and `since` of the previous part's cutter. Put the
    `carry` of the previous cutter before the bytes of the next part. Without `since`, the line before `first_line`
    counts as the end of a block.
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
