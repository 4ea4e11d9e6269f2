"""Tests of the paths that users write in rules and claim fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.paths import (
    ANY,
    MISSING,
    Location,
    Path,
    PathError,
    StepBudget,
    StepBudgetSpentError,
    dotted_path,
    parse_path,
    select,
)

DOCUMENT = {"layers": [{"score": 1}, {"score": 2}], "by_name": {"a.b": {"low": 3}, "c": 4}, "empty": [], "none": None}


def found(path: str) -> list[tuple[str, Any]]:
    return [(dotted_path(place), value) for place, value in select(DOCUMENT, parse_path(path))]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("score", ("score",)),
        ("layers.*.score", ("layers", ANY, "score")),
        ("layers[*].score", ("layers", ANY, "score")),
        ("layers[0].score", ("layers", 0, "score")),
        ('["a.b"].low', ("a.b", "low")),
        (r'x["say \"so\""]', ("x", 'say "so"')),
        ("key findings.ü", ("key findings", "ü")),
    ],
)
def test_paths(text: str, path: Path) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        (".a", "character 1"),
        ("a..b", "character 2"),
        ("a.", "character 2"),
        ("a[x]", "character 2"),
        ("a" * 301, "longer than 300"),
        (".".join("a" * 33), "more than 32 parts"),
    ],
)
def test_what_is_no_path_is_told_with_its_place(text: str, told: str) -> None:
    with pytest.raises(PathError, match=told):
        parse_path(text)


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("layers.*.score", [("layers[0].score", 1), ("layers[1].score", 2)]),
        ("layers.1.score", [("layers[1].score", 2)]),
        ('by_name["a.b"].low', [('by_name["a.b"].low', 3)]),
        ("none", [("none", None)]),
        ("empty.*", []),
        ("layers[2].score", [("layers[2].score", MISSING)]),
        ("by_name.c.low", [("by_name.c.low", MISSING)]),
        ("none.*.low", [("none.*", MISSING)]),
    ],
)
def test_what_a_path_points_at(path: str, values: list[tuple[str, Any]]) -> None:
    assert found(path) == values


def test_every_value_that_is_passed_is_a_step() -> None:
    path = parse_path("layers.*.score")
    assert len(list(select(DOCUMENT, path, effort=StepBudget(6)))) == 2
    with pytest.raises(StepBudgetSpentError):
        list(select(DOCUMENT, path, effort=StepBudget(5)))


@given(st.lists(st.text(min_size=1, max_size=8) | st.integers(0, 10**9 - 1), min_size=1, max_size=8).map(tuple))
def test_places_are_written_as_paths_that_lead_there(place: Location) -> None:
    assert parse_path(dotted_path(place)) == place
