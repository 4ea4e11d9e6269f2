"""Tests of gzip streams in pieces: complete output in bounded time."""

import gzip
from collections.abc import Iterator

import pytest

from handoffaudit.diagnostics.logs import upload
from handoffaudit.diagnostics.logs.upload import BadGzip, decompress_stream

TEXT = b"".join(b"line %d\n" % number for number in range(50_000))


def in_pieces(packed: bytes, length: int = upload.PIECE) -> Iterator[bytes]:
    return (packed[at : at + length] for at in range(0, len(packed), length))


@pytest.mark.parametrize("length", [1, 7, upload.PIECE])
def test_members_on_end_are_one_text_wherever_they_are_cut(length: int) -> None:
    packed = gzip.compress(TEXT) + b"\0" * 9 + gzip.compress(b"") + gzip.compress(b"end") + b"\0"
    assert b"".join(decompress_stream(in_pieces(packed, length))) == TEXT + b"end"


def test_what_is_huge_comes_in_small_pieces() -> None:
    sizes = [len(piece) for piece in decompress_stream(in_pieces(gzip.compress(bytes(20_000_000))))]
    assert (sum(sizes), max(sizes)) == (20_000_000, 1024 * 1024)


@pytest.mark.parametrize(
    ("packed", "why"),
    [
        (gzip.compress(TEXT)[:-5], "ends before"),
        (gzip.compress(TEXT) + b"no member", "header"),
        (b"no gzip", "header"),
        (gzip.compress(TEXT)[:-8] + bytes(8), "data check"),
    ],
)
def test_damage_is_said_after_what_could_be_read(packed: bytes, why: str) -> None:
    got: list[bytes] = []
    with pytest.raises(BadGzip, match=why):
        got.extend(decompress_stream(in_pieces(packed)))
    assert TEXT.startswith(b"".join(got))


def test_members_of_nothing_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "MOST_MEMBERS", 100)
    assert not list(decompress_stream(in_pieces(gzip.compress(b"") * 100)))
    with pytest.raises(BadGzip, match="100 members"):
        list(decompress_stream(in_pieces(gzip.compress(b"") * 101)))
