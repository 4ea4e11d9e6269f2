"""The search in a tenant: its results in the command menu, and the same results as a page."""

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Final
from urllib.parse import urlencode

from django.db import OperationalError, connection, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import path, reverse
from django.views.decorators.http import require_safe

from handoffaudit.accounts.models import Role
from handoffaudit.dashboard.access import TenantMembership, render_page, require_role, target_of
from handoffaudit.dashboard.filters import names_of
from handoffaudit.dashboard.navigation import build_agent_url, build_trace_url, menu_of
from handoffaudit.dashboard.templatetags.ui import code_title
from handoffaudit.diagnostics import text_index
from handoffaudit.diagnostics.agents import declared_names
from handoffaudit.handoffs import db, queries, stats
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.layers import CATALOGUE

LONGEST: Final = 200
# Limits of one search, in this order: results of each kind other than pages and commands, text matches, agents that
# are not among the known values, and seconds.
MOST: Final = 6
MOST_TEXTS: Final = 20
MOST_AGENTS: Final = 50
SECONDS: Final = 0.5

MENU: Final = "command-results"


@dataclass(frozen=True, slots=True)
class Hit:
    """One result: a link or, if it has a `name`, a button that posts `name` and `value` to `href`.

    The line under the title describes `handoff` or, if there is none, is `detail`.
    """

    title: str
    href: str
    detail: str = ""
    handoff: Handoff | None = None
    name: str = ""
    value: str = ""
    icon: str = ""


@dataclass(frozen=True, slots=True)
class HitGroup:
    """The results of a kind. `more` is a sentence if there are more results than `hits`."""

    label: str
    icon: str
    hits: Sequence[Hit]
    more: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page that the menu does not list, or a command that opens a page or a download."""

    label: str
    name: str
    detail: str = ""
    least: Role = Role.VIEWER
    query: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """A command that posts `value` in the field `name`, such as a theme. Without a value, `name` is that of a URL."""

    label: str
    name: str
    value: str = ""
    detail: str = ""


PAGES: Final = (
    Page("Reports of handoff files", "file_reports", "Diagnostics"),
    Page("Overturned findings", "noise", "Diagnostics"),
    Page("LLM health", "model_health", "Diagnostics"),
    Page("Alerts", "alerts", "Diagnostics"),
    Page("Declared routes", "declared", "Agents"),
    Page("Roles of agents", "roles", "Agents"),
    Page("History", "policy_history", "Policies"),
    Page("Rule codes", "help_codes", "Help"),
    Page("API reference", "help_api", "Help"),
    Page("People", "settings", "Settings", Role.ADMIN),
    Page("API keys", "settings_keys", "Settings", Role.ADMIN),
    Page("Webhooks", "settings_webhooks", "Settings", Role.ADMIN),
    Page("Retention", "retention", "Settings", Role.ADMIN),
    Page("Legal holds", "holds", "Settings", Role.ADMIN),
    Page("Erasures", "erasures", "Settings", Role.ADMIN),
    Page("Audit log", "settings_audit", "Settings", Role.ADMIN),
)

COMMANDS: Final = (
    Page("Review the next handoff", "review_next", "Open the first handoff of the queue", Role.REVIEWER),
    Page("Connect an agent", "connect", "Send the first handoff"),
    Page("Create API key", "settings_keys", "For an agent, a program or CI", Role.ADMIN),
    Page("Invite a person", "settings", "With a link for one use", Role.ADMIN),
    Page("Add webhook", "settings_webhooks", "Or an e-mail address", Role.ADMIN),
    Page("Import log", "log_import", "Upload a log of a run", Role.REVIEWER),
    Page("Dry run of a policy", "strictness", "Try a changed row on past handoffs", Role.ADMIN),
    Page("Export handoffs as CSV", "handoffs_export", "For a spreadsheet", query="format=csv"),
    Page("Export handoffs as NDJSON", "handoffs_export", "One object per line", query="format=ndjson"),
    Page("Export compliance as CSV", "compliance_csv", "For a spreadsheet"),
)

CHOICES: Final = (
    Choice("Light theme", "theme", "light"),
    Choice("Dark theme", "theme", "dark"),
    Choice("System theme", "theme", "system", "Follow the system"),
    Choice("Comfortable density", "density", "comfortable"),
    Choice("Compact density", "density", "compact"),
    Choice("Sign out", "account_logout"),
)


class OutOfTime(Exception):
    """The statements of a `time_limit` took too long."""


# The SQLSTATE of a statement that was canceled.
QUERY_CANCELED: Final = "57014"


@contextmanager
def time_limit(seconds: float) -> Generator[None]:
    """Limit the time of the statements in this block; raise `OutOfTime` if they take longer.

    The limit holds for each statement on PostgreSQL, and for all statements together on SQLite.
    """
    if db.is_postgresql():
        with _as_out_of_time(), transaction.atomic(), connection.cursor() as cursor:
            change = "SELECT current_setting('statement_timeout'), set_config('statement_timeout', %s, true)"
            before, _ = cursor.execute(change, [str(int(seconds * 1000))]).fetchone()
            yield
            # Restore the limit of an outer transaction for its later statements.
            cursor.execute(change, [before])
        return
    connection.ensure_connection()
    with _as_out_of_time(), connection.connection.limit_together(seconds):
        yield


@contextmanager
def _as_out_of_time() -> Generator[None]:
    try:
        yield
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", "") == QUERY_CANCELED or str(error) == "interrupted":
            raise OutOfTime from error
        raise


@require_role(Role.VIEWER)
@require_safe
def search(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Show the results, or redirect.

    Outside the command menu, redirect to the handoff whose id is the text, or else to the only result
    (`_pick_only_hit`). If the search ran out of time, do not redirect to the only result.
    """
    text = clean(request.GET.get("q", ""))
    in_menu = target_of(request) == MENU
    found: list[HitGroup] = []
    is_slow = False
    try:
        with time_limit(SECONDS):
            if not in_menu and (handoff := _find_exact(who, text)):
                return HttpResponseRedirect(_handoff_hit(who.tenant.slug, handoff).href)
            for group in _groups(_Search(who, text)):
                found.append(group)  # noqa: PERF402 -- groups found in time are kept
    except OutOfTime:
        is_slow = True
    if not in_menu and text and not is_slow and (meant := _pick_only_hit(found)):
        return HttpResponseRedirect(meant.href)
    template = "dashboard/search/results.html" if in_menu else "dashboard/search/page.html"
    context = {"text": text, "groups": found, "in_menu": in_menu, "is_slow": is_slow, "longest": LONGEST}
    return render_page(request, template, context)


@require_role(Role.VIEWER)
@require_safe
def redirect_search(request: HttpRequest, who: TenantMembership) -> HttpResponse:
    """Redirect from the former address of the search."""
    address = reverse("dashboard:search", args=[who.tenant.slug])
    return HttpResponseRedirect(f"{address}?{urlencode({'q': request.GET.get('q', '')})}")


def clean(text: str) -> str:
    """Return the text without NUL and lone surrogates, cut to `LONGEST` characters.

    Spaces and quotes around the text, and the `…` after a shortened id, are removed.
    """
    text = text[: 2 * LONGEST].replace("\x00", "").encode("utf-8", "ignore").decode()
    return text.strip().strip("\"'`").removesuffix("…").removesuffix("...").strip()[:LONGEST]


def _pick_only_hit(found: Sequence[HitGroup]) -> Hit | None:
    """Return the only result among handoffs and traces or, if they have none, the only result of all kinds.

    Return None if that result is a button.
    """
    every = [hit for group in found for hit in group.hits]
    by_id = [hit for group in found if group.label in (HANDOFFS, TRACES) for hit in group.hits]
    (only,) = by_id if len(by_id) == 1 else every if len(every) == 1 else (None,)
    return only if only and not only.name else None


HANDOFFS: Final = "Handoffs"
TRACES: Final = "Traces"
TEXTS: Final = "Text in blocked handoffs"


@dataclass(frozen=True)
class _Search:
    """A text, and the person who searches."""

    who: TenantMembership
    text: str

    @property
    def slug(self) -> str:
        return self.who.tenant.slug

    @cached_property
    def known(self) -> stats.KnownValues:
        return stats.list_known_values(self.who.tenant)

    @cached_property
    def handoffs(self) -> QuerySet[Handoff]:
        return queries.of_tenant(self.who.tenant)


def _groups(asked: _Search) -> Iterator[HitGroup]:
    """Yield the results of each kind that has any. Without a text, yield only pages and commands.

    Each kind with a limit is asked for one result more than is shown.
    """
    for kind in KINDS if asked.text else (PAGE_KIND, COMMAND_KIND):
        label, icon, find = kind
        if hits := find(asked):
            most = len(hits) if kind in (PAGE_KIND, COMMAND_KIND) else MOST_TEXTS if label == TEXTS else MOST
            yield HitGroup(label, icon, hits[:most], _describe_more(label, most) if len(hits) > most else "")


def _describe_more(label: str, most: int) -> str:
    if label == TEXTS:
        return f"These are the newest {most}. To find older ones, add words."
    return f"There are more than {most}. To find others, type a longer text."


def _find_exact(who: TenantMembership, text: str) -> Handoff | None:
    try:
        return queries.get(who.tenant, text) if text else None
    except Handoff.DoesNotExist:
        return None


def _handoffs(asked: _Search) -> list[Hit]:
    exact = _find_exact(asked.who, asked.text)
    found = queries.find_by_prefix(asked.who.tenant, asked.text, MOST + 1)
    rows = [exact, *(row for row in found if row.pk != exact.pk)] if exact else found
    return [_handoff_hit(asked.slug, row) for row in rows[: MOST + 1]]


def _handoff_hit(slug: str, handoff: Handoff) -> Hit:
    title = handoff.handoff_id or str(handoff.pk)
    return Hit(title, reverse("dashboard:handoff", args=[slug, handoff.pk]), handoff=handoff)


def _traces(asked: _Search) -> list[Hit]:
    tenant_id, text = asked.who.tenant.pk, asked.text
    spellings = dict.fromkeys((text, text.lower(), text.upper()))
    listed = (stats.list_by_prefix(Handoff, "trace_id", tenant_id, one, MOST + 1) for one in spellings)
    found = next(filter(None, listed), [])
    newest = [asked.handoffs.filter(trace_id=one).order_by("-id").first() for one in found]
    return [Hit(one, build_trace_url(asked.slug, one), handoff=row) for one, row in zip(found, newest, strict=True)]


def _agents(asked: _Search) -> list[Hit]:
    tenant, sources, targets = asked.who.tenant, set(asked.known.sources), set(asked.known.targets)
    if stats.MENU_LENGTH in (len(sources), len(targets)):
        # `known` lists a limited number of agents. Further agents are found by the beginning of their names.
        more = stats.list_agents_from(tenant, asked.text, MOST_AGENTS)
        sources, targets = sources.union(more[0]), targets.union(more[1])
    found = _best(sources | targets, asked.text)
    if len(found) <= MOST:
        found = _best({*sources, *targets, *declared_names(tenant)}, asked.text)
    sides = {(True, True): "source and target", (True, False): "source", (False, True): "target"}
    return [
        Hit(one, build_agent_url(asked.slug, one), sides.get((one in sources, one in targets), "declared"))
        for one in found
    ]


def _types(asked: _Search) -> list[Hit]:
    address = reverse("dashboard:handoffs", args=[asked.slug])
    return [
        Hit(one, f"{address}?{Filters(handoff_type=one).to_query()}", "All handoffs of this type")
        for one in _best(set(asked.known.types), asked.text)
    ]


def _best(values: set[str], text: str) -> list[str]:
    """Return the values that contain the text, ignoring case: equal values first, then values that begin with it."""
    wanted = text.casefold()
    found = [(value.casefold(), value) for value in values if wanted in value.casefold()]
    ordered = sorted(found, key=lambda one: (one[0] != wanted, not one[0].startswith(wanted), one))
    return [value for _, value in ordered[: MOST + 1]]


def _codes(asked: _Search) -> list[Hit]:
    wanted = " ".join(asked.text.casefold().split())
    made = [code for code in asked.known.codes if code not in CATALOGUE]
    found = [(code, names_of(code)) for code in (*CATALOGUE, *made) if any(wanted in name for name in names_of(code))]
    found.sort(key=lambda one: (wanted not in one[1], not any(name.startswith(wanted) for name in one[1])))
    return [
        Hit(code_title(code), reverse("dashboard:code", args=[asked.slug, code]), code) for code, _ in found[: MOST + 1]
    ]


def _pages(asked: _Search) -> list[Hit]:
    listed = [
        Hit(link.page.label, link.href, label, icon=link.page.icon)
        for label, links in menu_of(asked.who)
        for link in links
    ]
    more = [_page_hit(asked, page) for page in PAGES if asked.who.may(page.least)]
    return [hit for hit in (listed + more if asked.text else listed) if _is_named(hit, asked.text)]


def _commands(asked: _Search) -> list[Hit]:
    hits = [_page_hit(asked, page) for page in COMMANDS if asked.who.may(page.least)]
    for one in CHOICES:
        address = reverse("dashboard:theme", args=[asked.slug]) if one.value else reverse(one.name)
        hits.append(Hit(one.label, address, one.detail, name=one.name, value=one.value))
    return [hit for hit in hits if _is_named(hit, asked.text)]


def _page_hit(asked: _Search, page: Page) -> Hit:
    address = reverse(f"dashboard:{page.name}", args=[asked.slug])
    return Hit(page.label, f"{address}?{page.query}" if page.query else address, page.detail)


def _is_named(hit: Hit, text: str) -> bool:
    """Return whether each word of the text begins a word of the title."""
    words = hit.title.casefold().split()
    return all(any(word.startswith(part) for word in words) for part in text.casefold().split())


def _search_texts(asked: _Search) -> list[Hit]:
    found = text_index.search(asked.who.tenant, asked.text, MOST_TEXTS + 1)
    rows = asked.handoffs.in_bulk(found)
    return [_handoff_hit(asked.slug, rows[pk]) for pk in sorted(rows, reverse=True)]


_Kind = tuple[str, str, Callable[[_Search], list[Hit]]]
PAGE_KIND: Final[_Kind] = ("Pages", "arrow", _pages)
COMMAND_KIND: Final[_Kind] = ("Commands", "keyboard", _commands)
KINDS: Final[Sequence[_Kind]] = (
    (HANDOFFS, "handoffs", _handoffs),
    (TRACES, "traces", _traces),
    PAGE_KIND,
    COMMAND_KIND,
    ("Agents", "agents", _agents),
    ("Handoff types", "schemas", _types),
    ("Rule codes", "findings", _codes),
    (TEXTS, "rejected", _search_texts),
)

urlpatterns = [path("search/", search, name="search"), path("handoffs/find/", redirect_search, name="handoffs_find")]
