"""Tests of the statements and examples in docs/formats.md."""

import hashlib
import json
import re

import pytest

from handoffaudit.validation.formats import BY_NAME, SCHEMA_NAMES

from ..support import codes, universal
from .documents import EXAMPLES, FORMAT_OF, checked, example, render_examples

PAGE = (EXAMPLES.parent / "formats.md").read_text()
SHOWN = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
WARNED = {"universal-2.0": ["structure.generated_trace_id"], "handoff-file-report": ["files.text_fallback"]}


@pytest.mark.parametrize("name", FORMAT_OF)
def test_each_example_is_shown_and_accepted(name: str) -> None:
    assert example(name) in SHOWN
    verdict = checked(example(name), envelope={"adapt": True})
    assert (verdict.outcome, codes(verdict)) == ("accepted", WARNED.get(name, []))


def test_every_document_shown_is_an_example() -> None:
    assert len(SHOWN) == len(FORMAT_OF)


def test_the_files_of_the_examples_are_generated() -> None:
    assert {path.stem: path.read_text() for path in EXAMPLES.glob("*.json")} == render_examples()


def test_every_format_and_schema_is_named() -> None:
    headings = re.findall(r"^## (\S+)$", PAGE, re.MULTILINE)
    assert sorted(headings) == sorted(BY_NAME)
    assert [name for name in SCHEMA_NAMES if f"`{name}`" not in PAGE] == []


def test_the_hash_shown_matches() -> None:
    document = universal(payload={"working": {"ü": [1.5e-07, 1e16, 2.0]}})
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(code, {"json": json, "hashlib": hashlib, "handoff": document["handoff"]})  # noqa: S102  (the page's own lines)
    assert document["handoff"]["meta"]["payload_hash"].startswith("sha256:")
    assert not [code for code in codes(checked(document)) if code.startswith("integrity")]
