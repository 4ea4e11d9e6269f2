"""Errors about policies: values that cannot be saved, and versions that do not exist."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PolicyError:
    """A value that cannot be saved.

    `row` is the row's name (its handoff type, or the id of its set). `field` is empty if the whole row is wrong.
    """

    row: str
    field: str
    value: Any
    message: str
    remedy: str

    def __str__(self) -> str:
        place = f"{self.row!r}, {self.field}" if self.field else f"{self.row!r}"
        return f"{place}: {self.message} {self.remedy}"


class InvalidPolicy(Exception):
    def __init__(self, errors: list[PolicyError]) -> None:
        super().__init__("; ".join(str(error) for error in errors))
        self.errors = errors


class NoSuchVersion(LookupError):
    def __init__(self, number: int) -> None:
        super().__init__(f"There is no version {number}.")
        self.number = number
