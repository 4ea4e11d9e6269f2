"""Validators as layers of the engine, for one run."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from handoffaudit.validation.issues import Issue
from handoffaudit.validation.layers import CouldNotRunError, Subject
from handoffaudit.validation.layers.plugins import IValidator
from handoffaudit.validation.library.critique import Critique, CritiqueValidator
from handoffaudit.validation.library.engine import engine_issue, output_type_of
from handoffaudit.validation.library.envelopes import LLMEnvelope, LLMResult
from handoffaudit.validation.library.logger import get_logger
from handoffaudit.validation.library.models import (
    GRAVE,
    ClaimAnnotation,
    CritiqueResult,
    ValidationIssue,
    ValidationLayer,
    ValidationSeverity,
)
from handoffaudit.validation.output_names import engine_layer
from handoffaudit.validation.scoring import score
from handoffaudit.validation.text import clean


@dataclass
class Run:
    """What one run is given, and what its layers have found so far. `counted` are the same issues as the engine counts
    them; `stopped_by` is why later layers are skipped."""

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
        """Keeps the issues, and gives those of the engine."""
        counted = [engine_issue(issue, layer) for issue in found]
        self.issues += found
        self.counted += counted
        return counted


class AskedValidator:
    """One validator as a layer."""

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
            found, claims = self._found(), self._claims()
        except Exception as error:  # noqa: BLE001  (the validator may be a user's: what fails in it is no pass)
            why = _logged(self.layer_name, error)
            found, claims = [_could_not_run(self.layer_name, why)], []
            if self.layer_name == ValidationLayer.SCHEMA:
                self._state.stopped_by = "schema could not run"
        self._state.claims += claims
        yield from self._state.add(self.layer_name, found)
        if why:
            raise CouldNotRunError(why)

    def _found(self) -> list[ValidationIssue]:
        state = self._state
        found = self._validator.validate(state.parsed_output, state.envelope, state.llm_result)
        return _issues_only(found)

    def _claims(self) -> list[ClaimAnnotation]:
        extract = getattr(self._validator, "extract_claims", None)
        if extract is None:
            return []
        output, sources = self._state.parsed_output, {item.source for item in self._state.envelope.retrieved_evidence}
        return list(extract(output, output_type_of(output), sources))


class AskedCritique:
    """The critique as the last layer: it is given the score so far."""

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
            critique = self._assessed()
        except Exception as error:  # noqa: BLE001  (as above)
            why = _logged(self.name, error)
            critique = Critique([_could_not_run(self.name, why)], why=why)
        yield from state.add(self.name, critique.issues)
        if critique.why:
            raise CouldNotRunError(critique.why)
        state.critique = critique.result
        state.critique_passed = not any(issue.severity in GRAVE for issue in critique.issues)

    def _assessed(self) -> Critique:
        """A class that brings a `validate` of its own is asked by that."""
        asked, state, so_far = self._validator, self._state, score(self._state.counted)
        if getattr(type(asked), "validate", None) is CritiqueValidator.validate:
            return asked.assess(state.parsed_output, state.envelope, prior_quality_score=so_far)
        found = asked.validate(state.parsed_output, state.envelope, state.llm_result, prior_quality_score=so_far)
        return Critique(_issues_only(found))


def _logged(layer: str, error: Exception) -> str:
    """Return why a layer could not run, and log the whole error."""
    get_logger(__name__).error("a validator failed", layer=layer, exc_info=error)
    return clean(f"{type(error).__name__}: {error}")


def _issues_only(found: Any) -> list[ValidationIssue]:
    if not isinstance(found, list | tuple) or not all(isinstance(one, ValidationIssue) for one in found):
        raise TypeError("validate returned something other than a list of ValidationIssue")
    return list(found)


def _could_not_run(layer: str, why: str) -> ValidationIssue:
    return ValidationIssue(
        layer=layer,
        severity=ValidationSeverity.ERROR,
        code=f"{layer}.could_not_run",
        message=f"The layer {layer} could not run: {why}",
        metadata={"hint": "Mend the validator; the log has the error."},
    )
