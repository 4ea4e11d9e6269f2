"""What a number follows from: what is seen quickly must not miss what a slow search finds."""

from itertools import combinations

import pytest

from handoffaudit.validation.layers.grounding.derived import Derivation, SourceOperands
from handoffaudit.validation.layers.grounding.values import Number


@pytest.mark.parametrize(
    ("claimed", "given", "stated", "way"),
    [
        (Number(50.0, 1.0), [20.0, 30.0], [], "20 + 30"),
        (Number(17.0, 1.0), [20.0, 37.0], [], "37 - 20"),
        (Number(60.0, 1.0), [20.0], [], "3 * 20"),
        (Number(16.0, 1.0), [12.2, 3.9], [], "12.2 + 3.9"),
        (Number(15.9, 0.1), [12.5, 3.4], [], "12.5 + 3.4"),
        (Number(65.0, 1.0), [], [20.0, 21.0, 24.0], "sum of 3 numbers from 20"),
        (Number(65.0, 1.0), [44.0], [21.0], "21 + 44"),
        (Number(22.0, 1.0), [7.0, 41.0, 18.0], [], "mean of 3 numbers"),
        (Number(71.0, 1.0), [20.0, 30.0], [], ""),
    ],
)
def test_how_a_number_follows(claimed: Number, given: list[float], stated: list[float], way: str) -> None:
    derivation = Derivation(SourceOperands(given))
    for number in stated:
        derivation.state(number)
    assert derivation.way(claimed) == way


def test_no_sum_or_difference_of_two_is_missed() -> None:
    for series in range(100):
        given = [float(13 + (series * 7_919 + place * 104_729) % 1_987) for place in range(12)]
        derivation = Derivation(SourceOperands(given[:8]))
        for number in given[8:]:
            derivation.state(number)
        for one, other in combinations(given, 2):
            assert derivation.way(Number(one + other, 1.0))
            assert derivation.way(Number(abs(one - other), 1.0))


def test_a_place_too_many_follows_from_nothing() -> None:
    operands = SourceOperands([4_200.0, 11.0])
    assert Derivation(operands).way(Number(42_000.0, 1.0)) == ""
    assert Derivation(operands).way(Number(12_600.0, 1.0)) == "3 * 4,200"
