"""Tests of the choice of drawn entries of a long chain."""

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.drawing import svg
from handoffaudit.drawing.svg import FOLDED_PAST, fold_positions


def test_the_examples_hold() -> None:
    assert doctest.testmod(svg).failed == 0


@given(st.integers(0, 300), st.sets(st.integers(0, 299), max_size=6))
def test_every_entry_is_drawn_or_in_one_fold(length: int, marked: set[int]) -> None:
    marked = {position for position in marked if position < length}
    slots = list(fold_positions(length, marked))
    positions = [position for slot in slots for position in (slot if isinstance(slot, range) else [slot])]
    assert positions == list(range(length))
    assert all(len(slot) > 1 for slot in slots if isinstance(slot, range))


@pytest.mark.parametrize("length", [0, 1, FOLDED_PAST])
def test_a_short_chain_is_not_folded(length: int) -> None:
    assert list(fold_positions(length)) == list(range(length))
