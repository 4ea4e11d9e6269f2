"""Template tags for the rows of lists and the heads of their columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.template import Library
from django.template.context import Context
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.access import to_local
from handoffaudit.dashboard.live import render_state, token_of
from handoffaudit.dashboard.navigation import build_trace_url
from handoffaudit.dashboard.review.queue import Row
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.ui import NONE, agent_pair, codes, gravity, handoff_time, icon, score, state
from handoffaudit.drawing.lanes import draw_strip
from handoffaudit.filter_fields import Order
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff

register = Library()
_ANY_ID = UUID(int=0)
_ANY_NUMBER = 9_007_199_254_740_991


@register.simple_tag
def live_row(handoff: Handoff) -> SafeString | str:
    """Return the attribute for live updates of a row: `<td {% live_row handoff %}>`.

    The attribute holds the id of the handoff, and the version that the page shows. The result is empty for a handoff
    that rarely changes.
    """
    token = token_of(handoff)
    return format_html('data-live-row="{}"', token) if token else ""


@register.simple_tag
def live_state(handoff: Handoff, place: str | int) -> SafeString:
    """Render a state that live updates keep current outside of a list: `{% live_state handoff "newest" %}`."""
    return render_state(handoff, place)


@register.simple_tag(takes_context=True)
def narrow_query(context: Context, field: str, value: str) -> str:
    """Return the query of the list with one more filter: `{% narrow_query "source" handoff.source_agent_id %}`.

    A page that is no list has no filters, so the query then has only this filter.
    """
    return _query(context.get("filters") or Filters(), field, value)


def _query(filters: Filters, field: str, value: str) -> str:
    change: dict[str, Any] = {field: (value,) if field == "state" else value}
    return replace(filters, **change).to_query()


@register.simple_tag
def row_address(name: str, slug: str, pk: UUID | int) -> str:
    """Return an address as `url` does: `{% row_address "dashboard:review_item" who.tenant.slug handoff.pk %}`.

    The address is resolved once for all rows of a list, because resolving is slow.
    """
    before, after = _around(name, slug, _ANY_ID if isinstance(pk, UUID) else _ANY_NUMBER)
    return f"{before}{pk}{after}"


@lru_cache(maxsize=1024)
def _around(name: str, slug: str, placeholder: UUID | int) -> tuple[str, str]:
    """Return the parts of an address before and after the id of the row."""
    before, _, after = reverse(name, args=[slug, placeholder]).rpartition(str(placeholder))
    return before, after


@register.simple_tag(takes_context=True)
def sort_head(context: Context, label: str, classes: str, *names: str) -> SafeString:
    """Render the head of a column that sorts the list: `{% sort_head "Time" "col-time" "newest" "oldest" %}`.

    `names` are the orders of the column. The link chooses the first of them or, if the list already has one of them,
    the next. If the list already has the only order of the column, the link returns to the default order. Without
    `views` in the context, the head has no link.
    """
    if "views" not in context:
        return format_html('<th scope="col" role="columnheader" class="{}">{}</th>', classes, label)
    link, _ = sort_link(context, label, *names)
    return format_html(
        '<th scope="col" role="columnheader" class="{}"{}>{}</th>', classes, sort_state(context, *names), link
    )


@register.simple_tag(takes_context=True)
def sort_state(context: Context, *names: str) -> SafeString | str:
    """Return the attribute of a head that says how this column sorts the list; empty if another column does."""
    filters = context["filters"]
    if filters.sort not in names:
        return ""
    return format_html(' aria-sort="{}"', "descending" if filters.order.is_descending else "ascending")


@register.simple_tag(takes_context=True)
def sort_by(context: Context, label: str, *names: str) -> SafeString:
    """Render the link of `sort_head` alone, for lists that are not tables."""
    link, _ = sort_link(context, label, *names)
    return link


def sort_link(context: Context, label: str, *names: str) -> tuple[SafeString, Order]:
    """Return the link that sorts the list by a column, and the present order of the list.

    The fragment of the address names the link itself. The link thus keeps the focus, also without JavaScript.
    """
    filters, views = context["filters"], context["views"]
    orders, usual = type(filters).orders(), type(filters)().sort
    at = names.index(filters.sort) if filters.sort in names else -1
    wanted = usual if names == (filters.sort,) else names[(at + 1) % len(names)]
    sign = icon("down" if filters.order.is_descending else "up") if at >= 0 else ""
    name = f"sort-{names[0].removeprefix('-')}"
    link = format_html(
        '<a class="sort" id="{}" href="{}#{}" title="{}">{}{}</a>',
        name,
        views.href(filters.to_query(sort=wanted)),
        name,
        f"Sort: {orders[wanted].label}",
        label,
        sign,
    )
    return link, filters.order


@register.simple_tag(takes_context=True)
def handoff_rows(context: Context) -> SafeString:
    """Render the rows of `handoffs` for `dashboard/handoffs/table.html`.

    Rendering fifty rows with templates would take most of the time of the page.
    """
    slug, more = context["who"].tenant.slug, context.get("list_query", "")
    links = CellLinks(context.get("filters") or Filters(), str(context.get("address", "")))
    query, selects = f"?{more}" if more else "", bool(context.get("views"))
    rows = (_render_handoff(one, links, slug, query, selects=selects) for one in context["handoffs"])
    return mark_safe("\n".join(rows))  # noqa: S308 -- the rows are markup


class CellLinks:
    """The links of cells that narrow the list at `address` to a value.

    A link shows while the mouse is over its row. The Tab key skips the links, because the filters above the list can
    narrow the list as well.
    """

    def __init__(self, filters: Filters, address: str) -> None:
        self._filters = filters
        self._address = escape(address)
        # Most rows of a list contain the same few agents, types and states.
        self._known: dict[tuple[str, str], str] = {}

    def to(self, field: str, value: str, title: str, icon_name: str = "from") -> str:
        """Render the link to the list with this filter; an empty text for an empty value."""
        if not value:
            return ""
        key = (field, value)
        if key not in self._known:
            query = escape(_query(self._filters, field, value))
            self._known[key] = (
                f'<a class="cell-filter icon-button" href="{self._address}?{query}" tabindex="-1" title="{title}">'
                f"{icon(icon_name)}</a>"
            )
        return self._known[key]


def render_live_cells(handoff: Handoff, links: CellLinks) -> str:
    """Render the cells of a row that a verdict or a decision changes."""
    return f"{_render_state_cell(handoff, links)}\n{_render_verdict_cells(handoff, links)}"


def _render_handoff(one: Handoff, links: CellLinks, slug: str, query: str, *, selects: bool) -> str:
    """Render a row. `query` is the query that names the list on the page of the handoff."""
    source, target = one.source_agent_id, one.target_agent_id
    handoff_type = escape(readable(one.handoff_type))
    address = escape(f"{row_address('dashboard:handoff', slug, one.pk)}{query}")
    return (
        f'<tr role="row">\n{_render_select(one) if selects else ""}'
        f'<td role="cell" class="col-time">{handoff_time(one)}</td>\n'
        f"{_render_state_cell(one, links)}\n"
        '<td role="cell" class="col-pair"><div class="cell">'
        f'<a class="row-link" data-row data-item="{one.pk}" href="{address}">{agent_pair(source, target)}</a>\n'
        f'<span class="cell-filters">{links.to("source", source, "Only from this source")}'
        f"{links.to('target', target, 'Only to this target', 'into')}</span></div></td>\n"
        f'<td role="cell" class="col-type" title="{handoff_type}">{handoff_type or NONE}\n'
        f"{links.to('handoff_type', one.handoff_type, 'Only this type')}</td>\n"
        f"{_render_verdict_cells(one, links)}\n"
        f'<td role="cell" class="col-trace"><div class="cell">{_render_trace(one.trace_id, slug)}\n'
        f"{links.to('trace', one.trace_id, 'Only this trace')}</div></td>\n</tr>"
    )


def _render_trace(trace_id: str, slug: str) -> str:
    if not trace_id:
        return NONE
    name, address = escape(readable(trace_id)), escape(trace_url(slug, trace_id))
    return f'<a class="trace-link" href="{address}" title="{name}"><bdi>{name}</bdi></a>'


def _render_select(one: Handoff) -> str:
    source, target, handoff_id = (
        escape(readable(text)) for text in (one.source_agent_id, one.target_agent_id, one.handoff_id)
    )
    return (
        '<td role="cell" class="col-select"><input type="checkbox" class="row-select" name="select" '
        f'value="{one.pk}:{one.version}" form="selected" aria-label="Select {source} → {target}, {handoff_id}"></td>\n'
    )


def _render_state_cell(one: Handoff, links: CellLinks) -> str:
    pk, signs = one.pk.hex, "".join(_render_state_signs(one))
    return (
        f'<td role="cell" class="col-state" id="state-{pk}" data-live-of="{pk}" data-version="{one.version}" '
        f"{live_row(one)}>\n{state(one.state)}\n{signs}{links.to('state', one.state, 'Only this state')}</td>"
    )


def _render_state_signs(one: Handoff) -> Iterator[str]:
    if one.parked:
        yield f'<span class="tag tag--bad">{icon("parked")}parked</span>\n'
    if one.flagged:
        title = "Accepted or approved unverified; the LLM would have rejected it"
        yield _render_sign("bad", title, "warning", "flagged")
    if one.is_llm_check_missed:
        yield _render_sign("plain", "The LLM check was not made", "eye", "unverified")
    if one.open:
        yield _render_sign("quiet", "Its end was not reported yet", "clock", "open")
    if one.would_decide:
        yield _render_sign("quiet", f"In shadow mode; it would have been {one.would_decide}", "eye", "shadow")


def _render_verdict_cells(one: Handoff, links: CellLinks) -> str:
    pk, shown, link = one.pk.hex, "", ""
    if one.codes:
        shown, link = codes(one.codes, 1), links.to("code", pick_most_severe(one.codes), "Only this rule code")
    tokens = NONE if one.token_count is None else f"{one.token_count:,}"
    return (
        f'<td role="cell" class="col-codes" id="codes-{pk}" data-live-of="{pk}">{shown}\n{link}</td>\n'
        f'<td role="cell" class="col-score end" id="score-{pk}" data-live-of="{pk}">{score(one.score)}</td>\n'
        f'<td role="cell" class="col-tokens end number" id="tokens-{pk}" data-live-of="{pk}">{tokens}</td>'
    )


def pick_most_severe(codes: Sequence[str]) -> str:
    """Return the rule code that a row shows first."""
    return min(codes, key=gravity, default="")


@register.filter
def format_wait(since: datetime) -> str:
    """Format the time since a moment in one unit, for narrow places: `{{ handoff.received_at|format_wait }}`."""
    seconds = max(0, int((timezone.now() - since).total_seconds()))
    for name, unit in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


@register.simple_tag
def queue_age(since: datetime) -> SafeString:
    """Render the time since a moment in one unit, with the moment on hover: `{% queue_age handoff.received_at %}`."""
    # The markup contains no text from a sender or a user.
    return mark_safe(  # noqa: S308
        f'<time class="queue-age" datetime="{since.isoformat()}" title="{since:%Y-%m-%d %H:%M:%S} UTC">'
        f"{format_wait(since)}</time>"
    )


@register.simple_tag
def state_strip(states: Sequence[str], number: int) -> SafeString:
    """Render the states of a trace as a strip: `{% state_strip trace.states forloop.counter %}`."""
    # The drawing contains only names of states.
    return mark_safe(draw_strip(states, prefix=f"strip-{number}").svg)  # noqa: S308


# Many rows of a list are of one trace.
@register.simple_tag
@lru_cache(maxsize=1024)
def trace_url(slug: str, trace_id: str) -> str:
    """Return the address of a trace: `{% trace_url who.tenant.slug handoff.trace_id as url %}`."""
    return build_trace_url(slug, trace_id)


@register.simple_tag(takes_context=True)
def queue_rows(context: Context) -> SafeString:
    """Render the rows of the review queue in the context.

    Rendering fifty rows with templates would take most of the time of the page.
    """
    queue, who, handoff = context["queue"], context["who"], context.get("handoff")
    query, opened, may_review = queue.query, handoff.pk if handoff else None, bool(context.get("may_review"))
    rows = (_render_row(row, who.tenant.slug, query, opened, may_review=may_review) for row in queue.rows)
    return mark_safe("\n" + "".join(f"\n\n{row}\n\n" for row in rows) + "\n")  # noqa: S308 -- the rows are markup


def _render_row(row: Row, slug: str, query: str, opened: UUID | None, *, may_review: bool) -> SafeString:
    """Render a row. `query` is the query of the queue, `opened` the handoff that the page shows beside it."""
    one = row.handoff
    own = " data-own" if row.is_own else ""
    address = escape(f"{row_address('dashboard:review_item', slug, one.pk)}{query}")
    current = ' aria-current="true"' if one.pk == opened else ""
    handoff_type = escape(readable(one.handoff_type) or "no type")
    signs = "\n".join(_render_signs(row))
    # Texts of senders and people are escaped, the other parts are markup.
    return mark_safe(  # noqa: S308
        f'<li class="queue-row" data-row="{one.pk}" {live_row(one)}{own}>\n'
        f"{_render_pick(row) if may_review and row.waits else ''}\n"
        f'<a class="queue-link"\nhref="{address}"\n{current}>\n'
        '<span class="queue-line">\n'
        f'<span class="queue-who">{agent_pair(one.source_agent_id, one.target_agent_id)}</span>\n'
        "</span>\n"
        f'<span class="queue-line"><span class="queue-why">{codes(one.codes, 1)}</span></span>\n'
        '<span class="queue-line queue-signs">\n'
        f"{state(one.state)}\n"
        f'<span class="queue-type">{handoff_type}</span>\n'
        f"{signs}\n"
        f"{queue_hold(row)}\n"
        f"{queue_age(one.received_at)}\n"
        "</span>\n</a>\n</li>"
    )


@register.simple_tag
def queue_hold(row: Row) -> SafeString:
    """Render who has the handoff open; the element is empty if nobody else has it open."""
    place = f'<span class="queue-hold" id="hold-{row.handoff.pk}"'
    if not row.hold:
        return mark_safe(f"\n\n\n{place}></span>\n\n\n")  # noqa: S308
    name = escape(row.hold.person.get_username())
    return mark_safe(  # noqa: S308
        f"\n\n\n{place} data-held>\n"
        f'<span class="tag tag--quiet" title="{name} has this open">{icon("eye", "Open by")}{name}</span>\n'
        "</span>\n\n\n"
    )


def _render_pick(row: Row) -> str:
    one = row.handoff
    source, target = (escape(readable(name) or "(no name)") for name in (one.source_agent_id, one.target_agent_id))
    return (
        '\n<label class="queue-pick">\n'
        f'<input class="queue-select"\ntype="checkbox"\nname="select"\nform="several"\nvalue="{one.pk}:{one.version}"\n'
        f'aria-label="Select {source} to {target}, received {to_local(one.received_at):%H:%M:%S}">\n'
        "</label>\n"
    )


def _render_signs(row: Row) -> Iterator[str]:
    """Yield each sign of the row; an empty text for a sign that the row does not have."""
    one, proposal, passed = row.handoff, row.proposal, row.passed
    yield (
        _render_sign("bad", "Needs a person: a finding is critical, or no tries are left", "warning", "escalated")
        if one.flags["escalated"]
        else ""
    )
    yield (
        f'\n<span class="tag tag--bad" title="Held for longer than its type’s limit">{icon("clock")}overdue</span>\n'  # noqa: RUF001
        if one.overdue
        else ""
    )
    yield (
        _render_sign("wait", f"{proposal.actor} proposes to {proposal.decision}", "person", "2nd person")
        if proposal
        else ""
    )
    if not passed:
        yield ""
        return
    title = escape(f"{passed.by}: {passed.note}" if passed.note else passed.by)
    text = f"to {escape(passed.to.get_username())}" if passed.to else "set aside"
    yield f'\n<span class="tag tag--quiet queue-passed"\ntitle="{title}">\n{icon("arrow")}{text}\n</span>\n'


def _render_sign(tone: str, title: str, name: str, text: str) -> str:
    return f'\n<span class="tag tag--{tone}" title="{escape(title)}">{icon(name)}{text}</span>\n'
