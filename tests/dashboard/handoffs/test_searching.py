"""Tests of the search in a document: by field names, by values, and by places."""

from collections.abc import Callable
from typing import Any

import pytest

from handoffaudit.dashboard.handoffs.document import MOST_HITS, location_of, look_up
from tests.elapsed import grows_linearly

ORDER = {
    "data": {
        "items": [{"price": 12.5, "name": "Pump"}, {"price": 7, "name": "a pump, spare"}],
        "Pump type": {"x.y": None},
        "sent": True,
    }
}


def paths(wanted: str, value: Any = ORDER) -> list[str]:
    return [hit.path for hit in look_up(value, wanted).items]


def test_names_and_values_are_found_in_the_documents_order_whatever_their_case() -> None:
    assert paths("PUMP") == ["data.items[0].name", "data.items[1].name", 'data["Pump type"]']
    assert [hit.is_key for hit in look_up(ORDER, "pump").items] == [False, False, True]


def test_numbers_are_found_as_they_are_written() -> None:
    assert paths("12.5") == ["data.items[0].price"]
    assert paths("true") == []


@pytest.mark.parametrize("wanted", ["data.items[1].price", "/data/items/1/price"])
def test_a_place_is_found_as_people_and_as_machines_write_it(wanted: str) -> None:
    assert look_up(ORDER, wanted).items[0].pointer == "/data/items/1/price"


@pytest.mark.parametrize(
    "wanted", ["data.items[9]", "/data/items/9", "data.*", "/nothing", "..", "[", "\0", "x" * 5000]
)
def test_a_place_that_is_not_there_is_found_nowhere(wanted: str) -> None:
    assert paths(wanted) == []


def test_the_words_around_a_hit_are_given_and_what_would_hide_is_shown() -> None:
    (hit,) = look_up({"a": "x" * 500 + "\u202eNeedle" + "y" * 500}, "needle").items
    assert (hit.found, hit.before[0], hit.after[-1]) == ("Needle", "…", "…")
    assert hit.before.endswith("⟨U+202E⟩")
    assert len(hit.before) + len(hit.after) < 200


def test_very_many_hits_are_cut_and_said_to_be() -> None:
    found = look_up(["needle"] * 1000, "needle")
    assert (len(found.items), found.has_more) == (MOST_HITS, True)
    assert not look_up(["needle"] * MOST_HITS, "needle").has_more


def test_nothing_is_wanted_of_white_space() -> None:
    assert look_up(ORDER, "  ").items == ()


@pytest.mark.parametrize("wanted", ["needle", "İstanbul"])
def test_letters_that_are_two_in_lower_case_shift_no_mark(wanted: str) -> None:
    (hit,) = look_up({"a": "İstanbul needle"}, wanted).items
    assert hit.found == wanted


def test_what_is_nested_deeper_than_python_calls_is_read() -> None:
    value: Any = "needle"
    for _ in range(3000):
        value = [value]
    assert len(look_up(value, "needle").items) == 1


def test_a_pointer_names_a_key_also_where_it_looks_like_a_position() -> None:
    assert location_of({"a": {"0": 1}}, "/a/0") == ("a", "0")
    assert location_of({"a": [1]}, "/a/0") == ("a", 0)
    assert location_of({"a/b": {"~": 1}}, "/a~1b/~0") == ("a/b", "~")
    for nowhere in ("/a/01x", "/a/-1", "/a/5", "/b", "/a/0/0"):
        assert location_of({"a": [1]}, nowhere) is None


def test_looking_something_up_takes_time_in_proportion() -> None:
    def looking(rows: int) -> Callable[[], object]:
        value = {"rows": [{"id": number, "text": "x" * 60} for number in range(rows)]}
        return lambda: look_up(value, "needle")

    assert grows_linearly(looking, 625)


def test_names_of_any_length_make_no_long_answer() -> None:
    document: Any = {"pump": 1}
    for _ in range(40):
        document = {"pump" * 700: document}
    hits = look_up(document, "pump")
    assert hits.items[0].pointer == "/" + "pump" * 700
    assert hits.items[-1].path == "…pump"
    assert hits.items[-1].pointer is None
    assert len(repr(hits)) < 50_000


def test_many_places_deep_below_long_names_are_not_all_listed() -> None:
    hits = look_up({"x" * 3000: {f"pump{at}": 1 for at in range(30)}}, "pump")
    assert hits.has_more
    assert sum(len(hit.pointer or "") for hit in hits.items) <= 20_000
