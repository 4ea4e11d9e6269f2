"""Inputs of the rule editor that are more than one text: thresholds, and the conditions of a rule."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from handoffaudit.dashboard.policies.drafts import read_json
from handoffaudit.dashboard.policies.fields import Field, menu
from handoffaudit.dashboard.policies.rules.words import HELP, MATCHES, NAMES, OPERATORS
from handoffaudit.validation.business_rules.evaluate import conditions_of
from handoffaudit.validation.business_rules.rules import MOST_CONDITIONS, AnyCondition, When

MATCH = "when_match"
_PARTS = ("field", "operator", "threshold", "compare_field")
_FEWEST_ROWS = 2
_HELP = {
    "field": "a path into the data; left empty with the others, there is no such condition",
    "operator": "",
    "threshold": HELP["threshold"],
    "compare_field": HELP["compare_field"],
}
_IN_LIST = re.compile(r"\.(?:all|any)\[(\d+)\](.*)", re.DOTALL)
_LOOKS_LIKE_JSON = re.compile(r"[\[{\"]")

CONDITION_INPUTS = (
    MATCH,
    *(f"when_{part}_{row}" for row in range(1, MOST_CONDITIONS + 1) for part in _PARTS),
)
"""The names of all inputs that a form may send for the conditions of a rule."""


def read_threshold(text: str) -> Any:
    """Return a threshold from what was typed: JSON or plain text. Raises ValueError."""
    try:
        return read_json(text)
    except ValueError:
        if not _LOOKS_LIKE_JSON.match(text):
            return text
        raise


def threshold_text(value: Any) -> str:
    """Return a threshold as it is typed: a text plainly, where it would not be read as something else."""
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or value != value.strip() or not value or _LOOKS_LIKE_JSON.match(value):
        return text
    try:
        read_json(value)
    except ValueError:
        return value
    return text


def condition_values(when: When | None) -> dict[str, str]:
    """Return what stands in the inputs for these conditions."""
    values = dict.fromkeys(CONDITION_INPUTS, "")
    values[MATCH] = "any" if isinstance(when, AnyCondition) else "all"
    for row, one in enumerate(conditions_of(when), 1):
        values[f"when_field_{row}"] = one.field
        values[f"when_operator_{row}"] = one.operator.value
        values[f"when_threshold_{row}"] = threshold_text(one.threshold)
        values[f"when_compare_field_{row}"] = one.compare_field or ""
    return values


def read_conditions(values: Mapping[str, str]) -> dict[str, Any] | None:
    """Return `when` as plain values, None where no row is filled in. Raises BadThresholdError."""
    conditions = [_read_row(values, row) for row in _filled(values)]
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    # Any other word than these two is refused with the rest of the rule.
    return {values[MATCH] or "all": conditions}


class BadThresholdError(ValueError):
    """A threshold of a condition is not JSON; `name` is its input."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _filled(values: Mapping[str, str]) -> list[int]:
    return [row for row in range(1, MOST_CONDITIONS + 1) if any(values[f"when_{part}_{row}"] for part in _PARTS)]


def _read_row(values: Mapping[str, str], row: int) -> dict[str, Any]:
    given = {part: values[f"when_{part}_{row}"] for part in _PARTS}
    plain: dict[str, Any] = {"field": given["field"], "operator": given["operator"] or None}
    if given["compare_field"]:
        plain["compare_field"] = given["compare_field"]
    if given["threshold"]:
        try:
            plain["threshold"] = read_threshold(given["threshold"])
        except ValueError as error:
            raise BadThresholdError(f"when_threshold_{row}", str(error)) from error
    return plain


def input_at(values: Mapping[str, str], where: str) -> tuple[str, str]:
    """Return the input that a place inside `when` (`.all[1].field`) was read from, and the place inside that input."""
    filled = _filled(values)
    in_list = _IN_LIST.fullmatch(where)
    index, inside = (int(in_list[1]), in_list[2]) if in_list else (0, where)
    name, _, rest = inside.removeprefix(".").partition("[")
    if name in _PARTS and index < len(filled):
        return f"when_{name}_{filled[index]}", f"[{rest}" if rest else ""
    return MATCH, ""


def condition_groups(values: Mapping[str, str], errors: Mapping[str, str]) -> Iterator[tuple[str, list[Field]]]:
    """Yield the inputs with their titles: how the conditions are combined, each row that is filled in, and one more."""
    match = Field(
        name=MATCH,
        label=NAMES[MATCH],
        help=HELP[MATCH],
        value=values[MATCH],
        error=errors.get(MATCH, ""),
        choices=menu(MATCHES),
    )
    yield "When it applies", [match]
    rows = max(_FEWEST_ROWS, max(_filled(values), default=0) + 1)
    for row in range(1, min(rows, MOST_CONDITIONS) + 1):
        yield f"Condition {row}", [_row_field(part, f"when_{part}_{row}", values, errors) for part in _PARTS]


def _row_field(part: str, name: str, values: Mapping[str, str], errors: Mapping[str, str]) -> Field:
    return Field(
        name=name,
        label=NAMES[part],
        help=_HELP[part],
        value=values[name],
        error=errors.get(name, ""),
        choices=menu(OPERATORS) if part == "operator" else None,
        is_code=part != "operator",
    )
