"""Business rules held against data: which are broken, where, and what would mend it."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import ge, gt, le, lt
from typing import Any, Final

from handoffaudit.validation.paths import Location, dotted
from handoffaudit.validation.rule_models import BusinessRule, BusinessRuleSet, BusinessRuleType, Operator
from handoffaudit.validation.selecting import ANY, MISSING, Path, PathError, parse_path, select
from handoffaudit.validation.text import clean, counted, shown, type_name

_MOST_PLACES = 20
_MOST_CHOICES = 12
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
    place: Location
    value: Any
    wanted: str
    expected: Any
    why: str = ""


def rules_for(sets: Iterable[BusinessRuleSet], types: Iterable[str]) -> list[tuple[str, BusinessRule]]:
    """The active rules for data of any of these types, each with the id of its set."""
    names = list(types)
    return [(one.set_id, rule) for one in sets for rule in one.active_rules if any(rule.is_for(name) for name in names)]


def broken_rules(rules: Iterable[tuple[str, BusinessRule]], data: dict[str, Any]) -> Iterator[Broken]:
    """Each rule that does not hold, once."""
    for set_id, rule in rules:
        failures = list(_failures(rule, data))
        if failures:
            yield _broken(set_id, rule, sorted(failures, key=lambda one: dotted(one.place)))


def _broken(set_id: str, rule: BusinessRule, failures: list[_Failure]) -> Broken:
    first, *others = failures
    title = clean(rule.description or rule.name or rule.rule_id).rstrip(". ")
    where = dotted(first.place)
    if first.why:
        said = f"{where} {first.why}"
    else:
        said = f"{where} is {'missing' if first.value is MISSING else shown(first.value)}; it must be {first.wanted}"
    more = f", and {counted(len(others), 'other place')} break the rule too" if others else ""
    return Broken(
        rule=rule,
        set_id=set_id,
        location=first.place,
        places=tuple(one.place for one in failures[:_MOST_PLACES]),
        message=f"{title}: {said}{more}.",
        hint=_hint(rule, where, first),
        expected=first.expected,
        actual=None if first.value is MISSING else first.value,
    )


def _hint(rule: BusinessRule, where: str, failure: _Failure) -> str:
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return f"Fill in {where}."
    return f"Change {where}: it must be {failure.wanted}." if failure.wanted else "Ask whoever set the rule to mend it."


def _failures(rule: BusinessRule, data: dict[str, Any]) -> Iterator[_Failure]:
    try:
        path = parse_path(rule.field)
    except PathError as error:
        yield _Failure((rule.field,), None, "", None, f"cannot be looked up: {str(error)[:-1]}")
        return
    for place, value in select(data, path):
        if rule.rule_type is BusinessRuleType.REQUIRED:
            if _is_empty(value):
                yield _Failure(place, value, "there and not empty", None)
        elif value is not MISSING:
            yield from _compared(rule, data, path, place, value)


def _is_empty(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is MISSING or value is None or (isinstance(value, dict | list) and not value)


def _compared(rule: BusinessRule, data: dict[str, Any], path: Path, place: Location, value: Any) -> Iterator[_Failure]:
    for name, against in _against(rule, data, path, place):
        wanted = _wanted(rule.operator, against, name)
        try:
            holds = _holds(rule.operator, value, against)
        except _CannotCompare as error:
            yield _Failure(place, value, wanted, against, str(error))
        else:
            if not holds:
                yield _Failure(place, value, wanted, against)


def _against(rule: BusinessRule, data: dict[str, Any], path: Path, place: Location) -> Iterator[tuple[str, Any]]:
    """What the value is compared with. A missing field to compare with fails nothing."""
    if rule.compare_field is None:
        yield "", rule.threshold
        return
    try:
        other = _bound(parse_path(rule.compare_field), path, place)
    except PathError:
        yield rule.compare_field, MISSING
        return
    for where, value in select(data, other):
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


def _holds(operator: Operator | None, value: Any, against: Any) -> bool:
    match operator:
        case None:
            raise _CannotCompare("cannot be judged, since the rule names no operator")
        case Operator.EQ:
            return _equal(value, against)
        case Operator.NE:
            return not _equal(value, against)
        case Operator.IN | Operator.NOT_IN:
            if not isinstance(against, list | tuple):
                raise _CannotCompare(f"cannot be looked for in {_what(against)}, which is no list")
            return any(_equal(value, one) for one in against) is (operator is Operator.IN)
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


def _equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 is 1.0 and is not true."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(_equal(one, other) for one, other in zip(left, right, strict=True))
    return bool(left == right)


def _what(value: object) -> str:
    if value is MISSING:
        return "a field that cannot be looked up"
    return f"{type_name(value)} ({shown(value)})" if isinstance(value, str | int | float) else type_name(value)


def _wanted(operator: Operator | None, against: Any, name: str) -> str:
    """What would make the rule hold, after "it must be"; empty where nothing in the data can."""
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
            return f"{_WANTED[operator]} {named}{shown(against)}"
