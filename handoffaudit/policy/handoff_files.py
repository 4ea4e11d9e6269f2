"""The policy for handoff files: whether a phase without a usable handoff file counts as failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from handoffaudit.policy import values
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.validation.config import describe

NAME: Final = "handoff_files"
FIELD: Final = "strict_handoff_files"


@dataclass(frozen=True, slots=True)
class HandoffFilesPolicy:
    """The only row of the policy.

    With `strict_handoff_files`, a phase counts as failed if its handoff was not read from the handoff file.
    """

    name: ClassVar[str] = NAME
    strict_handoff_files: bool = field(
        metadata=describe("Only the file counts", "A phase without a usable handoff file counts as failed.")
    )


AS_SHIPPED: Final = (HandoffFilesPolicy(strict_handoff_files=False),)
HandoffFilesModel = values.model_of("HandoffFilesModel", HandoffFilesPolicy)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[HandoffFilesPolicy, ...]:
    """Parse the one row, given as `values.to_plain` writes it. Raise `InvalidPolicy` with the invalid values."""
    return check_rows(values.read_all(given, _parse_row))


def _parse_row(given: Mapping[str, Any]) -> HandoffFilesPolicy:
    return HandoffFilesPolicy(**values.read_row(HandoffFilesModel, NAME, given, lambda _: f"The one field is {FIELD}."))


def check_rows(rows: Iterable[HandoffFilesPolicy]) -> tuple[HandoffFilesPolicy, ...]:
    table = tuple(rows)
    if len(table) != 1:
        remedy = f'Write {{"{FIELD}": true}} or {{"{FIELD}": false}}, once.'
        raise InvalidPolicy(
            [PolicyError(NAME, "", None, f"The policy needs exactly one row, not {len(table)}.", remedy)]
        )
    return table
