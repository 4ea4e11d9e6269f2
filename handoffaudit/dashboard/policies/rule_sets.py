"""Drafts of rule sets, edited as a form or as JSON."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from handoffaudit.dashboard.policies.forms import MOST_OF_A_VERSION, Draft, Field, read_json
from handoffaudit.dashboard.policies.labels import rule_lines
from handoffaudit.policy import kinds
from handoffaudit.policy.rules import rule_set_to_plain
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Table
from handoffaudit.validation.business_rules import BusinessRuleSet

Sets = Table[BusinessRuleSet]

MOST_ERRORS_SHOWN = 20


@dataclass(kw_only=True)
class RulesDraft(Draft[BusinessRuleSet]):
    """A draft of the rule sets; `set_id` is the id of the edited set, empty for a new set or for all sets."""

    set_id: str = ""

    @abstractmethod
    def plain(self, now: Sets) -> list[dict[str, Any]]:
        """Return all sets as plain values with this change applied."""

    def rows(self, now: Sets) -> Iterable[BusinessRuleSet]:
        return kinds.rules.parse(self.plain(now))

    def meet(self, current: Sets) -> None:
        differing = rule_lines(kinds.rules.difference(current.rows, self.rows(current)))
        self.theirs = [] if self.is_new else differing[:MOST_OF_A_VERSION]

    def list_affected_types(self, now: Sets, rows: Iterable[BusinessRuleSet]) -> list[str]:
        before, after = (
            {(one.set_id, rule.rule_id): rule for one in sets for rule in one.rules} for sets in (now.rows, rows)
        )
        changed = [key for key in before | after if before.get(key) != after.get(key)]
        rules = [rule for key in changed for rule in (before.get(key), after.get(key)) if rule]
        if any(rule.output_types is None for rule in rules):
            return []
        return sorted({name for rule in rules for name in rule.output_types or ()})


@dataclass(kw_only=True)
class SetEditor(RulesDraft):
    """The editor of a set; `set_id` is empty for a new set, whose id is `new_id`."""

    noun = "set"
    # Neither a set's name nor a set without rules changes a verdict.
    can_be_tried = False
    new_id: str = ""
    name: str = ""

    @property
    def edited_row(self) -> str:
        return self.set_id

    @property
    def gone_text(self) -> str:
        return f"The set {self.set_id} was deleted."

    @property
    def fields(self) -> list[Field]:
        name = Field(
            name="name",
            label="Name of the set",
            help="for people",
            value=self.name,
            error=self.errors.get("name", ""),
            required=True,
        )
        if not self.is_new:
            return [name]
        help_text = "letters, digits, _, - and dots, at most 64"
        error = self.errors.get("set_id", "")
        return [
            name,
            Field(
                name="set_id", label="Id", help=help_text, value=self.new_id, error=error, is_code=True, required=True
            ),
        ]

    def plain(self, now: Sets) -> list[dict[str, Any]]:
        sets = [rule_set_to_plain(one) for one in now.rows]
        if self.is_new:
            if any(one["set_id"] == self.new_id for one in sets):
                error = PolicyError(
                    self.new_id, "set_id", None, "There is already a set with this id.", "Give it another id."
                )
                raise InvalidPolicy([error])
            return [*sets, {"set_id": self.new_id, "name": self.name, "rules": []}]
        mine = [one for one in sets if one["set_id"] == self.set_id]
        if not mine:
            self.gone = True
            raise InvalidPolicy([PolicyError(self.set_id, "", None, "The set no longer exists.", "Cancel.")])
        mine[0]["name"] = self.name
        return sets

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.keep(error.field if error.field in ("set_id", "name") else "", error, "")


@dataclass(kw_only=True)
class JsonEditor(RulesDraft):
    """The editor of all sets as one JSON text."""

    noun = "text"
    offers_types = True
    text: str
    problems: list[str] = field(default_factory=list)
    gone_text = ""

    @property
    def area(self) -> Field:
        help_text = 'an object with the list "sets", as in the API, or only the list'
        error = "Nothing was saved: see the errors above." if self.problems else ""
        return Field(
            name="text",
            label="All sets as JSON",
            help=help_text,
            value=self.text,
            error=error,
            height=28,
            is_code=True,
            required=True,
        )

    @property
    def more_problems(self) -> int:
        return max(0, len(self.problems) - MOST_ERRORS_SHOWN)

    @property
    def shown_problems(self) -> list[str]:
        return self.problems[:MOST_ERRORS_SHOWN]

    def plain(self, now: Sets) -> list[dict[str, Any]]:
        try:
            given = read_json(self.text)
        except ValueError as error:
            raise InvalidPolicy([PolicyError("", "", None, str(error), "Correct the text there.")]) from error
        sets = given.get("sets") if isinstance(given, dict) else given
        if not isinstance(sets, list):
            remedy = 'Write {"sets": […]} or a list, with an object for each set.'
            raise InvalidPolicy([PolicyError("", "", None, "The text contains no list of sets.", remedy)])
        return sets

    def refuse(self, invalid: InvalidPolicy) -> None:
        self.problems = [_describe_error(error) for error in invalid.errors]


def set_editor(now: Sets, one: BusinessRuleSet | None) -> SetEditor:
    if one is None:
        return SetEditor(base_version=now.version)
    return SetEditor(base_version=now.version, set_id=one.set_id, name=one.name)


def json_editor(now: Sets) -> JsonEditor:
    text = orjson.dumps(kinds.rules.to_plain(now.rows), option=orjson.OPT_INDENT_2).decode()
    return JsonEditor(base_version=now.version, text=text)


def _describe_error(error: PolicyError) -> str:
    where = ", ".join(part for part in (error.row, error.field) if part)
    return f"{where}: {error.message} {error.remedy}" if where else f"{error.message} {error.remedy}"
