"""Readers of policy values from JSON or a form, which return the value or raise `Wrong`, and checks of whole rows."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, TypeVar

import orjson

from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.validation.text import show

LONGEST_NAME = 200
LONGEST_SHOWN = 80
MOST_ERRORS = 100
MOST_BYTES = 256 * 1024

C = TypeVar("C", bound=StrEnum)
G = TypeVar("G")
R = TypeVar("R")


class Wrong(Exception):
    """A value that cannot be read. The reader of the row turns the exception into a `PolicyError`."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def brief(value: Any) -> str:
    text = show(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def row_name(value: Any) -> str:
    """Return the name of a row for errors, cut short.

    Each error repeats the name, and a megabyte with a hundred errors would fill the memory.
    """
    return value[:LONGEST_NAME] if isinstance(value, str) else "?"


def handoff_type(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Wrong("It needs the name of its handoff type.", "Write it as senders do, e.g. deal_data.")
    if len(value) > LONGEST_NAME:
        raise Wrong(f"The name has {len(value)} characters.", f"Use at most {LONGEST_NAME}.")
    if value != value.strip() or not value.isprintable():
        raise Wrong(f"{brief(value)} has spaces around it or signs that cannot be seen.", "Take them out.")
    return value


def unknown_fields(row: str, given: Mapping[str, Any], known: Collection[str], remedy: str) -> list[PolicyError]:
    """Return an error for each unknown field of a row, at most a hundred."""
    unknown = itertools.islice((field for field in given if field not in known), MOST_ERRORS)
    return [
        PolicyError(row, field[:LONGEST_NAME], given[field], "There is no such field.", remedy) for field in unknown
    ]


def too_many(names: Sequence[str], most: int) -> list[PolicyError]:
    """Return an error for the last row if there are more rows than `most`."""
    if len(names) <= most:
        return []
    message = f"There are {len(names)} rows."
    return [PolicyError(names[-1], "", len(names), message, f"Keep at most {most}.")]


def choice(choices: type[C], value: Any) -> C:
    try:
        return choices(value)
    except ValueError:
        raise Wrong(f"{brief(value)} is not one of the choices.", f"Choose one of {', '.join(choices)}.") from None


def switch(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong(f"{brief(value)} is neither on nor off.", "Write true or false.")
    return value


def whole(low: int, high: int, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Wrong(f"{brief(value)} is not a whole number.", f"Use a whole number from {low} to {high:,}.")
    if not low <= value <= high:
        raise Wrong(f"{brief(value)} is out of range.", f"Use a whole number from {low} to {high:,}.")
    return value


def share(value: Any) -> float:
    if not _between(value, 0, 1):
        raise Wrong(f"{brief(value)} is not a number from 0.0 to 1.0.", "Use one, e.g. 0.5.")
    # Adding zero turns -0.0, which PostgreSQL does not keep, into 0.0.
    return float(value) + 0.0


def amount(low: float, high: float, value: Any) -> float:
    """Return an amount in US dollars. Raise `Wrong` if the value is no number in the range."""
    if not _between(value, low, high):
        text = f"a number from {low:,} to {high:,.0f}"
        raise Wrong(f"{brief(value)} is not {text}.", "Use one, in US dollars, without signs beside its digits.")
    return float(value) + 0.0


def _between(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def read_all(given: Iterable[G], read: Callable[[G], R]) -> list[R]:
    """Read every row. Raise one `InvalidPolicy` with the first hundred errors of all rows."""
    rows: list[R] = []
    errors: list[PolicyError] = []
    for one in given:
        try:
            rows.append(read(one))
        except InvalidPolicy as invalid:
            errors.extend(invalid.errors)
        if len(errors) >= MOST_ERRORS:
            break
    if errors:
        raise InvalidPolicy(errors[:MOST_ERRORS])
    return rows


def find_repeated(names: Iterable[str], what: str) -> list[PolicyError]:
    """Return an error for each name that occurs more than once; `what` says what has that name."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    message = f"The {what} has two rows."
    return [PolicyError(name, "", name, message, "Keep one of them.") for name in list(twice)[:MOST_ERRORS]]


def too_large(rows: Mapping[str, Any]) -> list[PolicyError]:
    """Return an error if plain rows by name are together larger than one version of a policy may be."""
    sizes = {name: len(orjson.dumps(row)) for name, row in rows.items()}
    total = sum(sizes.values())
    if total <= MOST_BYTES:
        return []
    largest = max(sizes, key=lambda name: sizes[name])
    message = f"All together have {total:,} bytes as JSON, this one {sizes[largest]:,}."
    return [PolicyError(largest, "", None, message, f"Keep them to {MOST_BYTES:,}.")]


def can_be_kept(value: Any) -> None:
    """Raise `Wrong` for a value from a form or a file that is not JSON that can be read back."""
    try:
        same = orjson.loads(orjson.dumps(value)) == value
    except (TypeError, orjson.JSONDecodeError) as error:
        remedy = "Use numbers of at most 64 bits, text in Unicode, and a nesting that can be read."
        raise Wrong(f"It cannot be kept as JSON: {error}.", remedy) from error
    if not same:
        raise Wrong("It holds a number that JSON does not have.", "Use finite numbers.")
