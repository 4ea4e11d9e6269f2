"""The editor of one rule; and which editor of the rules page a form came from."""

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.text import slugify

from handoffaudit.dashboard.policies.drafts import line_of, lines_of, sent, text_of
from handoffaudit.dashboard.policies.fields import Field, menu
from handoffaudit.dashboard.policies.rules.inputs import (
    CONDITION_INPUTS,
    BadThresholdError,
    condition_groups,
    condition_values,
    input_at,
    read_conditions,
    read_threshold,
    threshold_text,
)
from handoffaudit.dashboard.policies.rules.sets import JsonEditor, RulesDraft, SetEditor, Sets
from handoffaudit.dashboard.policies.rules.words import HELP, NAMES, OPERATORS, SEVERITIES, TYPES
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.rules import rule_set_to_plain
from handoffaudit.validation.business_rules.rules import BusinessRule, BusinessRuleType, Operator

MENUS = {"rule_type": menu(TYPES), "operator": menu(OPERATORS), "severity": menu(SEVERITIES)}
TEXTS = ("rule_id", "name", "field", "compare_field", "rule_type", "operator", "severity", "threshold")
GROUPS = {
    "What must hold": ("field", "rule_type", "operator", "threshold", "compare_field"),
    "For which, and how grave": ("severity", "output_types", "enabled"),
    "For people": ("name", "rule_id", "description"),
}
REQUIRED = ("rule_id", "name", "field")
_LONGEST_PROPOSED = 50
_MINE = re.compile(r"rules\[(\d+)\]\.([a-z_]+)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """Inputs that belong together."""

    title: str
    fields: list[Field]


@dataclass(kw_only=True)
class RuleEditor(RulesDraft):
    """`rule_id`: of the rule edited, empty for a new one. `values`: what stands in the fields, as text."""

    noun = "rule"
    offers_types = True
    rule_id: str
    values: dict[str, Any]
    place: int = field(default=-1, init=False)

    @property
    def is_new(self) -> bool:
        return not self.rule_id

    @property
    def may_delete(self) -> bool:
        return bool(self.rule_id) and not self.gone

    @property
    def gone_text(self) -> str:
        return f"The rule {self.rule_id} was deleted. Saving yours brings it back."

    @property
    def groups(self) -> list[Group]:
        groups = [Group(title, [self._field(name) for name in names]) for title, names in GROUPS.items()]
        conditions = [Group(title, fields) for title, fields in condition_groups(self.values, self.errors)]
        return [groups[0], *conditions, *groups[1:]]

    def plain(self, now: Sets) -> list[dict[str, Any]]:
        sets = [rule_set_to_plain(one) for one in now.rows]
        mine = next((one for one in sets if one["set_id"] == self.set_id), None)
        if mine is None:
            remedy = "Add the set again, or cancel."
            raise InvalidPolicy(
                [PolicyError(self.set_id, "", None, f"There is no set {self.set_id} any more.", remedy)]
            )
        places = [index for index, rule in enumerate(mine["rules"]) if rule["rule_id"] == self.rule_id]
        self.gone = bool(self.rule_id) and not places
        self.place = places[0] if places else len(mine["rules"])
        kept = mine["rules"][self.place]["metadata"] if places else {}
        if self.is_new and not self.values["rule_id"]:
            taken = {rule["rule_id"] for one in sets for rule in one["rules"]}
            self.values["rule_id"] = _proposed(self.values["name"], taken)
        mine["rules"][self.place : self.place + 1] = [self._read() | {"metadata": kept}]
        return sets

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            inside = _MINE.fullmatch(error.field)
            mine = inside and error.row == self.set_id and int(inside[1]) == self.place
            if inside and mine and inside[2] == "when":
                name, where = input_at(self.values, inside[3])
                self.keep(name, error, where)
            elif inside and mine and inside[2] in NAMES:
                self.keep(inside[2], error, inside[3])
            else:
                self.keep(error.field if error.field in (*NAMES, *CONDITION_INPUTS) else "", error)

    def _read(self) -> dict[str, Any]:
        given = self.values
        types = lines_of(given["output_types"])
        rule = {name: given[name] for name in ("rule_id", "name", "field", "rule_type", "severity", "description")}
        rule |= {"enabled": given["enabled"], "output_types": types or None}
        rule["operator"] = given["operator"] or None
        rule["compare_field"] = given["compare_field"] or None
        try:
            if given["threshold"]:
                rule["threshold"] = read_threshold(given["threshold"])
            rule["when"] = read_conditions(given)
        except BadThresholdError as error:
            raise self._bad_json(error.name, error) from error
        except ValueError as error:
            raise self._bad_json("threshold", error) from error
        return rule

    def _bad_json(self, name: str, error: ValueError) -> InvalidPolicy:
        remedy = "Write JSON, or a text without the signs of JSON at its beginning."
        return InvalidPolicy([PolicyError(self.set_id, name, self.values[name], str(error), remedy)])

    def _field(self, name: str) -> Field:
        return Field(
            name=name,
            label=NAMES[name],
            help=f"{HELP[name]}; left empty, it is made of the name"
            if name == "rule_id" and self.is_new
            else HELP[name],
            value=self.values[name],
            error=self.errors.get(name, ""),
            choices=MENUS.get(name),
            is_switch=name == "enabled",
            is_code=name in ("rule_id", "field", "compare_field", "threshold", "output_types"),
            height=2 if name == "output_types" else 0,
            required=name in REQUIRED and not (name == "rule_id" and self.is_new),
        )


def _proposed(name: str, taken: Collection[str]) -> str:
    """An id made of a rule's name; empty where that has no letter or digit for one."""
    base = slugify(name).replace("-", "_").strip("_")[:_LONGEST_PROPOSED].rstrip("_")
    more = (f"{base}_{number}" for number in itertools.count(2))
    return base if not base or base not in taken else next(one for one in more if one not in taken)


Editor = RuleEditor | SetEditor | JsonEditor


def new_rule(now: Sets, set_id: str) -> RuleEditor:
    empty = dict.fromkeys((*TEXTS, "description", "output_types"), "")
    usual = {"rule_type": BusinessRuleType.RANGE.value, "operator": Operator.LE.value, "severity": "error"}
    return RuleEditor(
        base_version=now.version,
        set_id=set_id,
        rule_id="",
        values={**empty, **usual, **condition_values(None), "enabled": True},
    )


def rule_editor(now: Sets, set_id: str, rule: BusinessRule) -> RuleEditor:
    plain = rule.model_dump(mode="json")
    values = {name: plain[name] or "" for name in (*TEXTS, "description")}
    values["threshold"] = threshold_text(plain["threshold"])
    values |= condition_values(rule.when)
    values |= {"output_types": "\n".join(plain["output_types"] or ()), "enabled": plain["enabled"]}
    return RuleEditor(base_version=now.version, set_id=set_id, rule_id=rule.rule_id, values=values)


def editor_from(given: QueryDict) -> Editor:
    """What a person sent; the field `editor` says from which one."""
    kind = given.get("editor", "")
    if kind == "json":
        return JsonEditor(text=text_of(given, "text"), **sent(given))
    set_id = line_of(given, "set")
    if kind == "set":
        return SetEditor(
            set_id=set_id, new_id=line_of(given, "set_id").strip(), name=line_of(given, "name"), **sent(given)
        )
    values: dict[str, Any] = {name: line_of(given, name).strip() for name in (*TEXTS, *CONDITION_INPUTS)}
    values["threshold"] = text_of(given, "threshold").strip()
    values |= {"description": line_of(given, "description"), "output_types": text_of(given, "output_types")}
    values["enabled"] = "enabled" in given
    return RuleEditor(set_id=set_id, rule_id=line_of(given, "rule"), values=values, **sent(given))
