"""Tests that the policies shown in the documentation can be saved."""

import json
import re
from pathlib import Path

import pytest

from handoffaudit.policy.kinds import KINDS
from handoffaudit.policy.models import Kind
from handoffaudit.policy.strictness import FIELDS, to_plain
from handoffaudit.validation.config import TypePolicy

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kind", [Kind.RULES, Kind.SCHEMAS, Kind.PROMPTS], ids=lambda kind: kind.value)
def test_the_example_of_the_page(kind: Kind) -> None:
    example = re.search(r"-d '(\{.*?\})'", (DOCS / f"{kind.value}.md").read_text(), re.DOTALL)
    assert example is not None
    (row,) = KINDS[kind].from_plain(json.loads(example[1]))
    assert KINDS[kind].name_of(row) in ("deals", "deal_data", "grounding type:deal_data")


def test_the_page_of_strictness_names_every_field_with_its_default() -> None:
    said = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", (DOCS / "strictness.md").read_text(), re.MULTILINE))
    shipped = to_plain(TypePolicy("x")) | {"layers": "all on"}
    assert list(said) == [field for field in FIELDS if field != "handoff_type"]
    for field, text in said.items():
        value = json.dumps(shipped[field]) if isinstance(shipped[field], bool | int | float) else shipped[field]
        assert text.strip("`").startswith(value)
