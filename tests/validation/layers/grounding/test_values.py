"""Values of a text: what is taken for one, with its span, and what is not."""

from functools import partial

import pytest

from handoffaudit.validation.layers.grounding.values import MAX_VALUES, blank_escapes, values_in
from tests.elapsed import grows_linearly
from tests.scale import LARGE, size


def found(text: str) -> list[tuple[str, str]]:
    return [(value.kind, value.text) for value in values_in(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It costs 1,200.50 in all.", [("number", "1,200.50")]),
        ("up 40 % on the year", [("number", "40 %")]),
        ("some 1.2k users and 3 million views", [("number", "1.2k"), ("number", "3 million")]),
        ("a 64MP camera, gusts of 3.8m/s", [("number", "64MP"), ("number", "3.8m")]),
        ("there are seven of them", [("number", "seven")]),
        ("on 12 March 2024 at 2 PM", [("date", "12 March 2024"), ("time", "2 PM")]),
        ("by March 12th, 2024", [("date", "March 12th, 2024")]),
        ("since 2014, September", [("date", "2014, September")]),
        ("am 17. Februar 2026 oder 3. Mai", [("date", "17. Februar 2026"), ("date", "3. Mai")]),
        ("le 1er avril 2026, el 21 de septiembre de 2026",
         [("date", "1er avril 2026"), ("date", "21 de septiembre de 2026")]),
        ("9 marca 2026 r., 16 Nisan 2026, 4 Mars",
         [("date", "9 marca 2026"), ("date", "16 Nisan 2026"), ("number", "4"), ("name", "Mars")]),
        ("on Friday, 1 May, 6 pm", [("date", "1 May"), ("time", "6 pm")]),
        ("合計金額は15,800円、2026年3月20日に発送", [("number", "15,800"), ("date", "2026年3月20日")]),
        ("for AU-2291-77 and SHP-88213, by ISO-9001",
         [("identifier", "AU-2291-77"), ("identifier", "SHP-88213"), ("name", "ISO-9001")]),
        ("to DE89 3704 0044 0532 0130 00 by then", [("identifier", "DE89 3704 0044 0532 0130 00")]),
        ("from 2024-03-12 14:00 on", [("date", "2024-03-12"), ("time", "14:00")]),
        ("write to a.b@example.com or https://example.com/a?b=1.",
         [("identifier", "a.b@example.com"), ("identifier", "https://example.com/a?b=1")]),
        ("order #W6390527 of sofia_kim_7287", [("identifier", "#W6390527"), ("identifier", "sofia_kim_7287")]),
        ("he met Anna Berg and Dr. Osei of Acme Corp there",
         [("name", "Anna Berg"), ("name", "Dr"), ("name", "Osei of Acme Corp")]),
        ('he said "we ship on Friday" then', [("quote", "we ship on Friday")]),
    ],
)  # fmt: skip
def test_each_kind_is_found_whole(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    "text",
    ["However, there is more.", "Here are the details. The rest follows.", "the top-10 list", "I'm sorry."],
)
def test_words_that_only_open_a_sentence_are_no_names(text: str) -> None:
    assert [value for value in values_in(text) if value.kind in ("name", "number")] == []


def test_inches_open_no_quote() -> None:
    assert [kind for kind, _ in found('a 6.1" screen and a 5" one')] == ["number", "number"]


def test_spans_are_those_of_the_text() -> None:
    text = 'On 3 May 2021 Ana Diaz paid €1,200.50 ("in full, as agreed") for W-1234.'
    assert all(text[value.start : value.end] == value.text for value in values_in(text))


@pytest.mark.parametrize(
    "piece", ["a", "1", "1,", "A ", "@", '"', "1:", "a@", "Aa.", "_1", "12 March ", "http://", "\ud800"]
)
def test_a_mebibyte_of_anything_takes_time_in_proportion_to_its_length(piece: str) -> None:
    assert len(values_in(piece * (LARGE // len(piece)))) <= MAX_VALUES
    assert grows_linearly(lambda length: partial(values_in, piece * (length // len(piece))), size(2**16))


@pytest.mark.parametrize("escape", [r"\t", r"\r", r"\n", r"\r\n", r"\u2019", r"\x0a"])
def test_an_escape_alone_becomes_blanks(escape: str) -> None:
    assert blank_escapes(f"Total{escape}4711") == f"Total{' ' * len(escape)}4711"


def test_a_path_keeps_its_folders() -> None:
    assert blank_escapes(r"C:\temp\new") == r"C:\temp\new"
