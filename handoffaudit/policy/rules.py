"""Sets of business rules, converted between plain values (JSON, forms) and the frozen values of the validation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from handoffaudit.policy import values
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy, PolicyError, Wrong
from handoffaudit.validation.business_rules import BusinessRuleSet, build_cmt_rules, build_signal_rules
from handoffaudit.validation.errors import ConfigError, InvalidConfigError
from handoffaudit.validation.rule_parser import MOST_SETS, parse_sets

HIGHEST_VERSION = 1_000_000

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
    """Return a changed set with the next version number after the current set; a new set keeps its own number."""
    return rules if in_force is None else rules.model_copy(update={"version": in_force.version + 1})


def parse_rule_sets(given: Iterable[Mapping[str, Any]]) -> tuple[BusinessRuleSet, ...]:
    """Parse all sets. Raise `InvalidPolicy`, which names every invalid value, its set and its place in the set."""
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
    """Return the sets by id.

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
