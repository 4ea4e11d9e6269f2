"""The engine's layers as validators of the library: evidence, business rules and schemas."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from pydantic import AliasChoices, AliasPath, BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.claims import ABOUT_CLAIMS, SHIPPED_FIELDS, Claim, ClaimKind, extract, parse_fields
from handoffaudit.validation.config import EvidencePolicy, Requirements, TypePolicy
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.formats import output
from handoffaudit.validation.formats.messages import not_an_object
from handoffaudit.validation.issues import Issue, Severity, limit_issues, make
from handoffaudit.validation.json_text import MAX_DEPTH, deeper_than, to_json, too_deep
from handoffaudit.validation.layers import History, Subject, entry_of, evidence, rules
from handoffaudit.validation.library.models import (
    ClaimAnnotation,
    ClaimType,
    LLMEnvelope,
    LLMResult,
    ValidationIssue,
    ValidationLayer,
    utc_now,
)
from handoffaudit.validation.paths import dotted_path
from handoffaudit.validation.record import Envelope, Record
from handoffaudit.validation.schema_explanations import SCHEMA
from handoffaudit.validation.text import clean
from handoffaudit.validation.tokenizers import CharacterCounter
from handoffaudit.validation.verdict import engine_layer, library_layer

_OUTPUT = "parsed_output"

# A caller that adds a validator to a pipeline wants the check of that validator, even if the shipped policy would skip
# the check.
_ALL_ASKED = TypePolicy("*", evidence=EvidencePolicy.REQUIRED)


def output_type_of(parsed_output: Any) -> str:
    named = parsed_output.get("_output_type") if isinstance(parsed_output, dict) else None
    return named if isinstance(named, str) else ""


def record_of(parsed_output: Any, envelope: LLMEnvelope) -> Record:
    """Return the output and its envelope as a record of the `output` format."""
    document = {_OUTPUT: to_json(parsed_output), "envelope": to_json(envelope)}
    record = output.read(document, Envelope())
    return msgspec.structs.replace(record, handoff_id=envelope.envelope_id or None)


def subject_of(record: Record, demands: Requirements, **policy: Any) -> Subject:
    """Return the record under validation together with its requirements.

    `policy` overrides fields of the type's policy.
    """
    return Subject(
        record=record,
        policy=replace(_ALL_ASKED, handoff_type=record.handoff_type, **policy),
        history=History(),
        received_at=utc_now(),
        counter=CharacterCounter(),
        demands=demands,
    )


def library_issues(issues: Iterable[Issue]) -> list[ValidationIssue]:
    """Return the engine's issues in the form of the library, with paths from the root of the output."""
    return [_library_issue(issue) for issue in issues]


def _library_issue(issue: Issue) -> ValidationIssue:
    location = issue.location[1:] if issue.location[:1] == (_OUTPUT,) else issue.location
    return ValidationIssue(
        layer=library_layer(issue.layer),
        severity=issue.severity,
        code=issue.code,
        message=issue.message,
        field_path=dotted_path(location),
        expected=issue.expected,
        actual=issue.actual,
        metadata=_metadata(issue.metadata, issue.hint),
    )


def _metadata(given: Mapping[str, Any], hint: str) -> dict[str, Any]:
    return {**given, "hint": hint} if hint else dict(given)


def engine_issue(issue: ValidationIssue, layer: str) -> Issue:
    """Return the issue as an issue of the engine, without its place, values and metadata."""
    return Issue(
        layer=engine_layer(layer),
        code=issue.code,
        severity=issue.severity,
        message=issue.message,
        hint="",
        holds=entry_of(issue.code).holds,
    )


_LONGEST_TEXT = 500


class EvidenceValidator:
    """A validator that checks whether the claims of the output cite supplied sources.

    `max_uncited_ratio`, from 0.0 to 1.0, is the share of claims that may lack a source. `claim_fields` maps an output
    type to the dotted paths of its claims, where `*` stands for any list item or object value. A type has at most 100
    paths of at most 300 characters. For a type in `claim_fields`, the given paths replace the shipped paths. For a type
    without paths, every text and number at the top of the output is a claim. A text of at most 10 characters counts
    only if it cites a source or is an assumption.

    Raises InvalidConfigError for the first output type with unusable paths. The error lists every flaw of these paths.
    `docs/evidence.md` describes the check.
    """

    layer_name = ValidationLayer.EVIDENCE.value

    def __init__(self, max_uncited_ratio: float = 0.3, claim_fields: Mapping[str, Sequence[str]] | None = None) -> None:
        self._max_uncited_ratio = max_uncited_ratio
        given = {output_type: parse_fields(list(paths)) for output_type, paths in (claim_fields or {}).items()}
        self._claim_fields: dict[str, tuple[str, ...]] = {**SHIPPED_FIELDS, **given}

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        record = record_of(parsed_output, envelope)
        demands = Requirements(claim_fields=self._claim_fields.get(output_type_of(parsed_output)))
        subject = subject_of(record, demands, max_uncited_ratio=self._max_uncited_ratio)
        return library_issues(evidence.check(subject))

    def extract_claims(
        self, parsed_output: dict[str, Any], output_type: str, available_sources: Iterable[str]
    ) -> list[ClaimAnnotation]:
        """Return every claim of the output, at most 500.

        A claim is cited if at least one of its sources is in `available_sources`. Its `validator_confidence`, from 0.0
        to 1.0, is the share of its sources in `available_sources`. A claim field that selects too many values yields no
        claims here, and the claim fields after it yield none either. `validate` reports these fields. An output that is
        not an object has no claims.
        """
        data, supplied = to_json(parsed_output), set(available_sources)
        if not isinstance(data, dict):
            return []
        found = extract(data, self._claim_fields.get(output_type), supplied=supplied)
        return [_annotation(claim, supplied) for claim in found.claims]


def _public_type(claim: Claim) -> ClaimType:
    if claim.claim_type is ClaimKind.CITES_UNKNOWN:
        return ClaimType.UNCITED
    return ClaimType(claim.claim_type.value)


def _annotation(claim: Claim, supplied: set[str]) -> ClaimAnnotation:
    ids = list(claim.evidence_ids)
    return ClaimAnnotation(
        claim_id=claim.claim_id,
        field_path=clean(dotted_path(claim.location), _LONGEST_TEXT),
        claim_text=clean(claim.text, _LONGEST_TEXT),
        claim_type=_public_type(claim),
        evidence_ids=ids,
        confidence=claim.confidence,
        validator_confidence=sum(one in supplied for one in ids) / len(ids) if ids else 0.0,
    )


class BusinessRuleValidator:
    """A validator that checks the output against the registered rule sets.

    A new validator has no rules and finds nothing. Each rule names the output types that the rule applies to
    (`docs/evidence.md` describes the rule types).
    """

    layer_name = ValidationLayer.BUSINESS_RULE.value

    def __init__(self) -> None:
        self._sets: dict[str, BusinessRuleSet] = {}

    def register(self, rule_set: BusinessRuleSet) -> None:
        """Add a rule set, or replace the registered set with the same `set_id`."""
        self._sets[rule_set.set_id] = rule_set

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        subject = subject_of(record_of(parsed_output, envelope), Requirements(rules=tuple(self._sets.values())))
        return [] if rules.skip(subject) else library_issues(rules.check(subject))


class SchemaValidator:
    """A validator that checks the output against a JSON Schema and a pydantic model.

    The JSON Schema (draft 2020-12) is the envelope's `expected_output_schema`; the model is registered for the output's
    `_output_type`. Without a schema, the output must be an object. The validator reports at most 100 errors of the
    schema and at most 100 of the model. A schema that cannot be used is an error too, and so is an output nested more
    than 64 levels deep.
    """

    layer_name = ValidationLayer.SCHEMA.value

    def __init__(self, pydantic_models: Mapping[str, type[BaseModel]] | None = None) -> None:
        self._models: dict[str, type[BaseModel]] = dict(pydantic_models or {})

    def register_model(self, output_type: str, model_class: type[BaseModel]) -> None:
        """Register the pydantic model for outputs of this type. The last registered model counts."""
        self._models[output_type] = model_class

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        output, schema = to_json(parsed_output), envelope.expected_output_schema
        if deeper_than(output, MAX_DEPTH):
            return library_issues([too_deep()])
        issues: list[Issue] = []
        if schema != {}:
            issues += (_as_error(issue) for issue in DataSchema(schema).check(output))
        elif not isinstance(output, dict):
            issues.append(not_an_object(output))
        model = self._models.get(output_type_of(output))
        if model is not None:
            issues += limit_issues(_model_issues(output, model))
        return library_issues(issues)


def _as_error(issue: Issue) -> Issue:
    """Return the issue as an error.

    On the server, a handoff passes with a warning if its schema cannot be used. In the library, the output would count
    as passed, so the issue is an error.
    """
    return msgspec.structs.replace(issue, severity=Severity.ERROR)


def _model_issues(output: dict[str, Any], model: type[BaseModel]) -> Iterator[Issue]:
    try:
        model.model_validate(_fields_for(model, output))
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False):
            yield _model_issue(one, model)


def _model_issue(error: ErrorDetails, model: type[BaseModel]) -> Issue:
    location = tuple(error["loc"])
    missing = error["type"] == "missing"
    place = f"{dotted_path(location)}: " if location else ""
    return make(
        SCHEMA,
        f"pydantic.{error['type']}",
        location=location,
        message=f"{place}{error['msg']}.",
        hint=f"Change the value so that it is valid for {model.__name__}.",
        actual=None if missing else to_json(error["input"]),
        model=model.__name__,
    )


def _fields_for(model: type[BaseModel], output: dict[str, Any]) -> dict[str, Any]:
    """Return the output in the form that the model receives.

    If the model forbids unknown fields, `_output_type`, `evidence_refs` and `assumptions` are removed unless the model
    defines them. These fields describe the output and are not part of it.
    """
    if model.model_config.get("extra") != "forbid":
        return output
    known = {name for key, field in model.model_fields.items() for name in (key, *_aliases(field))}
    return {key: value for key, value in output.items() if key not in ABOUT_CLAIMS or key in known}


def _aliases(field: FieldInfo) -> Iterator[str | int | None]:
    """Yield the names at the top of the output that the field is read from, besides its own name."""
    yield field.alias
    match field.validation_alias:
        case AliasChoices(choices=choices):
            yield from (one if isinstance(one, str) else one.path[0] for one in choices)
        case AliasPath(path=path):
            yield path[0]
        case alias:
            yield alias
