"""Tests that the ends of blocks depend on their lines alone."""

import random
from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.validation.logs.blocks import APART, LONGEST_BLOCK, MOST_LINES, Block, Cutter, cut_blocks, ends_block
from handoffaudit.validation.logs.reader import LONGEST_LINE
from tests.scale import examples


def log(number: int, seed: int = 1) -> bytes:
    chance = random.Random(seed)  # noqa: S311
    return b"".join(b"[2026-02-15T00:15:00Z] [INFO] [gate] %032x\n" % chance.getrandbits(128) for _ in range(number))


def texts(data: bytes, piece: int = 100_000) -> list[bytes]:
    return [block.text for block in cut_blocks(data[at : at + piece] for at in range(0, len(data), piece))]


def test_blocks_are_all_of_the_stream_whatever_its_pieces() -> None:
    data = log(20_000)
    found = texts(data)
    assert len(found) > 3
    assert b"".join(found) == data
    assert texts(data, 7_777) == found
    assert texts(data, len(data)) == found


def test_lines_are_numbered() -> None:
    found = list(cut_blocks([log(20_000)]))
    assert [block.first_line for block in found] == [
        1 + sum(block.lines for block in found[:at]) for at in range(len(found))
    ]
    assert sum(block.lines for block in found) == 20_000
    assert [block.ended for block in found] == [True] * (len(found) - 1) + [False]


def test_a_file_that_grew_has_the_same_blocks_but_for_its_last() -> None:
    short, long = log(10_000), log(20_000)
    assert texts(long)[: len(texts(short)) - 1] == texts(short)[:-1]


def test_a_file_that_lost_its_head_has_the_same_blocks_but_for_its_first() -> None:
    whole = log(20_000)
    rotated = whole[whole.index(b"\n", 50_000) + 1 :]
    assert set(texts(rotated)[1:]) <= set(texts(whole))
    assert whole.endswith(b"".join(texts(rotated)[1:]))


def test_a_stream_that_ends_where_a_block_does_has_no_open_end() -> None:
    data = log(20_000)
    first = texts(data)[0]
    assert [block.ended for block in cut_blocks([first])] == [True]
    assert ends_block(first.splitlines()[-1])


def test_lines_that_never_end_a_block_make_blocks_of_bounded_size() -> None:
    line = next(line for line in (b"%d" % n for n in range(100)) if not ends_block(line))
    found = texts((line + b"\n") * 600_000)
    assert max(map(len, found)) <= LONGEST_BLOCK
    assert sum(map(len, found)) == 600_000 * (len(line) + 1)


def test_blocks_of_short_lines_are_bounded_in_lines_whatever_the_pieces() -> None:
    data = b"x\n" * 100_000
    found = list(cut_blocks([data]))
    assert max(block.lines for block in found) == MOST_LINES
    assert b"".join(block.text for block in found) == data
    assert texts(data, 1_001) == [block.text for block in found]


def test_a_line_that_may_end_a_block_does_not_each_time_it_comes_again() -> None:
    line = next(line for line in (b"%d" % n for n in range(10**6)) if ends_block(line))
    assert len(texts((line + b"\n") * 10_000)) == 2


def test_a_line_without_an_end_is_kept_as_it_is() -> None:
    assert texts(b"a\nb") == [b"a\nb"]
    assert texts(b"a") == [b"a"]
    assert texts(b"\n\n") == [b"\n\n"]
    assert texts(b"") == []


def test_of_a_line_that_is_too_long_the_beginning_is_kept() -> None:
    def stream():
        yield b"first\n"
        yield from islice(iter(lambda: b"x" * 1_000_000, None), 50)
        yield b"\nlast\n"

    found = b"".join(block.text for block in cut_blocks(stream()))
    assert found == b"first\n" + b"x" * LONGEST_LINE + b"\nlast\n"


@settings(max_examples=examples(50))
@given(st.lists(st.binary(max_size=30), max_size=20))
def test_any_bytes_in_any_pieces(pieces: list[bytes]) -> None:
    found = list(cut_blocks(pieces))
    assert b"".join(block.text for block in found) == b"".join(pieces)
    assert sum(block.lines for block in found) == len(b"".join(pieces).removesuffix(b"\n").split(b"\n")) * bool(found)


@pytest.mark.parametrize("part", [1_000, 70_000, 300_001])
def test_a_stream_that_is_cut_in_parts_has_the_same_blocks(part: int) -> None:
    long = b"l" * (LONGEST_LINE + 5_000) + b"\n"
    data = log(6_000) + b"x\n" * 40_000 + long + log(500, 2) + long + long + log(3_000, 3) + b"no end"
    found, carry, first_line, since = [], b"", 1, APART
    for at in range(0, len(data), part):
        cutter = Cutter(first_line, since)
        found += cutter.feed([carry, data[at : at + part]])
        carry, first_line, since = cutter.carry, cutter.first_line, cutter.since
    found += cutter.close()
    assert found == list(cut_blocks([data]))


def test_a_part_that_begins_where_a_block_ended_has_the_same_blocks() -> None:
    end = next(line for line in (b"%d" % n for n in range(10**6)) if ends_block(line)) + b"\n"
    fill = b"x\n" * APART
    whole = list(cut_blocks([fill + end + b"x\n" + end + fill + end]))
    assert [len(block.text) for block in whole] == [len(fill + end), len(b"x\n" + end + fill + end)]
    assert list(cut_blocks([whole[1].text], whole[1].first_line)) == whole[1:]


def test_lines_before_an_error_of_the_stream_are_the_last_block() -> None:
    def broken() -> Iterator[bytes]:
        yield b"one\ntwo\nth"
        raise OSError("the disk is gone")

    found = cut_blocks(broken())
    assert next(found) == Block(b"one\ntwo\nth", ended=False, first_line=1, lines=3)
    with pytest.raises(OSError, match="gone"):
        next(found)
