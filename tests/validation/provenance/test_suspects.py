"""Tests of the order in which to inspect the handoffs of a trace."""

from dataclasses import replace

import pytest

from handoffaudit.validation.origins import Sign, notes_values, suspects
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
        step("It costs 999 EUR. We assume a discount.", wrong("999")),
        step("So 999 EUR.", wrong("999")),
    )
    assert found == [(1, (Sign.VALUE, Sign.WARNED, Sign.ASSUMED)), (0, (Sign.VALUE, Sign.WARNED))]


def test_of_as_much_the_earlier_handoff_comes_first():
    assert [at for at, _ in ranked(step("11", wrong("11")), step("12", wrong("12")))] == [0, 1]


def test_who_only_repeats_is_no_suspect():
    assert [at for at, _ in ranked(step("999 EUR", wrong("999")), step("999", wrong("999")))] == [0]


def test_people_and_tools_are_none_and_what_they_brought_is_nobodys():
    assert ranked(step("Assume order 4711.", brings=True), step("Order 4711.", wrong("4711"))) == []


def test_a_value_that_is_only_noted_counts_less_than_one_with_a_warning():
    noted = replace(step("Anna lives in Bonn."), is_noted=True)
    assert ranked(noted, step("It costs 999 EUR.", wrong("999"))) == [
        (1, (Sign.VALUE, Sign.WARNED)),
        (0, (Sign.VALUE,)),
    ]
    assert ranked(replace(noted, brings_facts=True)) == []


@pytest.mark.parametrize(
    ("severity", "code", "is_noted"),
    [("info", "grounding.name", True), ("warning", "grounding.name", False), ("info", "grounding.quote", False),
     ("info", "chain.unknown_parent", False)],
)  # fmt: skip
def test_only_information_about_values_is_noted(severity, code, is_noted):
    assert notes_values([{"severity": severity, "code": code}]) is is_noted


@pytest.mark.parametrize(
    "answer",
    ["exitcode: 1 (execution failed)", "Traceback (most recent call last):\n  KeyError", "HTTP status: 404",
     "No results.", "File not found", "Code output: []"],
)  # fmt: skip
def test_a_handoff_whose_answer_reports_a_failure_is_suspect(answer):
    run = replace(step("Run this."), target="shell")
    answered = replace(step(answer, brings=True), source="shell")
    assert ranked(run, answered) == [(0, (Sign.FAILED,))]
    assert ranked(run, replace(answered, source="other")) == []


@pytest.mark.parametrize("answer", ["exitcode: 0", "Output: 220", "It costs 404 EUR.", "x" * 400 + " failed", ""])
def test_other_answers_report_no_failure(answer):
    assert ranked(replace(step("Run."), target="shell"), replace(step(answer, brings=True), source="shell")) == []


def test_only_the_first_handoff_of_the_trace_with_assumed_data_has_the_sign():
    assert ranked(
        step("Assuming it is so, go on.", brings=True), step("We use a mock dataset."), step("We use a mock dataset.")
    ) == [(1, (Sign.ASSUMED,))]


@pytest.mark.parametrize("said", ["We verify the ratings manually.", "Manually checked.", "I counted them by hand."])
def test_only_the_first_handoff_of_the_trace_with_work_by_hand_has_the_sign(said):
    assert ranked(step("See the manual by handler."), step(said, brings=True), step(said), step(said)) == [
        (2, (Sign.BY_HAND,))
    ]


def test_quotations_alone_are_no_wrong_values():
    assert ranked(step("\u201cIt is so\u201d", wrong("It is so", "quote"))) == []


def test_only_the_signs_that_are_asked_for_count():
    steps = (step("999 EUR", wrong("999")), step("We assume it."))
    assert ranked(*steps, signs=(Sign.ASSUMED,)) == [(1, (Sign.ASSUMED,))]
