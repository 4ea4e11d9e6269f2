"""The strictness table and the policy for handoff files: the pydantic models, parsers and checks of their rows."""

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Final

from pydantic import PlainValidator, WithJsonSchema

from handoffaudit.policy import values
from handoffaudit.policy.values import InvalidPolicy, PolicyError, Wrong, brief
from handoffaudit.validation.config import ANY_OTHER_TYPE, OPTIONAL_LAYERS, TypePolicy, describe

MOST_ROWS = 500

FIELDS = tuple(values.plain_names(TypePolicy))


def to_plain(row: TypePolicy) -> dict[str, Any]:
    """Return the row as JSON values, in the order of `FIELDS`."""
    plain = values.to_plain(row)
    plain["layers"] = {layer: layer not in row.layers_off for layer in OPTIONAL_LAYERS}
    return plain


def parse_row(given: Mapping[str, Any]) -> TypePolicy:
    """Parse a row. Raise `InvalidPolicy` with every invalid value.

    A missing field gets its default. A missing output budget gets the token budget of the row, if the row has one.
    """
    row = values.row_name(given.get("handoff_type"))
    found = values.read_row(StrictnessModel, row, given, _find_closest)
    if "token_budget" in found:
        # A table that was saved before output budgets existed applies its token budget to outputs as well.
        found.setdefault("output_token_budget", found["token_budget"])
    return TypePolicy(**found)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[TypePolicy, ...]:
    """Parse a whole table of rows as `to_plain` writes them. Raise `InvalidPolicy` with the invalid values."""
    return check_table(values.read_all(given, parse_row))


def check_table(rows: Iterable[TypePolicy]) -> tuple[TypePolicy, ...]:
    """Return the rows, sorted by type, with "any other type" last.

    Raise `InvalidPolicy` for repeated types, too many rows, or a missing row "any other type".
    """
    table = sorted(rows, key=lambda row: (row.handoff_type == ANY_OTHER_TYPE, row.handoff_type))
    types = [row.handoff_type for row in table]
    errors = values.find_repeated(types, "type")
    if ANY_OTHER_TYPE not in types:
        remedy = f'Add a row with the handoff_type "{ANY_OTHER_TYPE}".'
        errors.append(PolicyError(ANY_OTHER_TYPE, "", None, 'The row "any other type" is missing.', remedy))
    if len(table) > MOST_ROWS:
        remedy = f'Keep at most {MOST_ROWS}; a type without a row follows the row "any other type".'
        errors.append(PolicyError(ANY_OTHER_TYPE, "", len(table), f"There are {len(table)} rows.", remedy))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def _find_closest(field: str) -> str:
    close = difflib.get_close_matches(field, FIELDS, n=1)
    return f'Did you mean "{close[0]}"?' if close else f"The fields are {', '.join(FIELDS)}."


def _parse_layers(value: Any) -> frozenset[str]:
    names = ", ".join(OPTIONAL_LAYERS)
    if not isinstance(value, Mapping):
        raise Wrong(f"{brief(value)} is not an object.", f'Write {{"tokens": true, …}} with names from {names}.')
    for layer, on in value.items():
        if layer not in OPTIONAL_LAYERS:
            raise Wrong(f"{brief(layer)} is not an optional layer.", f"The optional layers are {names}.")
        if not isinstance(on, bool):
            raise Wrong(f"{layer} is {brief(on)}.", "Write true or false.")
    return frozenset(layer for layer, on in value.items() if not on)


_SWITCHES = {"type": "object", "properties": {layer: {"type": "boolean"} for layer in OPTIONAL_LAYERS}}

StrictnessModel = values.model_of(
    "StrictnessModel",
    TypePolicy,
    handoff_type=Annotated[str, PlainValidator(values.handoff_type, json_schema_input_type=str)],
    layers_off=Annotated[frozenset[str], PlainValidator(_parse_layers), WithJsonSchema(_SWITCHES)],
)


HANDOFF_FILES: Final = "handoff_files"
STRICT_FILES: Final = "strict_handoff_files"


@dataclass(frozen=True, slots=True)
class HandoffFilesPolicy:
    """The only row of the policy.

    With `strict_handoff_files`, a phase counts as failed if its handoff was not read from the handoff file.
    """

    name: ClassVar[str] = HANDOFF_FILES
    strict_handoff_files: bool = field(
        metadata=describe("Require handoff file", "A phase without a usable handoff file counts as failed.")
    )


HANDOFF_FILES_AS_SHIPPED: Final = (HandoffFilesPolicy(strict_handoff_files=False),)
HandoffFilesModel = values.model_of("HandoffFilesModel", HandoffFilesPolicy)


def parse_handoff_files(given: Iterable[Mapping[str, Any]]) -> tuple[HandoffFilesPolicy, ...]:
    """Parse the one row, given as `values.to_plain` writes it. Raise `InvalidPolicy` with the invalid values."""
    return check_handoff_files(values.read_all(given, _parse_handoff_files_row))


def _parse_handoff_files_row(given: Mapping[str, Any]) -> HandoffFilesPolicy:
    return HandoffFilesPolicy(
        **values.read_row(HandoffFilesModel, HANDOFF_FILES, given, lambda _: f"The one field is {STRICT_FILES}.")
    )


def check_handoff_files(rows: Iterable[HandoffFilesPolicy]) -> tuple[HandoffFilesPolicy, ...]:
    table = tuple(rows)
    if len(table) != 1:
        remedy = f'Write {{"{STRICT_FILES}": true}} or {{"{STRICT_FILES}": false}}, once.'
        raise InvalidPolicy(
            [PolicyError(HANDOFF_FILES, "", None, f"The policy needs exactly one row, not {len(table)}.", remedy)]
        )
    return table
