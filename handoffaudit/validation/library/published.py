"""The JSON Schemas of what the library answers, for those who read it in other languages."""

from typing import Any

from pydantic import BaseModel

from handoffaudit.validation.business_rules.rules import BusinessRule
from handoffaudit.validation.library.models import ClaimAnnotation, ValidationResult

_MODELS: dict[str, type[BaseModel]] = {
    "validation-result": ValidationResult,
    "business-rule": BusinessRule,
    "claim-annotation": ClaimAnnotation,
}
RESULT_SCHEMA_NAMES = tuple(_MODELS)


def result_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of that name, as the model is serialised. Raises KeyError where there is none."""
    schema = _MODELS[name].model_json_schema(mode="serialization")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:handoffaudit:schema:{name}",
        **schema,
    }
