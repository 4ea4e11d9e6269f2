"""What the pipeline answers: a result, with its issues, claims and critique."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.claims import ClaimKind
from handoffaudit.validation.errors import (
    BusinessRuleValidationError,
    CritiqueValidationError,
    EvidenceValidationError,
    HandoffValidationError,
    RemediationExhaustedError,
    SchemaValidationError,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.library.defaults import new_id, utc_now
from handoffaudit.validation.output_names import error_lines
from handoffaudit.validation.remediation import RemediationState
from handoffaudit.validation.remediation_models import RemediationAction, RemediationRecord
from handoffaudit.validation.verdict import LayerStatus

ValidationSeverity = Severity
GRAVE = (ValidationSeverity.ERROR, ValidationSeverity.CRITICAL)


class ValidationLayer(StrEnum):
    """The shipped layers. A validator of your own has a name of its own."""

    SCHEMA = "schema"
    EVIDENCE = "evidence"
    BUSINESS_RULE = "business_rule"
    CRITIQUE = "critique"


LayerName = Annotated[ValidationLayer | str, Field(union_mode="left_to_right")]


class ValidationIssue(BaseModel):
    """One finding. `field_path` is a dotted path into the output; a shipped layer's hint is in `metadata["hint"]`."""

    layer: LayerName
    severity: ValidationSeverity
    code: str
    message: str
    issue_id: str = Field(default_factory=new_id)
    field_path: str = ""
    expected: Any = None
    actual: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)


class ClaimType(StrEnum):
    """What a claim of the output rests on. A claim that cites only sources that were not supplied is `uncited`."""

    CITED = ClaimKind.CITED.value
    ASSUMPTION = ClaimKind.ASSUMPTION.value
    UNCITED = ClaimKind.UNCITED.value
    DERIVED = ClaimKind.DERIVED.value


class ClaimAnnotation(BaseModel):
    """A field of the output that states something, and what it rests on."""

    field_path: str
    claim_text: str
    claim_type: ClaimType
    claim_id: str = Field(default_factory=new_id)
    evidence_ids: list[str] = Field(default_factory=list)
    confidence: float = 1.0
    validator_confidence: float = 0.0


class CritiqueResult(BaseModel):
    """The opinion of a second LLM on the output. `overall_score` lies from 0.0 to 1.0; 0.0 until one was given."""

    model_config = ConfigDict(protected_namespaces=())

    overall_score: float = 0.0
    model_used: str = ""
    triggered_by: str = ""
    critique_id: str = Field(default_factory=new_id)
    issues_found: list[ValidationIssue] = Field(default_factory=list)
    reasoning: str = ""
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    timestamp: datetime = Field(default_factory=utc_now)


class LayerRun(BaseModel):
    """How a layer ended; `why` says it where it was skipped or could not run."""

    name: LayerName
    status: LayerStatus
    why: str = ""
    duration_ms: float = 0.0


class ValidationResult(BaseModel):
    """The outcome of one validation of an output; with the defaults, of an output that has not passed.

    `schema_passed`, `evidence_passed` and `business_rules_passed` are true where the layer ran and found no error: not
    where it was skipped or could not run, which `layers` tells apart. `critique_passed` is None where no critique was
    made. `output_hash` is the first 16 hex digits of the SHA-256 of the output's canonical JSON.
    """

    validation_id: str = Field(default_factory=new_id)
    trace_id: str = ""
    envelope_id: str = ""
    agent_id: str = ""
    agent_type: str = ""
    output_type: str = ""
    timestamp: datetime = Field(default_factory=utc_now)
    schema_passed: bool = False
    evidence_passed: bool = False
    business_rules_passed: bool = False
    critique_passed: bool | None = None
    overall_passed: bool = False
    quality_score: float = 0.0
    issues: list[ValidationIssue] = Field(default_factory=list)
    claims: list[ClaimAnnotation] = Field(default_factory=list)
    critique: CritiqueResult | None = None
    remediation: RemediationRecord | None = None
    recommended_action: RemediationAction | None = None
    latency_ms: float = 0.0
    output_hash: str = ""
    layers: list[LayerRun] = Field(default_factory=list)

    @property
    def error_count(self) -> int:
        """Errors and criticals."""
        return len(self._grave())

    @property
    def warning_count(self) -> int:
        return sum(issue.severity is ValidationSeverity.WARNING for issue in self.issues)

    @property
    def uncited_claims(self) -> list[ClaimAnnotation]:
        return [claim for claim in self.claims if claim.claim_type is ClaimType.UNCITED]

    @property
    def error_lines(self) -> list[str]:
        """Errors and criticals, each as `[layer:severity] message`."""
        return error_lines((issue.layer, issue.severity, issue.message) for issue in self.issues)

    def raise_for_errors(self) -> None:
        """Raises the error of the first layer that failed, or RemediationExhaustedError where no try is left; nothing
        where the output passed."""
        if self.overall_passed:
            return
        lines = self.error_lines
        text = "; ".join(lines) or "a layer could not run"
        if self.remediation and self.remediation.state is RemediationState.EXHAUSTED:
            raise RemediationExhaustedError(text)
        first = self._grave()[0].layer if lines else ""
        raise _ERRORS.get(first, HandoffValidationError)(text)

    def _grave(self) -> list[ValidationIssue]:
        return [issue for issue in self.issues if issue.severity in GRAVE]


_ERRORS: dict[str, type[HandoffValidationError]] = {
    ValidationLayer.SCHEMA: SchemaValidationError,
    ValidationLayer.EVIDENCE: EvidenceValidationError,
    ValidationLayer.BUSINESS_RULE: BusinessRuleValidationError,
    ValidationLayer.CRITIQUE: CritiqueValidationError,
}
