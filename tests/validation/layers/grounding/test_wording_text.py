"""Stems, numbers, negations and places in the source, as the wording detector sees them."""

import pytest

from handoffaudit.validation.layers.grounding.wording_text import (
    Prose,
    are_near,
    claim_sentences,
    is_negation,
    speaks,
    stem,
    stems,
)
from tests.elapsed import grows_linearly


@pytest.mark.parametrize(
    "forms",
    [
        ("increase", "increases", "increased", "increasing"),
        ("organize", "organise", "organizes"),
        ("city", "cities", "city's"),
        ("plan", "plans", "planned", "planning"),
        ("two", "2"),
        ("verify", "verifies", "verified"),
    ],
)
def test_forms_of_one_word_share_a_stem(forms):
    assert len({stem(form) for form in forms}) == 1


@pytest.mark.parametrize(
    ("one", "other"), [("business", "busy"), ("input", "output"), ("his", "hiss"), ("new", "news")]
)
def test_different_words_keep_their_stems(one, other):
    assert stem(one) != stem(other)


def test_a_claim_is_read_in_sentences_with_places():
    text = "Sales rose to $3.50. They didn't fall."
    first, second = claim_sentences(text)
    assert [word.text for word in first] == ["Sales", "rose", "to", "3.50"]
    assert [text[word.start : word.end] for word in second] == ["They", "didn't", "fall"]
    assert is_negation(second[1].lower)


def test_numbers_of_the_source_are_known_however_written():
    figures = Prose("About twenty five people paid $1,200.50, and eleven left.").figures
    assert {"25", "1200.50", "1200.5", "11"} <= figures
    assert figures.isdisjoint({"26", "1"})
    assert "1" in Prose("A number one hit.").figures


def test_the_nearest_sentences_share_the_rare_words():
    source = Prose("The cat sat. The dog sat on the red mat. The bird flew.")
    assert "red" in source.nearest(frozenset({stem("dog"), stem("mat")}), 1)
    assert source.nearest(frozenset({"nowhere"}), 3) == frozenset()


def test_many_sentences_are_compared_with_a_long_source_in_linear_time():
    def work_of(size):
        source = Prose(" ".join(f"{number}worker kept {number}item." for number in range(size)))
        wanted = [frozenset({f"{number}worker"}) for number in range(size)]
        return lambda: [source.nearest(one, 3) for one in wanted]

    assert all(f"{number}item" in found for number, found in enumerate(work_of(20)()))
    assert grows_linearly(work_of, 100)


def test_the_sentence_about_words_holds_half_of_them():
    source = Prose("The ferry was late. The pier was closed in May. The ferry to the pier costs more in May.")
    assert stem("closed") in source.sentence_about(frozenset(stems(["pier", "closed", "may"])))
    assert source.sentence_about(frozenset(stems(["pier", "bridge", "tunnel"]))) == frozenset()


def test_what_a_negation_denies_is_known():
    negated = Prose("The city would not raise prices. Costs have increased.").negated
    assert stem("raise") in negated
    assert stem("increased") not in negated


@pytest.mark.parametrize(
    ("first", "second", "near"), [([1], [9], True), ([1], [10], False), ([1, 40], [20, 45], True), ([], [1], False)]
)
def test_places_are_near_within_eight_words(first, second, near):
    assert are_near(first, second) is near


def test_who_speaks_is_counted_with_either_apostrophe():
    assert speaks(["i\u2019d", "like", "your", "help"]) == 2
