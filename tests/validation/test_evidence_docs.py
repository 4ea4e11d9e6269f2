"""Tests of the examples in docs/evidence.md."""

import json
import re
from pathlib import Path
from typing import Any

from handoffaudit.policy.rules import parse_sets
from handoffaudit.validation.claims import extract, parse_fields
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.rule_evaluation import broken_rules, rules_for

PAGE = (Path(__file__).parents[2] / "docs" / "evidence.md").read_text()


def example(name: str) -> Any:
    found = re.search(rf"```json{name}\n(.*?)```", PAGE, re.DOTALL)
    assert found, name
    return json.loads(found[1])


def test_claims() -> None:
    found = extract(example(" claims"), supplied={"survey-7"})
    assert [claim.claim_type.value for claim in found.claims] == ["cited", "uncited", "assumption", "derived"]
    assert (found.uncited, found.total) == (1, 4)
    assert parse_fields(example("")) == ("thesis", "trade_plan.targets", "layers.*.key_findings")


def test_rules() -> None:
    rules = rules_for(parse_sets(example(" rules")), ["offer"])
    good = {"share": 1, "plans": [{"stop": 1, "entry": 2}], "reason": "r"}
    assert list(broken_rules(rules, good)) == []
    bad = {"share": "all", "plans": [{"stop": 2, "entry": 2}], "reason": ""}
    assert [one.rule.rule_id for one in broken_rules(rules, bad)] == ["share", "stop_below_entry", "reason"]


def test_schema() -> None:
    issues = DataSchema.of(example(" schema")).check({"answers": 0, "unit": "USD"})
    assert [issue.code for issue in issues] == ["schema.minimum", "schema.enum"]
