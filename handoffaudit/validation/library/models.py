"""The library's public models: settings, what goes in, and the result with its issues, claims and critique."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.claims import ClaimKind
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.errors import (
    BusinessRuleValidationError,
    CritiqueValidationError,
    EvidenceValidationError,
    HandoffValidationError,
    RemediationExhaustedError,
    SchemaValidationError,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.remediation import Action, RemediationLog, RemediationState
from handoffaudit.validation.verdict import LayerStatus, error_lines


def new_id() -> str:
    return str(uuid4())


def utc_now() -> datetime:
    return datetime.now(UTC)


class EvidenceItem(BaseModel):
    """A piece of evidence that the model was given. `relevance` from 0.0 to 1.0."""

    source: str
    content: Any = Field(default_factory=dict)
    relevance: float = 1.0
    retrieved_at: datetime = Field(default_factory=utc_now)


class LLMEnvelope(BaseModel):
    """What a model was asked, and with what. Fields of your own are kept.

    `expected_output_schema`: a JSON Schema (draft 2020-12; empty: none) that the output must keep to.
    """

    model_config = ConfigDict(extra="allow")

    instructions: str
    envelope_id: str = Field(default_factory=new_id)
    trace_id: str = Field(default_factory=new_id)
    agent_id: str = ""
    agent_type: str = ""
    tenant_id: str = "default"
    context: dict[str, Any] = Field(default_factory=dict)
    retrieved_evidence: list[EvidenceItem] = Field(default_factory=list)
    expected_output_schema: dict[str, Any] | bool = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=utc_now)


class LLMResult(BaseModel):
    """What a model answered. Fields of your own are kept.

    The pipeline sets `validation_passed` (None until then) and `validation_errors`.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())

    envelope_id: str
    result_id: str = Field(default_factory=new_id)
    trace_id: str = ""
    content: str = ""
    parsed_output: Any = None
    model_used: str = ""
    created_at: datetime = Field(default_factory=utc_now)
    validation_passed: bool | None = None
    validation_errors: list[str] = Field(default_factory=list)


class RemediationAction(StrEnum):
    """What the library recommends. A pass without any finding is `accept_with_warnings`, too."""

    RETRY = Action.RETRY.value
    RE_RETRIEVE = Action.RE_RETRIEVE.value
    ESCALATE = Action.ESCALATE.value
    INSUFFICIENT_EVIDENCE = Action.INSUFFICIENT_EVIDENCE.value
    ACCEPT_WITH_WARNINGS = Action.ACCEPT_WITH_WARNINGS.value


class RemediationPolicy(BaseModel):
    """How often the sender of a type is asked to try again, and what is taken to a person at once."""

    model_config = ConfigDict(frozen=True)

    output_type: str = ANY_OTHER_TYPE
    max_retries: int = Field(default=2, ge=0)
    max_re_retrievals: int = Field(default=1, ge=0)
    auto_escalate_on_critical: bool = True
    min_severity_to_remediate: Severity = Severity.ERROR


class RemediationRecord(BaseModel):
    """Every action of one lineage of attempts, with its time.

    `validation_id` is the verdict that it began with. `actions_taken`: each with "action" and "timestamp" (RFC 3339,
    UTC); retries with "attempt", their number since the last new retrieval; escalations with "reason".
    """

    remediation_id: str = Field(default_factory=lambda: str(uuid4()))
    validation_id: str
    state: RemediationState = RemediationState.PENDING
    actions_taken: list[dict[str, Any]] = Field(default_factory=list)
    retry_count: int = 0
    max_retries: int = 2
    started_at: datetime = Field(default_factory=lambda: datetime.now(UTC))
    resolved_at: datetime | None = None
    resolution: str | None = None

    @property
    def re_retrievals(self) -> int:
        return sum(taken.get("action") == RemediationAction.RE_RETRIEVE for taken in self.actions_taken)

    @classmethod
    def of(cls, log: RemediationLog) -> "RemediationRecord":
        fields = {name: getattr(log, name) for name in cls.model_fields}
        return cls(**{**fields, "actions_taken": [dict(taken) for taken in log.actions_taken]})

    def log(self) -> RemediationLog:
        """The engine's own form of it."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RemediationLog(**{**fields, "actions_taken": tuple(self.actions_taken)})


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

FAST_MODEL = "claude-haiku-5-5"


class CritiqueTriggerConfig(BaseModel):
    """When a second model is asked, and what for.

    `confidence_floor`: a quality score below it is reason enough; `max_cost_usd` is estimated before each call;
    `acceptance_threshold`: a critique that scores lower is an error.
    """

    notional_usd_threshold: float = 50_000.0
    confidence_floor: float = 0.5
    always_critique_types: list[str] = Field(default_factory=lambda: ["CMTAssessmentResponse"])
    max_cost_usd: float = 0.10
    critique_model: str = FAST_MODEL
    acceptance_threshold: float = 0.6
    enabled: bool = True


class ValidationConfig(BaseModel):
    """The settings of a whole pipeline, as `ValidationPipeline.from_config` takes them."""

    enabled: bool = True
    max_uncited_ratio: float = Field(default=0.3, ge=0.0, le=1.0)
    critique: CritiqueTriggerConfig = Field(default_factory=CritiqueTriggerConfig)
    remediation_policies: list[RemediationPolicy] = Field(default_factory=list)
    skip_types: list[str] = Field(default_factory=list)

    def applies_to(self, output_type: str) -> bool:
        """Whether outputs of this type are to be validated at all. An output that is not has no result: it has not
        passed."""
        return self.enabled and output_type not in self.skip_types
