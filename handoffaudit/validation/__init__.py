"""The engine reads handoffs and judges them in layers. It uses no framework and no network.

The names in `__all__` are the public API. Each name is imported at its first use, so that importing the package is
fast.
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
    from handoffaudit.validation.library.critique import CritiqueValidator
    from handoffaudit.validation.library.models import (
        ClaimAnnotation,
        ClaimType,
        CritiqueResult,
        CritiqueTriggerConfig,
        EvidenceItem,
        LLMEnvelope,
        LLMResult,
        RemediationAction,
        RemediationPolicy,
        RemediationRecord,
        ValidationConfig,
        ValidationIssue,
        ValidationLayer,
        ValidationResult,
        ValidationSeverity,
    )
    from handoffaudit.validation.library.pipeline import RemediationEngine, ValidationPipeline
    from handoffaudit.validation.library.validators import BusinessRuleValidator, EvidenceValidator, SchemaValidator
    from handoffaudit.validation.protocol import (
        HandoffPayload,
        HandoffProtocol,
        HandoffRejectedError,
        HandoffResult,
        SemanticValidator,
        StrictnessConfig,
        ValidationStrictness,
    )
    from handoffaudit.validation.remediation import RemediationState

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
    "business_rules": "BusinessRule BusinessRuleSet BusinessRuleType Operator build_cmt_rules build_signal_rules",
    "errors": (
        "BusinessRuleValidationError CritiqueValidationError EvidenceValidationError HandoffAuditError "
        "HandoffValidationError RemediationExhaustedError SchemaValidationError"
    ),
    "layers.plugins": "IValidator",
    "library.critique": "CritiqueValidator",
    "library.models": (
        "ClaimAnnotation ClaimType CritiqueResult CritiqueTriggerConfig EvidenceItem LLMEnvelope LLMResult "
        "RemediationAction RemediationPolicy RemediationRecord ValidationConfig ValidationIssue ValidationLayer "
        "ValidationResult ValidationSeverity"
    ),
    "library.pipeline": "RemediationEngine ValidationPipeline",
    "library.validators": "BusinessRuleValidator EvidenceValidator SchemaValidator",
    "protocol": (
        "HandoffPayload HandoffProtocol HandoffRejectedError HandoffResult SemanticValidator StrictnessConfig "
        "ValidationStrictness"
    ),
    "remediation": "RemediationState",
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
