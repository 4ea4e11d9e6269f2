"""The evaluation of business rules against data: which rules are broken, where, and how to fix the data."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import takewhile
from operator import ge, gt, le, lt
from typing import Any, Final

from handoffaudit.validation.business_rules import (
    AllConditions,
    AnyCondition,
    BusinessRule,
    BusinessRuleSet,
    BusinessRuleType,
    Condition,
    Operator,
    When,
)
from handoffaudit.validation.paths import Location, dotted_path
from handoffaudit.validation.selectors import (
    ANY,
    MISSING,
    MOST_STEPS,
    Path,
    PathError,
    StepBudget,
    StepBudgetSpentError,
    parse_path,
    select,
)
from handoffaudit.validation.text import clean, pluralize, show, type_name

_MOST_CHOICES = 12
_MOST_NAMED = 5
_LONGEST_SHOWN_VALUE = 120
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
    """An error for types that do not allow a comparison; the text of the error ends a sentence."""


def holds(operator: Operator | None, value: Any, against: Any, effort: StepBudget) -> bool:
    """Return whether `value` is in this relation to `against`.

    Raises CannotCompareError if the types do not allow the comparison.
    """
    match operator:
        case None:
            raise CannotCompareError("cannot be judged, because the rule names no operator")
        case Operator.EQ:
            return _equal(value, against, effort)
        case Operator.NE:
            return not _equal(value, against, effort)
        case Operator.IN | Operator.NOT_IN:
            if not isinstance(against, list | tuple):
                raise CannotCompareError(f"cannot be looked for in {_describe(against)}, which is not a list")
            return any(_equal(value, one, effort) for one in against) is (operator is Operator.IN)
        case Operator.BETWEEN:
            if not isinstance(against, list | tuple) or len(against) != 2:
                raise CannotCompareError(f"cannot be between {_describe(against)}, which is not a list of two limits")
            return _compare_order(ge, value, against[0]) and _compare_order(le, value, against[1])
        case _:
            return _compare_order(_ORDERED[operator], value, against)


def _compare_order(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool:
    if (_is_number(value) and _is_number(other)) or (isinstance(value, str) and isinstance(other, str)):
        return compare(value, other)
    raise CannotCompareError(f"is {_describe(value)}, which cannot be compared with {_describe(other)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any, effort: StepBudget) -> bool:
    """Return whether two JSON values are equal: 1 equals 1.0, but not true."""
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
    """Return the words that follow "must be" ("less than limit, 100"), or an empty text if no value could pass.

    `name` is the dotted path of the field that `against` comes from, empty for a threshold.
    """
    named = f"{name}, " if name else ""
    many = isinstance(against, list | tuple)
    match operator:
        case Operator.IN | Operator.NOT_IN if many:
            listed = ", ".join(show(one) for one in against[:_MOST_CHOICES])
            rest = f" and {len(against) - _MOST_CHOICES} more" if len(against) > _MOST_CHOICES else ""
            return f"{'one' if operator is Operator.IN else 'none'} of {named}{listed}{rest}"
        case Operator.BETWEEN if many and len(against) == 2:
            return f"from {show(against[0])} to {show(against[1])}{f' ({name})' if name else ''}"
        case None | Operator.IN | Operator.NOT_IN | Operator.BETWEEN:
            return ""
        case _:
            return f"{RELATIONS[operator]} {named}{show(against)}"


def threshold_text(operator: Operator, value: Any) -> str:
    """Return the threshold of a rule or condition as a person writes it: text has no quotation marks."""
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
    return clean(text.replace("\n", " "), _LONGEST_SHOWN_VALUE)


def _describe(value: object) -> str:
    return f"{type_name(value)} ({show(value)})" if isinstance(value, str | int | float) else type_name(value)


_LONGEST_VALUE = 80
_RELATIONS: Final = RELATIONS | {
    Operator.EQ: "",
    Operator.NE: "not",
    Operator.IN: "one of",
    Operator.NOT_IN: "none of",
    Operator.BETWEEN: "between",
}


def conditions_of(when: When | None) -> list[Condition]:
    """Return the conditions of a rule, an empty list if the rule always applies."""
    match when:
        case None:
            return []
        case AllConditions():
            return when.all
        case AnyCondition():
            return when.any
        case _:
            return [when]


def is_met(when: When | None, data: dict[str, Any], path: Path, place: Location, effort: StepBudget) -> bool:
    """Return whether a rule for `path` applies to the value at `place`.

    A condition is not met if its field is missing, or if the types do not allow its comparison. A condition with a `*`
    is met if one value meets the condition. If the path of the condition begins
    like the path of the rule, the condition is about the same item. Raises PathError for a path that cannot be read.
    """
    met = partial(_is_met, data=data, path=path, place=place, effort=effort)
    return (any if isinstance(when, AnyCondition) else all)(met(one) for one in conditions_of(when))


def _is_met(one: Condition, data: dict[str, Any], path: Path, place: Location, effort: StepBudget) -> bool:
    mine = parse_path(one.field)
    for where, value in select(data, bound(mine, path, place), effort=effort):
        if value is not MISSING and _compares(one, value, data, mine, where, effort):
            return True
    return False


def _compares(
    one: Condition, value: Any, data: dict[str, Any], path: Path, place: Location, effort: StepBudget
) -> bool:
    for _, against in compared_values(one, data, path, place, effort):
        try:
            if holds(one.operator, value, against, effort):
                return True
        except CannotCompareError:
            continue
    return False


def compared_values(
    one: BusinessRule | Condition, data: dict[str, Any], path: Path, place: Location, effort: StepBudget
) -> Iterator[tuple[str, Any]]:
    """Yield each value that the value at `place` is compared with, and its path, for a rule or condition.

    The path of a threshold is empty. A missing field yields nothing. Raises PathError for a path that cannot be read.
    """
    if one.compare_field is None:
        yield "", one.threshold
        return
    for where, value in select(data, bound(parse_path(one.compare_field), path, place), effort=effort):
        if value is not MISSING:
            yield dotted_path(where), value


def bound(other: Path, path: Path, place: Location) -> Path:
    """Return `other` with each `*` that it shares with `path` replaced by the item of `place`.

    Beside `layers.*.high`, `layers.*.low` therefore means the low of the same layer.
    """
    parts = list(other)
    for index, (mine, theirs) in enumerate(zip(path, other, strict=False)):
        if mine != theirs:
            break
        if mine is ANY:
            parts[index] = place[index]
    return tuple(parts)


def when_text(when: When | None) -> str:
    """Return the condition as the end of a sentence, "when direction is LONG"; empty if the rule always applies."""
    joint = " or " if isinstance(when, AnyCondition) else " and "
    text = joint.join(_text(one) for one in conditions_of(when))
    return f"when {text}" if text else ""


def _text(one: Condition) -> str:
    against = clean(one.compare_field or threshold_text(one.operator, one.threshold), _LONGEST_VALUE)
    return " ".join(filter(None, (clean(one.field, _LONGEST_VALUE), "is", _RELATIONS[one.operator], against)))


_MOST_PLACES = 20
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule. `places` holds the first places that break the rule, and `location` the very first."""

    rule: BusinessRule
    set_id: str
    location: Location
    places: tuple[Location, ...]
    message: str
    hint: str
    expected: Any
    actual: Any


@dataclass(frozen=True, slots=True)
class _Failure:
    """A value that breaks a rule.

    `why` follows the name of the value in a sentence: the reason why the value could not be compared. It is empty if
    the value was compared.
    """

    place: Location
    value: Any
    expected: Any = None
    name: str = ""
    why: str = ""


def rules_for(sets: Iterable[BusinessRuleSet], types: Iterable[str]) -> list[tuple[str, BusinessRule]]:
    """Return the active rules for data of any of these types, each with the id of its set."""
    names = list(types)
    return [(one.set_id, rule) for one in sets for rule in one.active_rules if any(rule.is_for(name) for name in names)]


def broken_rules(rules: Iterable[tuple[str, BusinessRule]], data: dict[str, Any]) -> Iterator[Broken]:
    """Yield each rule that does not hold, once.

    All rules together share a budget of steps. A rule that cannot be judged within the budget fails, and its message
    says so.
    """
    effort = StepBudget(MOST_STEPS)
    for set_id, rule in rules:
        try:
            first, total = _first_of(_failures(rule, data, effort))
        except StepBudgetSpentError:
            first, total = [_report_unjudged(rule)], 1
        if first:
            yield _broken(set_id, rule, first, total)


def _first_of(failures: Iterable[_Failure]) -> tuple[list[_Failure], int]:
    """Return the first failures in the order of their places, and the number of all failures."""
    kept: list[_Failure] = []
    total = 0
    for one in failures:
        total += 1
        kept.append(one)
        if len(kept) > _MOST_KEPT:
            kept = _by_place(kept)
    return _by_place(kept), total


def _by_place(failures: list[_Failure]) -> list[_Failure]:
    return nsmallest(_MOST_PLACES, failures, key=lambda one: (dotted_path(one.place), one.name))


def _report_unjudged(rule: BusinessRule) -> _Failure:
    """Return the failure of a rule that was not judged. Its location contains all values that the rule selects."""
    place = takewhile(lambda part: part is not ANY, parse_path(rule.field))
    within = tuple(part for part in place if isinstance(part, str | int))
    return _Failure(within, None, why="could not be judged: there is too much to compare")


def _broken(set_id: str, rule: BusinessRule, failures: list[_Failure], total: int) -> Broken:
    first = failures[0]
    title = clean(rule.description or rule.name or rule.rule_id).rstrip(". ")
    where = clean(dotted_path(first.place), 100) or "the data"
    wanted = _describe_requirement(rule, first)
    if first.why:
        said = f"{where} {first.why}"
    else:
        said = f"{where} is {'missing' if first.value is MISSING else show(first.value)}; it must be {wanted}"
    if condition := when_text(rule.when):
        said += f"{',' if first.name or first.why else ''} {condition}"
    more = f", and {pluralize(total - 1, 'other place')} break the rule too" if total > 1 else ""
    return Broken(
        rule=rule,
        set_id=set_id,
        location=first.place,
        places=tuple(one.place for one in failures),
        message=f"{title}: {said}{more}.",
        hint=_hint(rule, where, wanted),
        expected=first.expected,
        actual=None if first.value is MISSING else first.value,
    )


def _hint(rule: BusinessRule, where: str, wanted: str) -> str:
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return f"Fill in {where}."
    return f"Change {where}: it must be {wanted}." if wanted else "Ask the author of the rule to fix it."


def _failures(rule: BusinessRule, data: dict[str, Any], effort: StepBudget) -> Iterator[_Failure]:
    """Yield every place that breaks the rule.

    `when` is evaluated only for these places, since most handoffs break nothing.
    """
    try:
        path = parse_path(rule.field)
        for place, value in select(data, path, effort=effort):
            failures = _failures_at(rule, data, path, place, value, effort)
            first = next(failures, None)
            if first is not None and is_met(rule.when, data, path, place, effort):
                yield first
                yield from failures
    except PathError as error:
        yield _Failure((rule.field,), None, why=f"cannot be looked up: {str(error)[:-1]}")


def _failures_at(
    rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, value: Any, effort: StepBudget
) -> Iterator[_Failure]:
    if rule.rule_type is BusinessRuleType.REQUIRED:
        if _is_empty(value):
            yield _Failure(place, value)
    elif value is not MISSING:
        yield from _compare_values(rule, data, path, place, value, effort)


def _is_empty(value: object) -> bool:
    blank = isinstance(value, str) and not value.strip()
    return blank or value is MISSING or value is None or (isinstance(value, dict | list) and not value)


def _compare_values(
    rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, value: Any, effort: StepBudget
) -> Iterator[_Failure]:
    for name, against in compared_values(rule, data, path, place, effort):
        try:
            if not holds(rule.operator, value, against, effort):
                yield _Failure(place, value, against, name)
        except CannotCompareError as error:
            yield _Failure(place, value, against, name, str(error))


def _describe_requirement(rule: BusinessRule, failure: _Failure) -> str:
    """Return the requirement of the rule, to follow "it must be"; empty if no change of the data could meet it."""
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return "present and not empty"
    return requirement(rule.operator, failure.expected, failure.name)
