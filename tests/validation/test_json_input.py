"""Tests of bytes that are JSON, that are not JSON, and that are hostile."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, parse_json
from tests.elapsed import grows_linearly

SUITE = Path(__file__).parent / "data" / "malformed-json"
FILES = sorted(SUITE.glob("*.json"))


def named(prefix: str) -> list[Path]:
    found = [path for path in FILES if path.name.startswith(prefix)]
    assert found
    return found


def test_the_suite_is_whole() -> None:
    assert (len(named("n_")), len(named("y_")), len(named("i_"))) == (94, 48, 18)


@pytest.mark.parametrize("path", named("n_"), ids=lambda path: path.stem)
def test_malformed_is_refused_with_its_place(path: Path) -> None:
    value, issues = parse_json(path.read_bytes())

    assert value is None
    assert [issue.code for issue in issues] == ["structure.json_parse"]
    (issue,) = issues
    assert issue.metadata["line"] >= 1
    assert issue.metadata["column"] >= 1
    assert f"line {issue.metadata['line']}, column {issue.metadata['column']}" in issue.message
    assert len(issue.message) < 200
    assert "\0" not in str(issue.to_dict())


@pytest.mark.parametrize("path", named("y_"), ids=lambda path: path.stem)
def test_well_formed_is_read(path: Path) -> None:
    assert parse_json(path.read_bytes())[1] == ()


@pytest.mark.parametrize("path", named("i_"), ids=lambda path: path.stem)
def test_what_parsers_may_decide_does_not_crash(path: Path) -> None:
    value, issues = parse_json(path.read_bytes())
    assert (value is None) == bool(issues)


def test_the_place_is_that_of_the_fault() -> None:
    _, (issue,) = parse_json('{\n  "ü": "é",\n  "b": tru\n}'.encode())

    assert (issue.metadata["line"], issue.metadata["column"]) == (3, 8)
    assert issue.metadata["after"].startswith("tru")
    assert issue.metadata["before"].endswith('"b": ')


def test_bytes_that_are_not_utf8_are_placed() -> None:
    _, (issue,) = parse_json(b'{"a": 1,\n"b": "\xc3\xa9 \xff"}')

    assert (issue.metadata["line"], issue.metadata["column"]) == (2, 9)
    assert "not UTF-8" in issue.message


@pytest.mark.parametrize("raw", [b"", b"  \n "])
def test_nothing_sent_is_said(raw: bytes) -> None:
    assert "it is empty" in parse_json(raw)[1][0].message


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_json(b'\xef\xbb\xbf{"a": 1}') == ({"a": 1}, ())


def test_the_last_of_duplicate_keys_counts() -> None:
    assert parse_json(b'{"a": 1, "a": 2}') == ({"a": 2}, ())


def test_huge_numbers_are_read_as_floats_or_refused() -> None:
    assert parse_json(b"[123456789012345678901234567890]") == ([1.2345678901234568e29], ())
    assert parse_json(b"[1" + b"0" * 300_000 + b"]")[1][0].code == "structure.json_parse"


@pytest.mark.parametrize("raw", [b"[NaN]", b"[Infinity]", b'["\\ud800"]'])
def test_what_is_no_json_value_is_refused(raw: bytes) -> None:
    assert parse_json(raw)[1][0].code == "structure.json_parse"


def test_depth_is_counted_outside_strings_only() -> None:
    assert parse_json(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)[1] == ()
    assert parse_json(b'["' + b"[" * 1000 + b'"]')[1] == ()
    _, (issue,) = parse_json(b'["[[\\"[", ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"]")
    assert issue.metadata["max_depth"] == MAX_DEPTH
    assert issue.metadata["column"] == 10 + MAX_DEPTH


def test_wide_documents_are_not_deep() -> None:
    assert parse_json(b"[" + b",".join([b"{}"] * 1000) + b"]")[1] == ()
    assert not deeper_than([[[1]]], 3)
    assert deeper_than([[[1]]], 2)


@pytest.mark.parametrize(
    "raw",
    [
        lambda n: b"[" * n,
        lambda n: b'{"a":' * (n // 5),
        lambda n: b"[" * (n // 2) + b"]" * (n // 2),
        lambda n: b'["' + b"a" * n,
        lambda n: b"[" + b"[]," * (n // 3) + b"[]]",
        lambda n: b"\xff" * n,
    ],
    ids=["lists", "objects", "closed", "string", "wide", "bytes"],
)
def test_hostile_input_takes_time_in_proportion(raw: Callable[[int], bytes]) -> None:
    assert grows_linearly(lambda size: partial(parse_json, raw(size)), 62_500)
