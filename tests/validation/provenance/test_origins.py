"""Tests that each wrong value of a trace is listed once."""

import pytest

from handoffaudit.validation import origins as origins_module
from handoffaudit.validation.origins import first_wrong, origins, shares
from handoffaudit.validation.provenance import Flaw, Step, attribute


def step(source: str, data: str, *flaws: Flaw, brings: bool = False) -> Step:
    return Step("key", source, "next", data, "", flaws, brings)


def number(value: str) -> Flaw:
    return Flaw("grounding.number", "data.text", value)


LOOP = Flaw("chain.circular", "target_agent_id")
TRACE = [
    step("user", "My order is 4711.", brings=True),
    step("planner", "Look at it.", LOOP),
    step("writer", "It costs 999 EUR, order 4711.", number("999"), number("4711")),
    step("critic", "Fine, 999.00 it is.", number("999.00"), LOOP),
]


def test_a_value_is_told_once_however_often_it_was_found():
    found = {one.value: one for one in origins(attribute(TRACE))}
    assert list(found) == ["4711", "999"]
    assert (found["999"].step, found["999"].flagged, found["999"].carriers) == (2, (2, 3), (3,))
    assert (found["4711"].step, found["4711"].from_outside) == (0, True)


def test_the_forms_of_a_value_are_read_once_however_often_it_was_found(monkeypatch: pytest.MonkeyPatch):
    found, read = attribute([step("writer", "It costs 999 EUR.", number("999"))] * 3), []
    forms_of = origins_module.forms_of
    monkeypatch.setattr(origins_module, "forms_of", lambda value: read.append(value) or forms_of(value))
    assert len(origins(found)) == len(read) == 1


def test_what_an_agent_caused_counts_apart_from_what_it_passed_on():
    assert [(share.agent, share.caused, share.passed_on, share.total) for share in shares(TRACE, attribute(TRACE))] == [
        ("user", 0, 0, 0),
        ("planner", 1, 0, 1),
        ("writer", 1, 1, 2),
        ("critic", 0, 2, 2),
    ]


def test_what_an_agent_said_before_and_nobody_told_it_is_its_own():
    again = [step("writer", "It costs 999 EUR.", number("999")), step("writer", "999 EUR it is.", number("999"), LOOP)]
    again.append(step("writer", "Yes.", LOOP))
    (share,) = shares(again, attribute(again))
    assert (share.caused, share.passed_on) == (4, 0)


def test_what_an_agent_was_told_is_passed_on_however_often_it_says_it():
    told = [
        Step("key", "writer", "next", "It costs 999 EUR.", "999 EUR"),
        step("writer", "999 EUR it is.", number("999")),
    ]
    (share,) = shares(told, attribute(told))
    assert (share.caused, share.passed_on) == (0, 1)


def test_the_first_wrong_value_goes_before_other_findings():
    found = first_wrong(attribute(TRACE))
    assert found is not None
    assert (found.flaw.value, found.origin) == ("999", 2)


def test_without_wrong_values_the_first_finding_counts():
    found = first_wrong(attribute(TRACE[:2]))
    assert found is not None
    assert found.flaw is LOOP
    assert first_wrong([]) is None


def test_of_the_wrong_values_of_one_handoff_a_number_goes_first_and_what_is_carried_further():
    def name(value: str) -> Flaw:
        return Flaw("grounding.name", "data.text", value)

    first = step("writer", "Petrova asks for 999 of 777.", name("Petrova"), number("777"), number("999"))
    found = first_wrong(attribute([first, step("critic", "999, says Petrova.")]))
    assert found is not None
    assert found.flaw.value == "999"


def test_words_that_a_source_does_not_say_come_after_other_values():
    words = step("writer", "Supplier Nordfrost asks for 777.", Flaw("grounding.wording", "data.text", "Supplier"))
    found = first_wrong(attribute([words, step("critic", "It is 999.", number("999")), step("editor", "999 it is.")]))
    assert found is not None
    assert (found.flaw.value, found.origin, found.carriers) == ("999", 1, (2,))
    as_words = step("critic", "It is 42,000.", Flaw("grounding.wording", "data.text", "42,000"))
    figure = first_wrong(attribute([words, as_words]))
    assert figure is not None
    assert figure.flaw.value == "42,000"
    alone = first_wrong(attribute([words]))
    assert alone is not None
    assert alone.flaw.value == "Supplier"
