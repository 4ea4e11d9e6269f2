"""Tests of compressed streams in pieces: complete output in bounded time."""

import gzip
import sys
from collections.abc import Iterator

import pytest

from handoffaudit import compression
from handoffaudit.compression import DamagedStream, decompress_gzip, decompress_zstd

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

TEXT = b"".join(b"line %d\n" % number for number in range(50_000))


def in_pieces(packed: bytes, length: int = compression.PIECE) -> Iterator[bytes]:
    return (packed[at : at + length] for at in range(0, len(packed), length))


@pytest.mark.parametrize("length", [1, 7, compression.PIECE])
def test_members_on_end_are_one_text_wherever_they_are_cut(length: int) -> None:
    packed = gzip.compress(TEXT) + b"\0" * 9 + gzip.compress(b"") + gzip.compress(b"end") + b"\0"
    assert b"".join(decompress_gzip(in_pieces(packed, length))) == TEXT + b"end"


def test_what_is_huge_comes_in_small_pieces() -> None:
    sizes = [len(piece) for piece in decompress_gzip(in_pieces(gzip.compress(bytes(20_000_000))))]
    assert (sum(sizes), max(sizes)) == (20_000_000, 1024 * 1024)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (gzip.compress(TEXT)[:-5], "data is cut off"),
        (gzip.compress(TEXT) + b"no member", "header"),
        (b"no gzip", "header"),
        (gzip.compress(TEXT)[:-8] + bytes(8), "data check"),
    ],
)
def test_damage_is_said_after_what_could_be_read(packed: bytes, why: str) -> None:
    got: list[bytes] = []
    with pytest.raises(DamagedStream, match=why):
        got.extend(decompress_gzip(in_pieces(packed)))
    assert TEXT.startswith(b"".join(got))


def test_members_of_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MOST_MEMBERS", 100)
    assert not list(decompress_gzip(in_pieces(gzip.compress(b"") * 100)))
    with pytest.raises(DamagedStream, match="100 members"):
        list(decompress_gzip(in_pieces(gzip.compress(b"") * 101)))


@pytest.mark.parametrize("length", [1, 7, compression.PIECE])
def test_frames_on_end_are_one_text_wherever_they_are_cut(length: int) -> None:
    packed = zstd.compress(TEXT) + zstd.compress(b"") + zstd.compress(b"end")
    assert b"".join(decompress_zstd(in_pieces(packed, length))) == TEXT + b"end"


def test_a_huge_frame_comes_in_small_pieces() -> None:
    sizes = [len(piece) for piece in decompress_zstd(in_pieces(zstd.compress(bytes(20_000_000))))]
    assert sum(sizes) == 20_000_000
    assert max(sizes) <= 1024 * 1024


def wide() -> bytes:
    """Return a frame with a window of 128 MiB."""
    options = {zstd.CompressionParameter.compression_level: 1, zstd.CompressionParameter.window_log: 27}
    compressor = zstd.ZstdCompressor(options=options)
    return compressor.compress(b"some content") + compressor.flush()


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (zstd.compress(TEXT)[:-5], "data is cut off"),
        (zstd.compress(TEXT) + b"no frame", "descriptor"),
        (b"no zstd", "descriptor"),
        (wide(), "too much memory"),
    ],
)
def test_damage_of_zstd_is_said_after_what_could_be_read(packed: bytes, why: str) -> None:
    got: list[bytes] = []
    with pytest.raises(DamagedStream, match=why):
        got.extend(decompress_zstd(in_pieces(packed)))
    assert TEXT.startswith(b"".join(got))


def test_frames_of_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "MOST_FRAMES", 100)
    assert not list(decompress_zstd(in_pieces(zstd.compress(b"") * 100)))
    with pytest.raises(DamagedStream, match="100 frames"):
        list(decompress_zstd(in_pieces(zstd.compress(b"") * 101)))
