"""Conditions of business rules: whether they are met, and their wording."""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from handoffaudit.validation.business_rules.comparison import RELATIONS, CannotCompareError, holds, threshold_text
from handoffaudit.validation.business_rules.models import (
    AllConditions,
    AnyCondition,
    BusinessRule,
    Condition,
    Operator,
    When,
)
from handoffaudit.validation.effort import Effort
from handoffaudit.validation.paths import Location, dotted
from handoffaudit.validation.selecting import ANY, MISSING, Path, parse_path, select
from handoffaudit.validation.text import clean

_LONGEST_VALUE = 80
_RELATIONS: Final = RELATIONS | {
    Operator.EQ: "",
    Operator.NE: "not",
    Operator.IN: "one of",
    Operator.NOT_IN: "none of",
    Operator.BETWEEN: "between",
}


def conditions_of(when: When | None) -> list[Condition]:
    """Return the conditions of a rule, none where it always applies."""
    match when:
        case None:
            return []
        case AllConditions():
            return when.all
        case AnyCondition():
            return when.any
        case _:
            return [when]


def is_met(when: When | None, data: dict[str, Any], path: Path, place: Location, effort: Effort) -> bool:
    """Return whether a rule for `path` applies to the value at `place`.

    A condition whose field is missing, or whose comparison the types do not allow, is not met. Of a condition with a
    `*`, one value that meets it is enough; as far as its path is that of the rule, it is about the same item. Raises
    PathError for a path that cannot be read.
    """
    met = partial(_is_met, data=data, path=path, place=place, effort=effort)
    return (any if isinstance(when, AnyCondition) else all)(met(one) for one in conditions_of(when))


def _is_met(one: Condition, data: dict[str, Any], path: Path, place: Location, effort: Effort) -> bool:
    mine = parse_path(one.field)
    for where, value in select(data, bound(mine, path, place), effort=effort):
        if value is not MISSING and _compares(one, value, data, mine, where, effort):
            return True
    return False


def _compares(one: Condition, value: Any, data: dict[str, Any], path: Path, place: Location, effort: Effort) -> bool:
    for _, against in compared_values(one, data, path, place, effort):
        try:
            if holds(one.operator, value, against, effort):
                return True
        except CannotCompareError:
            continue
    return False


def compared_values(
    one: BusinessRule | Condition, data: dict[str, Any], path: Path, place: Location, effort: Effort
) -> Iterator[tuple[str, Any]]:
    """Yield what the value at `place` is compared with, by the rule or condition `one`: its path, empty for the
    threshold, and the value. A missing field yields nothing. Raises PathError."""
    if one.compare_field is None:
        yield "", one.threshold
        return
    for where, value in select(data, bound(parse_path(one.compare_field), path, place), effort=effort):
        if value is not MISSING:
            yield dotted(where), value


def bound(other: Path, path: Path, place: Location) -> Path:
    """Return `other` with the `*` that it shares with `path` replaced by the items of `place`: `layers.*.low` beside
    `layers.*.high` means the low of the same layer."""
    parts = list(other)
    for index, (mine, theirs) in enumerate(zip(path, other, strict=False)):
        if mine != theirs:
            break
        if mine is ANY:
            parts[index] = place[index]
    return tuple(parts)


def when_text(when: When | None) -> str:
    """Return the condition as the end of a sentence, "when direction is LONG"; empty where the rule always applies."""
    joint = " or " if isinstance(when, AnyCondition) else " and "
    told = joint.join(_text(one) for one in conditions_of(when))
    return f"when {told}" if told else ""


def _text(one: Condition) -> str:
    against = clean(one.compare_field or threshold_text(one.operator, one.threshold), _LONGEST_VALUE)
    return " ".join(filter(None, (clean(one.field, _LONGEST_VALUE), "is", _RELATIONS[one.operator], against)))
