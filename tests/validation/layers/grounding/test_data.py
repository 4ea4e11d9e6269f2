"""Texts about structured data: each kind of statement against the data, and the phrases that are marked."""

import ast

import pytest

from handoffaudit.validation.claims import Source
from handoffaudit.validation.layers.grounding.data import DataJudge, data_marks, most_doubtful
from handoffaudit.validation.layers.grounding.engine import ground
from handoffaudit.validation.layers.grounding.records import leaves
from handoffaudit.validation.layers.grounding.sources import SourceIndex
from handoffaudit.validation.layers.grounding.values import values_in

GAME = (
    "{'season': {'name': 'North League 23/24'}, 'homeTeam': {'name': 'Northport Bears', 'country': 'Norway'}, "
    "'awayTeam': {'name': 'Alder Pirates', 'country': 'Norway'}, "
    "'homeScore': {'display': 4, 'period1': 1, 'period2': 1, 'period3': 2}, "
    "'awayScore': {'display': 1, 'period1': 0, 'period2': 0, 'period3': 1}, "
    "'startTimestamp': 1701262800, 'startDatetime': '2023-11-29 13:00:00'}"
)
SERIES = "# title: Orders per day\n# unit: orders\ndate,value\n" + "".join(
    f"2021-{month:02}-01,{value}\n"
    for month, value in enumerate([2.5, 3.5, 4.75, 9.25, 8.5, 7.5, 6.25, 5.5, 4.5], start=1)
)
WEEK = repr(
    {
        "list": [
            {
                "main": {"temp": 2.5 * hour, "wind": 1.25 * hour},
                "dt_txt": f"2024-01-{3 + hour // 2:02} 0{hour % 2}:00:00",
            }
            for hour in range(1, 9)
        ]
    }
)
PRICES = repr([{"day": f"2024-01-0{day}", "name": "price", "value": 1.25 * day} for day in range(1, 6)])
PHONE = "{'name': 'Alder One', 'specifications': [{'name': 'NFC', 'value': 'No'}, {'name': 'Radio', 'value': 'Yes'}]}"
SWITCHES = '{"EDGE": "No", "Camera pixels": "No", "specs": [{"name": " ", "value": "No"}]}'


def judge_of(data: str) -> DataJudge:
    judge = SourceIndex.of([Source("context", data)]).judge
    assert judge is not None
    return judge


@pytest.mark.parametrize(
    ("data", "claim", "check", "agrees"),
    [
        (GAME, "The Northport Bears won with a final score of 4-1.", "winner", True),
        (GAME, "The Alder Pirates won with a final score of 4-1.", "winner", False),
        (GAME, "It ended with a final score of 4-1.", "score", True),
        (GAME, "It ended with a final score of 4-2.", "score", False),
        (GAME, "The Bears scored two goals in the third period.", "numbered", True),
        (GAME, "The Bears scored two goals in the first period.", "numbered", False),
        (GAME, "It began at 13:00 there.", "clock", True),
        (GAME, "It began at 6:00 PM there.", "clock", False),
        (SERIES, "It covers the days from January 2021 to September 2021.", "span", True),
        (SERIES, "It covers the days from January 2021 to June 2021.", "span", False),
        (SERIES, "There was a peak of 9.25 orders.", "extreme", True),
        (SERIES, "There was a peak of 8.5 orders.", "extreme", False),
        (SERIES, "The highest value was in April 2021.", "extreme_day", True),
        (SERIES, "The highest value was in May 2021.", "extreme_day", False),
        (SERIES, "It was 4.75 in March 2021.", "bound", True),
        (SERIES, "It was 4.75 in June 2021.", "bound", False),
        (SERIES, "In December 2021 it fell.", "no_such_day", False),
        (GAME, "The second period ended 1-0 there.", "score", True),
        (GAME, "The third period ended 1-0 there.", "score", False),
        (GAME, "Final score: 4-1.", "score", True),
        (GAME, "Final score: 1-0.", "score", False),
        (GAME, "Second Period: it ended 2-0.", "score", True),
        (GAME, "Period 2 ended 2-0.", "score", True),
        (GAME, "The lead was extended to 2-0 by Victor Lund, who never defended it.", "score", True),
        (GAME, "BEARS WON", "winner", True),
        (GAME, "PIRATES WON", "winner", False),
        (GAME, "\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130\u0130: PIRATES WON", "winner", False),
        (GAME, "The Bears led. Both scored 1 goal in the third period.", "numbered", True),
        (WEEK, "On Thursday, January 4, it is mild.", "weekday", True),
        (WEEK, "On Friday, January 4, it is mild.", "weekday", False),
        (PRICES, "The price was 2.5 on January 2.", "bound", True),
        (PRICES, "The price was 2.5 on January 4.", "bound", False),
        (PHONE, "It has no NFC.", "switch", True),
        (PHONE, "It supports NFC.", "switch", False),
    ],
)
def test_a_statement_is_held_against_what_the_data_says(data: str, claim: str, check: str, *, agrees: bool) -> None:
    found = judge_of(data).findings(claim, values_in(claim))
    assert [one.agrees for one in found if one.check == check] == [agrees]


@pytest.mark.parametrize(
    ("claim", "found"),
    [("It has EDGE.", ["EDGE"]), ("It needs knowledge of pixels and the value.", []),
     ("It has many camera pixels.", ["camera pixels"])],
)  # fmt: skip
def test_what_the_data_says_no_to_is_found_by_its_whole_name(claim: str, found: list[str]) -> None:
    assert [claim[one.start : one.end] for one in judge_of(SWITCHES).findings(claim, ())] == found


def test_what_the_data_says_no_to_is_marked_where_the_text_has_it() -> None:
    sizes = ", ".join(f'{{"name": "Size {number}", "value": "{number} mm"}}' for number in range(20))
    judge = judge_of(f'{{"specs": [{{"name": "NFC", "value": "No"}}, {{"name": "Radio", "value": "Yes"}}, {sizes}]}}')
    claim = "It plays music over a radio and connects by NFC."
    assert "NFC." in data_marks(claim, judge, values_in(claim), [])[-1].text
    assert data_marks("It has a radio and no NFC.", judge, (), []) == []


@pytest.mark.parametrize(
    ("claim", "agrees"),
    [
        ("On January 4 it is 5.0 degrees with a light and steady breeze of up to 3.75 m/s.", [True, True]),
        ("On January 4 it is 5.0 degrees with a light and steady breeze of up to 8.75 m/s.", [True, False]),
        ("January 4 is mild. The breeze is 3.75 m/s.", [True]),
        ("January 4 is mild. The breeze is 8.75 m/s.", [False]),
        ("Thursday is mild at 7.5 degrees. Saturday has a breeze of 3.75 m/s.", [True, False]),
        ("January 4 is mild. Overall, the breeze is 8.75 m/s.", []),
        ("From January 4 to January 6 it is mild. The breeze is 3.75 m/s.", []),
    ],
)
def test_an_amount_belongs_to_the_last_day_that_the_text_named(claim: str, agrees: list[bool]) -> None:
    found = judge_of(WEEK).findings(claim, values_in(claim))
    assert [one.agrees for one in found if one.check == "bound"] == agrees


FAITHFUL = "The Northport Bears won 4-1 against the Alder Pirates in the North League 23/24 on November 29, 2023."
FAULTY = (
    "The Alder Pirates won 4-2 in the North League 23/24 with three goals in the first period at 6:00 PM. Fans enjoyed "
    "a thrilling evening at the sold-out Harbour Arena, where captain Erik Lund scored a hat trick despite an injury."
)


def wording(claim: str, data: str = GAME) -> list[str]:
    return [mark.text for mark in ground(claim, SourceIndex.of([Source("context", data)])) if mark.kind == "wording"]


def test_a_faithful_text_has_no_marks() -> None:
    assert wording(FAITHFUL) == []


def test_a_faulty_text_is_marked_at_its_phrases() -> None:
    marked = " ".join(wording(FAULTY))
    assert "Erik Lund" in marked
    assert "North League" not in marked


def test_short_values_and_json_are_not_judged_as_texts() -> None:
    assert wording("Harbour Arena") == []
    assert wording('{"venue": "the sold-out Harbour Arena of captain Erik Lund and his thrilled fans"}') == []


def test_data_beside_prose_is_left_to_the_judge_of_prose() -> None:
    prose = Source("policy", "Agents may not change a booking after the flight has left. " * 20)
    assert SourceIndex.of([Source("result", GAME), prose]).judge is None


def test_a_conversation_is_no_data_however_much_of_it_is() -> None:
    talk = [Source("context.turns[0].text", "Could you tell me what it costs?"), Source("context.turns[1].text", GAME)]
    assert SourceIndex.of(talk).judge is None


def test_fields_of_the_context_are_data_as_a_text_of_them_is() -> None:
    game = ast.literal_eval(GAME)
    judge = SourceIndex.of(leaves(game, "context")).judge
    assert judge is not None
    claim = "The Alder Pirates won with a final score of 4-2."
    assert [one.check for one in judge.findings(claim, values_in(claim)) if not one.agrees] == ["score", "winner"]


@pytest.mark.parametrize(
    "claim",
    [
        "I can tell you that the sold-out Harbour Arena saw a thrilling evening, and I hope that you enjoyed it too.",
        "Did captain Erik Lund score a hat trick at the sold-out Harbour Arena despite an injury?",
        "The evening:\n- sold-out Harbour Arena\n- captain Erik Lund\n- hat trick despite an injury",
    ],
)
def test_talk_questions_and_lists_are_not_judged_as_texts_about_data(claim: str) -> None:
    assert wording(claim) == []


def test_a_doubted_text_has_a_place_even_where_no_word_is_above_the_limit() -> None:
    assert most_doubtful([-2.0, 0.5, -0.1]) == [False, True, False]
    assert most_doubtful([-2.0, -0.5, -0.6]) == [False, True, True]
    assert most_doubtful([]) == []
