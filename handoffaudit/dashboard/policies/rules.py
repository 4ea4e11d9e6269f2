"""The page of business rules: the rule sets, and the actions of administrators on them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import path
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies.base import PolicyPage, conflict_message, finish
from handoffaudit.dashboard.policies.cases import judge_saved
from handoffaudit.dashboard.policies.forms import number
from handoffaudit.dashboard.policies.labels import LONGEST_RULE_NAME, condition, demand, rule_lines, subject, types
from handoffaudit.dashboard.policies.rule_editor import Editor, RuleEditor, editor_from, new_rule, rule_editor
from handoffaudit.dashboard.policies.rule_sets import JsonEditor, SetEditor, Sets, json_editor, set_editor
from handoffaudit.dashboard.policies.views import Editing
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.policy import kinds, rules
from handoffaudit.policy.models import Kind
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import Stale
from handoffaudit.validation.business_rules import BusinessRule, BusinessRuleSet

MOST_RULES = 200

MOST_OF_A_SET = 50


@dataclass(frozen=True, slots=True)
class RuleRow:
    """A rule in words; `editor` replaces the rule while it is edited."""

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
    """A rule set with its first rules, the number of all its rules, and the open editors."""

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
    """Return the cards of all sets; the set with the id `whole` shows all of its rules.

    Any other set shows at most `MOST_OF_A_SET` rules, and none after `MOST_RULES` rules of earlier sets.
    """
    left = MOST_RULES
    listed = []
    for one in now.rows:
        shown = len(one.rules) if one.set_id == whole else min(left, MOST_OF_A_SET)
        card = _card(one, editor, shown)
        left = max(0, left - len(card.rows))
        listed.append(card)
    return listed


def examples_left(now: Sets) -> list[BusinessRuleSet]:
    """Return the shipped example sets that the tenant does not have yet."""
    return [one for one in rules.example_sets() if now.row(one.set_id) is None]


def _card(one: BusinessRuleSet, editor: Editor | None, shown: int) -> Card:
    mine = editor if editor and editor.set_id == one.set_id else None
    of_rule = mine if isinstance(mine, RuleEditor) else None
    rows = [_row(rule, of_rule) for rule in one.rules[:shown]]
    placed = any(row.editor for row in rows)
    return Card(
        set_id=one.set_id,
        name=cut(one.name, LONGEST_RULE_NAME),
        version=one.version,
        number=len(one.rules),
        rows=rows,
        editor=mine if isinstance(mine, SetEditor) else None,
        # The editor of a new rule, or of a rule that somebody deleted meanwhile, has no row.
        new=None if placed else of_rule,
    )


def _row(rule: BusinessRule, editor: RuleEditor | None) -> RuleRow:
    return RuleRow(
        rule_id=rule.rule_id,
        name=cut(rule.name, LONGEST_RULE_NAME),
        subject=subject(rule),
        demand=demand(rule),
        condition=condition(rule),
        severity=rule.severity.value,
        types=types(rule),
        enabled=rule.enabled,
        editor=editor if editor and editor.rule_id == rule.rule_id else None,
    )


TEMPLATE = "dashboard/rules/page.html"

PAGE = PolicyPage(kinds.rules, "Rules", "A new tenant has no rules.", rule_lines)


@require_role(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the rules; `?set=` shows all rules of one set.

    These queries open an editor: `?set=<id>&rule=<id>`, `?set=<id>&add=rule`, `?set=<id>&edit=set`,
    `?add=set`, `?json` and `?trial=<id>`.
    """
    now = kinds.rules.current(who.tenant)
    return _page(request, now, _find_editor(request, who, now), shown=request.GET.get("set", ""))


@require_role(Role.ADMIN)
@require_POST
def delete(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    editor = editor_from(request.POST)
    what = editor.rule_id if isinstance(editor, RuleEditor) else editor.set_id
    name = cut(what, LONGEST_RULE_NAME)
    return _save_change(
        request,
        who,
        editor.base_version,
        lambda now: _without(now, editor),
        f"Deleted {name}.",
        f"{name} was not deleted.",
        editor.note,
    )


@require_role(Role.ADMIN)
@require_POST
def example(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Add one of the shipped example sets."""
    asked = request.POST.get("example", "")
    found = next((one for one in rules.example_sets() if one.set_id == asked), None)
    base = number(request.POST.get("base_version", ""))
    return _save_change(
        request,
        who,
        -1 if base is None else base,
        lambda now: [*now.rows, found] if found and now.row(found.set_id) is None else now.rows,
        f"Added {found.name}." if found else "There is no such example.",
        "Nothing was added.",
    )


def _save_change(
    request: HttpRequest,
    who: TenantMembership,
    base_version: int,
    change: Callable[[Sets], Any],
    saved_text: str,
    refused_text: str,
    note: str = "",
) -> HttpResponse:
    """Save a change that has no editor to return to, or show the reason why the change was refused."""
    now = kinds.rules.current(who.tenant)
    try:
        saved = kinds.rules.save(
            tenant=who.tenant, base_version=base_version, rows=change(now), actor=who.person.username, note=note
        )
    except (InvalidPolicy, Stale) as refusal:
        text = str(refusal.errors[0]) if isinstance(refusal, InvalidPolicy) else conflict_message(refusal.current)
        messages.error(request, f"{refused_text} {text}")
        return _page(request, kinds.rules.current(who.tenant), None, status=409)
    if saved.version == base_version:
        return EDITING.finish_change(request, who, "Nothing was changed.")
    cases = judge_saved(who.tenant, Kind.RULES)
    return EDITING.finish_change(request, who, f"{saved_text} Version {saved.version}.", cases)


def _without(now: Sets, editor: Editor) -> list[BusinessRuleSet]:
    if isinstance(editor, SetEditor):
        return [one for one in now.rows if one.set_id != editor.set_id]
    if isinstance(editor, JsonEditor):
        return list(now.rows)
    return [_without_rule(one, editor.rule_id) if one.set_id == editor.set_id else one for one in now.rows]


def _without_rule(one: BusinessRuleSet, rule_id: str) -> BusinessRuleSet:
    return one.model_copy(update={"rules": [rule for rule in one.rules if rule.rule_id != rule_id]})


def _find_editor(request: HttpRequest, who: TenantMembership, now: Sets) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.reopen(request, who):
        return again
    one = now.row(request.GET.get("set", ""))
    if one is not None:
        return _editor_in(request, now, one)
    if "json" in request.GET:
        return json_editor(now)
    return set_editor(now, None) if request.GET.get("add") == "set" else None


def _editor_in(request: HttpRequest, now: Sets, one: BusinessRuleSet) -> Editor | None:
    if request.GET.get("add") == "rule":
        return new_rule(now, one.set_id)
    if request.GET.get("edit") == "set":
        return set_editor(now, one)
    rule = next((rule for rule in one.rules if rule.rule_id == request.GET.get("rule", "")), None)
    return rule_editor(now, one.set_id, rule) if rule else None


def _first_rule(request: HttpRequest, who: TenantMembership, editor: Editor, saved: Sets) -> HttpResponse | None:
    """Open the editor of the first rule after a new set is saved, because a set without rules has no effect.

    Return None after any other change.
    """
    if not isinstance(editor, SetEditor) or not editor.is_new:
        return None
    return finish(
        request,
        f"Saved as version {saved.version}. Now write the first rule of the set.",
        PAGE.address(who, {"set": editor.new_id, "add": "rule"}),
        lambda: _page(request, saved, new_rule(saved, editor.new_id)),
    )


def _page(
    request: HttpRequest, now: Sets, editor: Editor | None, status: int = 200, *, shown: str = ""
) -> HttpResponse:
    listed = cards(now, editor, editor.set_id if editor else shown)
    context: dict[str, Any] = {
        "cards": listed,
        "editor": editor,
        # These editors have no place among the sets: a new set, all sets as JSON, and a rule whose set somebody
        # deleted meanwhile.
        "new": editor if editor and not any(card.has(editor) for card in listed) else None,
        "examples": examples_left(now),
    }
    return PAGE.answer(request, TEMPLATE, context, now, status)


EDITING = Editing(PAGE, editor_from, _page, _first_rule)

urlpatterns = [
    path("rules/", page, name="rules"),
    path("rules/delete/", delete, name="rules_delete"),
    path("rules/example/", example, name="rules_example"),
    *EDITING.urls(),
]
