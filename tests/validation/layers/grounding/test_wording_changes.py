"""The lexicon: opposites, rivals and synonyms, by stem and in both directions."""

import pytest

from handoffaudit.validation.layers.grounding.wording_changes import changes_of, relations_of
from handoffaudit.validation.layers.grounding.wording_lexicon import FAMILIES, OPPOSITES, SYNONYMS
from handoffaudit.validation.layers.grounding.wording_text import Prose, claim_sentences, stem


def test_opposites_go_both_ways():
    assert stem("decreased") in relations_of(stem("increase")).opposites
    assert stem("increasing") in relations_of(stem("decrease")).opposites


def test_rivals_exclude_one_another():
    assert stem("weeks") in relations_of(stem("month")).rivals
    assert stem("month") not in relations_of(stem("month")).rivals


def test_a_synonym_is_neither_opposite_nor_rival():
    relations = relations_of(stem("profit"))
    assert relations.synonyms
    assert relations.synonyms.isdisjoint(relations.opposites | relations.rivals)


def test_unknown_words_have_no_relations():
    assert relations_of("zyxw") == (frozenset(), frozenset(), frozenset())


def test_every_entry_is_well_formed():
    assert all(len(entry.split(" | ")) == 2 for entry in OPPOSITES)
    assert all(len(entry.split()) > 1 and "|" not in entry for entry in FAMILIES + SYNONYMS)
    words = " ".join(OPPOSITES + FAMILIES + SYNONYMS).replace("|", " ").split()
    assert all(word.isalpha() and word == word.lower() for word in words)


@pytest.mark.parametrize(
    ("claim", "seen"),
    [
        ("The electric ferry is faster than the first ferry.", {"first"}),
        ("The electric ferry is faster than the first.", set()),
        ("The electric ferry is faster than the last ferry of the harbour because of the current.", set()),
    ],
)
def test_an_ordinal_for_something_named_before_and_a_connective_turn_nothing(claim, seen):
    source = Prose("The electric ferry is faster than the last ferry of the harbour, despite the current.")
    changes = changes_of(claim_sentences(claim), source)
    assert {word.text for word in changes.words.get("turned", ())} == seen
