"""Gzip unpacked piece by piece, in time and memory that its size bounds."""

import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

MAGIC: Final = b"\x1f\x8b"

# Taken in at once: where a member ends, what follows it is copied.
PIECE: Final = 64 * 1024

# What is packed in blocks has a member for each 64 KiB. One of nothing takes 20 bytes, and time.
MOST_MEMBERS: Final = 100_000

_AT_ONCE: Final = 1024 * 1024

# Below this it does not matter how much smaller a log came.
FREE_BYTES: Final = 8 * 1024 * 1024


class BadGzip(Exception):
    """It can't be unpacked any further; the message says why."""


class TooLarge(Exception):
    """The content is larger than a limit. The message names the size, the limit and its setting."""

    def __init__(self, said: str, limit: int) -> None:
        super().__init__(said)
        self.limit = limit


def limit_stream(
    stream: Iterable[bytes], most: int, ratio: int, setting: str, *, is_packed: bool | None = None
) -> Iterator[bytes]:
    """Give the content of a stream that is gzip or not (`is_packed` None: its first bytes say so), in pieces of at most
    a megabyte.

    Raise `TooLarge` where it has more than `most` bytes, which `setting` says, or where gzip makes it more than `ratio`
    times as large as it came (above `FREE_BYTES`); `BadGzip` where it can't be unpacked. Give it in pieces of `PIECE`.
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
    """What is in one gzip member or in several on end, in pieces of at most a megabyte; give it in pieces of `PIECE`
    bytes or less. Raises `BadGzip`, after what could be unpacked."""
    member = None
    members = 0
    for piece in packed:
        rest = piece
        while rest:
            if member is None:
                # Between members there may be padding.
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
    """Some of what is in a member, the bytes that are left, and whether the member ends before them."""
    try:
        part = member.decompress(packed, _AT_ONCE)
    except zlib.error as error:
        raise BadGzip(str(error)) from error
    return part, member.unused_data if member.eof else member.unconsumed_tail, member.eof
