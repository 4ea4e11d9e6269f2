"""The engine: what a handoff is, and how it is judged. Pure: no framework, no network.

The names below are for users' code. Each is loaded when it is first asked for, so that importing the package costs
nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from handoffaudit.validation.business_rules import (
        BusinessRule,
        BusinessRuleSet,
        BusinessRuleType,
        Operator,
        build_cmt_rules,
        build_signal_rules,
    )
    from handoffaudit.validation.errors import (
        BusinessRuleValidationError,
        CritiqueValidationError,
        EvidenceValidationError,
        HandoffAuditError,
        HandoffValidationError,
        RemediationExhaustedError,
        SchemaValidationError,
    )
    from handoffaudit.validation.layers.plugins import IValidator
    from handoffaudit.validation.library.config import CritiqueTriggerConfig, ValidationConfig
    from handoffaudit.validation.library.critique import CritiqueValidator
    from handoffaudit.validation.library.envelopes import EvidenceItem, LLMEnvelope, LLMResult
    from handoffaudit.validation.library.evidence import EvidenceValidator
    from handoffaudit.validation.library.models import (
        ClaimAnnotation,
        ClaimType,
        CritiqueResult,
        ValidationIssue,
        ValidationLayer,
        ValidationResult,
        ValidationSeverity,
    )
    from handoffaudit.validation.library.pipeline import ValidationPipeline
    from handoffaudit.validation.library.remediation import RemediationEngine
    from handoffaudit.validation.library.rules import BusinessRuleValidator
    from handoffaudit.validation.library.schema import SchemaValidator
    from handoffaudit.validation.library.semantic import SemanticValidator
    from handoffaudit.validation.protocol import (
        HandoffPayload,
        HandoffProtocol,
        HandoffRejectedError,
        HandoffResult,
        StrictnessConfig,
        ValidationStrictness,
    )
    from handoffaudit.validation.remediation import RemediationState
    from handoffaudit.validation.remediation_models import RemediationAction, RemediationPolicy, RemediationRecord

__all__ = [
    "BusinessRule",
    "BusinessRuleSet",
    "BusinessRuleType",
    "BusinessRuleValidationError",
    "BusinessRuleValidator",
    "ClaimAnnotation",
    "ClaimType",
    "CritiqueResult",
    "CritiqueTriggerConfig",
    "CritiqueValidationError",
    "CritiqueValidator",
    "EvidenceItem",
    "EvidenceValidationError",
    "EvidenceValidator",
    "HandoffAuditError",
    "HandoffPayload",
    "HandoffProtocol",
    "HandoffRejectedError",
    "HandoffResult",
    "HandoffValidationError",
    "IValidator",
    "LLMEnvelope",
    "LLMResult",
    "Operator",
    "RemediationAction",
    "RemediationEngine",
    "RemediationExhaustedError",
    "RemediationPolicy",
    "RemediationRecord",
    "RemediationState",
    "SchemaValidationError",
    "SchemaValidator",
    "SemanticValidator",
    "StrictnessConfig",
    "ValidationConfig",
    "ValidationIssue",
    "ValidationLayer",
    "ValidationPipeline",
    "ValidationResult",
    "ValidationSeverity",
    "ValidationStrictness",
    "build_cmt_rules",
    "build_signal_rules",
]

_NAMES_OF = {
    "business_rules": ("BusinessRule BusinessRuleSet BusinessRuleType Operator build_cmt_rules build_signal_rules"),
    "errors": (
        "BusinessRuleValidationError CritiqueValidationError EvidenceValidationError HandoffAuditError "
        "HandoffValidationError RemediationExhaustedError SchemaValidationError"
    ),
    "layers.plugins": "IValidator",
    "library.config": "CritiqueTriggerConfig ValidationConfig",
    "library.critique": "CritiqueValidator",
    "library.envelopes": "EvidenceItem LLMEnvelope LLMResult",
    "library.evidence": "EvidenceValidator",
    "library.models": (
        "ClaimAnnotation ClaimType CritiqueResult ValidationIssue ValidationLayer ValidationResult ValidationSeverity"
    ),
    "library.pipeline": "ValidationPipeline",
    "library.remediation": "RemediationEngine",
    "library.rules": "BusinessRuleValidator",
    "library.schema": "SchemaValidator",
    "library.semantic": "SemanticValidator",
    "protocol": (
        "HandoffPayload HandoffProtocol HandoffRejectedError HandoffResult StrictnessConfig ValidationStrictness"
    ),
    "remediation": "RemediationState",
    "remediation_models": "RemediationAction RemediationPolicy RemediationRecord",
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
