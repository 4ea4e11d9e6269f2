"""Tests of paths into a document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handoffaudit.validation.paths import LONGEST_SHAPED, at, dotted_path, last_name, pointer, shape

DOCUMENT = {"files": [{"path": "a"}], "b.c": {"": 1}}


def test_as_people_and_machines_read_them() -> None:
    assert dotted_path(("files", 0, "path")) == "files[0].path"
    assert dotted_path(("b.c", 'q"')) == '["b.c"]["q\\""]'
    assert pointer(("a/b", "~", 2)) == "/a~1b/~0/2"
    assert last_name(("handoff", "files", 2)) == "files[2]"
    assert last_name(("handoff", "version")) == "version"
    assert last_name(()) == ""


def test_at_finds_the_value_or_the_default() -> None:
    assert at(DOCUMENT, ("files", 0, "path")) == "a"
    assert at(DOCUMENT, ("files", 1, "path"), "none") == "none"
    assert at(DOCUMENT, ("files", "path")) is None
    assert at(DOCUMENT, ("files", 0, "path", "deeper")) is None
    assert at(DOCUMENT, ("b.c", "")) == 1
    assert at(DOCUMENT, ()) is DOCUMENT


@pytest.mark.parametrize(
    ("path", "shaped"),
    [
        ("data.items[3].price", "data.items[*].price"),
        ("data.items[12].price", "data.items[*].price"),
        ("data[0][1]", "data[*][*]"),
        ("data.4711.total", "data.*.total"),
        ("data.2026-02-15.total", "data.*.total"),
        ('data["2026-02-15T00:15:00Z"].total', "data[*].total"),
        ('data["12.5"]', "data[*]"),
        ("data.0b9c7c1e-5a3f-4a7d-9a55-6f3a0c1d2e3f.name", "data.*.name"),
        ("files.9f86d081884c7d65.size", "files.*.size"),
        ("data.V1StGXR8_Z5jdHi6B-myT9x.name", "data.*.name"),
        ('users["anna@example.com"].role', "users[*].role"),
        ("data.step_12.done", "data.step_*.done"),
        ("data.order-4711", "data.order-*"),
        ("data.order4711.total", "data.order*.total"),
        ("revenue_2024", "revenue_*"),
        ("payload.sha256", "payload.sha256"),
        ("data.line2", "data.line2"),
        ("data.accessed", "data.accessed"),
        ('["b.c"].d', '["b.c"].d'),
        ("target_agent_id", "target_agent_id"),
        ("", ""),
    ],
)
def test_a_shape_names_no_position_and_no_id(path: str, shaped: str) -> None:
    assert shape(path) == shaped


_KEYS = st.one_of(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=30),
    st.integers(0, 10**9).map(str),
    st.uuids().map(str),
    st.dates().map(str),
)
_TEXTS = st.one_of(st.text(max_size=700), st.text(alphabet='ab_-[]".\\0147@/ ', max_size=700))


@given(_TEXTS)
def test_any_text_has_one_shape_that_is_its_own(text: str) -> None:
    shaped = shape(text)
    assert shape(shaped) == shaped
    assert len(shaped) <= min(len(text), LONGEST_SHAPED)


@given(st.lists(_KEYS, max_size=4), st.integers(0, 10**6), st.integers(0, 10**6), _KEYS)
def test_positions_do_not_tell_shapes_apart(keys: list[str], one: int, other: int, last: str) -> None:
    assert shape(dotted_path((*keys, one, last))) == shape(dotted_path((*keys, other, last)))


@given(st.uuids(), st.uuids())
def test_ids_do_not_tell_shapes_apart(one: object, other: object) -> None:
    assert shape(f"data.{one}.total") == shape(f"data.{other}.total") == "data.*.total"
