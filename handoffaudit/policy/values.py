"""Single values of a policy, out of JSON or a form: a reader answers with the value, or raises `Wrong`."""

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
    """A value that cannot be read; becomes a `PolicyError`."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def brief(value: Any) -> str:
    text = show(value) if isinstance(value, dict | list) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def row_name(value: Any) -> str:
    """How errors name a row: each repeats it, and a megabyte with a hundred errors would fill the memory."""
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
    """What is told of the fields of a row that there are not."""
    unknown = itertools.islice((field for field in given if field not in known), MOST_ERRORS)
    return [
        PolicyError(row, field[:LONGEST_NAME], given[field], "There is no such field.", remedy) for field in unknown
    ]


def too_many(names: Sequence[str], most: int) -> list[PolicyError]:
    """What is told of more rows than `most`, which are in order."""
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
    # Plus zero makes -0.0, which PostgreSQL does not keep, plain 0.0.
    return float(value) + 0.0


def amount(low: float, high: float, value: Any) -> float:
    """US dollars."""
    if not _between(value, low, high):
        text = f"a number from {low:,} to {high:,.0f}"
        raise Wrong(f"{brief(value)} is not {text}.", "Use one, in US dollars, without signs beside its digits.")
    return float(value) + 0.0


def _between(value: Any, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def read_all(given: Iterable[G], read: Callable[[G], R]) -> list[R]:
    """Every row read; of the errors of all rows the first hundred in one `InvalidPolicy`."""
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
    """An error for each name that stands there more than once; `what` it is the name of."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    message = f"The {what} has two rows."
    return [PolicyError(name, "", name, message, "Keep one of them.") for name in list(twice)[:MOST_ERRORS]]


def too_large(rows: Mapping[str, Any]) -> list[PolicyError]:
    """An error where plain rows by name are more together than one version of a policy may hold."""
    sizes = {name: len(orjson.dumps(row)) for name, row in rows.items()}
    total = sum(sizes.values())
    if total <= MOST_BYTES:
        return []
    largest = max(sizes, key=lambda name: sizes[name])
    message = f"All together have {total:,} bytes as JSON, this one {sizes[largest]:,}."
    return [PolicyError(largest, "", None, message, f"Keep them to {MOST_BYTES:,}.")]


def can_be_kept(value: Any) -> None:
    """Raises `Wrong` for what came from a form or a file and is no JSON that can be read back."""
    try:
        same = orjson.loads(orjson.dumps(value)) == value
    except (TypeError, orjson.JSONDecodeError) as error:
        remedy = "Use numbers of at most 64 bits, text in Unicode, and a nesting that can be read."
        raise Wrong(f"It cannot be kept as JSON: {error}.", remedy) from error
    if not same:
        raise Wrong("It holds a number that JSON does not have.", "Use finite numbers.")
