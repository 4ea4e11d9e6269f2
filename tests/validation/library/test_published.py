"""Tests of the JSON Schemas of results."""

import jsonschema_rs
import pytest

from handoffaudit.validation import BusinessRuleValidator, RemediationEngine, ValidationPipeline, build_signal_rules
from handoffaudit.validation.library.models import RESULT_SCHEMA_NAMES, result_schema
from handoffaudit.validation.library.validators import EvidenceValidator

from .support import answer, envelope, signal


def test_what_is_answered_keeps_to_them() -> None:
    rules = BusinessRuleValidator()
    rules.register(build_signal_rules())
    pipeline = ValidationPipeline([EvidenceValidator(), rules], remediation_engine=RemediationEngine())
    result = pipeline.run(signal(direction="UP", evidence_refs={}), envelope(), answer()).model_dump(mode="json")
    assert result["issues"]
    whole = jsonschema_rs.Draft202012Validator(result_schema("validation-result"))
    whole.validate(result)
    assert not whole.is_valid({**result, "overall_passed": "yes"})
    claims = jsonschema_rs.Draft202012Validator(result_schema("claim-annotation"))
    assert [claims.is_valid(claim) for claim in result["claims"]] == [True, True]
    rule = jsonschema_rs.Draft202012Validator(result_schema("business-rule"))
    rule.validate(build_signal_rules().rules[0].model_dump(mode="json"))


def test_their_names() -> None:
    assert RESULT_SCHEMA_NAMES == ("validation-result", "business-rule", "claim-annotation")
    for name in RESULT_SCHEMA_NAMES:
        assert result_schema(name)["$id"] == f"urn:handoffaudit:schema:{name}"
    with pytest.raises(KeyError):
        result_schema("payload")
