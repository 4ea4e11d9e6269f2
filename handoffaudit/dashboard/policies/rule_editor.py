"""The editor of one business rule with its thresholds and conditions."""

import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.http import QueryDict
from django.utils.text import slugify

from handoffaudit.dashboard.policies.forms import Field, form_values, line_of, lines_of, menu, read_json, text_of
from handoffaudit.dashboard.policies.labels import MATCHES, OPERATORS, RULE_HELP, RULE_NAMES, SEVERITIES, TYPES
from handoffaudit.dashboard.policies.rule_sets import JsonEditor, RulesDraft, SetEditor, Sets
from handoffaudit.policy.rules import rule_set_to_plain
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.validation.business_rules import (
    MOST_CONDITIONS,
    AnyCondition,
    BusinessRule,
    BusinessRuleType,
    Condition,
    Operator,
    When,
    conditions_of,
)

MATCH = "when_match"

_PARTS = ("field", "operator", "threshold", "compare_field")

_FEWEST_ROWS = 2

_HELP = {
    "field": "a path into the data; a condition with four empty fields is left out",
    "operator": "",
    "threshold": RULE_HELP["threshold"],
    "compare_field": RULE_HELP["compare_field"],
}

_IN_LIST = re.compile(r"\.(?:all|any)\[(\d+)\](.*)", re.DOTALL)

_LOOKS_LIKE_JSON = re.compile(r"[\[{\"]")

CONDITION_INPUTS = (
    MATCH,
    *(f"when_{part}_{row}" for row in range(1, MOST_CONDITIONS + 1) for part in _PARTS),
)


def read_threshold(text: str) -> Any:
    """Parse a threshold from an input: JSON or plain text; raise ValueError for broken JSON."""
    try:
        return read_json(text)
    except ValueError:
        if not _LOOKS_LIKE_JSON.match(text):
            return text
        raise


def threshold_text(one: BusinessRule | Condition) -> str:
    """Return a threshold as text for an input, with quotes around a string that would parse as another value.

    Null is a threshold only if the rule or the condition compares its field with the threshold.
    """
    value = one.threshold
    is_required = isinstance(one, BusinessRule) and one.rule_type is BusinessRuleType.REQUIRED
    if value is None and (is_required or one.operator is None or one.compare_field is not None):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) or value != value.strip() or not value or _LOOKS_LIKE_JSON.match(value):
        return text
    try:
        read_json(value)
    except ValueError:
        return value
    return text


def condition_values(when: When | None) -> dict[str, str]:
    """Return the values of the inputs for these conditions."""
    values = dict.fromkeys(CONDITION_INPUTS, "")
    values[MATCH] = "any" if isinstance(when, AnyCondition) else "all"
    for row, one in enumerate(conditions_of(when), 1):
        values[f"when_field_{row}"] = one.field
        values[f"when_operator_{row}"] = one.operator.value
        values[f"when_threshold_{row}"] = threshold_text(one)
        values[f"when_compare_field_{row}"] = one.compare_field or ""
    return values


def read_conditions(values: Mapping[str, str]) -> dict[str, Any] | None:
    """Return `when` as plain values, or None if no row is filled in; raise BadThresholdError for broken JSON."""
    conditions = [_read_row(values, row) for row in _list_filled_conditions(values)]
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    # Any other word than `all` and `any` is refused when the rule is parsed.
    return {values[MATCH] or "all": conditions}


class BadThresholdError(ValueError):
    """An error for a condition's threshold that is broken JSON; `name` is the name of its input."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name


def _list_filled_conditions(values: Mapping[str, str]) -> list[int]:
    return [row for row in range(1, MOST_CONDITIONS + 1) if any(values[f"when_{part}_{row}"] for part in _PARTS)]


def _read_row(values: Mapping[str, str], row: int) -> dict[str, Any]:
    given = {part: values[f"when_{part}_{row}"] for part in _PARTS}
    plain: dict[str, Any] = {"field": given["field"], "operator": given["operator"] or None}
    if given["compare_field"]:
        plain["compare_field"] = given["compare_field"]
    if given["threshold"]:
        try:
            plain["threshold"] = read_threshold(given["threshold"])
        except ValueError as error:
            raise BadThresholdError(f"when_threshold_{row}", str(error)) from error
    return plain


def input_at(values: Mapping[str, str], where: str) -> tuple[str, str]:
    """Return the name of the input for a place inside `when`, and the rest of the place, inside the input's value.

    `.all[1].threshold[0]` is `[0]` inside the threshold of the second filled row. A place without an input of its own
    belongs to the input that says how the conditions combine.
    """
    filled = _list_filled_conditions(values)
    in_list = _IN_LIST.fullmatch(where)
    index, inside = (int(in_list[1]), in_list[2]) if in_list else (0, where)
    name, _, rest = inside.removeprefix(".").partition("[")
    if name in _PARTS and index < len(filled):
        return f"when_{name}_{filled[index]}", f"[{rest}" if rest else ""
    return MATCH, ""


def condition_groups(values: Mapping[str, str], errors: Mapping[str, str]) -> Iterator[tuple[str, list[Field]]]:
    """Yield titled groups of inputs: how the conditions combine, then one group for each row.

    There are all rows up to the last filled row, and one empty row after it, but at least two and at most
    `MOST_CONDITIONS` rows.
    """
    match = Field(
        name=MATCH,
        label=RULE_NAMES[MATCH],
        help=RULE_HELP[MATCH],
        value=values[MATCH],
        error=errors.get(MATCH, ""),
        choices=menu(MATCHES),
    )
    yield "When it applies", [match]
    rows = max(_FEWEST_ROWS, max(_list_filled_conditions(values), default=0) + 1)
    for row in range(1, min(rows, MOST_CONDITIONS) + 1):
        yield f"Condition {row}", [_row_field(part, f"when_{part}_{row}", values, errors) for part in _PARTS]


def _row_field(part: str, name: str, values: Mapping[str, str], errors: Mapping[str, str]) -> Field:
    return Field(
        name=name,
        label=RULE_NAMES[part],
        help=_HELP[part],
        value=values[name],
        error=errors.get(name, ""),
        choices=menu(OPERATORS) if part == "operator" else None,
        is_code=part != "operator",
    )


MENUS = {"rule_type": menu(TYPES), "operator": menu(OPERATORS), "severity": menu(SEVERITIES)}

TEXTS = ("rule_id", "name", "field", "compare_field", "rule_type", "operator", "severity", "threshold")

GROUPS = {
    "What must hold": ("field", "rule_type", "operator", "threshold", "compare_field"),
    "Severity and handoff types": ("severity", "output_types", "enabled"),
    "For people": ("name", "rule_id", "description"),
}

REQUIRED = ("rule_id", "name", "field")

_LONGEST_PROPOSED = 50

_MINE = re.compile(r"rules\[(\d+)\]\.([a-z_]+)(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Group:
    """A titled group of inputs."""

    title: str
    fields: list[Field]


@dataclass(kw_only=True)
class RuleEditor(RulesDraft):
    """The editor of one rule.

    `rule_id` is the id of the edited rule, empty for a new rule. `values` holds the texts of the fields.
    """

    noun = "rule"
    offers_types = True
    rule_id: str
    values: dict[str, Any]
    place: int = field(default=-1, init=False)

    @property
    def edited_row(self) -> str:
        return self.rule_id

    @property
    def gone_text(self) -> str:
        return f"The rule {self.rule_id} was deleted. Save to add it again."

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
                [PolicyError(self.set_id, "", None, f"The set {self.set_id} no longer exists.", remedy)]
            )
        places = [index for index, rule in enumerate(mine["rules"]) if rule["rule_id"] == self.rule_id]
        self.gone = bool(self.rule_id) and not places
        self.place = places[0] if places else len(mine["rules"])
        before = mine["rules"][self.place] if places else {}
        if self.is_new and not self.values["rule_id"]:
            taken = {rule["rule_id"] for one in sets for rule in one["rules"]}
            self.values["rule_id"] = _propose_id(self.values["name"], taken)
        rule = self._read() | {"metadata": before.get("metadata", {})}
        # In the form, an empty list can mean all types or no type. A rule for no type must not become a rule for all.
        if not rule["output_types"] and before.get("output_types") == []:
            rule["output_types"] = []
        mine["rules"][self.place : self.place + 1] = [rule]
        return sets

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            inside = _MINE.fullmatch(error.field)
            mine = inside and error.row == self.set_id and int(inside[1]) == self.place
            if inside and mine and inside[2] == "when":
                name, where = input_at(self.values, inside[3])
                self.keep(name, error, where)
            elif inside and mine and inside[2] in RULE_NAMES:
                self.keep(inside[2], error, inside[3])
            else:
                self.keep(error.field if error.field in (*RULE_NAMES, *CONDITION_INPUTS) else "", error)

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
        remedy = 'Write JSON, or a text that does not begin with [, { or ".'
        return InvalidPolicy([PolicyError(self.set_id, name, self.values[name], str(error), remedy)])

    def _field(self, name: str) -> Field:
        return Field(
            name=name,
            label=RULE_NAMES[name],
            help=f"{RULE_HELP[name]}; left empty, the id is made from the name"
            if name == "rule_id" and self.is_new
            else RULE_HELP[name],
            value=self.values[name],
            error=self.errors.get(name, ""),
            choices=MENUS.get(name),
            is_switch=name == "enabled",
            is_code=name in ("rule_id", "field", "compare_field", "threshold", "output_types"),
            height=2 if name == "output_types" else 0,
            required=name in REQUIRED and not (name == "rule_id" and self.is_new),
        )


def _propose_id(name: str, taken: Collection[str]) -> str:
    """Return an unused id made from a rule's name; an empty string if `slugify` leaves nothing of the name."""
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
    values["threshold"] = threshold_text(rule)
    values |= condition_values(rule.when)
    values |= {"output_types": "\n".join(plain["output_types"] or ()), "enabled": plain["enabled"]}
    return RuleEditor(base_version=now.version, set_id=set_id, rule_id=rule.rule_id, values=values)


def editor_from(given: QueryDict) -> Editor:
    """Return an editor with the values of a submitted form; the field `editor` names the kind of editor."""
    kind = given.get("editor", "")
    if kind == "json":
        return JsonEditor(text=text_of(given, "text"), **form_values(given))
    set_id = line_of(given, "set")
    if kind == "set":
        return SetEditor(
            set_id=set_id, new_id=line_of(given, "set_id").strip(), name=line_of(given, "name"), **form_values(given)
        )
    values: dict[str, Any] = {name: line_of(given, name).strip() for name in (*TEXTS, *CONDITION_INPUTS)}
    values["threshold"] = text_of(given, "threshold").strip()
    values |= {"description": line_of(given, "description"), "output_types": text_of(given, "output_types")}
    values["enabled"] = "enabled" in given
    return RuleEditor(set_id=set_id, rule_id=line_of(given, "rule"), values=values, **form_values(given))
