"""Sets of business rules: their parser, which reports every flaw of plain JSON, and their conversion to JSON."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError

from handoffaudit.policy import values
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy, PolicyError, Wrong
from handoffaudit.validation.business_rules import (
    MOST_CONDITIONS,
    AllConditions,
    AnyCondition,
    BusinessRule,
    BusinessRuleSet,
    BusinessRuleType,
    Condition,
    Operator,
    When,
    build_cmt_rules,
    build_signal_rules,
    conditions_of,
)
from handoffaudit.validation.errors import ConfigError, InvalidConfigError, config_error
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.paths import PathError, dotted_path, parse_path
from handoffaudit.validation.text import closest, either, show, type_name, unknown_field_hint

MOST_SETS = 50

MOST_RULES = 300

LONGEST_TEXT = 500

LARGEST_THRESHOLD = 20_000

HIGHEST_VERSION = 1_000_000

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_OF_CONDITIONS: tuple[type[BaseModel], ...] = (Condition, AllConditions, AnyCondition)

_WHEN = (
    'Write it as in {"field": "direction", "operator": "eq", "threshold": "LONG"}, or give a list of such conditions'
    ' under "all" or "any".'
)

# The expected value for each family of pydantic's errors, and the remedy.
_WANTED = {
    "model_": ("an object", "Give an object with its fields."),
    "dict_": ("an object", "Give an object."),
    "list_": ("a list", "Give a list."),
    "string_type": ("a text", "Give a text."),
    "bool_": ("true or false", "Give true or false."),
    "int_": ("a whole number", "Give a whole number."),
}

_ENTRIES = {"rules": "The rule", "all": "The condition", "any": "The condition"}

_CHOICES: dict[str, type[BusinessRuleType | Operator | Severity]] = {
    "rule_type": BusinessRuleType,
    "operator": Operator,
    "severity": Severity,
}

_PLACE = re.compile(r"\[(\d+)\]\.?(.*)", re.DOTALL)


def example_sets() -> tuple[BusinessRuleSet, ...]:
    """Return the example sets. An example set applies only after somebody adds the set to the tenant's rules."""
    return build_signal_rules(), build_cmt_rules()


def rule_set_to_plain(rules: BusinessRuleSet) -> dict[str, Any]:
    return rules.model_dump(mode="json")


def to_comparable(rules: BusinessRuleSet) -> dict[str, Any]:
    """Return the parts of a set that are compared between versions: its name, and its rules by id.

    The version number of the set is left out, because it changes whenever another part changes.
    """
    return {"name": rules.name, "rules": {rule.rule_id: rule.model_dump(mode="json") for rule in rules.rules}}


def number_version(rules: BusinessRuleSet, in_force: BusinessRuleSet | None) -> BusinessRuleSet:
    """Return a changed set with the next version number after the current set; a new set keeps its own number.

    A set that has the highest number keeps this number in all later versions.
    """
    if in_force is None:
        return rules
    return rules.model_copy(update={"version": min(in_force.version + 1, HIGHEST_VERSION)})


def parse_rule_sets(given: Iterable[Mapping[str, Any]]) -> tuple[BusinessRuleSet, ...]:
    """Parse all sets.

    Raise `InvalidPolicy`, which names up to `MOST_ERRORS` flaws, each with its set and its place in the set.
    """
    plain = list(given)
    try:
        values.can_be_kept(plain)
        sets = parse_sets(plain)
    except Wrong as wrong:
        raise InvalidPolicy([PolicyError("?", "", None, wrong.message, wrong.remedy)]) from wrong
    except InvalidConfigError as invalid:
        raise InvalidPolicy([_make_error(one, plain) for one in invalid.flaws[:MOST_ERRORS]]) from invalid
    return check_sets(sets)


def check_sets(sets: Iterable[BusinessRuleSet]) -> tuple[BusinessRuleSet, ...]:
    """Return the sets, sorted by id.

    Raise `InvalidPolicy` for repeated sets, too many sets, too much data, or a version out of range.
    """
    table = sorted(sets, key=lambda one: one.set_id)
    errors = values.find_repeated((one.set_id for one in table), "set")
    if len(table) > MOST_SETS:
        message = f"There are {len(table)} sets."
        errors.append(PolicyError(table[-1].set_id, "", len(table), message, f"Keep at most {MOST_SETS}."))
    for one in table:
        if not 1 <= one.version <= HIGHEST_VERSION:
            remedy = f"Use a whole number from 1 to {HIGHEST_VERSION:,}, or leave it out."
            errors.append(PolicyError(one.set_id, "version", one.version, "The version is out of range.", remedy))
    errors.extend(values.too_large({one.set_id: rule_set_to_plain(one) for one in table}))
    if errors:
        raise InvalidPolicy(errors)
    return tuple(table)


def _make_error(flaw: ConfigError, sets: Sequence[Any]) -> PolicyError:
    """Return the flaw as an error of its set: `[1].rules[2].field` is `rules[2].field` of the second set."""
    inside = _PLACE.fullmatch(flaw.place)
    if inside is None:
        return PolicyError("?", flaw.place, flaw.value, flaw.message, flaw.remedy)
    one = sets[int(inside[1])]
    name = one.get("set_id") if isinstance(one, Mapping) else None
    row = values.row_name(name) if name else f"set {int(inside[1]) + 1}"
    return PolicyError(row, inside[2], flaw.value, flaw.message, flaw.remedy)


def parse_sets(plain: object) -> tuple[BusinessRuleSet, ...]:
    """Return the rule sets of a list in plain JSON.

    Raises InvalidConfigError with the flaws of all sets and their places (`[0].rules[2].field`). Of a set with missing,
    unknown or wrongly typed fields, only these flaws are reported.
    """
    if not isinstance(plain, list):
        raise InvalidConfigError(
            [config_error("", plain, f"This is {type_name(plain)}, not a list of rule sets.", "Give a list.")]
        )
    if len(plain) > MOST_SETS:
        message = f"There are {len(plain):,} rule sets, over the limit of {MOST_SETS}."
        raise InvalidConfigError([config_error("", len(plain), message, "Put rules together into fewer sets.")])
    flaws: list[ConfigError] = []
    sets: dict[int, BusinessRuleSet] = {}
    for index, one in enumerate(plain):
        found = list(_set_flaws((index,), one))
        flaws.extend(found)
        if not found:
            sets[index] = BusinessRuleSet.model_validate(one)
    flaws.extend(_find_repeated_ids([(f"[{index}].set_id", one.set_id) for index, one in sets.items()], "set"))
    if flaws:
        raise InvalidConfigError(flaws)
    return tuple(sets.values())


def _set_flaws(place: tuple[str | int, ...], plain: object) -> Iterator[ConfigError]:
    shape = list(_shape_flaws(place, plain, BusinessRuleSet))
    if shape or not isinstance(plain, dict):
        yield from shape
        return
    yield from _id_flaws(place, "set_id", plain["set_id"])
    yield from _text_flaws(place, plain, ("name",))
    rules = plain.get("rules", [])
    if len(rules) > MOST_RULES:
        message = f"The set has {len(rules):,} rules, over the limit of {MOST_RULES}."
        yield config_error(dotted_path((*place, "rules")), len(rules), message, "Split it into several sets.")
        return
    for index, rule in enumerate(rules):
        yield from _rule_flaws((*place, "rules", index), rule)
    ids = [(dotted_path((*place, "rules", index, "rule_id")), rule["rule_id"]) for index, rule in enumerate(rules)]
    yield from _find_repeated_ids(ids, "rule")


def _shape_flaws(
    place: tuple[str | int, ...], plain: object, model: type[BusinessRuleSet | BusinessRule]
) -> Iterator[ConfigError]:
    """Yield missing, unknown and wrongly typed fields of a set with all its rules, or of a rule."""
    if isinstance(plain, dict):
        yield from _find_unknown_fields(place, plain, model)
        rules = plain.get("rules") if model is BusinessRuleSet else None
        for index, rule in enumerate(rules if isinstance(rules, list) else []):
            if isinstance(rule, dict):
                yield from _find_unknown_fields((*place, "rules", index), rule, BusinessRule)
                yield from _find_unknown_condition_fields((*place, "rules", index, "when"), rule.get("when"))
    try:
        model.model_validate(plain)
    except ValidationError as error:
        for one in error.errors(include_url=False, include_context=False):
            where = (*place, *_without_tag(one["loc"]))
            # `_find_unknown_fields` reports this flaw, together with the closest known name.
            if one["type"] == "extra_forbidden":
                continue
            yield config_error(
                dotted_path(where), one["input"], *_describe_flaw(where, one["type"], one["msg"], one["input"])
            )


def _without_tag(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the location in the JSON for the location of a pydantic error.

    Pydantic inserts the kind of the condition after `when`.
    """
    at = location.index("when") + 1 if "when" in location else len(location)
    return (*location[:at], *location[at + 1 :])


def _find_unknown_condition_fields(place: tuple[str | int, ...], when: object) -> Iterator[ConfigError]:
    """Yield the unknown fields of a condition, or of the conditions of a list."""
    if not isinstance(when, dict):
        return
    kind = next((name for name in ("all", "any") if name in when), None)
    if kind is None:
        yield from _find_unknown_fields(place, when, Condition)
        return
    yield from _find_unknown_fields(place, when, AllConditions if kind == "all" else AnyCondition)
    for index, one in enumerate(when[kind] if isinstance(when[kind], list) else []):
        if isinstance(one, dict):
            yield from _find_unknown_fields((*place, kind, index), one, Condition)


def _find_unknown_fields(
    place: tuple[str | int, ...], plain: dict[str, Any], model: type[BaseModel]
) -> Iterator[ConfigError]:
    what = "condition" if model in _OF_CONDITIONS else "rule set" if model is BusinessRuleSet else "rule"
    for key, value in plain.items():
        if key not in model.model_fields:
            remove = f"Remove it; use only {either(model.model_fields)}."
            remedy, _ = unknown_field_hint(key, model.model_fields, plain, remove)
            yield config_error(dotted_path((*place, key)), value, f"{show(key)} is not a field of a {what}.", remedy)


def _describe_flaw(where: tuple[str | int, ...], kind: str, message: str, value: object) -> tuple[str, str]:
    name = _name(where)
    if kind == "missing":
        return f"{name} is missing.", f"Add {name}."
    if name in _CHOICES:
        options = [one.value for one in _CHOICES[name]]
        near = closest(value, options)
        return f"{name} is {show(value)}.", f"Use {near}." if near else f"Use one of {either(options)}."
    if kind == "too_short":
        return f"{name} has no entries.", "Give at least one condition, or leave out when."
    if kind == "too_long" and isinstance(value, list):
        return (
            f"{name} has {len(value):,} entries, over the limit of {MOST_CONDITIONS}.",
            "Split the rule into several.",
        )
    for family, (wanted, remedy) in _WANTED.items():
        if kind.startswith(family):
            return f"{name} is {show(value)}, not {wanted}.", _WHEN if where[-1] == "when" else remedy
    return f"{name} is {show(value)}, which cannot be used.", f"{message}."


def _name(where: tuple[str | int, ...]) -> str:
    """Return the name of a field, or the kind of a list entry."""
    if isinstance(where[-1], str):
        return where[-1]
    return "The rule set" if len(where) == 1 else _ENTRIES.get(str(where[-2]), "The entry")


def _id_flaws(place: tuple[str | int, ...], name: str, value: str) -> Iterator[ConfigError]:
    if not _ID.fullmatch(value):
        message = f"{name} is {show(value)}, which is not a valid id."
        remedy = "Use letters, digits, _, - and dots, at most 64, beginning with a letter or digit."
        yield config_error(dotted_path((*place, name)), value, message, remedy)


def _text_flaws(place: tuple[str | int, ...], plain: dict[str, Any], names: tuple[str, ...]) -> Iterator[ConfigError]:
    for name in names:
        if len(plain.get(name, "")) > LONGEST_TEXT:
            message = f"{name} is longer than {LONGEST_TEXT} characters."
            yield config_error(dotted_path((*place, name)), plain[name], message, "Shorten it.")


def _find_repeated_ids(ids: list[tuple[str, str]], what: str) -> Iterator[ConfigError]:
    seen: set[str] = set()
    for place, one in ids:
        if one in seen:
            yield config_error(place, one, f"Another {what} has the id {show(one)}.", "Give each one a unique id.")
        seen.add(one)


def _rule_flaws(place: tuple[str | int, ...], plain: dict[str, Any]) -> Iterator[ConfigError]:
    rule = BusinessRule.model_validate(plain)
    yield from _id_flaws(place, "rule_id", rule.rule_id)
    yield from _text_flaws(place, plain, ("name", "description"))
    yield from _path_flaws(place, rule)
    for where, one in _locate_conditions(rule.when):
        yield from _path_flaws((*place, *where), one)
        if one.compare_field is None:
            given = "threshold" in one.model_fields_set
            yield from _threshold_flaws((*place, *where), one, given=given)
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return
    if rule.operator is None:
        message = f"A rule of type {rule.rule_type.value} compares values, but names no operator."
        yield config_error(
            dotted_path((*place, "operator")), None, message, f"Add one of {either(one.value for one in Operator)}."
        )
    elif rule.compare_field is None:
        yield from _threshold_flaws(place, rule, given="threshold" in plain)


def _locate_conditions(when: When | None) -> Iterator[tuple[tuple[str | int, ...], Condition]]:
    """Yield the conditions of a rule, each with its location in the rule."""
    kind = "all" if isinstance(when, AllConditions) else "any" if isinstance(when, AnyCondition) else None
    for index, one in enumerate(conditions_of(when)):
        yield ("when", kind, index) if kind else ("when",), one


def _path_flaws(place: tuple[str | int, ...], one: BusinessRule | Condition) -> Iterator[ConfigError]:
    for name, path in (("field", one.field), ("compare_field", one.compare_field)):
        if path is None:
            continue
        try:
            parse_path(path)
        except PathError as error:
            yield config_error(dotted_path((*place, name)), path, str(error), 'Write it as in "layers.*.score".')


def _threshold_flaws(
    place: tuple[str | int, ...], rule: BusinessRule | Condition, *, given: bool
) -> Iterator[ConfigError]:
    where, value = dotted_path((*place, "threshold")), rule.threshold
    if isinstance(rule, BusinessRule) and rule.rule_type is BusinessRuleType.INVARIANT:
        message = "An invariant compares two fields, but the rule names only one."
        yield config_error(
            dotted_path((*place, "compare_field")), None, message, "Add compare_field, or make it a range."
        )
    elif not given:
        what = "rule" if isinstance(rule, BusinessRule) else "condition"
        message = f"The {what} has nothing to compare with."
        yield config_error(where, None, message, "Add a threshold, or a compare_field.")
    elif len(orjson.dumps(value, default=str)) > LARGEST_THRESHOLD:
        yield config_error(
            where, None, f"The threshold is larger than {LARGEST_THRESHOLD:,} bytes.", "Use a shorter one."
        )
    else:
        problem = _threshold_problem(rule.operator, value)
        if problem:
            yield config_error(where, value, *problem)


def _threshold_problem(operator: Operator | None, value: Any) -> tuple[str, str] | None:
    match operator:
        case Operator.IN | Operator.NOT_IN if not isinstance(value, list) or not value:
            return (
                f"{operator.value} needs a list, but the threshold is {type_name(value)}.",
                "Give a list of values.",
            )
        case Operator.BETWEEN if not isinstance(value, list) or len(value) != 2:
            return "between has two limits, lowest and highest.", "Give a list of the two, as in [0, 1]."
        case Operator.BETWEEN if not _comparable(value[0], value[1]):
            return f"The limits are {type_name(value[0])} and {type_name(value[1])}.", "Give two numbers or two texts."
        case Operator.BETWEEN if value[0] > value[1]:
            return "The lowest limit is above the highest.", f"Write [{show(value[1])}, {show(value[0])}]."
        case Operator.LT | Operator.LE | Operator.GT | Operator.GE if not _comparable(value, value):
            return f"{operator.value} cannot compare with {type_name(value)}.", "Give a number or a text."
    return None


def _comparable(left: Any, right: Any) -> bool:
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in (left, right))
    return numbers or (isinstance(left, str) and isinstance(right, str))
