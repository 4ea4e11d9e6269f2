"""Decompression of gzip streams piece by piece, in bounded time and memory."""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

MAGIC: Final = b"\x1f\x8b"

# Input comes in pieces of this size, because the bytes after the end of a member are copied.
PIECE: Final = 64 * 1024

# Data that is packed in blocks has a member for each 64 KiB. An empty member takes 20 bytes, and time.
MOST_MEMBERS: Final = 100_000

_AT_ONCE: Final = 1024 * 1024

# The compression ratio of a log below this size does not matter.
FREE_BYTES: Final = 8 * 1024 * 1024


class BadGzip(Exception):
    """The data can't be unpacked any further; the message says why."""


class TooLarge(Exception):
    """The content is larger than a limit. The message names the size, the limit and its setting."""

    def __init__(self, said: str, limit: int) -> None:
        super().__init__(said)
        self.limit = limit


def limit_stream(
    stream: Iterable[bytes], most: int, ratio: int, setting: str, *, is_packed: bool | None = None
) -> Iterator[bytes]:
    """Yield the content of a stream that is gzip or not, in pieces of at most a megabyte.

    With `is_packed` None, the first bytes of the stream decide. Give the stream in pieces of `PIECE` bytes. Raise
    `TooLarge` if the content has more than `most` bytes (`setting` names that limit), or if gzip makes it more than
    `ratio` times as large as it came (above `FREE_BYTES`). Raise `BadGzip` if the stream can't be unpacked.
    """
    came = size = 0

    def counted() -> Iterator[bytes]:
        nonlocal came
        for piece in stream:
            came += len(piece)
            yield piece

    whole = counted()
    head = b""
    for piece in whole:
        head += piece
        if len(head) >= len(MAGIC):
            break
    is_packed = head.startswith(MAGIC) if is_packed is None else is_packed
    everything = chain([head] if head else [], whole)
    for piece in decompress_stream(everything) if is_packed else everything:
        size += len(piece)
        if size > most:
            raise TooLarge(
                f"has more than {most:,} bytes{' unpacked' * is_packed}, which are the most ({setting})", most
            )
        if is_packed and size > max(FREE_BYTES, ratio * came):
            said = (
                f"unpacks to more than {ratio} times its size ({size:,} bytes from {came:,}), which is the most"
                " (HANDOFFAUDIT_MAX_LOG_RATIO)"
            )
            raise TooLarge(said, ratio)
        yield piece


def decompress_stream(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of one or several gzip members, in pieces of at most a megabyte.

    Give the input in pieces of `PIECE` bytes or less. Raise `BadGzip` after the content that could be unpacked.
    """
    member = None
    members = 0
    for piece in packed:
        rest = piece
        while rest:
            if member is None:
                # Members may have padding between them.
                rest = rest.lstrip(b"\0") if members else rest
                if not rest:
                    break
                member, members = _begun(members), members + 1
            part, rest, ended = _read_member(member, rest)
            member = None if ended else member
            if part:
                yield part
    if member is not None:
        raise BadGzip("it ends before its gzip data does")


def _begun(members: int) -> "zlib._Decompress":
    if members == MOST_MEMBERS:
        raise BadGzip(f"it has more than {MOST_MEMBERS:,} members")
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _read_member(member: "zlib._Decompress", packed: bytes) -> tuple[bytes, bytes, bool]:
    """Return some content of a member, the bytes that are left, and whether the member ends before them."""
    try:
        part = member.decompress(packed, _AT_ONCE)
    except zlib.error as error:
        raise BadGzip(str(error)) from error
    return part, member.unused_data if member.eof else member.unconsumed_tail, member.eof
