"""Business rules: the models of a rule, its conditions and a set of rules, two example sets, and the comparisons."""

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from enum import StrEnum
from functools import partial
from operator import ge, gt, le, lt
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from handoffaudit.validation.issues import Severity
from handoffaudit.validation.paths import ANY, MISSING, Location, Path, StepBudget, dotted_path, parse_path, select
from handoffaudit.validation.text import clean, show, type_name


class BusinessRuleType(StrEnum):
    REQUIRED = "required"
    RANGE = "range"
    INVARIANT = "invariant"
    CROSS_CHECK = "cross_check"


class Operator(StrEnum):
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not_in"
    BETWEEN = "between"


MOST_CONDITIONS = 10


class Condition(BaseModel):
    """A comparison of a field with the value at `compare_field`, or, if `compare_field` is None, with `threshold`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    operator: Operator
    threshold: Any = None
    compare_field: str | None = None


class AllConditions(BaseModel):
    """A list of conditions that must all be met."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    all: list[Condition] = Field(min_length=1, max_length=MOST_CONDITIONS)


class AnyCondition(BaseModel):
    """A list of conditions of which at least one must be met."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    any: list[Condition] = Field(min_length=1, max_length=MOST_CONDITIONS)


def _kind(given: object) -> str:
    for kind in ("all", "any"):
        if (isinstance(given, dict) and kind in given) or hasattr(given, kind):
            return kind
    return "one"


When = Annotated[
    Annotated[Condition, Tag("one")] | Annotated[AllConditions, Tag("all")] | Annotated[AnyCondition, Tag("any")],
    Discriminator(_kind),
]
"""The condition of a rule. A list holds only plain conditions, so that the dashboard's form can show every `when`."""


class BusinessRule(BaseModel):
    """A rule for the data of a handoff type.

    `field` and `compare_field` are dotted paths into the data. Every value at `field` must satisfy the rule: the value
    is compared with the value at `compare_field`, or, if `compare_field` is None, with `threshold`. `operator` is
    ignored if the type of the rule is `required`. The rule applies to the types in `output_types`, or to all types if
    `output_types` is None, and only if `when` is met or None.
    """

    model_config = ConfigDict(frozen=True)

    rule_id: str
    name: str
    description: str = ""
    rule_type: BusinessRuleType
    field: str
    operator: Operator | None = None
    threshold: Any = None
    severity: Severity = Severity.ERROR
    enabled: bool = True
    output_types: list[str] | None = None
    compare_field: str | None = None
    when: When | None = None
    metadata: dict[str, Any] = Field(default_factory=dict)

    def is_for(self, output_type: str) -> bool:
        return self.output_types is None or output_type in self.output_types


class BusinessRuleSet(BaseModel):
    """A named, versioned set of rules."""

    model_config = ConfigDict(frozen=True)

    set_id: str
    name: str
    version: int = 1
    rules: list[BusinessRule] = Field(default_factory=list)

    @property
    def active_rules(self) -> list[BusinessRule]:
        return [rule for rule in self.rules if rule.enabled]


def build_signal_rules() -> BusinessRuleSet:
    """Return the rules for a trading signal."""
    of_type = ["Signal"]
    return BusinessRuleSet(
        set_id="signal_validation_v1",
        name="Signals",
        rules=[
            BusinessRule(
                rule_id="confidence_range",
                name="The confidence is between 0 and 1",
                rule_type=BusinessRuleType.RANGE,
                field="confidence",
                operator=Operator.BETWEEN,
                threshold=[0.0, 1.0],
                output_types=of_type,
            ),
            BusinessRule(
                rule_id="direction_valid",
                name="The direction is LONG, SHORT or FLAT",
                rule_type=BusinessRuleType.RANGE,
                field="direction",
                operator=Operator.IN,
                threshold=["LONG", "SHORT", "FLAT"],
                output_types=of_type,
            ),
            _build_required_rule("rationale_required", "A signal says why", "rationale", of_type),
        ],
    )


def build_cmt_rules() -> BusinessRuleSet:
    """Return the rules for a market assessment."""
    of_type = ["CMTAssessmentResponse"]
    return BusinessRuleSet(
        set_id="cmt_validation_v1",
        name="Assessments",
        rules=[
            _build_required_rule("thesis_required", "An assessment has a thesis", "thesis", of_type),
            BusinessRule(
                rule_id="system_health_valid",
                name="The health is green, amber or red",
                rule_type=BusinessRuleType.RANGE,
                field="system_health",
                operator=Operator.IN,
                threshold=["green", "amber", "red"],
                output_types=of_type,
            ),
            _build_required_rule("layers_non_empty", "An assessment has at least one layer", "layers", of_type),
        ],
    )


def _build_required_rule(rule_id: str, name: str, field: str, of_type: list[str]) -> BusinessRule:
    return BusinessRule(
        rule_id=rule_id, name=name, rule_type=BusinessRuleType.REQUIRED, field=field, output_types=of_type
    )


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

_DECIMAL: Final = re.compile(r"-?[0-9]{1,100}(?:\.[0-9]{1,100})?")

RELATIONS: Final[dict[Operator, str]] = {
    Operator.LT: "less than",
    Operator.LE: "at most",
    Operator.GT: "greater than",
    Operator.GE: "at least",
    Operator.EQ: "equal to",
    Operator.NE: "other than",
}


class CannotCompareError(Exception):
    """Raised if two values cannot be compared. The error text continues a sentence that begins with the field."""


def holds(operator: Operator | None, value: Any, against: Any, effort: StepBudget) -> bool:
    """Return whether `value` is in this relation to `against`.

    Raises CannotCompareError if the types do not allow the comparison or if there is no operator, and
    StepBudgetSpentError if the steps of `effort` are used up.
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
    if isinstance(value, str) and isinstance(other, str):
        # In the order of texts, "1000.00" is less than "200.50".
        are_numbers = _DECIMAL.fullmatch(value) and _DECIMAL.fullmatch(other)
        return compare(Decimal(value), Decimal(other)) if are_numbers else compare(value, other)
    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in (value, other)):
        return compare(value, other)
    raise CannotCompareError(f"is {_describe(value)}, which cannot be compared with {_describe(other)}")


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
    is met if one value meets the condition. If the path of the condition begins like the path of the rule, the
    condition is about the same item. Raises PathError for a path that cannot be read, and StepBudgetSpentError if the
    steps of `effort` are used up.
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
    """Yield the values that a rule or condition compares the value at `place` with, as pairs of dotted path and value.

    The path of a threshold is empty. A missing field yields nothing. Raises PathError for a path that cannot be read,
    and StepBudgetSpentError if the steps of `effort` are used up.
    """
    if one.compare_field is None:
        yield "", one.threshold
        return
    for where, value in select(data, bound(parse_path(one.compare_field), path, place), effort=effort):
        if value is not MISSING:
            yield dotted_path(where), value


def bound(other: Path, path: Path, place: Location) -> Path:
    """Return `other` with each `*` that it shares with `path` replaced by the item of `place`.

    In a rule for `layers.*.high`, `layers.*.low` therefore means the low of the same layer. `place` is shorter than
    `path` if the data has a plain value where the path expects a list or an object.
    """
    parts = list(other)
    for index, (mine, theirs, here) in enumerate(zip(path, other, place, strict=False)):
        if mine != theirs:
            break
        if mine is ANY:
            parts[index] = here
    return tuple(parts)


def when_text(when: When | None) -> str:
    """Return the condition as the end of a sentence, "when direction is LONG"; empty if the rule always applies."""
    joint = " or " if isinstance(when, AnyCondition) else " and "
    text = joint.join(_text(one) for one in conditions_of(when))
    return f"when {text}" if text else ""


def _text(one: Condition) -> str:
    against = clean(one.compare_field or threshold_text(one.operator, one.threshold), _LONGEST_VALUE)
    return " ".join(filter(None, (clean(one.field, _LONGEST_VALUE), "is", _RELATIONS[one.operator], against)))
