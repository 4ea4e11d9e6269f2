"""The library's public models: settings, inputs, and the result with its issues, claims and critique.

`result_schema` returns the JSON Schemas of the results, for readers in other languages.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from handoffaudit.validation.business_rules import BusinessRule
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
    """A piece of evidence that the LLM was given.

    `source` is the name that claims cite; `content` is any JSON value. `relevance` is between 0.0 and 1.0 (not
    checked): a critique receives the most relevant evidence first. `retrieved_at` defaults to now, in UTC.
    """

    source: str
    content: Any = Field(default_factory=dict)
    relevance: float = 1.0
    retrieved_at: datetime = Field(default_factory=utc_now)


class LLMEnvelope(BaseModel):
    """The instructions, context and evidence that an LLM was given for one output.

    `expected_output_schema` is a JSON Schema (draft 2020-12) that the output must match. The empty object
    requires only that the output is an object, and a boolean is a schema, too. `envelope_id` and `trace_id` default to
    new UUIDs. Fields of your own are kept.
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
    """The answer of an LLM.

    The pipeline sets `validation_passed` (None before a validation) and `validation_errors`, one line
    `[layer:severity] message` per error. Fields of your own are kept.
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
    """The action that the library recommends after a validation.

    The action is `accept_with_warnings` if all findings are below the severity `min_severity_to_remediate`, or if there
    are no findings.
    """

    RETRY = Action.RETRY.value
    RE_RETRIEVE = Action.RE_RETRIEVE.value
    ESCALATE = Action.ESCALATE.value
    INSUFFICIENT_EVIDENCE = Action.INSUFFICIENT_EVIDENCE.value
    ACCEPT_WITH_WARNINGS = Action.ACCEPT_WITH_WARNINGS.value


class RemediationPolicy(BaseModel):
    """The limits of remediation for one output type; `*` stands for all types without a policy of their own.

    `max_retries` (0 or more) says how often the sender is asked to try again with the same sources, and
    `max_re_retrievals` how often to retrieve other sources. With `auto_escalate_on_critical`, a critical finding is
    escalated immediately. Findings below `min_severity_to_remediate` do not require a new try. A negative number raises
    `pydantic.ValidationError`.
    """

    model_config = ConfigDict(frozen=True)

    output_type: str = ANY_OTHER_TYPE
    max_retries: int = Field(default=2, ge=0)
    max_re_retrievals: int = Field(default=1, ge=0)
    auto_escalate_on_critical: bool = True
    min_severity_to_remediate: Severity = Severity.ERROR


class RemediationRecord(BaseModel):
    """The record of every action taken for one lineage of attempts.

    `validation_id` is the validation that opened the record. Each entry of `actions_taken` has "action" and "timestamp"
    (RFC 3339, UTC). A retry also has "attempt", its number since the last new retrieval, and an escalation has
    "reason". `retry_count` counts the retries since the last new retrieval.
    """

    remediation_id: str = Field(default_factory=new_id)
    validation_id: str
    state: RemediationState = RemediationState.PENDING
    actions_taken: list[dict[str, Any]] = Field(default_factory=list)
    retry_count: int = 0
    max_retries: int = 2
    started_at: datetime = Field(default_factory=utc_now)
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
        """Return the record in the engine's form."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return RemediationLog(**{**fields, "actions_taken": tuple(self.actions_taken)})


ValidationSeverity = Severity

GRAVE = (ValidationSeverity.ERROR, ValidationSeverity.CRITICAL)


class ValidationLayer(StrEnum):
    """The names of the shipped layers. Your own validators need other names."""

    SCHEMA = "schema"
    EVIDENCE = "evidence"
    BUSINESS_RULE = "business_rule"
    CRITIQUE = "critique"


LayerName = Annotated[ValidationLayer | str, Field(union_mode="left_to_right")]


class ValidationIssue(BaseModel):
    """One finding.

    `layer` is a `ValidationLayer` or the name of your own layer; `docs/codes.md` lists the shipped codes. `field_path`
    is a dotted path into the output, empty for the whole output. A shipped layer's hint is in `metadata["hint"]`.
    """

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
    """The kind of support that a claim of the output has.

    A claim is `cited` if it cites a supplied source. It is `assumption` if the output lists it under `assumptions` or
    its text contains the word "assumption". It is `derived` if it is a number without a citation, and otherwise
    `uncited`. A claim that cites only sources that were not supplied is `uncited`. A text of at most 10 characters that
    is neither cited nor an assumption is no claim.
    """

    CITED = ClaimKind.CITED.value
    ASSUMPTION = ClaimKind.ASSUMPTION.value
    UNCITED = ClaimKind.UNCITED.value
    DERIVED = ClaimKind.DERIVED.value


class ClaimAnnotation(BaseModel):
    """A claim: a field of the output that states something, with the sources that the field cites.

    `field_path` is a dotted path into the output. `claim_text` and `field_path` are cut at 500 characters each.
    `validator_confidence`, from 0.0 to 1.0, is the share of the cited sources that were supplied, and 0.0
    without a citation.
    """

    field_path: str
    claim_text: str
    claim_type: ClaimType
    claim_id: str = Field(default_factory=new_id)
    evidence_ids: list[str] = Field(default_factory=list)
    confidence: float = 1.0
    validator_confidence: float = 0.0


class CritiqueResult(BaseModel):
    """The opinion of a second LLM on the output.

    `overall_score` is between 0.0 and 1.0. `triggered_by` is the reason of `CritiqueValidator.should_trigger`.
    `cost_usd` is the cost that the callable returned, or else the estimate made before the call; `latency_ms` is in
    milliseconds.
    """

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
    """The result of one layer in one run.

    `status` is `passed`, `failed`, `skipped` or `error`; `why` gives the reason for the last two. `duration_ms` is in
    milliseconds.
    """

    name: LayerName
    status: LayerStatus
    why: str = ""
    duration_ms: float = 0.0


class ValidationResult(BaseModel):
    """The outcome of one validation of an output; the defaults describe an output that has not passed.

    `schema_passed`, `evidence_passed` and `business_rules_passed` are true if the layer ran and found no error. They
    are false if the layer was skipped or could not run; `layers` distinguishes these cases. `critique_passed` is None
    if no critique was made. `overall_passed` is true if no issue is an error or critical.

    `quality_score`, from 0.0 to 1.0, is 1.0 minus 0.30 per critical issue, 0.15 per error and 0.05 per warning.
    With any error of the schema layer, it is 0.0. `latency_ms` is in milliseconds. `output_hash` is the first 16 hex
    digits of the SHA-256 of the output's canonical JSON.
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
        """Return the number of errors and critical findings."""
        return len(self.error_lines)

    @property
    def warning_count(self) -> int:
        return sum(issue.severity is ValidationSeverity.WARNING for issue in self.issues)

    @property
    def uncited_claims(self) -> list[ClaimAnnotation]:
        return [claim for claim in self.claims if claim.claim_type is ClaimType.UNCITED]

    @property
    def error_lines(self) -> list[str]:
        """Return the errors and critical findings, each as `[layer:severity] message`."""
        return error_lines((issue.layer, issue.severity, issue.message) for issue in self.issues)

    def raise_for_errors(self) -> None:
        """Raise an error unless the output passed.

        Raises RemediationExhaustedError if the state of the remediation is `exhausted`: no try is left, and evidence is
        insufficient. Otherwise raises the error of the first layer that failed: SchemaValidationError,
        EvidenceValidationError, BusinessRuleValidationError or CritiqueValidationError, and HandoffValidationError for
        a layer of your own. The message contains the lines of `error_lines`.
        """
        if self.overall_passed:
            return
        text = "; ".join(self.error_lines) or "a layer could not run"
        if self.remediation and self.remediation.state is RemediationState.EXHAUSTED:
            raise RemediationExhaustedError(text)
        first = next((issue.layer for issue in self.issues if issue.severity in GRAVE), "")
        raise _ERRORS.get(first, HandoffValidationError)(text)


_ERRORS: dict[str, type[HandoffValidationError]] = {
    ValidationLayer.SCHEMA: SchemaValidationError,
    ValidationLayer.EVIDENCE: EvidenceValidationError,
    ValidationLayer.BUSINESS_RULE: BusinessRuleValidationError,
    ValidationLayer.CRITIQUE: CritiqueValidationError,
}

FAST_MODEL = "claude-haiku-5-5"


class CritiqueTriggerConfig(BaseModel):
    """The settings of a critique: when a second LLM is asked, at what cost, and which score passes.

    An amount of at least `notional_usd_threshold` (USD) triggers a critique, and so does a quality score below
    `confidence_floor` (0.0 to 1.0). Outputs of `always_critique_types` need no other trigger. A call is skipped if its
    estimated cost is above `max_cost_usd` (USD). If `enabled` is false, the LLM is never asked. A critique with a score
    below `acceptance_threshold` (0.0 to 1.0) is an error. The ranges are not checked.
    """

    notional_usd_threshold: float = 50_000.0
    confidence_floor: float = 0.5
    always_critique_types: list[str] = Field(default_factory=lambda: ["CMTAssessmentResponse"])
    max_cost_usd: float = 0.10
    critique_model: str = FAST_MODEL
    acceptance_threshold: float = 0.6
    enabled: bool = True


class ValidationConfig(BaseModel):
    """The settings of a whole pipeline, as `ValidationPipeline.from_config` takes them.

    `max_uncited_ratio` is the share of claims that may lack a source. A value outside 0.0 to 1.0 raises
    `pydantic.ValidationError`. Only `applies_to` reads `enabled` and `skip_types`.
    """

    enabled: bool = True
    max_uncited_ratio: float = Field(default=0.3, ge=0.0, le=1.0)
    critique: CritiqueTriggerConfig = Field(default_factory=CritiqueTriggerConfig)
    remediation_policies: list[RemediationPolicy] = Field(default_factory=list)
    skip_types: list[str] = Field(default_factory=list)

    def applies_to(self, output_type: str) -> bool:
        """Return whether outputs of this type must be validated.

        An output that is not validated has no result, so it has not passed.
        """
        return self.enabled and output_type not in self.skip_types


_MODELS: dict[str, type[BaseModel]] = {
    "validation-result": ValidationResult,
    "business-rule": BusinessRule,
    "claim-annotation": ClaimAnnotation,
}
RESULT_SCHEMA_NAMES = tuple(_MODELS)


def result_schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a result model as it is serialised.

    `name` is one of `RESULT_SCHEMA_NAMES`: `validation-result`, `business-rule` or `claim-annotation`. Raises KeyError
    for any other name.
    """
    schema = _MODELS[name].model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:handoffaudit:schema:{name}",
        **schema,
    }
