"""Normal forms: spellings that mean the same, and those that don't."""

import pytest

from handoffaudit.validation.layers.grounding.values import fold_case, number_of, plain_figure, values_in
from handoffaudit.validation.layers.grounding.vocabulary import days_of, minutes_of, same_day


def number(text: str) -> tuple[float, float, bool]:
    (value,) = values_in(text)
    found = number_of(value)
    assert found is not None
    return (found.value, found.step, found.percent)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,200.50", (1200.5, 0.01, False)),
        ("1200.5", (1200.5, 0.1, False)),
        ("1.2k", (1200, 100, False)),
        ("3 million", (3_000_000, 1_000_000, False)),
        ("40 %", (40, 1, True)),
        ("12.5 percent", (12.5, 0.1, True)),
        ("twelve", (12, 1, False)),
    ],
)
def test_numbers_keep_their_value_and_their_precision(text: str, expected: tuple[float, float, bool]) -> None:
    assert number(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("figure", "plain"),
    [
        ("1.200,50", "1200.50"),
        ("1,5", "1.5"),
        ("2,500", "2500"),
        ("1.2.3", None),
        ("2020,54", "2020.54"),
        ("1,2,3", None),
    ],
)
def test_separators_are_read_as_they_are_meant(figure: str, plain: str | None) -> None:
    assert plain_figure(figure) == plain


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("12 March 2024", (2024, 3, 12)),
        ("March 12th, 2024", (2024, 3, 12)),
        ("2024-03-12", (2024, 3, 12)),
        ("12/3/2024", (2024, 3, 12)),
        ("3/12/2024", (2024, 3, 12)),
        ("May 2021", (2021, 5, None)),
        ("4 May", (None, 5, 4)),
    ],
)
def test_a_day_is_the_same_in_every_spelling(text: str, day: tuple[int | None, int | None, int | None]) -> None:
    assert day in days_of(text)


def test_a_day_that_says_less_agrees_with_one_that_says_more() -> None:
    assert same_day((None, 5, 4), (2024, 5, 4))
    assert same_day((2024, 5, None), (2024, 5, 4))
    assert not same_day((2023, 5, 4), (2024, 5, 4))


@pytest.mark.parametrize(
    ("text", "minutes"), [("2 PM", 840), ("14:00", 840), ("12:30 a.m.", 30), ("12 pm", 720), ("45:00", None)]
)
def test_times_are_minutes_of_the_day(text: str, minutes: int | None) -> None:
    assert minutes_of(text) == minutes


def test_accents_and_case_are_folded() -> None:
    assert fold_case("Zoë MÜLLER") == "zoe muller"
