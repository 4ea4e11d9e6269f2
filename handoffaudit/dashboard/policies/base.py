"""Shared code of the policy pages: addresses, saving a draft, and the history of versions with its pages."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from django.contrib import messages
from django.db.models import Max
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import URLPattern, path, reverse
from django.utils.functional import SimpleLazyObject
from django.utils.http import urlencode
from django.views.decorators.http import require_POST, require_safe

from handoffaudit.accounts.models import Role, Tenant
from handoffaudit.dashboard.access import TenantMembership, is_htmx, render_page, require_role
from handoffaudit.dashboard.policies.cases import CaseCounts, judge_saved
from handoffaudit.dashboard.policies.forms import MOST_COMPARED, MOST_OF_A_VERSION, Draft, Line, Lines, line_of, number
from handoffaudit.handoffs import dry_runs, policy_cases
from handoffaudit.handoffs.models import Trial
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import AS_SHIPPED, Change, NoSuchVersion, Stale, Table, Version, Versions
from handoffaudit.validation.text import pluralize

R = TypeVar("R")

T = TypeVar("T")

BELOW = ("compare", "revert", "save", "delete", "try", "cases")


@dataclass(frozen=True)
class PolicyPage(Generic[R]):
    """The pages of one kind of policy.

    `begins` says what a new tenant starts with, and `lines` describes changes. `below` is the path of the pages if it
    differs from the kind's name, and `least` the lowest role that may open the page.
    """

    versions: Versions[R]
    title: str
    begins: str
    lines: Callable[[Iterable[Change]], list[Line]]
    below: str = ""
    least: Role = Role.VIEWER

    @property
    def name(self) -> str:
        """Return the kind's name, which is used in addresses and as the id of the section that htmx replaces."""
        return self.versions.kind.value

    @property
    def url(self) -> str:
        return f"dashboard:{self.name}"

    @property
    def urls(self) -> dict[str, str]:
        """Return the URL names of the pages below the policy page."""
        return {part: f"{self.url}_{part}" for part in BELOW}

    def address(self, who: TenantMembership, query: Mapping[str, str] | None = None) -> str:
        given = QueryDict(mutable=True)
        given.update(query or {})
        below = reverse(self.url, args=[who.tenant.slug])
        return f"{below}?{given.urlencode()}" if query else below

    def history(self, slug: str) -> str:
        """Return the address of the history, filtered by this kind."""
        return f"{reverse('dashboard:policy_history', args=[slug])}?kind={self.versions.kind.value}"

    def save(self, who: TenantMembership, draft: Draft[R]) -> Table[R]:
        """Save the draft as a new version; raise `Stale` or `InvalidPolicy` if the draft cannot be saved."""
        return self.versions.save(
            tenant=who.tenant,
            base_version=draft.base_version,
            rows=draft.rows(check_version(self.versions, who, draft.base_version)),
            actor=who.person.username,
            note=draft.note,
        )

    def answer(
        self, request: HttpRequest, template: str, context: Mapping[str, Any], now: Table[R], status: int = 200
    ) -> HttpResponse:
        """Render the page, or the section that htmx requested."""
        draft = context.get("editor")
        who: TenantMembership = request.who  # type: ignore[attr-defined]
        shared: dict[str, Any] = {"kind": self, "table": now, "part": True, "history": self.history(who.tenant.slug)}
        shared["kept_cases"] = policy_cases.list_cases(who.tenant).count
        shared["trials"] = SimpleLazyObject(lambda: describe_runs(dry_runs.list_recent(who.tenant, self.versions.kind)))
        if isinstance(draft, Draft) and draft.theirs is not None:
            shared["stale"] = f"{now.changed_by} saved version {now.version} while you were editing. "
            shared["stale"] += "Nothing was overwritten."
        return render_page(request, template, shared | dict(context), partials=(self.name,), status=status)


def check_version(versions: Versions[R], who: TenantMembership, base_version: int) -> Table[R]:
    """Return the current table; raise `Stale` if its version is no longer `base_version`."""
    now = versions.current(who.tenant)
    if now.version != base_version:
        raise Stale(now)
    return now


def save_or_refuse(draft: Draft[R], act: Callable[[], T]) -> tuple[T | None, int]:
    """Run `act` and return its result with status 200; if `act` is refused, return None with an error status.

    The draft then holds the reason: an error at a field, or the changes that somebody else saved meanwhile.
    """
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


def say_saved(
    request: HttpRequest, message: str, cases: CaseCounts | None = None, level: int = messages.SUCCESS
) -> None:
    """Add the message of a change. If there are kept cases, add how many fail now, and a link to them."""
    if cases is None or not cases.total:
        messages.add_message(request, level, message)
        return
    level = messages.WARNING if cases.failed else level
    messages.add_message(request, level, f"{message} {cases.in_force}", extra_tags="cases")


def finish(
    request: HttpRequest,
    message: str,
    address: str,
    show: Callable[[], HttpResponse],
    level: int = messages.SUCCESS,
    cases: CaseCounts | None = None,
) -> HttpResponse:
    """Answer a change with a message and the page at `address`. An htmx request gets the page directly from `show`."""
    say_saved(request, message, cases, level)
    if not is_htmx(request):
        return redirect(address)
    response = show()
    response["HX-Push-Url"] = address
    return response


def conflict_message(now: Table[Any]) -> str:
    return f"{now.changed_by} saved version {now.version} meanwhile: look at it and try again."


PAGE_SIZE: Final = 20

# The pages of each kind, by the value of the kind; `urls` fills this dictionary.
_KIND_PAGES: Final[dict[str, PolicyPage[Any]]] = {}


def urls(page: PolicyPage[Any]) -> list[URLPattern]:
    """Return the URL patterns of a kind's versions, and a redirect from the former address of its history."""
    _KIND_PAGES[page.versions.kind.value] = page
    below = page.below or page.name
    return [
        path(f"{below}/history/", _history_of(page), name=f"{page.name}_history"),
        path(f"{below}/compare/", _compare_of(page), name=f"{page.name}_compare"),
        path(f"{below}/revert/", _revert_of(page), name=f"{page.name}_revert"),
    ]


def _history_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @require_role(Role.VIEWER)
    @require_safe
    def history(request: HttpRequest, who: TenantMembership) -> HttpResponse:
        return redirect(page.history(who.tenant.slug))

    return history


def _compare_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @require_role(Role.VIEWER)
    @require_safe
    def compare(request: HttpRequest, who: TenantMembership) -> HttpResponse:
        old = _version(who, page, request.GET.get("from", ""))
        new = _version(who, page, request.GET.get("to", ""))
        return _difference(request, who, page, old, new)

    return compare


def _revert_of(page: PolicyPage[Any]) -> Callable[..., HttpResponse]:
    @require_role(Role.ADMIN)
    @require_POST
    def revert(request: HttpRequest, who: TenantMembership) -> HttpResponse:
        target = _version(who, page, request.POST.get("to_version", ""))
        base = number(request.POST.get("base_version", ""))
        try:
            saved = page.versions.revert(
                tenant=who.tenant,
                to_version=target.version,
                base_version=-1 if base is None else base,
                actor=who.person.username,
                note=line_of(request.POST, "note"),
            )
        except Stale as stale:
            now = stale.current
            text = f"Not reverted: {now.changed_by} saved version {now.version} meanwhile. Look at it first."
            messages.error(request, text)
            return _difference(request, who, page, now, target, status=409)
        if saved.version == base:
            messages.info(
                request, f"Version {target.version} is the same as the version in force: nothing was changed."
            )
        else:
            cases = judge_saved(who.tenant, page.versions.kind)
            say_saved(request, f"Back to version {target.version}, saved as version {saved.version}.", cases)
        return redirect(page.history(who.tenant.slug))

    return revert


def _difference(
    request: HttpRequest,
    who: TenantMembership,
    page: PolicyPage[Any],
    old: Table[Any],
    new: Table[Any],
    status: int = 200,
) -> HttpResponse:
    """Render the difference between two versions.

    If `old` is the current version, the page shows what a revert to `new` would change.
    """
    current = page.versions.current(who.tenant)
    context = {
        "kind": page,
        "old": old,
        "new": new,
        "lines": Lines.of(page.lines(page.versions.difference(old.rows, new.rows)), MOST_COMPARED),
        "current": current,
        "may_open": who.may(page.least),
        "history": page.history(who.tenant.slug),
        "goes_back": old.version == current.version != new.version,
        "note": line_of(request.POST, "note"),
    }
    return render(request, "dashboard/policy/compare.html", context, status=status)


@dataclass(frozen=True, slots=True)
class Entry:
    """A version of one kind with its changes; `current` is the number of the kind's version in force."""

    kind: PolicyPage[Any]
    table: Table[Any]
    lines: Lines
    current: int
    may_open: bool


@require_role(Role.VIEWER)
@require_safe
def history(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the versions of all kinds, or of the kind that `?kind=` names; `?before=` shows older versions."""
    listed = [kind.value for kind in Kind if kind in _KIND_PAGES]
    name = request.GET.get("kind", "")
    if name and name not in _KIND_PAGES:
        raise Http404("There is no such kind of policy.")
    before = number(request.GET.get("before", ""))
    current = _list_current(who.tenant)
    saved = PolicyVersion.objects.filter(tenant=who.tenant, kind__in=[name] if name else listed)
    if before is not None:
        saved = saved.filter(pk__lt=before)
    # Versions of a tenant are saved one after the other, so the newest has the highest key.
    rows = list(saved.order_by("-pk").values_list("pk", "kind", "number")[: PAGE_SIZE + 1])
    shown = [(kind, version) for _, kind, version in rows[:PAGE_SIZE]]
    if len(rows) <= PAGE_SIZE:
        shown += [(kind, AS_SHIPPED) for kind in listed if kind == name or (not name and kind in current)]
    address = reverse("dashboard:policy_history", args=[who.tenant.slug])
    asked = {"kind": name} if name else {}
    last = rows[PAGE_SIZE - 1][0] if len(rows) > PAGE_SIZE else None
    context = {
        "kinds": [(kind, _KIND_PAGES[kind]) for kind in listed],
        "kind": _KIND_PAGES.get(name),
        "current": current.get(name, AS_SHIPPED),
        "entries": list(_list_entries(who, shown, current)),
        "newest": f"{address}?{urlencode(asked)}" if before is not None else "",
        "next": f"{address}?{urlencode(asked | {'before': last})}" if last is not None else "",
    }
    return render(request, "dashboard/policy/history.html", context)


def _list_current(tenant: Tenant) -> dict[str, int]:
    """Return the number of the newest version of each kind that has a saved version."""
    saved = PolicyVersion.objects.filter(tenant=tenant).order_by()
    return dict(saved.values_list("kind").annotate(Max("number")))


def _list_entries(
    who: TenantMembership, shown: Collection[tuple[str, int]], current: Mapping[str, int]
) -> Iterable[Entry]:
    """Yield an entry for each version in `shown`, in this order. The version numbers of a kind must have no gaps."""
    numbers: dict[str, list[int]] = {}
    for kind, version in shown:
        numbers.setdefault(kind, []).append(version)
    read: dict[tuple[str, int], Version[Any]] = {}
    for kind, those in numbers.items():
        found = _KIND_PAGES[kind].versions.history(who.tenant, before=max(those) + 1, limit=len(those))
        read |= {(kind, one.table.version): one for one in found}
    for kind, version in shown:
        policy, one = _KIND_PAGES[kind], read[kind, version]
        lines = Lines.of(policy.lines(one.changes), MOST_OF_A_VERSION)
        yield Entry(policy, one.table, lines, current.get(kind, AS_SHIPPED), who.may(policy.least))


history_urls = [path("policies/history/", history, name="policy_history")]


def _version(who: TenantMembership, page: PolicyPage[Any], text: str) -> Table[Any]:
    wanted = number(text)
    if wanted is None:
        raise Http404("There is no such version.")
    try:
        return page.versions.at_version(who.tenant, wanted)
    except NoSuchVersion as missing:
        raise Http404(str(missing)) from missing


@dataclass(frozen=True, slots=True)
class DryRunLine:
    """A dry run in a list, with its result in a few words."""

    trial: Trial
    said: str


def describe_runs(rows: Iterable[Trial]) -> list[DryRunLine]:
    return [DryRunLine(trial, _describe(trial)) for trial in rows]


def _describe(trial: Trial) -> str:
    number = sum(trial.flips.values())
    found = f"{pluralize(number, 'verdict')} of {trial.judged:,} would change"
    if not trial.finished_at:
        return f"judging, {trial.judged:,} of {trial.total:,}; so far {found}"
    return f"stopped; {found}" if trial.error else found
