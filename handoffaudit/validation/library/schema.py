"""A JSON Schema and pydantic models as a validator."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from handoffaudit.validation.bounding import bounded
from handoffaudit.validation.claims import ABOUT_CLAIMS
from handoffaudit.validation.codes import make
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.issues import Issue, Severity
from handoffaudit.validation.library.engine import library_issues, output_type_of
from handoffaudit.validation.library.envelopes import LLMEnvelope, LLMResult
from handoffaudit.validation.library.models import ValidationIssue, ValidationLayer
from handoffaudit.validation.paths import dotted
from handoffaudit.validation.plain import plain
from handoffaudit.validation.reading import MAX_DEPTH, deeper_than, not_an_object, too_deep


class SchemaValidator:
    """Holds the output against the envelope's `expected_output_schema`, and against the model that is registered for
    its `_output_type`. Every error is told, not the first."""

    layer_name = ValidationLayer.SCHEMA.value

    def __init__(self, pydantic_models: Mapping[str, type[BaseModel]] | None = None) -> None:
        self._models: dict[str, type[BaseModel]] = dict(pydantic_models or {})

    def register_model(self, output_type: str, model_class: type[BaseModel]) -> None:
        """Outputs of this type must be valid for the model."""
        self._models[output_type] = model_class

    def validate(
        self, parsed_output: dict[str, Any], envelope: LLMEnvelope, result: LLMResult | None = None
    ) -> list[ValidationIssue]:
        output, schema = plain(parsed_output), envelope.expected_output_schema
        if deeper_than(output, MAX_DEPTH):
            return library_issues([too_deep()])
        issues: list[Issue] = []
        if schema != {}:
            issues += (_as_error(issue) for issue in DataSchema(schema).check(output))
        elif not isinstance(output, dict):
            issues.append(not_an_object(output))
        model = self._models.get(output_type_of(output))
        if model is not None:
            issues += bounded(_model_issues(output, model))
        return library_issues(issues)


def _as_error(issue: Issue) -> Issue:
    """A schema that cannot be used lets a sender's handoff pass with a warning; here it would read as a pass."""
    return replace(issue, severity=Severity.ERROR)


def _model_issues(output: dict[str, Any], model: type[BaseModel]) -> Iterator[Issue]:
    try:
        model.model_validate(_fields_for(model, output))
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False):
            yield _model_issue(one, model)


def _model_issue(error: ErrorDetails, model: type[BaseModel]) -> Issue:
    location = tuple(error["loc"])
    missing = error["type"] == "missing"
    place = f"{dotted(location)}: " if location else ""
    return make(
        f"schema.pydantic.{error['type']}",
        location=location,
        message=f"{place}{error['msg']}.",
        hint=f"Change it so that it is valid for {model.__name__}.",
        actual=None if missing else plain(error["input"]),
        model=model.__name__,
    )


def _fields_for(model: type[BaseModel], output: dict[str, Any]) -> dict[str, Any]:
    """The output without what it says of itself, where the model refuses fields that it does not know."""
    if model.model_config.get("extra") != "forbid":
        return output
    known = {name for key, field in model.model_fields.items() for name in (key, field.alias, field.validation_alias)}
    return {key: value for key, value in output.items() if key not in ABOUT_CLAIMS or key in known}
