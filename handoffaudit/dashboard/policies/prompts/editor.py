"""The editor of one prompt, and what a trial of it may cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from django.http import QueryDict

from handoffaudit.accounts.models import Tenant
from handoffaudit.dashboard.policies.drafts import Draft, line_of, sent, text_of
from handoffaudit.dashboard.policies.fields import Choices, Field
from handoffaudit.dashboard.policies.prompts.words import (
    ALL,
    HELP,
    NAMES,
    SCOPES,
    TITLES,
    TYPE,
    WORKFLOW,
    Added,
    added,
    lines,
    row_name,
    shipped_text,
)
from handoffaudit.dashboard.policies.strictness.words import usd
from handoffaudit.dashboard.policies.trials.scopes import MODEL_SCOPES
from handoffaudit.dashboard.policies.words import MOST_OF_A_VERSION
from handoffaudit.handoffs.dry_runs import run
from handoffaudit.handoffs.dry_runs.prompts import Cost
from handoffaudit.handoffs.llm import client
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy import kinds
from handoffaudit.policy.errors import InvalidPolicy, PolicyError
from handoffaudit.policy.prompts import PromptRow, parse_row
from handoffaudit.policy.versions import Table
from handoffaudit.validation.formats import delegation
from handoffaudit.validation.prompts.question import Use

Rows = Table[PromptRow]

HEIGHT = 14
# Handoffs that came meanwhile change the cost a little, and nobody should have to agree again and again.
SLACK = 1.1
_AT = {"text": "text", "handoff_type": "name", "workflow": "name"}


@dataclass(kw_only=True)
class Editor(Draft[PromptRow]):
    """`row`: the name of the one edited, empty for a new one. `scope` (all, a type, a workflow) with its `name`.

    `agreed`: the cost that its writer agreed to, in USD, empty where none was told yet; `cost`: what is told now.
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
    def is_new(self) -> bool:
        return not self.row

    @property
    def may_delete(self) -> bool:
        return bool(self.row) and not self.gone

    @property
    def title(self) -> str:
        return TITLES[self.use]

    @property
    def told(self) -> str:
        return row_name(self.row)

    @property
    def added(self) -> Added:
        return added(self.use)

    @property
    def is_shipped(self) -> bool:
        return self.text.strip() == shipped_text(self.use)

    # No verdict rests on a repair's words.
    @property
    def can_be_tried(self) -> bool:  # type: ignore[override]
        return self.use is not Use.REPAIR

    @property
    def scopes(self) -> Choices:
        return [(value, scope.words) for value, scope in MODEL_SCOPES.items()]

    @property
    def gone_text(self) -> str:
        return f"The prompt of {self.told} was deleted. Saving yours brings it back."

    @property
    def takes_focus(self) -> bool:
        """Its first field does, unless something is to be agreed to."""
        return self.cost is None

    @property
    def cost_usd(self) -> str:
        return usd(self.cost.usd) if self.cost else ""

    @property
    def left_usd(self) -> str:
        return usd(self.cost.left) if self.cost else ""

    @property
    def scope_field(self) -> Field:
        return Field(
            name="scope", label=NAMES["scope"], value=self.scope, choices=list(SCOPES.items()), help="who is asked this"
        )

    @property
    def name_field(self) -> Field:
        return self._field("name", self.name, is_code=True)

    @property
    def text_field(self) -> Field:
        return self._field("text", self.text, height=HEIGHT, required=True)

    def read(self) -> PromptRow:
        """The row as it stands in the fields; raises `InvalidPolicy`."""
        given: dict[str, Any] = {"use": self.use.value, "text": self.text}
        if self.scope == TYPE:
            given["handoff_type"] = self.name
        elif self.scope == WORKFLOW:
            given["workflow"] = self.name
        elif self.name:
            remedy = "Choose one handoff type or one workflow, or empty the name."
            raise InvalidPolicy([PolicyError(self.use.value, "workflow", None, "It is for all handoffs.", remedy)])
        return parse_row(given)

    def rows(self, now: Rows) -> Iterable[PromptRow]:
        row = self.read()
        if self.is_new and now.row(row.name):
            remedy = "Edit that one instead."
            raise InvalidPolicy([PolicyError(row.name, "workflow", None, "There is such a prompt.", remedy)])
        return kinds.prompts.checked([*(one for one in now.rows if one.name not in (self.row, row.name)), row])

    def touched(self, tenant: Tenant, now: Rows, rows: Iterable[PromptRow]) -> list[str]:
        row = self.read()
        if row.handoff_type is not None:
            return [row.handoff_type]
        return [delegation.TYPE] if self.use is Use.OBJECTIVE else []

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.keep(_AT.get(error.field, ""), error)

    def meet(self, current: Rows) -> None:
        theirs = current.row(self.row)
        self.gone = bool(self.row) and theirs is None
        mine = self.read()
        self.theirs = lines(kinds.prompts.difference([theirs], [mine]))[:MOST_OF_A_VERSION] if theirs else []

    def holds_back(self, trial: Trial) -> bool:
        """Whether its cost is to be agreed to first. Raises `InvalidPolicy` where the model cannot be asked at all."""
        if not client.is_configured():
            remedy = "Set ANTHROPIC_API_KEY, as the page on settings says, or save it without a trial."
            raise InvalidPolicy([PolicyError(self.row, "", None, "No key is set for the model.", remedy)])
        if not trial.total:
            return False
        self.cost = run.estimate_cost(trial)
        return self.cost.is_too_dear or self.cost.usd > SLACK * _usd(self.agreed)

    def _field(self, name: str, value: str, **more: Any) -> Field:
        return Field(
            name=name, label=NAMES[name], help=HELP[name], value=value, error=self.errors.get(name, ""), **more
        )


def editor_for(now: Rows, row: PromptRow, *, as_shipped: bool = False) -> Editor:
    """`as_shipped`: with the shipped prompt in place of its own text."""
    text = shipped_text(row.use) if as_shipped else row.text
    scope, name = _scope(row)
    return Editor(base_version=now.version, row=row.name, use=row.use, scope=scope, name=name, text=text, tried=_USUAL)


def editor_for_new(now: Rows, use: Use) -> Editor:
    """Begins with the shipped prompt, for all handoffs, or where all have one of their own for one type."""
    scope = TYPE if now.row(PromptRow(use, "").name) else ALL
    return Editor(base_version=now.version, row="", use=use, scope=scope, text=shipped_text(use), tried=_USUAL)


def editor_from(given: QueryDict) -> Editor:
    """What a person sent."""
    base = sent(given) | {"tried": line_of(given, "tried") or _USUAL}
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
    """What was agreed to; less than nothing where it is no amount."""
    try:
        return float(text)
    except ValueError:
        return -1.0


_USUAL = next(iter(MODEL_SCOPES))
