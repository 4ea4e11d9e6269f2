"""The evaluation of business rules against data: which rules are broken, where, and how to fix the data."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import takewhile
from typing import Any

from handoffaudit.validation.business_rules import (
    BusinessRule,
    BusinessRuleSet,
    BusinessRuleType,
    CannotCompareError,
    compared_values,
    holds,
    is_met,
    requirement,
    when_text,
)
from handoffaudit.validation.paths import (
    ANY,
    MISSING,
    MOST_STEPS,
    Location,
    Path,
    PathError,
    StepBudget,
    StepBudgetSpentError,
    dotted_path,
    parse_path,
    place_order,
    select,
)
from handoffaudit.validation.text import clean, pluralize, show, type_name

_MOST_PLACES = 20
_MOST_KEPT = 1_000
_NUMBER = type_name(0)


@dataclass(frozen=True, slots=True)
class Broken:
    """A broken rule. `places` holds the first places that break the rule, and `location` is the first of these."""

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

    `why` is the reason why the value could not be compared: the rest of a sentence that begins with the place of the
    value. `why` is empty if the value was compared.
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
            yield _describe_broken(set_id, rule, first, total)


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
    return nsmallest(_MOST_PLACES, failures, key=lambda one: (place_order(one.place), one.name))


def _report_unjudged(rule: BusinessRule) -> _Failure:
    """Return the failure of a rule that was not judged. Its location contains all values that the rule selects."""
    place = takewhile(lambda part: part is not ANY, parse_path(rule.field))
    within = tuple(part for part in place if isinstance(part, str | int))
    return _Failure(within, None, why="could not be judged: there is too much to compare")


def _describe_broken(set_id: str, rule: BusinessRule, failures: list[_Failure], total: int) -> Broken:
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
    verb = "breaks" if total == 2 else "break"
    more = f", and {pluralize(total - 1, 'other place')} {verb} the rule too" if total > 1 else ""
    return Broken(
        rule=rule,
        set_id=set_id,
        location=first.place,
        places=tuple(one.place for one in failures),
        message=f"{title}: {said}{more}.",
        hint=_hint(rule, first, where, wanted),
        expected=first.expected,
        actual=None if first.value is MISSING else first.value,
    )


def _hint(rule: BusinessRule, failure: _Failure, where: str, wanted: str) -> str:
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return f"Fill in {where}."
    if not wanted:
        return "Ask the author of the rule to fix it."
    return (failure.why and _hint_about_types(failure, where, wanted)) or f"Change {where}: it must be {wanted}."


def _hint_about_types(failure: _Failure, where: str, wanted: str) -> str:
    """Return which of two values must become a number before they can be compared; empty if neither is a number."""
    limits = failure.expected
    other = limits[0] if isinstance(limits, list | tuple) and limits else limits
    if type_name(other) == _NUMBER:
        return f"Write {where} as a number: it must be {wanted}."
    if type_name(failure.value) != _NUMBER:
        return ""
    if failure.name:
        return f"Write {clean(failure.name, 100)} as a number."
    return f"Write {where} as a text, or ask the author of the rule for a threshold that is a number."


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
