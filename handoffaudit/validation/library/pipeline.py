"""The library's pipeline, which runs validators over the output of an LLM, and its remediation engine."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation.config import ANY_OTHER_TYPE, Requirements
from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import CouldNotRunError, Layer, Subject
from handoffaudit.validation.layers.plugins import IValidator
from handoffaudit.validation.library import get_logger, log_validation
from handoffaudit.validation.library.critique import Critique, CritiqueValidator
from handoffaudit.validation.library.models import (
    GRAVE,
    ClaimAnnotation,
    CritiqueResult,
    LayerRun,
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
    new_id,
    utc_now,
)
from handoffaudit.validation.library.validators import (
    BusinessRuleValidator,
    EvidenceValidator,
    SchemaValidator,
    engine_issue,
    output_type_of,
    record_of,
    subject_of,
)
from handoffaudit.validation.pipeline import run as run_layers
from handoffaudit.validation.remediation import Facts, decide, is_evidence_error
from handoffaudit.validation.text import clean
from handoffaudit.validation.verdict import LayerResult, LayerStatus, Verdict, engine_layer, library_layer, score


@dataclass
class Run:
    """The input of one run, and all findings of its layers so far.

    `counted` holds the same issues in the engine's form; `stopped_by` is the reason why later layers are skipped.
    """

    parsed_output: Any
    envelope: LLMEnvelope
    llm_result: LLMResult | None
    issues: list[ValidationIssue] = field(default_factory=list)
    counted: list[Issue] = field(default_factory=list)
    claims: list[ClaimAnnotation] = field(default_factory=list)
    critique: CritiqueResult | None = None
    critique_passed: bool | None = None
    stopped_by: str | None = None

    def add(self, layer: str, found: list[ValidationIssue]) -> list[Issue]:
        """Store the issues of a layer and return them in the engine's form."""
        counted = [engine_issue(issue, layer) for issue in found]
        self.issues += found
        self.counted += counted
        return counted


class ValidatorLayer:
    """One validator in the form of an engine layer."""

    def __init__(self, validator: IValidator, state: Run) -> None:
        self.layer_name = validator.layer_name
        self.name = engine_layer(self.layer_name)
        self._validator = validator
        self._state = state

    def skip(self, subject: Subject) -> str | None:
        return self._state.stopped_by

    def check(self, subject: Subject) -> Iterable[Issue]:
        why = ""
        try:
            found, claims = self._run_validator(), self._claims()
        except Exception as error:  # noqa: BLE001  (a user's validator may raise anything, and a validator that failed must not let an output pass)
            why = _log_failure(self.layer_name, error)
            found, claims = [_could_not_run(self.layer_name, why)], []
            if self.layer_name == ValidationLayer.SCHEMA:
                self._state.stopped_by = "schema could not run"
        self._state.claims += claims
        yield from self._state.add(self.layer_name, found)
        if why:
            raise CouldNotRunError(why)

    def _run_validator(self) -> list[ValidationIssue]:
        state = self._state
        found = self._validator.validate(state.parsed_output, state.envelope, state.llm_result)
        return _check_issues(found)

    def _claims(self) -> list[ClaimAnnotation]:
        extract = getattr(self._validator, "extract_claims", None)
        if extract is None:
            return []
        output, sources = self._state.parsed_output, {item.source for item in self._state.envelope.retrieved_evidence}
        return list(extract(output, output_type_of(output), sources))


class CritiqueLayer:
    """The critique in the form of an engine layer, which runs last: its trigger depends on the score so far."""

    name = ValidationLayer.CRITIQUE.value

    def __init__(self, validator: CritiqueValidator, state: Run) -> None:
        self._validator = validator
        self._state = state

    def skip(self, subject: Subject) -> str | None:
        state = self._state
        if state.stopped_by:
            return state.stopped_by
        due, reason = self._validator.should_trigger(state.parsed_output, state.envelope, score(state.counted))
        return None if due else reason

    def check(self, subject: Subject) -> Iterable[Issue]:
        state = self._state
        try:
            critique = self._assess()
        except Exception as error:  # noqa: BLE001  (a user's subclass may raise anything)
            why = _log_failure(self.name, error)
            critique = Critique([_could_not_run(self.name, why)], why=why)
        yield from state.add(self.name, critique.issues)
        if critique.why:
            raise CouldNotRunError(critique.why)
        state.critique = critique.result
        state.critique_passed = not any(issue.severity in GRAVE for issue in critique.issues)

    def _assess(self) -> Critique:
        """Return the critique. A subclass that overrides `validate` is called through that method."""
        asked, state, so_far = self._validator, self._state, score(self._state.counted)
        if getattr(type(asked), "validate", None) is CritiqueValidator.validate:
            return asked.assess(state.parsed_output, state.envelope, prior_quality_score=so_far)
        found = asked.validate(state.parsed_output, state.envelope, state.llm_result, prior_quality_score=so_far)
        return Critique(_check_issues(found))


def _log_failure(layer: str, error: Exception) -> str:
    """Log the whole error of a layer and return a short reason."""
    get_logger(__name__).error("a validator failed", layer=layer, exc_info=error)
    return clean(f"{type(error).__name__}: {error}")


def _check_issues(found: Any) -> list[ValidationIssue]:
    if not isinstance(found, list | tuple) or not all(isinstance(one, ValidationIssue) for one in found):
        raise TypeError("validate returned something other than a list of ValidationIssue")
    return list(found)


def _could_not_run(layer: str, why: str) -> ValidationIssue:
    return ValidationIssue(
        layer=layer,
        severity=ValidationSeverity.ERROR,
        code=f"{layer}.could_not_run",
        message=f"The layer {layer} could not run: {why}",
        metadata={"hint": "Fix the validator. The log contains the error."},
    )


class RemediationEngine:
    """The engine that decides which action follows a validation.

    `policies` holds one policy per output type, in any iterable or as the values of a mapping. The policy of type `*`
    applies to all other types. The order of the decisions is the table in `docs/repair.md`.
    """

    def __init__(self, policies: Iterable[RemediationPolicy] | Mapping[str, RemediationPolicy] | None = None) -> None:
        given = policies.values() if isinstance(policies, Mapping) else policies or ()
        self._policies = {policy.output_type: policy for policy in given}

    def get_policy(self, output_type: str) -> RemediationPolicy:
        """Return the policy of the type, else the policy of `*`, else the shipped defaults."""
        return self._policies.get(output_type) or self._policies.get(ANY_OTHER_TYPE) or RemediationPolicy()

    def decide(
        self,
        result: ValidationResult,
        record: RemediationRecord | None = None,
        *,
        current_record: RemediationRecord | None = None,
    ) -> tuple[RemediationAction, RemediationRecord]:
        """Return the action due now, and the record with that action added.

        `record` is the record of the previous tries, or None for the first try. The method does not change `record`.
        `current_record` is another name for `record`. Raises TypeError if both are given. A pass is always
        `accept_with_warnings`: the library has no `accept`.
        """
        if record is not None and current_record is not None:
            raise TypeError("decide takes record or current_record, not both: they are the same argument")
        record = record or current_record
        facts = Facts(
            validation_id=result.validation_id,
            passed=result.overall_passed,
            severities=frozenset(issue.severity for issue in result.issues),
            has_evidence_error=any(is_evidence_error(issue.layer, issue.severity) for issue in result.issues),
        )
        policy, before = self.get_policy(result.output_type), record.log() if record else None
        action, log = decide(facts, before, policy=policy, now=utc_now(), new_id=new_id)
        return RemediationAction(action), RemediationRecord.of(log)


# The published result has a short hash. The server's verdict keeps all 64 digits.
_HASH_DIGITS = 16


class ValidationPipeline:
    """A pipeline that runs validators over the parsed output of an LLM.

    `validators` run in their order. None stands for the shipped validators: schema, evidence and business rules. The
    critique runs last, if there is a `critique_validator`. Errors of the layer `schema` skip all later validators. If a
    validator raises an exception, the result has an error `<layer>.could_not_run`, and the other validators still run,
    unless the layer is `schema`. With a `remediation_engine`, the result has a recommended action.
    """

    def __init__(
        self,
        validators: Sequence[IValidator] | None = None,
        critique_validator: CritiqueValidator | None = None,
        remediation_engine: RemediationEngine | None = None,
    ) -> None:
        shipped = (SchemaValidator(), EvidenceValidator(), BusinessRuleValidator())
        self._validators: tuple[IValidator, ...] = tuple(shipped if validators is None else validators)
        self._critique_validator = critique_validator
        self._remediation_engine = remediation_engine

    @classmethod
    def from_config(
        cls,
        config: ValidationConfig,
        *,
        rules: BusinessRuleValidator | None = None,
        schema: SchemaValidator | None = None,
        call_llm: Callable[..., dict[str, Any]] | None = None,
    ) -> "ValidationPipeline":
        """Return a pipeline of the shipped validators with these settings.

        `rules` and `schema` replace the shipped validators, which have no rules and no models; `call_llm` is the
        callable of `CritiqueValidator`. Check `config.applies_to` before a run: `run` validates every output.
        """
        evidence = EvidenceValidator(max_uncited_ratio=config.max_uncited_ratio)
        return cls(
            [schema or SchemaValidator(), evidence, rules or BusinessRuleValidator()],
            CritiqueValidator(config.critique, call_llm),
            RemediationEngine(config.remediation_policies),
        )

    def run(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, llm_result: LLMResult | None
    ) -> ValidationResult:
        """Validate the output, and set `validation_passed` and `validation_errors` of `llm_result`.

        `llm_result` may be None. The method raises no error for an output that fails: call `raise_for_errors` of the
        result to raise one. Each validation is logged as `output_validated`, with the envelope's id as `handoff_id`.
        """
        state = Run(parsed_output, envelope, llm_result)
        verdict = run_layers(
            subject_of(record_of(parsed_output, envelope), Requirements()),
            validation_id=new_id(),
            now=utc_now,
            monotonic=time.monotonic,
            layers=self._layers(state),
        )
        result = _result(verdict, state)
        if self._remediation_engine is not None:
            result.recommended_action, result.remediation = self._remediation_engine.decide(result)
        if llm_result is not None:
            llm_result.validation_passed = result.overall_passed
            llm_result.validation_errors = result.error_lines
        log_validation(
            __name__,
            "output_validated",
            handoff_id=envelope.envelope_id,
            valid=result.overall_passed,
            issues=[issue.message for issue in result.issues],
        )
        return result

    def _layers(self, state: Run) -> Iterable[Layer]:
        for validator in self._validators:
            yield ValidatorLayer(validator, state)
        if self._critique_validator is not None:
            yield CritiqueLayer(self._critique_validator, state)


def _result(verdict: Verdict, state: Run) -> ValidationResult:
    ended: dict[str, list[LayerStatus]] = {}
    for layer in verdict.layers:
        ended.setdefault(library_layer(layer.name), []).append(layer.status)

    def has_passed(layer: ValidationLayer) -> bool:
        statuses = ended.get(layer, [])
        return bool(statuses) and all(status is LayerStatus.PASSED for status in statuses)

    envelope = state.envelope
    return ValidationResult(
        validation_id=verdict.validation_id,
        trace_id=envelope.trace_id,
        envelope_id=envelope.envelope_id,
        agent_id=envelope.agent_id,
        agent_type=envelope.agent_type,
        output_type=clean(output_type_of(state.parsed_output)),
        timestamp=verdict.validated_at,
        schema_passed=has_passed(ValidationLayer.SCHEMA),
        evidence_passed=has_passed(ValidationLayer.EVIDENCE),
        business_rules_passed=has_passed(ValidationLayer.BUSINESS_RULE),
        critique_passed=state.critique_passed,
        overall_passed=not any(issue.severity in GRAVE for issue in state.issues),
        quality_score=verdict.quality_score,
        issues=state.issues,
        claims=state.claims,
        critique=state.critique,
        latency_ms=verdict.duration_ms,
        output_hash=verdict.output_hash[:_HASH_DIGITS],
        layers=[_layer_run(one, verdict) for one in verdict.layers],
    )


def _layer_run(layer: LayerResult, verdict: Verdict) -> LayerRun:
    """Return the result of a layer under its name in the library."""
    schema_failed = any(
        library_layer(one.name) == ValidationLayer.SCHEMA and one.status is LayerStatus.FAILED for one in verdict.layers
    )
    stopped = schema_failed and layer.status is LayerStatus.SKIPPED
    why = "schema failed" if stopped else layer.why
    return LayerRun(name=library_layer(layer.name), status=layer.status, why=why, duration_ms=layer.duration_ms)
