"""Tests of the distance from flags to the mistake of a trace, by hand-counted examples."""

import json

import pytest

from evals.kinds import KINDS
from evals.origin import OriginTally
from handoffaudit.evaluation.stats import measure, wilson_interval
from tests.evals.support import chat
from tests.evaluation.support import judge_of

TURNS = (
    ("planner", "What does it cost? Ask the solver."),
    ("solver", "The order costs 999 EUR."),
    ("critic", "So it is 999 EUR in all."),
    ("writer", "Done."),
    ("planner", "Fine."),
    ("critic", "Good."),
)


def located(*lines, layers=("grounding",)):
    texts = [json.dumps(line | {"trace_id": f"chat-{number}"}).encode() for number, line in enumerate(lines)]
    found = measure(
        enumerate(texts, 1), judge_of(*layers), KINDS, beside=lambda name: None, further={"origin": OriginTally()}
    )
    return found.figures()["origin"]


def test_the_first_flag_is_held_against_the_step_of_the_mistake():
    figures = located(chat(*TURNS, mistake_step=1))["all"]
    assert (figures["chats"], figures["handoffs"], figures["mistake_in_a_handoff"]) == (1, 5, 1)
    ranked = figures["methods"]["suspects, ranked"]
    assert (ranked["near"], ranked["exact"], ranked["agent"], ranked["flags_per_chat"]) == (1, 1, 1, 1)


def test_guesses_are_counted_exactly():
    methods = located(chat(*TURNS, mistake_step=4))["all"]["methods"]
    assert (methods["first handoff"]["near"], methods["first handoff"]["exact"]) == (0, 0)
    assert (methods["last handoff"]["near"], methods["last handoff"]["exact"]) == (1, 1)
    assert (methods["median handoff"]["near"], methods["median handoff"]["exact"]) == (1, 0)
    random = methods["random handoff, expected"]
    assert (random["near"], random["exact"]) == (pytest.approx(4 / 5), pytest.approx(1 / 5))
    assert random["exact_within"][2] == pytest.approx(2 / 5)


def test_a_chat_without_a_flag_counts_as_missed():
    honest = chat(("planner", "Ask the solver."), ("solver", "It is done."), ("planner", "Fine."), mistake_step=0)
    ranked = located(honest, chat(*TURNS, mistake_step=1))["all"]["methods"]["suspects, ranked"]
    assert (ranked["flagged_chats"], ranked["near"], ranked["flags_per_chat"]) == (1, 0.5, 0.5)


def test_a_second_annotation_counts_beside_the_first():
    second = {"failures": [{"step": 1, "is_root_cause": True}, {"step": 3, "is_root_cause": False}]}
    figures = located(chat(*TURNS, mistake_step=4) | {"second_annotation": second}, chat(*TURNS, mistake_step=4))["all"]
    ranked, random = figures["methods"]["suspects, ranked"], figures["methods"]["random handoff, expected"]
    assert (ranked["exact"], ranked["exact_either"]) == (0, 0.5)
    assert (random["exact"], random["exact_either"]) == (pytest.approx(1 / 5), pytest.approx((2 / 5 + 1 / 5) / 2))
    assert ranked["exact_either_interval"] == wilson_interval(1, 2)
    assert figures["mistake_of_either_in_a_handoff"] == 2


def test_groups_of_the_data_have_figures_of_their_own():
    figures = located(
        chat(*TURNS, mistake_step=1) | {"split": "made"}, chat(*TURNS, mistake_step=4) | {"split": "found"}
    )
    assert {name: group["chats"] for name, group in figures.items()} == {"all": 2, "made": 1, "found": 1}


def test_what_people_said_of_the_mistake_never_reaches_the_flags():
    told = chat(*TURNS, mistake_step=1) | {"mistake_reason": "solver: 999", "ground_truth": "999 EUR"}
    other = chat(*TURNS, mistake_step=4) | {"mistake_reason": "", "ground_truth": "1"}
    flags = [
        {name: method["flags_per_chat"] for name, method in located(line)["all"]["methods"].items()}
        for line in (told, other)
    ]
    assert flags[0] == flags[1]


def test_data_without_traces_has_nothing_to_locate():
    assert OriginTally().figures() == {}
