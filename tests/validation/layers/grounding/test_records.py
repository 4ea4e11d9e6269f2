"""Structured data read as facts, and prose left alone."""

import json
from collections.abc import Callable
from functools import partial

import pytest

from handoffaudit.validation.layers.grounding.records import Fact, key_words, leaves, records_of, records_of_leaves
from tests.elapsed import grows_linearly

GAME = (
    "{'homeTeam': {'name': 'Northport Bears'}, 'homeScore': {'display': 4, 'period1': 1}, 'startTimestamp': 1701262800}"
)
SERIES = "# unit: years\ndate,value\n1950,54.0267\n1951,54.366\n1952,54.8295\n1953,55.2966\n"
LIST = "Alder Republic\n---\n- capital: Port Alder\n- currency: alder crown\n- driving side: right\n"


def test_a_python_literal_gives_keys_and_groups() -> None:
    records = records_of(GAME)
    assert records is not None
    assert records.facts == [
        Fact(("name",), "Northport Bears", 0, ("home", "team")),
        Fact(("display",), "4", 0, ("home", "score")),
        Fact(("period", "1"), "1", 0, ("home", "score")),
        Fact(("start", "timestamp"), "1701262800", 0),
    ]


def test_rows_of_a_table_are_records() -> None:
    records = records_of(SERIES)
    assert records is not None
    assert records.columns[("value",)] == [54.0267, 54.366, 54.8295, 55.2966]
    assert [fact.value for fact in records.by_record[2]] == ["1951", "54.366"]


def test_lines_of_key_and_value_are_facts() -> None:
    records = records_of(LIST)
    assert records is not None
    assert records.facts[0] == Fact(("capital",), "Port Alder", 0)


def test_list_items_of_json_are_records_of_their_own() -> None:
    records = records_of('{"list": [{"t": 1.5}, {"t": 2.5}], "name": "x", "detail": [{"name": "NFC", "value": "No"}]}')
    assert records is not None
    assert [(fact.key, fact.record) for fact in records.facts] == [
        (("t",), 1),
        (("t",), 2),
        (("name",), 0),
        (("nfc",), 0),
    ]


def test_leaves_with_paths_make_the_same_records() -> None:
    records = records_of_leaves(
        [("context.rows[0].day", "2024-01-02"), ("context.rows[0].price", "3.5"), ("context.id", "7")]
    )
    assert records.facts == [
        Fact(("day",), "2024-01-02", 1, ("rows",)),
        Fact(("price",), "3.5", 1, ("rows",)),
        Fact(("id",), "7", 0, ("context",)),
    ]


def test_a_name_and_a_value_of_one_object_make_one_fact() -> None:
    first = [("specs[0].name", "NFC"), ("specs[0].unit", ""), ("specs[0].value", "No"), ("specs[1].name", "Radio")]
    others = [("specs[2].name", " "), ("specs[2].value", "No"), ("name", "Alder One")]
    records = records_of_leaves(first + others)
    assert [(fact.key, fact.value, fact.record) for fact in records.facts] == [
        (("nfc",), "No", 1),
        (("unit",), "", 1),
        (("name",), "Radio", 2),
        (("name",), " ", 3),
        (("value",), "No", 3),
        (("name",), "Alder One", 0),
    ]


@pytest.mark.parametrize(
    "value",
    [
        {"specs": [{"date": "2024-03-01", "name": "price", "unit": "EUR", "value": 3.5}, {"name": "x", "value": None}]},
        {"specs": {"name": "unit", "unit": "mm", "value": "5"}, "title": {"name": " ", "value": "No"}},
    ],
)
def test_literals_and_leaves_make_the_same_facts(value: object) -> None:
    records = records_of(json.dumps(value))
    assert records is not None
    expected = records_of_leaves((leaf.name, leaf.text) for leaf in leaves(value, "")).facts
    assert sorted(records.facts) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "The terminal replaces a wooden pier, closed since 2019.",
        "Ann: I'm not sure.\nBen: Nor am I.\nAnn: Let us ask.\n",
        "",
        "{not data}",
        "One, two\nthree, four\nfive, six\nseven, eight\n",
    ],
)
def test_prose_and_talk_are_no_data(text: str) -> None:
    assert records_of(text) is None


def test_names_of_keys_fall_into_words() -> None:
    assert key_words("startDatetime_2g") == ("start", "datetime", "2", "g")


@pytest.mark.parametrize(
    "text",
    [
        lambda n: "[" * n,
        lambda n: "{'a':" * (n // 5),
        lambda n: "[" + "-" * n + "1]",
        lambda n: ("[" * 90 + "]" * 90) * (n // 180),
        lambda n: "{'a': " + "9" * n + "}",
        lambda n: "[1,2" * (n // 4),
    ],
)
def test_hostile_literals_are_read_or_left_in_time_in_proportion(text: Callable[[int], str]) -> None:
    records_of("[" * 90 + "]" * 90)
    assert grows_linearly(lambda size: partial(records_of, text(size)), 3750)
