"""Tests of finding an LLM's path and quote in the document."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from handoffaudit.validation.paths import Location, at
from handoffaudit.validation.record import place_of, span_of
from tests.elapsed import grows_linearly

DATA: dict[str, Any] = {
    "items": [{"price": 12.4, "unit price": "per desk", "note": "Delivery\nin  May, from Ulm"}, {"price": 7}],
    "summary": "Kronberg offers 400 desks at 240 EUR each.",
    "a.b": {"c/d": "dotted", "0": "zero"},
    "data": {"inner": "twice"},
    'say "hi"': "quoted",
    "ok": True,
}


@pytest.mark.parametrize(
    ("field", "location"),
    [
        ("items[0].price", ("items", 0, "price")),
        ("data.items[0].price", ("items", 0, "price")),
        ("$.items[0]", ("items", 0)),
        ("$.data.items[1].price", ("items", 1, "price")),
        ("/items/0/price", ("items", 0, "price")),
        ("#/items/1/price", ("items", 1, "price")),
        ("/data/items/0", ("items", 0)),
        ("items.0.price", ("items", 0, "price")),
        ('items[0]["unit price"]', ("items", 0, "unit price")),
        ("items[0]['unit price']", ("items", 0, "unit price")),
        ("items[0].unit price", ("items", 0, "unit price")),
        ('["items"][0]["price"]', ("items", 0, "price")),
        ("$['items'][0]['price']", ("items", 0, "price")),
        (" items[0].price ", ("items", 0, "price")),
        ("a.b", ("a.b",)),
        ('["a.b"]["c/d"]', ("a.b", "c/d")),
        ("/a.b/c~1d", ("a.b", "c/d")),
        ('["a.b"].0', ("a.b", "0")),
        ("data.inner", ("data", "inner")),
        ("data", ("data",)),
        ('say "hi"', ('say "hi"',)),
        ('["say \\"hi\\""]', ('say "hi"',)),
        ("items[2].price", ()),
        ("items[-1]", ()),
        ("items[999999999999]", ()),
        ("summary.more", ()),
        ("nothing", ()),
        ("", ()),
        ("$", ()),
        ("...", ()),
        ("[", ()),
    ],
)
def test_paths_as_models_write_them(field: str, location: Location) -> None:
    assert place_of(field, "", DATA) == location


@pytest.mark.parametrize(
    ("field", "quote", "location"),
    [
        ("", "400 desks", ("summary",)),
        ("no.such.path", "400 desks", ("summary",)),
        ("items", "in May", ("items", 0, "note")),
        ("items[0]", "per desk", ("items", 0, "unit price")),
        ("items[0].price", "400 desks", ("items", 0, "price")),
        ("", "12.4", ("items", 0, "price")),
        ("", "7", ("items", 1, "price")),
        ("", "not there", ()),
        ("items", "not there", ("items",)),
        ("", "", ()),
        ("", "  ", ()),
        ("", "True", ()),
    ],
)
def test_else_by_the_quotation(field: str, quote: str, location: Location) -> None:
    assert place_of(field, quote, DATA) == location


@pytest.mark.parametrize(
    ("quote", "stands"),
    [
        ("240 EUR", "240 EUR"),
        ('"240 EUR"', "240 EUR"),
        ("\u201c240 eur\u201d", "240 EUR"),
        ("Kronberg offers\n400  desks", "Kronberg offers 400 desks"),
        ("KRONBERG OFFERS 400 …", "Kronberg offers 400"),
        ("at 240 EUR each...", "at 240 EUR each"),
        ("at 240 EUR each.", "at 240 EUR each."),
    ],
)
def test_the_span_points_at_the_quotation(quote: str, stands: str) -> None:
    location = place_of("", quote, DATA)
    span = span_of(quote, location, DATA)
    assert span is not None
    assert at(DATA, location)[span[0] : span[1]] == stands


@pytest.mark.parametrize(
    ("quote", "location"),
    [
        ("nothing", ("summary",)),
        ("", ("summary",)),
        ("7", ("items", 1, "price")),
        ("x", ("no",)),
        ("...", ("summary",)),
    ],
)
def test_no_span_where_it_does_not_stand(quote: str, location: Location) -> None:
    assert span_of(quote, location, DATA) is None


@pytest.mark.parametrize(
    "given",
    [
        lambda n: ("[" * n, "x", DATA),
        lambda n: ("." * n, "x", DATA),
        lambda n: ('["' * (n // 2), "x", DATA),
        lambda n: ('["\\' * (n // 2), "x", DATA),
        lambda n: ("a." * (n // 2), "x", DATA),
        lambda n: ("", "a " * 250, {"t": "a " * n}),
        lambda n: ("", "a b", {"t": "a" + " " * n}),
        lambda n: ("", "(" * 500, {"t": "(" * n}),
        lambda n: ("", "x", {str(key): key for key in range(n // 5 * 2)}),
        lambda n: ("", "x", {"l": [[]] * (n // 5 * 2)}),
        lambda n: ("", "9" * 500, {"n": 10 ** (n // 56)}),
        lambda n: ("[0]" * (n // 1600), "x", [[[["y"]]]]),
        lambda n: ("", "a " * 250, {"t": ("a " * 249 + "b ") * (n // 250)}),
        lambda n: ("", "a " * 250, {str(key): "a " * 99 for key in range(n // 100)}),
    ],
    ids=range(14),
)
def test_hostile_input_takes_time_in_proportion(given: Callable[[int], tuple[str, str, Any]]) -> None:
    def find(field: str, quote: str, data: Any) -> None:
        span_of(quote, place_of(field, quote, data), data)

    assert grows_linearly(lambda size: partial(find, *given(size)), 31_250)


def test_a_hundred_quotations_that_nearly_stand_everywhere_take_time_in_proportion() -> None:
    def find(data: Any) -> set[Location]:
        return {place_of("", "a " * (150 + n), data) for n in range(100)}

    def hostile(times: int) -> Any:
        return {"t": ("a " * 149 + "b ") * times, "u": 1}

    assert find(hostile(200)) == {()}
    assert grows_linearly(lambda times: partial(find, hostile(times)), 200)
