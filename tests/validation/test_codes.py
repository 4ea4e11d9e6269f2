"""Tests of the catalogue of rule codes, and of its handling of untrusted values."""

import orjson
import pytest

from handoffaudit.validation.codes import CATALOGUE, blocks, make
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.layers import LAYERS, MODEL_LAYERS


@pytest.mark.parametrize("entry", CATALOGUE.values(), ids=lambda entry: entry.code)
def test_entries_are_complete_sentences(entry) -> None:
    assert entry.title
    assert not entry.title.endswith(".")
    assert entry.what.endswith(".")
    assert entry.hint.endswith(".")
    assert entry.layer in [layer.name for layer in (*LAYERS, *MODEL_LAYERS)]


def test_holding_codes_are_warnings() -> None:
    holding = [entry for entry in CATALOGUE.values() if entry.holds]
    assert {entry.code for entry in holding} == {
        "chain.circular_with_reason",
        "chain.needs_approval",
        "semantic.awaiting_check",
    }
    assert {entry.severity for entry in holding} == {Severity.WARNING}
    assert all(blocks(make(entry.code, message="m")) for entry in holding)


def test_only_a_self_handoff_cannot_be_approved() -> None:
    assert [entry.code for entry in CATALOGUE.values() if not entry.approvable] == ["chain.self_handoff"]


def test_an_unknown_code_is_our_bug() -> None:
    with pytest.raises(KeyError):
        make("structure.no_such_code", message="m")


def test_values_from_outside_are_cut_and_cleaned() -> None:
    issue = make(
        "structure.unknown_field",
        location=("a\0b" * 500, 3, "\ud800"),
        message="m\0" * 1000,
        actual={"k" * 1000: ["v" * 10_000] * 1000, "n": 2**70},
        deep=[[[[[["x"]]]]]],
    )
    text = orjson.dumps(issue.to_dict())
    assert len(text) < 30_000
    assert b"\\u0000" not in text
    assert issue.location[1] == 3
