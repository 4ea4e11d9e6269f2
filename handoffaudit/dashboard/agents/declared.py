"""Declared routes: their page and editor, and the labels of durations, names and changes on the agent pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import path
from django.utils import timezone
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, require_role
from handoffaudit.dashboard.navigation import build_agent_url
from handoffaudit.dashboard.policies.base import PolicyPage
from handoffaudit.dashboard.policies.forms import (
    MOST_OF_A_VERSION,
    Draft,
    Field,
    Line,
    form_values,
    format_optional,
    format_path,
    format_value,
    text_of,
)
from handoffaudit.dashboard.policies.views import Editing
from handoffaudit.dashboard.safe_text import cut
from handoffaudit.diagnostics.agents import covers, list_pairs
from handoffaudit.handoffs.periods import window_of
from handoffaudit.policy import kinds
from handoffaudit.policy.agents import ANYBODY, DeclaredRoutes, parse_routes_text, routes_to_text
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import WHOLE_ROW, Change, Table

LONGEST_NAME = 60

_MOST_NAMED = 12

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60))


def format_duration(seconds: float | None) -> str:
    """Format a duration as `0.4 s`, `12 s`, `3.5 min` or `2 d`; an empty string if the duration is unknown."""
    if seconds is None:
        return ""
    for unit, length in _UNITS:
        if seconds >= length:
            return f"{_digits(seconds / length)} {unit}"
    return f"{_digits(seconds)} s"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 10 or number == round(number) else f"{number:.1f}"


def join_names(names: Iterable[Any]) -> str:
    """Join the names, at most the first `_MOST_NAMED`, and say how many more there are."""
    every = [cut(str(name), LONGEST_NAME) for name in names]
    more = len(every) - _MOST_NAMED
    return ", ".join(every[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def lines(changes: Iterable[Change]) -> list[Line]:
    """Describe changes of the declared routes."""
    return [line for change in changes for line in _lines(change)]


def _lines(change: Change) -> list[Line]:
    name = cut(change.row, LONGEST_NAME)
    if change.field == WHOLE_ROW:
        return [Line(name, "targets", _targets(change.old), _targets(change.new))]
    if change.field == "targets" and isinstance(change.old, list) and isinstance(change.new, list):
        gone, came = _without(change.old, change.new), _without(change.new, change.old)
        removed = [Line(name, "targets", join_names(gone), None)] if gone else []
        return [*removed, Line(name, "targets", None, join_names(came))] if came else removed
    return [Line(name, format_path(change.field), format_optional(change.old), format_optional(change.new))]


def _without(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [one for one in some if one not in others]


def _targets(plain: Any) -> str | None:
    if not isinstance(plain, Mapping):
        return format_optional(plain)
    targets = plain.get("targets")
    return join_names(targets) if isinstance(targets, list) else format_value(targets)


TEMPLATE = "dashboard/agents/declared.html"

# The editor offers routes seen in this period for declaration.
SEEN_IN = "30d"

_HEIGHT = 18

_HELP = "one line per source: planner -> critic, writer; * is any agent; quote names with a comma or an arrow"

Rows = Table[DeclaredRoutes]


class DeclaredPage(PolicyPage[DeclaredRoutes]):
    """The page of declared routes. Its address is not below `agents/`, where any name is the page of an agent."""

    @property
    def name(self) -> str:
        return "declared"


PAGE = DeclaredPage(kinds.agents, "Declared routes", "A new tenant has no declared routes.", lines)


@dataclass(kw_only=True)
class Editor(Draft[DeclaredRoutes]):
    """The editor of all declared routes as one text; `filled` is the number of seen routes that were added."""

    text: str
    filled: int | None = None
    noun = "lines"
    can_be_tried = False

    @property
    def gone_text(self) -> str:
        return ""

    @property
    def text_field(self) -> Field:
        return Field(
            name="text",
            label="Declared routes",
            help=_HELP,
            value=self.text,
            error=self.errors.get("text", ""),
            height=_HEIGHT,
            is_code=True,
        )

    def rows(self, now: Rows) -> Iterable[DeclaredRoutes]:
        return kinds.agents.checked(parse_routes_text(self.text))

    def list_affected_types(self, now: Rows, rows: Iterable[DeclaredRoutes]) -> list[str]:
        return []

    def refuse(self, invalid: InvalidPolicy) -> None:
        for error in invalid.errors:
            self.keep("text", error, error.row if error.row.startswith("line ") else cut(error.row, LONGEST_NAME))

    def meet(self, current: Rows) -> None:
        mine = kinds.agents.checked(parse_routes_text(self.text))
        self.theirs = lines(kinds.agents.difference(current.rows, mine))[:MOST_OF_A_VERSION]


@dataclass(frozen=True, slots=True)
class Name:
    """The name of an agent; `href` is empty for `*`, which matches any agent."""

    name: str
    href: str


@dataclass(frozen=True, slots=True)
class Row:
    source: Name
    targets: list[Name]


@require_role(Role.VIEWER)
@require_safe
def page(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the declared routes.

    For administrators, `?edit` opens the editor, and `?seen` opens it with the routes seen in the last 30 days added.
    """
    now = kinds.agents.current(who.tenant)
    return _page(request, now, _find_editor(request, who, now))


def _find_editor(request: HttpRequest, who: TenantMembership, now: Rows) -> Editor | None:
    if not who.may(Role.ADMIN):
        return None
    if "seen" in request.GET:
        return _fill_editor(who.tenant, now)
    return Editor(base_version=now.version, text=routes_to_text(now.rows)) if "edit" in request.GET else None


def _fill_editor(tenant: Tenant, now: Rows) -> Editor:
    """Return an editor with the declared routes, and with the undeclared seen routes that the text can express."""
    window = window_of({"period": SEEN_IN}, timezone.now())
    declared = frozenset((row.source, target) for row in now.rows for target in row.targets)
    rest = [edge for edge in list_pairs(tenant, window.since, window.until) if _can_be_written(edge)]
    new = [edge for edge in rest if not covers(declared, *edge)]
    targets: dict[str, set[str]] = {}
    for source, target in [*declared, *new]:
        targets.setdefault(source, set()).add(target)
    rows = [DeclaredRoutes(source, tuple(sorted(found))) for source, found in sorted(targets.items())]
    return Editor(
        base_version=now.version, text=routes_to_text(rows), filled=len(new), note="All seen routes" if new else ""
    )


def _can_be_written(edge: tuple[str, str]) -> bool:
    return all(name and name != ANYBODY and name.isprintable() and name == name.strip() for name in edge)


def _page(request: HttpRequest, now: Rows, editor: Editor | None, status: int = 200) -> HttpResponse:
    slug = request.who.tenant.slug  # type: ignore[attr-defined]
    rows = [Row(_name(slug, row.source), [_name(slug, target) for target in row.targets]) for row in now.rows]
    context: dict[str, Any] = {"rows": rows, "editor": editor, "seen_in": SEEN_IN}
    return PAGE.answer(request, TEMPLATE, context, now, status)


def _name(slug: str, name: str) -> Name:
    return Name(cut(name, LONGEST_NAME), "" if name == ANYBODY else build_agent_url(slug, name))


def editor_from(given: QueryDict) -> Editor:
    """Return an editor with the values of a submitted form."""
    return Editor(text=text_of(given, "text"), **form_values(given))


EDITING = Editing(PAGE, editor_from, _page, can_be_tried=False)

urlpatterns = [path("declared/", page, name="declared"), *EDITING.urls()]
