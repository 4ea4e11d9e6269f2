"""The page and the editor of LLM prompts, each for a handoff type, for a workflow or for all handoffs."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import path
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import (
    MODEL_SCOPES,
    MOST_OF_A_VERSION,
    Choices,
    Draft,
    Field,
    form_values,
    line_of,
    text_of,
)
from handoffaudit.dashboard.policies.labels import (
    ALL,
    ASKS,
    PROMPT_HELP,
    PROMPT_NAMES,
    SCOPES,
    TITLES,
    TYPE,
    WORKFLOW,
    ShippedParts,
    prompt_lines,
    row_name,
    scope,
    shipped_parts,
    shipped_text,
)
from handoffaudit.dashboard.policies.strictness_editor import format_usd
from handoffaudit.dashboard.policies.views import Deleting, Editing
from handoffaudit.dashboard.safe_text import cut, readable
from handoffaudit.handoffs import dry_runs
from handoffaudit.handoffs.dry_run_prompts import Cost
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy import kinds
from handoffaudit.policy.prompts import PromptRow, parse_row
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.policy.versions import Table
from handoffaudit.validation.formats import delegation
from handoffaudit.validation.prompts.question import Use

Rows = Table[PromptRow]

HEIGHT = 14

# New handoffs raise the cost of a dry run a little; a small rise needs no new confirmation of the cost.
SLACK = 1.1

_AT = {"text": "text", "handoff_type": "name", "workflow": "name"}


@dataclass(kw_only=True)
class Editor(Draft[PromptRow]):
    """The editor of one prompt.

    `row` is the name of the edited row, empty for a new row. `scope` is all handoffs, one type or one
    workflow, and `name` the name of the type or the workflow. `agreed` is the cost in USD that the
    administrator confirmed (empty: none yet), and `cost` the current estimate.
    """

    noun: ClassVar[str] = "prompt"
    row: str
    use: Use
    scope: str = ALL
    name: str = ""
    text: str = ""
    agreed: str = ""
    cost: Cost | None = None

    @property
    def edited_row(self) -> str:
        return self.row

    @property
    def title(self) -> str:
        return TITLES[self.use]

    @property
    def description(self) -> str:
        return row_name(self.row)

    @property
    def added(self) -> ShippedParts:
        return shipped_parts(self.use)

    @property
    def is_shipped(self) -> bool:
        return self.text.strip() == shipped_text(self.use)

    # The prompt of a repair affects no verdict.
    @property
    def can_be_tried(self) -> bool:  # type: ignore[override]
        return self.use is not Use.REPAIR

    @property
    def scopes(self) -> Choices:
        return [(value, scope.words) for value, scope in MODEL_SCOPES.items()]

    @property
    def gone_text(self) -> str:
        return f"The prompt of {self.description} was deleted. Save to add it again."

    @property
    def takes_focus(self) -> bool:
        """Return whether the first field takes the focus; the confirmation of a cost takes precedence."""
        return self.cost is None

    @property
    def cost_usd(self) -> str:
        return format_usd(self.cost.usd) if self.cost else ""

    @property
    def left_usd(self) -> str:
        return format_usd(self.cost.left) if self.cost else ""

    @property
    def scope_field(self) -> Field:
        return Field(
            name="scope",
            label=PROMPT_NAMES["scope"],
            value=self.scope,
            choices=list(SCOPES.items()),
            help="the handoffs for which the LLM gets this prompt",
        )

    @property
    def name_field(self) -> Field:
        return self._field("name", self.name, is_code=True)

    @property
    def text_field(self) -> Field:
        return self._field("text", self.text, height=HEIGHT, required=True)

    def read(self) -> PromptRow:
        """Return the row that the fields describe; raise `InvalidPolicy` for bad values."""
        given: dict[str, Any] = {"use": self.use.value, "text": self.text}
        if self.scope == TYPE:
            given["handoff_type"] = self.name
        elif self.scope == WORKFLOW:
            given["workflow"] = self.name
        elif self.name:
            remedy = "Choose one handoff type or one workflow, or clear the name."
            raise InvalidPolicy(
                [PolicyError(self.use.value, "workflow", None, "The prompt is for all handoffs.", remedy)]
            )
        return parse_row(given)

    def rows(self, now: Rows) -> Iterable[PromptRow]:
        row = self.read()
        if self.is_new and now.row(row.name):
            remedy = "Edit the existing prompt instead."
            raise InvalidPolicy([PolicyError(row.name, "workflow", None, "There is already such a prompt.", remedy)])
        return kinds.prompts.checked([*(one for one in now.rows if one.name not in (self.row, row.name)), row])

    def list_affected_types(self, now: Rows, rows: Iterable[PromptRow]) -> list[str]:
        # A change of the use or scope also affects the handoffs that lose the prompt.
        changed = [self.read(), *(one for one in now.rows if one.name == self.row)]
        types = {row.handoff_type or (delegation.TYPE if row.use is Use.OBJECTIVE else "") for row in changed}
        return [] if "" in types else sorted(types)

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.keep(_AT.get(error.field, ""), error)

    def meet(self, current: Rows) -> None:
        theirs = current.row(self.row)
        self.gone = bool(self.row) and theirs is None
        mine = self.read()
        self.theirs = prompt_lines(kinds.prompts.difference([theirs], [mine]))[:MOST_OF_A_VERSION] if theirs else []

    def holds_back(self, trial: Trial) -> bool:
        """Return whether an administrator must first confirm the cost, or the cost exceeds the rest of today's budget.

        Raise `InvalidPolicy` if no LLM key is configured.
        """
        if not client.is_configured():
            remedy = "Set ANTHROPIC_API_KEY, as the page on settings says, or save the prompt without a dry run."
            raise InvalidPolicy([PolicyError(self.row, "", None, "No key is set for the LLM.", remedy)])
        if not trial.total:
            return False
        self.cost = dry_runs.estimate_cost(trial)
        return self.cost.is_too_dear or self.cost.usd > SLACK * _usd(self.agreed)

    def _field(self, name: str, value: str, **more: Any) -> Field:
        return Field(
            name=name,
            label=PROMPT_NAMES[name],
            help=PROMPT_HELP[name],
            value=value,
            error=self.errors.get(name, ""),
            **more,
        )


def editor_for(now: Rows, row: PromptRow, *, as_shipped: bool = False) -> Editor:
    """Return an editor of a row; `as_shipped` replaces the row's text with the shipped prompt."""
    text = shipped_text(row.use) if as_shipped else row.text
    scope, name = _scope(row)
    return Editor(base_version=now.version, row=row.name, use=row.use, scope=scope, name=name, text=text, tried=_USUAL)


def editor_for_new(now: Rows, use: Use) -> Editor:
    """Return an editor of a new prompt, which starts with the shipped prompt.

    The prompt is for all handoffs or, if there is already a prompt for all handoffs, for one type.
    """
    scope = TYPE if now.row(PromptRow(use, "").name) else ALL
    return Editor(base_version=now.version, row="", use=use, scope=scope, text=shipped_text(use), tried=_USUAL)


def editor_from(given: QueryDict) -> Editor:
    """Return an editor with the values of a submitted form."""
    base = form_values(given) | {"tried": line_of(given, "tried") or _USUAL}
    asked = given.get("use", "")
    scope = line_of(given, "scope")
    return Editor(
        row=line_of(given, "row"),
        use=Use(asked) if asked in set(Use) else Use.GROUNDING,
        scope=scope if scope in SCOPES else ALL,
        name=line_of(given, "name").strip(),
        text=text_of(given, "text"),
        agreed=line_of(given, "agreed"),
        **base,
    )


def _scope(row: PromptRow) -> tuple[str, str]:
    if row.workflow is not None:
        return WORKFLOW, row.workflow
    return (ALL, "") if row.handoff_type is None else (TYPE, row.handoff_type)


def _usd(text: str) -> float:
    """Return the confirmed cost in USD; a negative number if the text is not an amount."""
    try:
        amount = float(text)
    except ValueError:
        return -1.0
    # No cost is higher than infinity or NaN, so either of them would confirm every cost.
    return amount if isfinite(amount) else -1.0


_USUAL = next(iter(MODEL_SCOPES))

TEMPLATE = "dashboard/prompts/page.html"

LONGEST_BEGINNING = 700

PAGE = PolicyPage(kinds.prompts, "Prompts", "A new tenant uses the shipped prompts.", prompt_lines)


@dataclass(frozen=True, slots=True)
class Row:
    """A prompt on the page with its first lines; `editor` replaces the prompt while it is edited."""

    name: str
    scope: str
    begins: str
    text: str
    editor: Editor | None


@dataclass(frozen=True, slots=True)
class Card:
    """The prompts of one use, with the editor of a new prompt, or of a prompt that somebody deleted meanwhile."""

    use: str
    title: str
    asks: str
    shipped: str
    added: ShippedParts
    rows: list[Row]
    new: Editor | None


@require_role(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the prompts; `?add=<use>`, `?edit=<name>` and `?trial=<id>` open an editor.

    `&shipped` after `?edit=<name>` opens the editor with the shipped prompt.
    """
    now = kinds.prompts.current(who.tenant)
    return _page(request, now, _find_editor(request, who, now))


def _find_editor(request: HttpRequest, who: TenantMembership, now: Rows) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if again := EDITING.reopen(request, who):
        return again
    new = request.GET.get("add", "")
    if new in set(Use):
        return editor_for_new(now, Use(new))
    row = now.row(request.GET.get("edit", ""))
    return editor_for(now, row, as_shipped="shipped" in request.GET) if row else None


def _page(request: HttpRequest, now: Rows, editor: Editor | None, status: int = 200) -> HttpResponse:
    context: dict[str, Any] = {"cards": [_card(use, now, editor) for use in Use], "editor": editor}
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _card(use: Use, now: Rows, editor: Editor | None) -> Card:
    rows = [_row(row, editor) for row in now.rows if row.use is use]
    mine = editor if editor and editor.use is use else None
    new = None if any(row.editor for row in rows) else mine
    return Card(use.value, TITLES[use], ASKS[use], shipped_text(use), shipped_parts(use), rows, new)


def _row(row: PromptRow, editor: Editor | None) -> Row:
    mine = editor if editor and editor.row == row.name else None
    return Row(
        row.name, scope(row.handoff_type, row.workflow), cut(row.text, LONGEST_BEGINNING), readable(row.text), mine
    )


def _describe_deletion(editor: Editor) -> Deleting:
    return Deleting(editor.row, f"the prompt of {row_name(editor.row)}")


EDITING = Editing(PAGE, editor_from, _page, deleting=_describe_deletion)

urlpatterns = [
    path("prompts/", page, name="prompts"),
    *EDITING.urls(),
]
