"""Tests that all public names exist and are loaded only on use."""

import subprocess
import sys

import pytest

from handoffaudit import validation

SPECIFIED = [
    "HandoffPayload",
    "ValidationStrictness",
    "HandoffResult",
    "StrictnessConfig",
    "SemanticValidator",
    "HandoffProtocol",
    "HandoffRejectedError",
    "ValidationPipeline",
    "ValidationResult",
    "ValidationIssue",
    "ValidationSeverity",
    "ValidationLayer",
    "SchemaValidator",
    "EvidenceValidator",
    "ClaimAnnotation",
    "ClaimType",
    "BusinessRuleValidator",
    "BusinessRule",
    "BusinessRuleSet",
    "BusinessRuleType",
    "Operator",
    "build_signal_rules",
    "build_cmt_rules",
    "CritiqueValidator",
    "CritiqueTriggerConfig",
    "CritiqueResult",
    "RemediationEngine",
    "RemediationPolicy",
    "RemediationRecord",
    "LLMEnvelope",
    "LLMResult",
    "EvidenceItem",
    "ValidationConfig",
    "IValidator",
    "HandoffAuditError",
    "HandoffValidationError",
    "SchemaValidationError",
    "EvidenceValidationError",
    "BusinessRuleValidationError",
    "CritiqueValidationError",
    "RemediationExhaustedError",
]

PROBE = """
import sys
import handoffaudit.validation
roots = {name.partition(".")[0] for name in sys.modules}
print(sorted(roots & {"django", "pydantic", "jsonschema_rs", "orjson", "splintr", "asyncio"}))
from handoffaudit.validation import ValidationPipeline, HandoffProtocol
roots = {name.partition(".")[0] for name in sys.modules}
print(sorted(roots & {"django", "ninja", "celery", "redis", "httpx", "anthropic", "splintr"}))
"""


def test_every_name_is_there() -> None:
    assert [name for name in SPECIFIED if not hasattr(validation, name)] == []
    assert set(SPECIFIED) <= set(validation.__all__)
    assert sorted(validation.__all__) == sorted(validation._MODULE_OF)
    assert set(validation.__all__) <= set(dir(validation))


def test_each_name_is_what_it_is_called() -> None:
    assert [name for name in validation.__all__ if getattr(validation, name).__name__ != name] == [
        "ValidationSeverity",
        "ValidationStrictness",
    ]


def test_no_other_name_is_there() -> None:
    with pytest.raises(AttributeError, match="HandoffPaylod"):
        validation.HandoffPaylod  # noqa: B018


def test_importing_the_package_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_errors_have_one_root() -> None:
    root, of_validation = validation.HandoffAuditError, validation.HandoffValidationError
    assert issubclass(of_validation, root)
    for name in SPECIFIED:
        if name.endswith("Error") and name != "HandoffAuditError":
            assert issubclass(getattr(validation, name), of_validation), name
