"""Business rules held against data: which are broken, where, and how to fix it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import takewhile
from typing import Any

from handoffaudit.validation.business_rules.comparison import CannotCompareError, holds, requirement
from handoffaudit.validation.business_rules.conditions import compared_values, is_met, when_text
from handoffaudit.validation.business_rules.models import BusinessRule, BusinessRuleSet, BusinessRuleType
from handoffaudit.validation.effort import MOST_STEPS, Effort, TooMuchError
from handoffaudit.validation.paths import Location, dotted
from handoffaudit.validation.selecting import ANY, MISSING, Path, PathError, parse_path, select
from handoffaudit.validation.text import clean, counted, shown

_MOST_PLACES = 20
_MOST_KEPT = 1_000


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that does not hold. `places` are all that break it, `location` the first of them."""

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
    """`why` the value could not be compared, as what follows its name; empty where it only broke the rule."""

    place: Location
    value: Any
    expected: Any = None
    name: str = ""
    why: str = ""


def rules_for(sets: Iterable[BusinessRuleSet], types: Iterable[str]) -> list[tuple[str, BusinessRule]]:
    """The active rules for data of any of these types, each with the id of its set."""
    names = list(types)
    return [(one.set_id, rule) for one in sets for rule in one.active_rules if any(rule.is_for(name) for name in names)]


def broken_rules(rules: Iterable[tuple[str, BusinessRule]], data: dict[str, Any]) -> Iterator[Broken]:
    """Each rule that does not hold, once. All rules together may take so many steps; one that cannot be judged for that
    fails, and says so."""
    effort = Effort(MOST_STEPS)
    for set_id, rule in rules:
        try:
            first, total = _first_of(_failures(rule, data, effort))
        except TooMuchError:
            first, total = [_not_judged(rule)], 1
        if first:
            yield _broken(set_id, rule, first, total)


def _first_of(failures: Iterable[_Failure]) -> tuple[list[_Failure], int]:
    """The first by their places, and how many there are."""
    kept: list[_Failure] = []
    total = 0
    for one in failures:
        total += 1
        kept.append(one)
        if len(kept) > _MOST_KEPT:
            kept = _by_place(kept)
    return _by_place(kept), total


def _by_place(failures: list[_Failure]) -> list[_Failure]:
    return nsmallest(_MOST_PLACES, failures, key=lambda one: (dotted(one.place), one.name))


def _not_judged(rule: BusinessRule) -> _Failure:
    """Located at what all places of the rule are in."""
    place = takewhile(lambda part: part is not ANY, parse_path(rule.field))
    within = tuple(part for part in place if isinstance(part, str | int))
    return _Failure(within, None, why="could not be judged: there is too much to compare")


def _broken(set_id: str, rule: BusinessRule, failures: list[_Failure], total: int) -> Broken:
    first = failures[0]
    title = clean(rule.description or rule.name or rule.rule_id).rstrip(". ")
    where = clean(dotted(first.place), 100) or "the data"
    wanted = _wanted(rule, first)
    if first.why:
        said = f"{where} {first.why}"
    else:
        said = f"{where} is {'missing' if first.value is MISSING else shown(first.value)}; it must be {wanted}"
    if condition := when_text(rule.when):
        said += f"{',' if first.name or first.why else ''} {condition}"
    more = f", and {counted(total - 1, 'other place')} break the rule too" if total > 1 else ""
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
    return f"Change {where}: it must be {wanted}." if wanted else "Ask whoever set the rule to mend it."


def _failures(rule: BusinessRule, data: dict[str, Any], effort: Effort) -> Iterator[_Failure]:
    """Yield every place that breaks the rule. `when` is asked only about those, since most handoffs break nothing."""
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
    rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, value: Any, effort: Effort
) -> Iterator[_Failure]:
    if rule.rule_type is BusinessRuleType.REQUIRED:
        if _is_empty(value):
            yield _Failure(place, value)
    elif value is not MISSING:
        yield from _compared(rule, data, path, place, value, effort)


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is MISSING or value is None or (isinstance(value, dict | list) and not value)


def _compared(
    rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, value: Any, effort: Effort
) -> Iterator[_Failure]:
    for name, against in compared_values(rule, data, path, place, effort):
        try:
            if not holds(rule.operator, value, against, effort):
                yield _Failure(place, value, against, name)
        except CannotCompareError as error:
            yield _Failure(place, value, against, name, str(error))


def _wanted(rule: BusinessRule, failure: _Failure) -> str:
    """Return what would make the rule hold, after "it must be"; empty where nothing in the data can."""
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return "there and not empty"
    return requirement(rule.operator, failure.expected, failure.name)
