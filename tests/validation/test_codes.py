"""Tests of the catalogue of rule codes, and of its handling of untrusted values."""

import importlib
import pkgutil

import orjson
import pytest

from handoffaudit import validation
from handoffaudit.validation.issues import Code, Severity, make
from handoffaudit.validation.layers import CATALOGUE, FAMILIES, LAYERS, MODEL_LAYERS, grounding


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
    assert all(make(entry, message="m").blocks for entry in holding)


def test_only_a_self_handoff_cannot_be_approved() -> None:
    assert [entry.code for entry in CATALOGUE.values() if not entry.approvable] == ["chain.self_handoff"]


def test_a_code_outside_the_catalogue_is_our_bug() -> None:
    modules = [
        importlib.import_module(one.name)
        for one in pkgutil.walk_packages(validation.__path__, "handoffaudit.validation.")
    ]
    constants = [value for module in modules for value in vars(module).values()]
    declared = {value for value in constants if isinstance(value, Code) and value.code}
    assert declared | {*grounding.CODES} == {*CATALOGUE.values(), *FAMILIES.values()}


def test_values_from_outside_are_cut_and_cleaned() -> None:
    issue = make(
        CATALOGUE["structure.unknown_field"],
        location=("a\0b" * 500, 3, "\ud800"),
        message="m\0" * 1000,
        actual={"k" * 1000: ["v" * 10_000] * 1000, "n": 2**70},
        deep=[[[[[["x"]]]]]],
    )
    text = orjson.dumps(issue.to_dict())
    assert len(text) < 30_000
    assert b"\\u0000" not in text
    assert issue.location[1] == 3
