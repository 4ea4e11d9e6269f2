"""Tests that every rule code says why it matters and has a real example: finding before, no finding after."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handoffaudit.validation.formats import payload
from handoffaudit.validation.formats.schema_check import Shape
from handoffaudit.validation.layers import CATALOGUE, FAMILIES, Example, _examples, entry_of, example_of, text_of

from .test_goldens import outcome_of, written

CODES = sorted([*CATALOGUE, *FAMILIES])


def judged(
    example: Example, document: Any, beside: Mapping[str, Any], under: Mapping[str, Any], tmp_path: Path
) -> tuple[str, list[str]]:
    golden = {"raw": text_of(document), "format": example.format or None, **under}
    if beside:
        golden["envelope"] = dict(beside)
    found = outcome_of(golden)
    issues = found["issues"] + (written(golden, tmp_path) if "written_under" in golden else [])
    return found["outcome"], [issue["code"] for issue in issues]


def has(codes: list[str], code: str) -> bool:
    return any(found == code or (code in FAMILIES and found.startswith(f"{code}.")) for found in codes)


@pytest.mark.parametrize("code", CODES)
def test_the_document_before_has_the_code(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    example = example_of(code)
    assert example is not None
    if example.judged.get("without_schema"):
        monkeypatch.setattr(payload, "_SHAPE", Shape("payload", payload._BASICS, tmp_path))
    _, codes = judged(example, example.before, example.beside, example.judged, tmp_path)
    assert has(codes, code)


@pytest.mark.parametrize("code", CODES)
def test_the_document_after_has_not_and_is_not_rejected(code: str, tmp_path: Path) -> None:
    example = example_of(code)
    assert example is not None
    outcome, codes = judged(example, example.after, example.beside_after, example.judged_after, tmp_path)
    assert not has(codes, code)
    assert outcome != "rejected"


@pytest.mark.parametrize("code", CODES)
def test_the_two_differ_in_something_that_the_page_shows(code: str) -> None:
    example = example_of(code)
    assert example is not None
    assert (example.before, example.beside) != (example.after, example.beside_after) or example.note
    assert entry_of(code).why.endswith((".", "!"))


def test_a_code_of_a_family_is_example_by_the_family() -> None:
    found = example_of("schema.maximum")
    assert found is not None
    assert found.code == "schema"


@pytest.mark.parametrize("code", ["mine.own", "../secret", "", "no_such_family"])
def test_a_code_of_somebodys_own_is_not(code: str) -> None:
    assert example_of(code) is None


@pytest.mark.parametrize("code", ["a" * 300, "../chain.circular", "zz.made_up", ""])
def test_a_made_up_name_is_no_code_and_leaves_nothing_behind(code: str) -> None:
    kept = _examples.cache_info().currsize
    assert example_of(code) is None
    assert _examples.cache_info().currsize == kept
