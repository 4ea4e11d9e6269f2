"""Labels of business rules and of LLM prompts: names, help and changes."""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from handoffaudit.dashboard.policies.forms import Line, format_optional, format_path, format_value
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.policy.prompts import PromptModel
from handoffaudit.policy.versions import WHOLE_ROW, Change
from handoffaudit.validation.business_rules import (
    BusinessRule,
    BusinessRuleType,
    Operator,
    When,
    threshold_text,
    when_text,
)
from handoffaudit.validation.issues import Severity
from handoffaudit.validation.prompts.question import FRAME, Use, answer_name, default_prompt, prompt

LONGEST_RULE_NAME = 120

LONGEST_PATH = 80

LONGEST_RULE_TEXT = 800

MOST_NAMED = 5

RULE_NAMES = {
    "rule_id": "Id",
    "name": "Name",
    "description": "Description",
    "rule_type": "Type",
    "field": "Field",
    "operator": "Comparison",
    "threshold": "Threshold",
    "compare_field": "Compared field",
    "when_match": "Applies when",
    "severity": "Severity",
    "output_types": "Handoff types",
    "enabled": "Enabled",
}

RULE_HELP = {
    "rule_id": "letters, digits, _, - and dots; part of the rule code of its findings",
    "name": "the requirement in words, e.g. The price is within the limit",
    "description": "for people; optional",
    "field": "a path into the data: layers.*.score, targets[0]",
    "rule_type": "an invariant always compares two fields",
    "operator": 'ignored if the type is "required"',
    "threshold": 'JSON or a plain text: 100, ["LONG", "SHORT"], [0, 1], LONG',
    "compare_field": "the path of another value to compare with, instead of a threshold",
    "when_match": "a rule without conditions always applies; a condition whose field is missing is not met",
    "severity": "of the finding if the rule is broken; error and critical reject the handoff",
    "output_types": "one type per line; empty: all types",
    "enabled": "a disabled rule is kept but not checked",
}

TYPES = {
    BusinessRuleType.REQUIRED: "is present and not empty",
    BusinessRuleType.RANGE: "compared with a threshold",
    BusinessRuleType.INVARIANT: "compared with another field",
    BusinessRuleType.CROSS_CHECK: "compared with a threshold or another field",
}

OPERATORS = {
    "": "none",
    Operator.LT: "less than",
    Operator.LE: "at most",
    Operator.GT: "more than",
    Operator.GE: "at least",
    Operator.EQ: "equal to",
    Operator.NE: "other than",
    Operator.IN: "one of a list",
    Operator.NOT_IN: "none of a list",
    Operator.BETWEEN: "between two limits, inclusive",
}

MATCHES = {"all": "all of these conditions are met", "any": "any of these conditions is met"}

SEVERITIES = {severity.value: "" for severity in Severity}

_WHEN: TypeAdapter[When] = TypeAdapter(When)

_SAID = {
    Operator.LT: "must be less than",
    Operator.LE: "must be at most",
    Operator.GT: "must be more than",
    Operator.GE: "must be at least",
    Operator.EQ: "must be",
    Operator.NE: "must not be",
    Operator.IN: "must be one of",
    Operator.NOT_IN: "must not be one of",
    Operator.BETWEEN: "must be between",
}


def subject(rule: BusinessRule) -> str:
    """Return the field that the rule checks."""
    path = cut(rule.field, LONGEST_PATH)
    return f"every {path}" if "*" in rule.field else path


def demand(rule: BusinessRule) -> str:
    """Return the requirement on the field."""
    if rule.rule_type is BusinessRuleType.REQUIRED:
        return "must be present and not empty"
    if rule.operator is None:
        return "must hold"
    said = _SAID[rule.operator]
    if rule.compare_field is not None:
        return f"{said} the value of {cut(rule.compare_field, LONGEST_PATH)}"
    return f"{said} {cut(threshold_text(rule.operator, rule.threshold), LONGEST_RULE_TEXT)}"


def condition(rule: BusinessRule) -> str:
    """Return the condition under which the rule applies; empty if the rule always applies."""
    return cut(when_text(rule.when), LONGEST_RULE_TEXT)


def sentence(rule: BusinessRule) -> str:
    return " ".join(filter(None, (subject(rule), demand(rule), condition(rule))))


def types(rule: BusinessRule) -> str:
    """Describe the handoff types that the rule applies to."""
    if rule.output_types is None:
        return "all types"
    shown = ", ".join(cut(name, LONGEST_PATH) for name in rule.output_types[:MOST_NAMED])
    more = len(rule.output_types) - MOST_NAMED
    return (shown or "no type") + (f" and {more} more" if more > 0 else "")


def rule_lines(changes: Iterable[Change]) -> list[Line]:
    return [_line(change) for change in changes]


def _line(change: Change) -> Line:
    name = cut(change.row, LONGEST_RULE_NAME)
    if change.field == WHOLE_ROW:
        return Line(name, "set", _set(change.old), _set(change.new))
    inside = change.field.removeprefix("rules").removeprefix(".")
    if change.field == "name":
        return Line(name, "name", format_value(change.old), format_value(change.new))
    old, new = _rule(change.old), _rule(change.new)
    if old or new:
        return Line(name, f"rule {format_path(inside)}", old, new)
    return Line(name, f"rule {format_path(inside)}", _value(inside, change.old), _value(inside, change.new))


def _value(inside: str, value: Any) -> str | None:
    """Return one value of a rule as text; a whole condition in the words that the page uses."""
    if inside.endswith(".when") and isinstance(value, Mapping):
        return cut(when_text(_WHEN.validate_python(value)), LONGEST_RULE_TEXT)
    return format_value(value)


def _set(plain: Any) -> str | None:
    if not isinstance(plain, Mapping):
        return format_optional(plain)
    number = len(plain["rules"])
    return f"{cut(plain['name'], LONGEST_RULE_NAME)}, {number} rule{'' if number == 1 else 's'}"


def _rule(plain: Any) -> str | None:
    """Return a whole rule as a sentence; None if the value is not a rule."""
    if not isinstance(plain, Mapping) or "rule_type" not in plain:
        return None
    rule = BusinessRule.model_validate(plain)
    return f"{sentence(rule)}, {rule.severity.value}, {types(rule)}" + ("" if rule.enabled else ", off")


LONGEST_PROMPT_NAME = 60

LONGEST_PROMPT_TEXT = 300

LONGEST_CHANGE = 400

_TEXT = PromptModel.model_fields["text"]

PROMPT_NAMES = {"scope": "For", "name": "Name of the type or workflow", "text": str(_TEXT.title)}

PROMPT_HELP = {
    "name": "the handoff type or the workflow, as senders write it; one * in the name of a workflow matches any text",
    "text": f"{_TEXT.description} The text below is added to every prompt.",
}

ALL, TYPE, WORKFLOW = "all", "type", "workflow"

SCOPES = {ALL: "all handoffs", TYPE: "one handoff type", WORKFLOW: "one workflow"}

TITLES = {
    Use.GROUNDING: "Grounding check",
    Use.OBJECTIVE: "Objective check",
    Use.CRITIQUE: "Critique",
    Use.REPAIR: "Repair",
}

ASKS = {
    Use.GROUNDING: "Is the data supported by its context, made up, or contradictory? Asked about strict handoffs of "
    "all formats except delegation and claude-code.",
    Use.OBJECTIVE: "Does the deliverable meet the objective? Asked about strict delegations.",
    Use.CRITIQUE: "What speaks against acting on the handoff? Asked if Strictness says so.",
    Use.REPAIR: "What is the repaired document? Asked if no rule can repair it.",
}

GIVEN = {
    Use.GROUNDING: ("context", "evidence", "data"),
    Use.OBJECTIVE: ("objective", "deliverable"),
    Use.CRITIQUE: ("output", "evidence", "context"),
    Use.REPAIR: ("document", "findings"),
}


@dataclass(frozen=True, slots=True)
class ShippedParts:
    """The parts that the LLM gets beside the prompt: tags around the judged texts, a frame, and the answer format."""

    tags: tuple[str, ...]
    frame: str
    answer: str


def shipped_parts(use: Use) -> ShippedParts:
    return ShippedParts(GIVEN[use], prompt(FRAME), prompt(answer_name(use)))


def shipped_text(use: Use) -> str:
    return default_prompt(use).text


def scope(handoff_type: Any, workflow: Any) -> str:
    """Describe the handoffs that a prompt is for."""
    if workflow is not None:
        return f"workflow {cut(str(workflow), LONGEST_PROMPT_NAME)}"
    return "all handoffs" if handoff_type is None else f"type {cut(str(handoff_type), LONGEST_PROMPT_NAME)}"


def row_name(name: str) -> str:
    """Return a row's name for use in a sentence: `grounding type:deal_data` becomes "grounding, type deal_data"."""
    use, _, its_scope = name.partition(" ")
    kind, colon, of = its_scope.partition(":")
    purpose = f"{kind} {of}" if colon else "all handoffs"
    return f"{use}, {cut(purpose, LONGEST_PROMPT_NAME)}"


def prompt_lines(changes: Iterable[Change]) -> list[Line]:
    return [line for change in changes for line in _lines(change)]


def _lines(change: Change) -> Iterator[Line]:
    name = row_name(change.row)
    if change.field == WHOLE_ROW:
        yield Line(name, "prompt", _text(change.old), _text(change.new))
    elif isinstance(change.old, str) and isinstance(change.new, str):
        yield from _of_text(name, change.old, change.new)
    else:
        yield Line(name, format_path(change.field), format_optional(change.old), format_optional(change.new))


def _of_text(name: str, old: str, new: str) -> Iterator[Line]:
    """Yield the differences line by line, because a long text would hide them."""
    before, after = old.split("\n"), new.split("\n")
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for what, start, end, begin, until in matcher.get_opcodes():
        if what == "equal":
            continue
        first, last = (start, end) if end > start else (begin, until)
        where = f"line {first + 1}" if last - first == 1 else f"lines {first + 1} to {last}"
        yield Line(name, where, _part(before[start:end]), _part(after[begin:until]))


def _part(some: list[str]) -> str | None:
    return cut("\n".join(some), LONGEST_CHANGE) or "an empty line" if some else None


def _text(plain: Any) -> str | None:
    return cut(str(plain["text"]), LONGEST_PROMPT_TEXT) if isinstance(plain, Mapping) else format_optional(plain)
