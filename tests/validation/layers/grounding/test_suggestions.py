"""What is suggested for a value that stands in no source: something near, as it is written there, or nothing."""

from functools import partial

import pytest

from handoffaudit.validation.claims import Source
from handoffaudit.validation.layers.grounding import SourceIndex, ground
from handoffaudit.validation.layers.grounding.suggestions import Nearby, differing_length
from tests.elapsed import growth


def suggested(claim: str, text: str, kind: str) -> list[str]:
    marks = ground(claim, SourceIndex.of([Source("context.page", text)]))
    return [mark.closest for mark in marks if mark.status == "ungrounded" and mark.kind == kind]


@pytest.mark.parametrize(
    ("claim", "text", "near"),
    [
        ("It costs 42,000 EUR", "Acme: 4,200 EUR; Berg: 5,100 EUR", "4,200"),
        ("It costs 5,700 EUR", "Acme: 4,200 EUR; Berg: 5,100 EUR", "5,100"),
        ("It costs 12.6 EUR", "The price was 12.75 EUR", "12.75"),
        ("It is 44.8 %", "A share of 45 %, or 44.6", "45 %"),
        ("It sold 31,400", "It sold 41,300 and 34,100", "34,100"),
        ("It was founded in 1987", "founded in 1978 for 1,953", "1978"),
    ],
)
def test_a_figure_of_the_same_size_or_with_nearly_the_same_digits(claim: str, text: str, near: str) -> None:
    assert suggested(claim, text, "number") == [near]


@pytest.mark.parametrize(
    ("claim", "text", "near"),
    [
        ("It sold 1,324", "It sold 95,000 and 1,234", "1,234"),
        ("It sold 13,245", "It sold 12,345 and 99,245", "12,345"),
        ("It sold 24,700", "It sold 4,700 and 924,700", "4,700"),
        ("It costs 100 EUR", "Acme: 101 EUR; Berg: 99 EUR; Cole: 101 EUR", "101"),
        ("It costs 100 EUR", "Acme: 99 EUR; Berg: 101 EUR", "101"),
    ],
)
def test_one_wrong_digit_at_any_place_and_the_smallest_difference(claim: str, text: str, near: str) -> None:
    assert suggested(claim, text, "number") == [near]


@pytest.mark.parametrize(
    ("source", "near"),
    [
        (Source("context.page", "The id is ZX-4711-AB98."), "ZX-4711-AB98"),
        (Source("context.page", "password: ZX-4711-AB98"), ""),
        (Source("evidence[0].api_key", "ZX-4711-AB98"), ""),
        (Source("context.credentials[0].id", "ZX-4711-AB98"), ""),
    ],
)
def test_no_secret(source: Source, near: str) -> None:
    [mark] = ground("The id is ZX-4711-AB99.", SourceIndex.of([source, Source("context.other", "It costs 12.")]))
    assert (mark.text, mark.closest) == ("ZX-4711-AB99", near)


@pytest.mark.parametrize(("name", "near"), [("password", ""), ("moment", "2024-03-06 10:31")])
def test_no_secret_day_or_time(name: str, near: str) -> None:
    index = SourceIndex.of([Source(f"context.{name}", "2024-03-06 10:31")])
    assert " ".join(mark.closest for mark in ground("On 2024-03-05 at 10:30.", index)).strip() == near


@pytest.mark.parametrize(("named", "near"), [("DB_PASSWORD", ""), ("DB_ROWS", "47118")])
def test_no_value_that_another_source_calls_a_secret(named: str, near: str) -> None:
    index = SourceIndex.of([Source("context.env[0].name", named), Source("context.env[0].value", "47118")])
    assert [mark.closest for mark in ground("It sold 47,116 in all.", index) if mark.kind == "number"] == [near]


@pytest.mark.parametrize(("name", "near"), [("pin", ""), ("tokens", "47118"), ("pin.total", ""), ("total", "47118")])
def test_no_secret_number(name: str, near: str) -> None:
    marks = ground("It sold 47,116 in all.", SourceIndex.of([Source(f"context.{name}", "47118")]))
    assert [mark.closest for mark in marks if mark.kind == "number"] == [near]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("It was founded in 1987", "The price is 12.40 EUR"),
        ("It was founded in 1987", "It sold 1,957 pieces"),
        ("It was founded in 1987", "The letter of 12 March 1986 has order W1986"),
        ("It costs 14.60 EUR", "The median was 12.40 EUR"),
        ("It is 46 %", "There were 45 of them"),
        ("It costs 400 EUR", "There are 4 of them"),
        ("It costs 57 EUR", "There are 75 of them"),
    ],
)
def test_no_figure_of_another_size_or_kind(claim: str, text: str) -> None:
    assert suggested(claim, text, "number") == [""]


@pytest.mark.parametrize(
    ("claim", "text", "near"),
    [
        ("We asked Mr Wetterlind", "Ms Wetterlund was asked", "Wetterlund"),
        ("We asked Mr Kovándy", "Ms Kavándy was asked", "Kavándy"),
        ("We asked Mr Berg", "It was in Bern", ""),
        ("We asked Mr Marter", "It is about a matter of money", ""),
        ("We asked Mr Miller", "Ms Moeller was asked", ""),
    ],
)
def test_a_name_that_is_hardly_spelled_otherwise(claim: str, text: str, near: str) -> None:
    assert suggested(claim, text, "name") == [near]


@pytest.mark.parametrize(
    ("claim", "text", "near"),
    [
        ("on 12 March 2023", "The letter of 12 March 2024", "12 March 2024"),
        ("on 5 May 2011", "The letter of 12 March 2024", ""),
        ("at 14:45", "The call at 14:30", "14:30"),
        ("at 2:30 AM", "The call at 14:30", "14:30"),
        ("at 23:30", "The call at 00:30", "00:30"),
        ("at 00:15", "The call at 23:15", "23:15"),
        ("at 9:10", "The call at 14:30", ""),
    ],
)
def test_a_day_that_differs_in_one_part_and_a_time_of_the_same_hour(claim: str, text: str, near: str) -> None:
    assert suggested(claim, text, "date") == [near]


def test_an_address_with_a_slip() -> None:
    assert suggested("to sale@example.org", "Ask Sales@example.org.", "identifier") == ["Sales@example.org"]
    assert suggested("to desk@example.com", "Ask sales@example.org.", "identifier") == [""]


def test_names_of_other_lengths_cost_nothing() -> None:
    def asked(size: int) -> partial[None]:
        names = Nearby(" ".join(f"M{'a' * 20}{number}" for number in range(size)))
        names.name("Marter")
        return partial(ask, names)

    def ask(names: Nearby) -> None:
        for _ in range(1_000):
            names.name("Marter")

    assert growth(asked, 2**8, 64) < 16


@pytest.mark.parametrize(
    ("word", "other", "expected"),
    [("abc", "abc", 0), ("abc", "abd", 1), ("abc", "acb", 1), ("abc", "abbc", 1), ("abcd", "axyd", 2), ("", "ab", 2)],
)
def test_the_part_that_differs(word: str, other: str, expected: int) -> None:
    assert differing_length(word, other) == differing_length(other, word) == expected
