"""Compression of stored texts, and decompression of gzip and zstd streams within limits of memory and time."""

import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Input must come in pieces of at most this size. At the end of each gzip member, the rest of the piece is copied, so a
# large piece with many members would be copied many times.
PIECE: Final = 64 * 1024

# Some tools write a gzip member for each 64 KiB. The limit is against floods of empty members, which take only 20 bytes
# but cost time. A zstd frame costs more, because each frame needs a context of its own.
MOST_MEMBERS: Final = 100_000
MOST_FRAMES: Final = 10_000

_AT_ONCE: Final = 1024 * 1024

# Receivers must support windows of up to 8 MiB (RFC 9659). The sender chooses the window of a frame, up to 2 GiB, and
# the receiver keeps the window in memory.
_WINDOW_LOG: Final = 23


# A higher level takes twice as long and makes the result only a tenth smaller.
_LEVEL: Final = 1


def compress(text: bytes) -> bytes:
    return zlib.compress(text, _LEVEL)


class DamagedStream(Exception):
    """The error for data that cannot be decompressed any further; the message gives the reason."""


def decompress_gzip(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of one or several gzip members, in pieces of at most a megabyte.

    Pass the input in pieces of `PIECE` bytes or less. Raise `DamagedStream` after the content that could be
    decompressed.
    """
    member = None
    members = 0
    for piece in packed:
        rest = piece
        while rest:
            if member is None:
                # There may be padding between two members.
                rest = rest.lstrip(b"\0") if members else rest
                if not rest:
                    break
                member, members = _begin_member(members), members + 1
            part, rest, ended = _read_member(member, rest)
            member = None if ended else member
            if part:
                yield part
    if member is not None:
        raise DamagedStream("its gzip data is cut off")


def _begin_member(members: int) -> "zlib._Decompress":
    if members == MOST_MEMBERS:
        raise DamagedStream(f"it has more than {MOST_MEMBERS:,} members")
    return zlib.decompressobj(zlib.MAX_WBITS | 16)


def _read_member(member: "zlib._Decompress", packed: bytes) -> tuple[bytes, bytes, bool]:
    """Return some content of a member, the input that is left, and whether the member has ended."""
    try:
        part = member.decompress(packed, _AT_ONCE)
    except zlib.error as error:
        raise DamagedStream(str(error)) from error
    return part, member.unused_data if member.eof else member.unconsumed_tail, member.eof


def decompress_zstd(packed: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the content of one or several zstd frames, in pieces of at most a megabyte.

    Raise `DamagedStream` after the content that could be decompressed, also for a frame with a window above 8 MiB.
    """
    frame = None
    frames = 0
    for piece in packed:
        rest = piece
        while rest:
            if frame is None:
                frame, frames = _begin_frame(frames), frames + 1
            rest = yield from _read_frame(frame, rest)
            frame = None if frame.eof else frame
    if frame is not None:
        raise DamagedStream("its zstd data is cut off")


def _begin_frame(frames: int) -> "zstd.ZstdDecompressor":
    if frames == MOST_FRAMES:
        raise DamagedStream(f"it has more than {MOST_FRAMES:,} frames")
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})


def _read_frame(frame: "zstd.ZstdDecompressor", packed: bytes) -> Generator[bytes, None, bytes]:
    """Yield the content of a frame, as far as the input goes, and return the input after the end of the frame."""
    while True:
        try:
            part = frame.decompress(packed, _AT_ONCE)
        except zstd.ZstdError as error:
            raise DamagedStream(str(error).removeprefix("Unable to decompress Zstandard data: ")) from error
        if part:
            yield part
        if frame.eof:
            return frame.unused_data
        if frame.needs_input:
            return b""
        # The frame keeps the input that it has not used yet.
        packed = b""


# The decompressors by the name of the content coding (RFC 9110).
DECOMPRESSORS: Final[Mapping[str, Callable[[Iterable[bytes]], Iterator[bytes]]]] = MappingProxyType(
    {"gzip": decompress_gzip, "zstd": decompress_zstd}
)
