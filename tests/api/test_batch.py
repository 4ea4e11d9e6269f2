"""Tests of splitting a batch into its items."""

import tracemalloc

import pytest

from handoffaudit.api.batch import split_batch


def test_a_batch_is_cut_into_the_bytes_of_its_items() -> None:
    items = [b'{"a" : 1}', b"[ ]", b"null", b'"x"']
    assert [item.strip() for item in split_batch(b"[ " + b" ,\n".join(items) + b" ]", lines=False, most=9)] == items
    assert split_batch(b"\n".join(items) + b"\r\n\n  \n", lines=True, most=9) == [*items[:-1], items[-1] + b"\r"]


@pytest.mark.parametrize("sent", [b"[1, 2", b"[1,]", b"[" * 5000, b"[\xff]x"])
def test_an_array_that_cannot_be_read_raises(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        split_batch(sent, lines=False, most=9)


@pytest.mark.parametrize("lines", [False, True])
def test_of_a_batch_of_millions_few_items_are_kept(lines: bool) -> None:
    sent = b"11\n" * 500_000 if lines else b"[" + b"11," * 500_000 + b"11]"
    tracemalloc.start()
    try:
        assert split_batch(sent, lines=lines, most=3) == [b"11"] * 4
        assert tracemalloc.get_traced_memory()[1] < len(sent)
    finally:
        tracemalloc.stop()


def test_what_follows_the_last_item_that_is_kept_is_read_too() -> None:
    with pytest.raises(ValueError, match="line 1, column 10"):
        split_batch(b"[1,2,3,4,nonsense]", lines=False, most=2)


def test_a_line_keeps_the_spaces_it_begins_with() -> None:
    assert split_batch(b"  \n \t{}\n\n 1 ", lines=True, most=9) == [b" \t{}", b" 1 "]
