"""Comparison of JSON values by the operators of business rules, and its wording."""

import json
from collections.abc import Callable
from operator import ge, gt, le, lt
from typing import Any, Final

from handoffaudit.validation.business_rules.models import Operator
from handoffaudit.validation.effort import Effort
from handoffaudit.validation.text import clean, shown, type_name

_MOST_CHOICES = 12
_MOST_NAMED = 5
_LONGEST_VALUE = 120
_LARGEST_WHOLE = 10**15
_ORDERED: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LT: lt,
    Operator.LE: le,
    Operator.GT: gt,
    Operator.GE: ge,
}
RELATIONS: Final[dict[Operator, str]] = {
    Operator.LT: "less than",
    Operator.LE: "at most",
    Operator.GT: "greater than",
    Operator.GE: "at least",
    Operator.EQ: "equal to",
    Operator.NE: "other than",
}


class CannotCompareError(Exception):
    """The types do not allow the comparison; the text of the error ends a sentence."""


def holds(operator: Operator | None, value: Any, against: Any, effort: Effort) -> bool:
    """Return whether `value` stands in this relation to `against`. Raises CannotCompareError."""
    match operator:
        case None:
            raise CannotCompareError("cannot be judged, since the rule names no operator")
        case Operator.EQ:
            return _equal(value, against, effort)
        case Operator.NE:
            return not _equal(value, against, effort)
        case Operator.IN | Operator.NOT_IN:
            if not isinstance(against, list | tuple):
                raise CannotCompareError(f"cannot be looked for in {_what(against)}, which is no list")
            return any(_equal(value, one, effort) for one in against) is (operator is Operator.IN)
        case Operator.BETWEEN:
            if not isinstance(against, list | tuple) or len(against) != 2:
                raise CannotCompareError(f"cannot be between {_what(against)}, which is no list of two limits")
            return _ordered(ge, value, against[0]) and _ordered(le, value, against[1])
        case _:
            return _ordered(_ORDERED[operator], value, against)


def _ordered(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool:
    if (_is_number(value) and _is_number(other)) or (isinstance(value, str) and isinstance(other, str)):
        return compare(value, other)
    raise CannotCompareError(f"is {_what(value)}, which cannot be compared with {_what(other)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any, effort: Effort) -> bool:
    """Return whether two JSON values are equal: 1 is 1.0 and is not true."""
    effort.spend()
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        same = left.keys() == right.keys()
        return same and all(_equal(value, right[key], effort) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        same = len(left) == len(right)
        return same and all(_equal(one, other, effort) for one, other in zip(left, right, strict=True))
    return bool(left == right)


def requirement(operator: Operator | None, against: Any, name: str = "") -> str:
    """Return the words after "must be" ("less than limit, 100"), empty where no value could meet the comparison.

    `name` is the dotted path of the field that `against` comes from, empty for a threshold.
    """
    named = f"{name}, " if name else ""
    many = isinstance(against, list | tuple)
    match operator:
        case Operator.IN | Operator.NOT_IN if many:
            listed = ", ".join(shown(one) for one in against[:_MOST_CHOICES])
            rest = f" and {len(against) - _MOST_CHOICES} more" if len(against) > _MOST_CHOICES else ""
            return f"{'one' if operator is Operator.IN else 'none'} of {named}{listed}{rest}"
        case Operator.BETWEEN if many and len(against) == 2:
            return f"from {shown(against[0])} to {shown(against[1])}{f' ({name})' if name else ''}"
        case None | Operator.IN | Operator.NOT_IN | Operator.BETWEEN:
            return ""
        case _:
            return f"{RELATIONS[operator]} {named}{shown(against)}"


def threshold_text(operator: Operator, value: Any) -> str:
    """Return the threshold of a rule or condition as a person writes it: text without quotation marks."""
    if operator is Operator.BETWEEN and isinstance(value, list | tuple) and len(value) == 2:
        return f"{_plain(value[0])} and {_plain(value[1])}"
    if operator in (Operator.IN, Operator.NOT_IN) and isinstance(value, list | tuple):
        more = len(value) - _MOST_NAMED
        return ", ".join(_plain(one) for one in value[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_WHOLE:
        value = int(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return clean(text.replace("\n", " "), _LONGEST_VALUE)


def _what(value: object) -> str:
    return f"{type_name(value)} ({shown(value)})" if isinstance(value, str | int | float) else type_name(value)
