"""The JSON Schemas of the library's results, for readers in other languages."""

from typing import Any

from pydantic import BaseModel

from handoffaudit.validation.business_rules import BusinessRule
from handoffaudit.validation.library.models import ClaimAnnotation, ValidationResult

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
