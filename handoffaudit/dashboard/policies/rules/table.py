"""The sets of rules as the page lists them, bounded: a page of all rules that may be kept would be read by nobody."""

from dataclasses import dataclass

from handoffaudit.dashboard.policies.rules.editor import Editor, RuleEditor
from handoffaudit.dashboard.policies.rules.sets import SetEditor, Sets
from handoffaudit.dashboard.policies.rules.words import LONGEST_NAME, condition, demand, subject, types
from handoffaudit.dashboard.readable import cut
from handoffaudit.policy import rules
from handoffaudit.validation.business_rules.rules import BusinessRule, BusinessRuleSet

MOST_RULES = 200
MOST_OF_A_SET = 50


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in words; `editor` in its place where it is edited."""

    rule_id: str
    name: str
    subject: str
    demand: str
    condition: str
    severity: str
    types: str
    enabled: bool
    editor: RuleEditor | None


@dataclass(frozen=True, slots=True)
class Card:
    """A set: its first rules, how many there are, and the editors that stand in it."""

    set_id: str
    name: str
    version: int
    number: int
    rows: list[RuleRow]
    editor: SetEditor | None
    new: RuleEditor | None

    @property
    def more(self) -> int:
        return self.number - len(self.rows)

    def has(self, editor: Editor) -> bool:
        return self.editor is editor or self.new is editor or any(row.editor is editor for row in self.rows)


def cards(now: Sets, editor: Editor | None, whole: str) -> list[Card]:
    """All sets; the one with the id `whole` with all its rules."""
    left = MOST_RULES
    listed = []
    for one in now.rows:
        shown = len(one.rules) if one.set_id == whole else min(left, MOST_OF_A_SET)
        card = _card(one, editor, shown)
        left = max(0, left - len(card.rows))
        listed.append(card)
    return listed


def examples_left(now: Sets) -> list[BusinessRuleSet]:
    """The shipped examples that are not there yet."""
    return [one for one in rules.example_sets() if now.row(one.set_id) is None]


def _card(one: BusinessRuleSet, editor: Editor | None, shown: int) -> Card:
    mine = editor if editor and editor.set_id == one.set_id else None
    of_rule = mine if isinstance(mine, RuleEditor) else None
    rows = [_row(rule, of_rule) for rule in one.rules[:shown]]
    placed = any(row.editor for row in rows)
    return Card(
        set_id=one.set_id,
        name=cut(one.name, LONGEST_NAME),
        version=one.version,
        number=len(one.rules),
        rows=rows,
        editor=mine if isinstance(mine, SetEditor) else None,
        # A new rule, and one that somebody deleted meanwhile.
        new=None if placed else of_rule,
    )


def _row(rule: BusinessRule, editor: RuleEditor | None) -> RuleRow:
    return RuleRow(
        rule_id=rule.rule_id,
        name=cut(rule.name, LONGEST_NAME),
        subject=subject(rule),
        demand=demand(rule),
        condition=condition(rule),
        severity=rule.severity.value,
        types=types(rule),
        enabled=rule.enabled,
        editor=editor if editor and editor.rule_id == rule.rule_id else None,
    )
