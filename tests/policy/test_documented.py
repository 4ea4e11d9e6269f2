"""Tests that the policies shown in the documentation can be saved."""

import json
import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from handoffaudit.policy.agents import DeclaredRoutesModel
from handoffaudit.policy.alert_rules import AlertRuleModel
from handoffaudit.policy.kinds import KINDS
from handoffaudit.policy.models import Kind
from handoffaudit.policy.prompts import PromptModel
from handoffaudit.policy.retention import RetentionModel
from handoffaudit.policy.strictness import FIELDS, HandoffFilesModel, StrictnessModel, to_plain
from handoffaudit.policy.values import fields_of
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


def test_the_page_of_alerts_names_fields_as_the_form_does() -> None:
    table = (DOCS / "alerts.md").read_text().partition("| field | meaning |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE)
    assert named
    assert set(named) <= {str(field.title).lower() for field in fields_of(AlertRuleModel).values()}


MODELS = [AlertRuleModel, DeclaredRoutesModel, HandoffFilesModel, PromptModel, RetentionModel, StrictnessModel]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_field_of_a_policy_has_a_label_and_a_help(model: type[BaseModel]) -> None:
    for name, field in fields_of(model).items():
        assert field.title, name
        # The label of the one switch of an alert rule says all.
        assert field.description or (model, name) == (AlertRuleModel, "on")
