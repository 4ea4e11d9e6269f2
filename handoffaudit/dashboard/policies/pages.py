"""What the pages of all kinds of policy share: their names and addresses, and how a change is saved or refused."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.functional import SimpleLazyObject

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import Who
from handoffaudit.dashboard.partials import is_htmx, render_page
from handoffaudit.dashboard.policies.drafts import Draft
from handoffaudit.dashboard.policies.trials.words import tried
from handoffaudit.dashboard.policies.words import Line
from handoffaudit.handoffs.dry_runs import run
from handoffaudit.policy.errors import InvalidPolicy
from handoffaudit.policy.versions import Change, Stale, Table, Versions

R = TypeVar("R")
T = TypeVar("T")

BELOW = ("history", "compare", "revert", "save", "delete", "try")


@dataclass(frozen=True)
class PolicyPage(Generic[R]):
    """One kind of policy as pages: `begins` says what a new tenant has, `lines` tells changes. `below`: under which
    address its pages are, where that is not its name; `least`: who may open the page itself."""

    versions: Versions[R]
    title: str
    begins: str
    lines: Callable[[Iterable[Change]], list[Line]]
    below: str = ""
    least: Role = Role.VIEWER

    @property
    def name(self) -> str:
        """In addresses, and the id of the part of the page that htmx puts anew."""
        return self.versions.kind.value

    @property
    def url(self) -> str:
        return f"dashboard:{self.name}"

    @property
    def urls(self) -> dict[str, str]:
        """The names of the addresses below."""
        return {part: f"{self.url}_{part}" for part in BELOW}

    def address(self, who: Who, query: Mapping[str, str] | None = None) -> str:
        given = QueryDict(mutable=True)
        given.update(query or {})
        below = reverse(self.url, args=[who.tenant.slug])
        return f"{below}?{given.urlencode()}" if query else below

    def save(self, who: Who, draft: Draft[R]) -> Table[R]:
        """The draft as a new version. Raises `Stale` and `InvalidPolicy`."""
        return self.versions.save(
            tenant=who.tenant,
            base_version=draft.base_version,
            rows=draft.rows(unchanged(self.versions, who, draft.base_version)),
            actor=who.person.username,
            note=draft.note,
        )

    def answer(
        self, request: HttpRequest, template: str, context: Mapping[str, Any], now: Table[R], status: int = 200
    ) -> HttpResponse:
        """The page, or the part of it that htmx asked for."""
        draft = context.get("editor")
        shared: dict[str, Any] = {"kind": self, "table": now, "part": True}
        who: Who = request.who  # type: ignore[attr-defined]
        shared["trials"] = SimpleLazyObject(lambda: tried(run.list_recent(who.tenant, self.versions.kind)))
        if isinstance(draft, Draft) and draft.theirs is not None:
            shared["stale"] = f"{now.changed_by} saved version {now.version} while you were editing. "
            shared["stale"] += "Nothing was overwritten."
        return render_page(request, template, shared | dict(context), partials=(self.name,), status=status)


def unchanged(versions: Versions[R], who: Who, base_version: int) -> Table[R]:
    """What is in force, where that is still the version that a change was made on; else raises `Stale`."""
    now = versions.current(who.tenant)
    if now.version != base_version:
        raise Stale(now)
    return now


def refused(draft: Draft[R], act: Callable[[], T]) -> tuple[T | None, int]:
    """What `act` answers; None, and the status, where it was refused and the draft now says why."""
    try:
        return act(), 200
    except InvalidPolicy as invalid:
        draft.refuse(invalid)
        return None, 400
    except Stale as stale:
        draft.base_version, draft.theirs = stale.current.version, []
        try:
            draft.meet(stale.current)
        except InvalidPolicy as invalid:
            draft.refuse(invalid)
        return None, 409


def done(
    request: HttpRequest, message: str, address: str, show: Callable[[], HttpResponse], level: int = messages.SUCCESS
) -> HttpResponse:
    """After a change: the page at `address`, which htmx gets at once from `show`."""
    messages.add_message(request, level, message)
    if not is_htmx(request):
        return redirect(address)
    response = show()
    response["HX-Push-Url"] = address
    return response


def moved_on(now: Table[Any]) -> str:
    return f"{now.changed_by} saved version {now.version} meanwhile: look at it and try again."
