"""Tests of the order in which to inspect the handoffs of a trace."""

import pytest

from handoffaudit.validation.origins import Sign, suspects
from handoffaudit.validation.provenance import Flaw, Step, attribute


def step(data: str, *flaws: Flaw, brings: bool = False) -> Step:
    return Step("key", "writer", "critic", data, "", flaws, brings)


def wrong(value: str, kind: str = "number") -> Flaw:
    return Flaw(f"grounding.{kind}", "data.text", value)


def ranked(*steps: Step, signs: tuple[Sign, ...] = tuple(Sign)) -> list[tuple[int, tuple[Sign, ...]]]:
    return [(one.step, one.signs) for one in suspects(steps, attribute(steps), signs)]


def test_what_most_speaks_against_comes_first():
    found = ranked(
        step("Ask Petrova.", wrong("Petrova", "name")),
        step("It costs 999 EUR, we assume.", wrong("999")),
        step("So 999 EUR.", wrong("999")),
    )
    assert found == [
        (1, (Sign.VALUE, Sign.NUMBER, Sign.CARRIED, Sign.ASSUMED)),
        (0, (Sign.VALUE,)),
    ]


def test_of_as_much_the_earlier_handoff_comes_first():
    assert [at for at, _ in ranked(step("11", wrong("11")), step("12", wrong("12")))] == [0, 1]


def test_who_only_repeats_is_no_suspect():
    assert [at for at, _ in ranked(step("999 EUR", wrong("999")), step("999", wrong("999")))] == [0]


def test_people_and_tools_are_none_and_what_they_brought_is_nobodys():
    assert ranked(step("Assume order 4711.", brings=True), step("Order 4711.", wrong("4711"))) == []


def test_many_values_that_go_on_are_a_sign_of_their_own():
    values = ["101", "102", "103"]
    first = step(" ".join(values), *map(wrong, values))
    later = step("101, 102 and 103")
    assert ranked(first, later, later)[0][1] == (Sign.VALUE, Sign.NUMBER, Sign.CARRIED, Sign.SPREAD)
    assert Sign.SPREAD not in ranked(first, later)[0][1]


@pytest.mark.parametrize(
    "text", ["Assuming it is so.", "We use sample data.", "Let\u2019s say it rains.", "a placeholder", "Simulated."]
)
def test_what_is_said_to_be_assumed_is_a_sign(text):
    assert ranked(step(text)) == [(0, (Sign.ASSUMED,))]


@pytest.mark.parametrize("text", ["An assurance.", "similar", "the assumed", "mocking birds"])
def test_words_that_look_alike_are_not(text):
    assert bool(ranked(step(text))) is (text == "the assumed")


def test_quotations_alone_are_no_wrong_values():
    assert ranked(step("\u201cIt is so\u201d", wrong("It is so", "quote"))) == []


def test_only_the_signs_that_are_asked_for_count():
    steps = (step("999 EUR", wrong("999")), step("Assume it."))
    assert ranked(*steps, signs=(Sign.ASSUMED,)) == [(1, (Sign.ASSUMED,))]
