"""Tests of the sentences in which an agent says that its own data is assumed or made up."""

from typing import Any

import pytest

from handoffaudit.validation.assumptions import LONGEST_TEXT, assumption_in
from tests.elapsed import BOUNDED, cpu_seconds
from tests.validation.support import codes, judge, payload

CODE = "consistency.assumed_data"
MADE_UP = "The results are based on a mock dataset."


@pytest.mark.parametrize(
    "text",
    [
        MADE_UP,
        "We'll assume we have a CSV file with the columns Date and Price.",
        "I\u2019ve simulated the API response.",
        "Let's say he sold 30 shirts.",
        "rows = load()\n# Assuming the column is called Street\nprint(rows)",
        "prices = {}  # Dummy values",
        "I have compiled the following hypothetical data for 2022:",
        "The file was saved using a placeholder URL.",
        "- Assuming a rent of 500 USD, the total is 900 USD.",
    ],
)
def test_an_agent_that_assumes_or_makes_up_its_data_says_so(text: str) -> None:
    assert assumption_in(f"First of all, a heading.\n{text} Then more.") != ""


@pytest.mark.parametrize(
    "text",
    [
        "Should we assume a rent of 500 USD?",
        "Create a function that never assumes a column.",
        "You may assume that the list is not empty.",
        "mock_data = load_mock(dummy)",
        "We assume responsibility for the delivery.",
        "We do not assume a rent.",
        "I cannot simulate the response.",
        "The boots are made of synthetic leather.",
        "The model should simulate the placement of towers.",
        "Let's say that again: 28 feet.",
        "Simulators were sold out.",
    ],
)
def test_orders_questions_and_names_in_code_are_no_assumptions(text: str) -> None:
    assert assumption_in(text) == ""


def test_the_finding_names_the_place_and_the_sentence() -> None:
    verdict = judge(payload(data={"rows": [{"note": "Done."}, {"note": f"Read. {MADE_UP}"}]}))
    [issue] = [issue for issue in verdict.issues if issue.code == CODE]
    assert (issue.field_path, issue.metadata["sentence"]) == ("data.rows[1].note", MADE_UP)


@pytest.mark.parametrize(
    "context",
    [
        {"question": "Assuming two penguins per pair, how many are there?"},
        {"earlier": [{"agent": "loader", "text": "The file is missing, so I mocked it."}]},
    ],
)
def test_an_asked_or_known_assumption_is_no_finding(context: dict[str, Any]) -> None:
    assert CODE not in codes(judge(payload(data={"text": MADE_UP}), envelope={"context": context}))
    assert CODE in codes(judge(payload(data={"text": MADE_UP}), envelope={"context": {"question": "How many?"}}))


@pytest.mark.parametrize("source", ["user", "tool"])
def test_people_and_tools_assume_nothing(source: str) -> None:
    assert CODE not in codes(judge(payload(source_agent_id=source, call_chain=[source], data={"text": MADE_UP})))


def test_declared_assumptions_are_no_finding() -> None:
    assert CODE not in codes(judge(payload(data={"text": "Done.", "assumptions": [MADE_UP]})))


@pytest.mark.parametrize(
    "text", ["i i is with assum " * 9_000, "is mock " * 9_000, "\n" * 99_000 + "assum", "we " * 40_000 + "assume"]
)
def test_hostile_texts_take_bounded_time(text: str) -> None:
    assert cpu_seconds(lambda: assumption_in(text)) < BOUNDED
    assert assumption_in("x" * LONGEST_TEXT + MADE_UP) == ""
