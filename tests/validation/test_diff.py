"""Tests of the differences between two documents, and of the limit on their number."""

import copy
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings

from handoffaudit.validation.diff import Difference, difference, same
from handoffaudit.validation.repair.edit import place_value, remove_field, rename_field
from tests.elapsed import grows_linearly
from tests.scale import examples

from .support import PAYLOAD, payload
from .test_properties import OBJECTS


def told(found: Difference) -> list[tuple[str, str, Any, Any]]:
    return [(change.kind.value, change.field_path, change.before, change.after) for change in found.changes]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, []),
        ({"a": 1, "b": [1, 2]}, {"b": [1, 2], "a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("changed", "a", 1, True)]),
        ({"a": 1}, {"a": "1"}, [("changed", "a", 1, "1")]),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, [("removed", "a.b", 1, None), ("added", "a.c", None, 1)]),
        ({"a": [1, 2, 3]}, {"a": [1, 3]}, [("removed", "a[1]", 2, None)]),
        ({"a": [1, 3]}, {"a": [1, 2, 3]}, [("added", "a[1]", None, 2)]),
        ({"a": [1, {"b": 2}, 3]}, {"a": [1, {"b": 4}, 3]}, [("changed", "a[1].b", 2, 4)]),
        ({"a": [1, 1]}, {"a": [1]}, [("removed", "a[1]", 1, None)]),
        ({"a": {}}, {"a": []}, [("changed", "a", {}, [])]),
        ({"a": None}, {}, [("removed", "a", None, None)]),
        ({"a": [5, {"b": 1}]}, {"a": [{"b": 1.0}]}, [("removed", "a[0]", 5, None)]),
    ],
)
def test_by_place(before: Any, after: Any, expected: list[Any]) -> None:
    assert told(difference(before, after)) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ([1], [1.0], True),
        ({"a": 1, "b": [{"c": 2}]}, {"b": [{"c": 2.0}], "a": 1.0}, True),
        ({"a": [1]}, {"a": [True]}, False),
        ([{"a": 0}], [{"a": False}], False),
        ([True, None], [True, None], True),
        ([1], [1, 2], False),
        ([1], ["1"], False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([], {}, False),
    ],
)
def test_numbers_are_the_same_in_any_spelling_and_no_booleans(one: Any, other: Any, expected: bool) -> None:
    assert same(one, other) is same(other, one) is expected


def test_only_so_many_and_only_so_long() -> None:
    before, after = {"a": ["x" * 1000] * 300}, {"a": ["y" * 1000 + str(index) for index in range(300)]}
    found = difference(before, after, most=50)
    assert (len(found.changes), found.complete) == (50, False)
    assert all(len(change.after) <= 200 for change in found.changes)
    assert difference({"a": 1}, {"a": 2}, most=1).complete


def test_names_that_cannot_be_stored_are_cleaned() -> None:
    (change,) = difference({}, {"a\0": "b\ud800"}).changes
    assert "\0" not in change.field_path
    change.after.encode()
    assert change.to_dict()["kind"] == "added"


@settings(max_examples=examples(150))
@given(before=OBJECTS, after=OBJECTS)
def test_any_two_documents(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert difference(before, before).changes == ()
    assert bool(difference(before, after).changes) == bool(difference(after, before).changes)


def test_large_documents_take_time_in_proportion() -> None:
    def nested(leaf: str, leaves: int) -> list[Any]:
        value: list[Any] = [leaf] * leaves
        for _ in range(60):
            value = [value, 1]
        return value

    assert grows_linearly(lambda n: partial(difference, nested("x" * 10, n), nested("y" * 10, n)), 6250)
    assert grows_linearly(lambda n: partial(difference, {str(number): number for number in range(n)}, {}), 6250)


def test_edits_leave_what_they_are_given() -> None:
    document = payload(data={"list": [{"a": 1}, 2], "b": 3, "c": 4})
    before = copy.deepcopy(document)
    assert place_value(document, ("data", "list", 0, "a"), 5)["data"]["list"] == [{"a": 5}, 2]
    assert place_value(document, ("data", "list", 1), 5)["data"]["list"] == [{"a": 1}, 5]
    assert "b" not in remove_field(document, ("data", "b"))["data"]
    assert list(rename_field(document, ("data", "b"), "new")["data"]) == ["list", "new", "c"]
    assert place_value(PAYLOAD, (), 1) == 1
    assert document == before


def test_long_texts_are_shown_from_where_they_part() -> None:
    shared = "word " * 60
    (change,) = difference({"text": shared + "old end"}, {"text": shared + "new end"}).changes
    assert change.before == "…" + ("word " * 8) + "old end"
    assert change.after == "…" + ("word " * 8) + "new end"
