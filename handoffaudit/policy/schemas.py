"""Schemas of handoff types: a JSON Schema for the data of a type, and the fields that hold its claims."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from handoffaudit.policy import values
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy, PolicyError, Wrong, brief
from handoffaudit.validation.claims import parse_fields
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.data_schema import DataSchema
from handoffaudit.validation.errors import InvalidConfigError

MOST_ROWS = 200

FIELDS = ("handoff_type", "schema", "assert_formats", "claim_fields")


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """The schema and the claim fields of a handoff type.

    `schema` is None if the type has no schema. `schema.assert_formats` says whether the keyword `format` is checked.
    `claim_fields` is None if every text and number at the top level of the data is a claim.
    """

    handoff_type: str
    schema: DataSchema | None = None
    claim_fields: tuple[str, ...] | None = None


def to_plain(row: TypeSchema) -> dict[str, Any]:
    """Return the row as JSON values, in the order of `FIELDS`."""
    return {
        "handoff_type": row.handoff_type,
        "schema": row.schema.source if row.schema else None,
        "assert_formats": row.schema is not None and row.schema.assert_formats,
        "claim_fields": None if row.claim_fields is None else list(row.claim_fields),
    }


def parse_row(given: Mapping[str, Any]) -> TypeSchema:
    """Parse a row and compile its schema. Raise `InvalidPolicy` with every invalid value."""
    row = values.row_name(given.get("handoff_type"))
    errors = values.unknown_fields(row, given, FIELDS)
    found: dict[str, Any] = {}
    for field, read in _READ.items():
        try:
            found[field] = read(given)
        except Wrong as wrong:
            errors.append(PolicyError(row, field, given.get(field), wrong.message, wrong.remedy))
        except InvalidConfigError as invalid:
            errors.extend(
                PolicyError(row, _prefix_field(field, one.place), one.value, one.message, one.remedy)
                for one in invalid.flaws[:MOST_ERRORS]
            )
    if not errors and found["schema"] is None and found["claim_fields"] is None:
        remedy = "Add a schema or claim_fields, or remove the row."
        errors.append(PolicyError(row, "", None, "The row has neither a schema nor claim_fields.", remedy))
    if errors:
        raise InvalidPolicy(errors)
    return TypeSchema(**found)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[TypeSchema, ...]:
    """Parse all rows, given as `to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, parse_row))


def check_rows(rows: Iterable[TypeSchema]) -> tuple[TypeSchema, ...]:
    """Return the rows sorted by type. Raise `InvalidPolicy` for repeated types, too many rows, or too much data."""
    table = sorted(rows, key=lambda row: row.handoff_type)
    return values.check_table(table, "type", MOST_ROWS, attrgetter("handoff_type"), to_plain)


def _prefix_field(field: str, place: str) -> str:
    if not place:
        return field
    return f"{field}{place}" if place.startswith("[") else f"{field}.{place}"


def _parse_type(given: Mapping[str, Any]) -> str:
    value = given.get("handoff_type")
    if value == ANY_OTHER_TYPE:
        raise Wrong("A schema is for one type.", "Write a row for each type that has a schema.")
    return values.handoff_type(value)


def _parse_schema(given: Mapping[str, Any]) -> DataSchema | None:
    value, formats = given.get("schema"), given.get("assert_formats", False)
    if not isinstance(formats, bool):
        remedy = 'Write true to check values against the keyword "format", else false.'
        raise Wrong(f"assert_formats is {brief(formats)}, not true or false.", remedy)
    if value is None and formats:
        raise Wrong(
            "There is no schema whose formats could be checked.", "Write a schema, or leave assert_formats out."
        )
    if value is None:
        return None
    if not isinstance(value, dict | bool):
        remedy = 'Write a JSON Schema, e.g. {"type": "object"}, true or false, or null.'
        raise Wrong(f"{brief(value)} is not an object, nor true or false.", remedy)
    values.can_be_kept(value)
    # This call only checks the schema. Its result is not used, because the result has the keys in another order.
    DataSchema.of(value, assert_formats=formats)
    return DataSchema(value, formats)


def _parse_claim_fields(given: Mapping[str, Any]) -> tuple[str, ...] | None:
    value = given.get("claim_fields")
    if value is None:
        return None
    try:
        return parse_fields(value)
    except InvalidConfigError as invalid:
        first = invalid.flaws[0]
        raise Wrong(first.message, first.remedy) from invalid


_READ = {"handoff_type": _parse_type, "schema": _parse_schema, "claim_fields": _parse_claim_fields}
