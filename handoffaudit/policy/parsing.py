"""Rows of the strictness table, between plain values (JSON, forms) and the core's frozen ones."""

import difflib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.validation.config import (
    ANY_OTHER_TYPE,
    OPTIONAL_LAYERS,
    CircularPolicy,
    Mode,
    Strictness,
    TypePolicy,
)

MOST_ROWS = 500
LONGEST_TYPE = 200
LONGEST_SHOWN = 80
MOST_ERRORS = 100
RANGES: dict[str, tuple[int, int]] = {
    "token_budget": (1, 1_000_000),
    "approval_length": (1, 1000),
    "recommended_length": (1, 1000),
    "hold_limit_hours": (1, 8760),
}
CHOICES: dict[str, type[StrEnum]] = {"strictness": Strictness, "mode": Mode, "circular_policy": CircularPolicy}
FIELDS = (
    "handoff_type",
    "strictness",
    "mode",
    "layers",
    "token_budget",
    "approval_length",
    "recommended_length",
    "circular_policy",
    "confidence_floor",
    "hold_limit_hours",
)

Read = Callable[[str, Any], Any]


class _Wrong(Exception):
    """A value that cannot be read; becomes a `PolicyError`."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def to_plain(row: TypePolicy) -> dict[str, Any]:
    """The row as JSON values, in the order of `FIELDS`."""
    return {
        "handoff_type": row.handoff_type,
        "strictness": row.strictness.value,
        "mode": row.mode.value,
        "layers": {layer: layer not in row.layers_off for layer in OPTIONAL_LAYERS},
        "token_budget": row.token_budget,
        "approval_length": row.approval_length,
        "recommended_length": row.recommended_length,
        "circular_policy": row.circular_policy.value,
        "confidence_floor": row.confidence_floor,
        "hold_limit_hours": row.hold_limit_hours,
    }


def parse_row(given: Mapping[str, Any]) -> TypePolicy:
    """One row. A field that is not given has its default; every wrong one is told in `InvalidPolicy`."""
    name = given.get("handoff_type")
    # Each error repeats it: a name of a megabyte with ten thousand errors would fill the memory.
    row = name[:LONGEST_TYPE] if isinstance(name, str) else "?"
    unknown = itertools.islice((field for field in given if field not in FIELDS), MOST_ERRORS)
    errors = [_unknown(row, field[:LONGEST_TYPE]) for field in unknown]
    values: dict[str, Any] = {}
    for field in FIELDS:
        if field not in given and field != "handoff_type":
            continue
        try:
            values[field] = _READ[field](field, given.get(field))
        except _Wrong as wrong:
            errors.append(PolicyError(row, field, given.get(field), wrong.message, wrong.remedy))
    if errors:
        raise InvalidPolicy(errors)
    values["layers_off"] = values.pop("layers", frozenset())
    return TypePolicy(**values)


def parse_rows(given: Iterable[Mapping[str, Any]]) -> tuple[TypePolicy, ...]:
    """A whole table, from rows as `to_plain` writes them."""
    rows: list[TypePolicy] = []
    errors: list[PolicyError] = []
    for row in given:
        try:
            rows.append(parse_row(row))
        except InvalidPolicy as invalid:
            errors.extend(invalid.errors)
        if len(errors) >= MOST_ERRORS:
            break
    if errors:
        raise InvalidPolicy(errors[:MOST_ERRORS])
    return checked_table(rows)


def checked_table(rows: Iterable[TypePolicy]) -> tuple[TypePolicy, ...]:
    """By type, "any other type" last; each type once, and that row always there."""
    table = sorted(rows, key=lambda row: (row.handoff_type == ANY_OTHER_TYPE, row.handoff_type))
    types = [row.handoff_type for row in table]
    errors = [
        PolicyError(name, "", name, "The type has two rows.", "Keep one of them.")
        for name, after in itertools.pairwise(types)
        if name == after
    ]
    if ANY_OTHER_TYPE not in types:
        remedy = f'Add a row with the handoff_type "{ANY_OTHER_TYPE}".'
        errors.append(PolicyError(ANY_OTHER_TYPE, "", None, "The row for any other type is missing.", remedy))
    if len(table) > MOST_ROWS:
        remedy = f"Keep at most {MOST_ROWS}; what has no row follows the row for any other type."
        errors.append(PolicyError(ANY_OTHER_TYPE, "", len(table), f"There are {len(table)} rows.", remedy))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _unknown(row: str, field: str) -> PolicyError:
    close = difflib.get_close_matches(field, FIELDS, n=1)
    remedy = f'Did you mean "{close[0]}"?' if close else f"The fields are {', '.join(FIELDS)}."
    return PolicyError(row, field, None, "There is no such field.", remedy)


def _type(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("A row needs the name of its handoff type.", "Write it as senders do, e.g. deal_data.")
    if len(value) > LONGEST_TYPE:
        raise _Wrong(f"The name has {len(value)} characters.", f"Use at most {LONGEST_TYPE}.")
    if value != value.strip() or not value.isprintable():
        raise _Wrong(f"{_brief(value)} has spaces around it or signs that cannot be seen.", "Take them out.")
    return value


def _choice(field: str, value: Any) -> StrEnum:
    try:
        return CHOICES[field](value)
    except ValueError:
        allowed = ", ".join(CHOICES[field])
        raise _Wrong(f"{_brief(value)} is not one of the choices.", f"Choose one of {allowed}.") from None


def _layers(field: str, value: Any) -> frozenset[str]:
    names = ", ".join(OPTIONAL_LAYERS)
    if not isinstance(value, Mapping):
        raise _Wrong(f"{_brief(value)} is not an object.", f'Write {{"tokens": true, …}} with any of {names}.')
    for layer, on in value.items():
        if layer not in OPTIONAL_LAYERS:
            raise _Wrong(f"{_brief(layer)} cannot be switched.", f"The layers that can be are {names}.")
        if not isinstance(on, bool):
            raise _Wrong(f"{layer} is {_brief(on)}.", "Write true or false.")
    return frozenset(layer for layer, on in value.items() if not on)


def _whole(field: str, value: Any) -> int:
    low, high = RANGES[field]
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Wrong(f"{_brief(value)} is not a whole number.", f"Use a whole number from {low} to {high:,}.")
    if not low <= value <= high:
        raise _Wrong(f"{_brief(value)} is out of range.", f"Use a whole number from {low} to {high:,}.")
    return value


def _share(field: str, value: Any) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not 0 <= value <= 1:
        raise _Wrong(f"{_brief(value)} is not a number from 0.0 to 1.0.", "Use one, e.g. 0.5.")
    # Plus zero makes -0.0, which PostgreSQL does not keep, plain 0.0.
    return float(value) + 0.0


_READ: dict[str, Read] = {
    "handoff_type": _type,
    **dict.fromkeys(CHOICES, _choice),
    "layers": _layers,
    **dict.fromkeys(RANGES, _whole),
    "confidence_floor": _share,
}
