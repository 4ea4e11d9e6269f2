"""The policy for handoff files: whether anything but the file itself counts as a failed phase."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from handoffaudit.policy import values
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.values import Wrong

NAME: Final = "handoff_files"
FIELD: Final = "strict_handoff_files"


@dataclass(frozen=True, slots=True)
class HandoffFilesPolicy:
    """The one row; with `strict_handoff_files`, a handoff that was not read from its file counts as a failed phase."""

    strict_handoff_files: bool = False
    name: str = NAME


AS_SHIPPED: Final = (HandoffFilesPolicy(),)


def to_plain(row: HandoffFilesPolicy) -> dict[str, Any]:
    return {FIELD: row.strict_handoff_files}


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[HandoffFilesPolicy, ...]:
    """Parse the one row, given as `to_plain` writes it. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, _parse_row))


def _parse_row(given: Mapping[str, Any]) -> HandoffFilesPolicy:
    errors = values.unknown_fields(NAME, given, (FIELD,), f"The one field is {FIELD}.")
    given_value = given.get(FIELD)
    try:
        strict = values.switch(given_value)
    except Wrong as wrong:
        errors.append(PolicyError(NAME, FIELD, given_value, wrong.message, wrong.remedy))
    if errors:
        raise InvalidPolicy(errors)
    return HandoffFilesPolicy(strict)


def check_rows(rows: Iterable[HandoffFilesPolicy]) -> tuple[HandoffFilesPolicy, ...]:
    table = tuple(rows)
    if len(table) != 1:
        remedy = f'Write {{"{FIELD}": true}} or {{"{FIELD}": false}}, once.'
        raise InvalidPolicy(
            [PolicyError(NAME, "", None, f"The policy has one row, and here are {len(table)}.", remedy)]
        )
    return table
