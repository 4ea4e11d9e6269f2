"""Tests of values as messages show them."""

import tracemalloc
import unicodedata
from typing import Any

import pytest

from handoffaudit.validation.text import (
    PlainText,
    brief,
    clean,
    closest,
    either,
    normalize,
    pluralize,
    sentences,
    show,
    show_path,
    storable,
    type_name,
    unknown_field_hint,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\nb", '"a b"'),
        ("x" * 100, '"' + "x" * 59 + '…"'),
        (None, "null"),
        (True, "true"),
        (0.1, "0.1"),
        (3, "3"),
        ({}, "an object of 0 fields"),
        ([1], "a list of 1 entry"),
    ],
)
def test_shown(value: Any, text: str) -> None:
    assert show(value) == text


def test_long_paths_show_their_ends() -> None:
    folder = "work/collaboration/assigned/architect-alphonso/review-of-the-third-phase"
    assert show_path(f"{folder}/a.json") == f'"{folder}/a.json"'
    shown = [show_path(f"{'deep/' * 100}{name}.json") for name in ("a", "b")]
    assert [len(path) for path in shown] == [162, 162]
    assert shown[0].startswith('"deep/deep/')
    assert [path[-12:] for path in shown] == ['deep/a.json"', 'deep/b.json"']
    assert show_path("a\nb\0") == '"a b\ufffd"'


def test_one_escape_of_a_long_text_takes_no_memory_for_the_other_characters() -> None:
    text = r"Z\u00fcrich " + "word " * 20_000
    tracemalloc.start()
    plain = PlainText.of(text)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert plain.text.startswith("Z\u00fcrich")
    assert plain.span(0, 6) == (0, len(r"Z\u00fcrich"))
    assert most < 5 * len(text)


def test_an_integer_too_long_for_str_is_shown() -> None:
    assert show(10**5000) == "an integer of 16,610 bits"


def test_clean_keeps_what_can_be_stored() -> None:
    assert clean("Zürich\n東京 👩‍👧") == "Zürich\n東京 👩‍👧"
    assert clean("a\0b") == "a\ufffdb"
    assert clean("a\ud800b") == "a?b"
    assert clean("x" * 201) == "x" * 199 + "…"
    assert storable("a\n\t")
    assert not storable("\0")
    assert not storable("\udfff")


def test_closest() -> None:
    assert closest("Implement", ["decision", "implementation"]) == "implementation"
    assert closest("zzz", ["decision"]) is None
    assert closest(5, ["decision"]) is None
    assert closest("a" * 1_000_000, ["decision"]) is None


def test_words() -> None:
    assert pluralize(1, "agent") == "1 agent"
    assert pluralize(2000, "entry", "entries") == "2,000 entries"
    assert either(["a", "b", "c"]) == "a, b or c"
    assert either(["a"]) == "a"
    assert [type_name(value) for value in (1, True, None)] == ["a number", "a boolean", "null"]


def test_sentences_have_one_end_each() -> None:
    assert sentences(["No prompt", "", 'It says "Stop."', "See:", "Why?"]) == 'No prompt. It says "Stop." See: Why?'


@pytest.mark.parametrize(
    ("name", "taken", "hint"),
    [
        ("trace_idd", {"trace_id"}, ('Remove it: "trace_id" is already there.', None)),
        ("trace_idd", set(), ('Rename it to "trace_id".', "trace_id")),
        ("zzz", set(), ("Leave it out.", None)),
    ],
)
def test_a_misspelt_field_is_renamed_only_where_the_name_is_free(
    name: str, taken: set[str], hint: tuple[str, str | None]
) -> None:
    assert unknown_field_hint(name, ["trace_id", "tracing"], taken, "Leave it out.") == hint


def test_brief_describes_what_is_deep_or_wide() -> None:
    assert brief([[[[[1]]]]]) == [[[["a list of 1 entry"]]]]
    assert brief(list(range(70)))[-1] == "… and 10 more"
    assert brief({str(n): n for n in range(70)}) == "an object of 70 fields"


def test_the_normal_form_of_an_ordinary_text_is_that_of_unicode() -> None:
    text = "Caf\u00e9 \u0939\u093f\u0928\u094d\u0926\u0940 \u1ec7 \uff9e \u2460 \ufb01 \uac01 " * 20
    for form in ("NFC", "NFKC", "NFKD"):
        assert normalize(form, text) == unicodedata.normalize(form, text)
    assert len(normalize("NFKD", "a" + "\u0301\u0323" * 1_000)) == 33


def test_a_letter_and_its_accents_become_one_character() -> None:
    written = ["e\u0301", "\\u0065\\u0301", "e\u200b\\u0301", "\u1112\u1161\u11ab", "\u1ec7"]
    text = " ".join(written)
    plain = PlainText.of(text)
    assert plain.text == "\u00e9 \u00e9 \u00e9 \ud55c \u1ec7"
    spans = [plain.span(at, at + 1) for at in range(0, len(plain.text), 2)]
    assert [text[start:end] for start, end in spans] == written
    assert PlainText.of("q\u0301 x\u0301\u0323").text == "q\u0301 x\u0301\u0323"
