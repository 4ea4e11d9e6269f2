"""Business rules held against data: which are broken, where, and what would mend it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest
from itertools import takewhile
from operator import ge, gt, le, lt
from typing import Any, Final

from handoffaudit.validation.business_rules.models import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.effort import Effort, TooMuchError
from handoffaudit.validation.paths import Location, dotted
from handoffaudit.validation.selecting import ANY, MISSING, Path, PathError, parse_path, select
from handoffaudit.validation.text import clean, counted, shown, type_name

_MOST_PLACES = 20
_MOST_CHOICES = 12
_MOST_KEPT = 1_000
# a second at most; an honest handoff takes some hundreds
_MOST_STEPS = 300_000
_ORDERED: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    Operator.LT: lt,
    Operator.LE: le,
    Operator.GT: gt,
    Operator.GE: ge,
}
_WANTED: Final[dict[Operator, str]] = {
    Operator.LT: "less than",
    Operator.LE: "at most",
    Operator.GT: "greater than",
    Operator.GE: "at least",
    Operator.EQ: "equal to",
    Operator.NE: "other than",
}


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


class _CannotCompare(Exception):
    """The types do not allow the comparison; its text ends a sentence."""


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
    effort = Effort(_MOST_STEPS)
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
    try:
        path = parse_path(rule.field)
    except PathError as error:
        yield _Failure((rule.field,), None, why=f"cannot be looked up: {str(error)[:-1]}")
        return
    for place, value in select(data, path, effort=effort):
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
    for name, against in _against(rule, data, path, place, effort):
        try:
            holds = _holds(rule.operator, value, against, effort)
        except _CannotCompare as error:
            yield _Failure(place, value, against, name, str(error))
        else:
            if not holds:
                yield _Failure(place, value, against, name)


def _against(
    rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, effort: Effort
) -> Iterator[tuple[str, Any]]:
    """What the value is compared with. A missing field to compare with fails nothing."""
    if rule.compare_field is None:
        yield "", rule.threshold
        return
    try:
        other = _bound(parse_path(rule.compare_field), path, place)
    except PathError:
        yield rule.compare_field, MISSING
        return
    for where, value in select(data, other, effort=effort):
        if value is not MISSING:
            yield dotted(where), value


def _bound(other: Path, path: Path, place: Location) -> Path:
    """`layers.*.low` beside `layers.*.high` means the low of the same layer: as far as both paths are alike."""
    bound = list(other)
    for index, (mine, theirs) in enumerate(zip(path, other, strict=False)):
        if mine != theirs:
            break
        if mine is ANY:
            bound[index] = place[index]
    return tuple(bound)


def _holds(operator: Operator | None, value: Any, against: Any, effort: Effort) -> bool:
    match operator:
        case None:
            raise _CannotCompare("cannot be judged, since the rule names no operator")
        case Operator.EQ:
            return _equal(value, against, effort)
        case Operator.NE:
            return not _equal(value, against, effort)
        case Operator.IN | Operator.NOT_IN:
            if not isinstance(against, list | tuple):
                raise _CannotCompare(f"cannot be looked for in {_what(against)}, which is no list")
            return any(_equal(value, one, effort) for one in against) is (operator is Operator.IN)
        case Operator.BETWEEN:
            if not isinstance(against, list | tuple) or len(against) != 2:
                raise _CannotCompare(f"cannot be between {_what(against)}, which is no list of two limits")
            return _ordered(ge, value, against[0]) and _ordered(le, value, against[1])
        case _:
            return _ordered(_ORDERED[operator], value, against)


def _ordered(compare: Callable[[Any, Any], bool], value: Any, other: Any) -> bool:
    if (_is_number(value) and _is_number(other)) or (isinstance(value, str) and isinstance(other, str)):
        return compare(value, other)
    raise _CannotCompare(f"is {_what(value)}, which cannot be compared with {_what(other)}")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: Any, right: Any, effort: Effort) -> bool:
    """Equality of JSON values: 1 is 1.0 and is not true."""
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


def _what(value: object) -> str:
    if value is MISSING:
        return "a field that cannot be looked up"
    return f"{type_name(value)} ({shown(value)})" if isinstance(value, str | int | float) else type_name(value)


def _wanted(rule: BusinessRule, failure: _Failure) -> str:
    """What would make the rule hold, after "it must be"; empty where nothing in the data can."""
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return "there and not empty"
    against = failure.expected
    named = f"{failure.name}, " if failure.name else ""
    many = isinstance(against, list | tuple)
    match rule.operator:
        case Operator.IN | Operator.NOT_IN if many:
            listed = ", ".join(shown(one) for one in against[:_MOST_CHOICES])
            rest = f" and {len(against) - _MOST_CHOICES} more" if len(against) > _MOST_CHOICES else ""
            return f"{'one' if rule.operator is Operator.IN else 'none'} of {named}{listed}{rest}"
        case Operator.BETWEEN if many and len(against) == 2:
            return f"from {shown(against[0])} to {shown(against[1])}{f' ({failure.name})' if failure.name else ''}"
        case None | Operator.IN | Operator.NOT_IN | Operator.BETWEEN:
            return ""
        case _:
            return f"{_WANTED[rule.operator]} {named}{shown(against)}"
