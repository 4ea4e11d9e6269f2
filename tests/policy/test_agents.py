"""Tests of declared routes: lines of a form and rows of the API mean the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handoffaudit.policy.agents import (
    DeclaredRoutes,
    parse_route_rows,
    parse_routes_text,
    route_rows_of,
    routes_to_text,
)
from handoffaudit.policy.values import InvalidPolicy, to_plain
from tests.elapsed import BOUNDED, cpu_seconds
from tests.scale import examples

NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=40)
SPACED = st.lists(NAMES, min_size=1, max_size=4).map(" ".join)


def refused(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidPolicy) as caught:
        parse_routes_text(text)
    return [(error.row, error.message) for error in caught.value.errors]


def test_lines_are_rows_by_source_with_anybody_last() -> None:
    text = "writer → editor\n\n* -> archive\nplanner->writer , critic\n  planner -> *\n"
    assert parse_routes_text(text) == (
        DeclaredRoutes("planner", ("critic", "writer", "*")),
        DeclaredRoutes("writer", ("editor",)),
        DeclaredRoutes("*", ("archive",)),
    )


def test_a_name_with_a_comma_or_an_arrow_is_quoted() -> None:
    rows = parse_routes_text('"a, b" -> "x -> y", "say \\"so\\"", plain name')
    assert rows == (DeclaredRoutes("a, b", ("plain name", 'say "so"', "x -> y")),)
    assert parse_routes_text(routes_to_text(rows)) == rows


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(SPACED, SPACED), max_size=8))
def test_what_is_written_reads_back(edges: list[tuple[str, str]]) -> None:
    rows = route_rows_of(edges)
    assert parse_routes_text(routes_to_text(rows)) == rows
    assert parse_route_rows(map(to_plain, rows)) == rows


def test_each_wrong_line_is_named() -> None:
    found = refused('planner\nplanner ->\n -> writer\nplanner -> a b" c\nok -> fine\n' + "x" * 201 + " -> a")
    assert [row for row, _ in found] == ["line 1", "line 2", "line 3", "line 4", "line 6"]
    assert "no arrow" in found[0][1]
    assert "201 characters" in found[-1][1]


def test_a_padded_line_is_refused_in_bounded_time() -> None:
    assert cpu_seconds(lambda: refused("a" + " " * 500_000 + "b -> c")) < BOUNDED


def test_a_row_needs_a_source_and_targets_and_no_more() -> None:
    with pytest.raises(InvalidPolicy) as caught:
        parse_route_rows([{"source": "", "targets": ["a"]}, {"source": "b", "targets": []}, {"source": "c", "to": "d"}])
    assert [(error.row, error.field) for error in caught.value.errors] == [
        ("", "source"),
        ("b", "targets"),
        ("c", "to"),
        ("c", "targets"),
    ]


def test_a_source_stands_once() -> None:
    with pytest.raises(InvalidPolicy, match="two rows"):
        parse_route_rows([{"source": "a", "targets": ["b"]}, {"source": "a", "targets": ["c"]}])


def test_names_that_cannot_be_seen_are_refused() -> None:
    assert "invisible characters" in refused("planner -> wri\u202eter")[0][1]
