"""Template tags for the rows of lists and the forms of their filters."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from django import forms
from django.forms.utils import flatatt
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
from handoffaudit.dashboard.templatetags.ui import agent_pair, codes, gravity, icon, option, options, state
from handoffaudit.drawing.lanes import draw_strip
from handoffaudit.filter_fields import ChoiceFilter, FilterField, Order
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


@register.simple_tag(takes_context=True)
def cell_filter(context: Context, field: str, value: str, title: str, icon_name: str = "from") -> SafeString:
    """Return the link of a cell that narrows the list to a value; an empty text for an empty value.

    Usage: `{% cell_filter "handoff_type" handoff.handoff_type "Only this type" %}`. The link shows while the mouse is
    over the row. The Tab key skips the link, because the filters above the list can narrow the list as well.
    """
    if not value:
        return SafeString("")
    # Most rows of a list contain the same few agents, types and states.
    page: dict[Any, Any] = context.render_context.dicts[0]
    known: dict[tuple[str, ...], SafeString] = page.setdefault(cell_filter, {})
    key = (str(context.get("address", "")), field, value, title, icon_name)
    if key not in known:
        known[key] = _cell_filter(context.get("filters") or Filters(), *key)
    return known[key]


# The next page, and the next request for this one, contain many of the same agents, types and states.
@lru_cache(maxsize=2048)
def _cell_filter(filters: Filters, address: str, field: str, value: str, title: str, icon_name: str) -> SafeString:
    return format_html(
        '<a class="cell-filter icon-button" href="{}?{}" tabindex="-1" title="{}">{}</a>',
        address,
        _query(filters, field, value),
        title,
        icon(icon_name),
    )


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

    The fragment names the link itself, so that the focus stays there on the sorted page, also without JavaScript.
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


@register.filter
def pick_most_severe(codes: Sequence[str]) -> str:
    """Return the rule code that a row shows first."""
    return min(codes, key=gravity, default="")


@register.inclusion_tag("components/filter_fields.html")
def filter_fields(form: forms.Form, names: str) -> dict[str, Any]:
    """Render the controls of filters: `{% filter_fields form "type source" %}`."""
    return {"controls": _controls(form, names.split())}


@register.inclusion_tag("components/filter_fields.html#more_filters")
def more_filters(form: forms.Form, besides: str) -> dict[str, Any]:
    """Render the filters that have a label and are not in `besides`, folded away unless one of them is active."""
    names = [name for name, field in form.fields.items() if field.label and name not in besides.split()]
    controls = _controls(form, names)
    return {"controls": controls, "is_open": any(control["value"] for control in controls)}


def _controls(form: forms.Form, names: Iterable[str]) -> list[dict[str, Any]]:
    controls: list[dict[str, Any]] = []
    lists: dict[int, str] = {}
    for name in names:
        bound = form[name]
        declared: FilterField = bound.field  # type: ignore[assignment]
        kind, value = declared.widget.input_type, bound.value() or ""
        is_select, is_shared = kind == "select", id(declared.options) in lists
        controls.append(
            {
                "id": bound.auto_id,
                "name": name,
                "label": declared.label,
                "value": value,
                "kind": kind,
                "attributes": flatatt(declared.widget.attrs),
                "options": _options(declared, name, value if is_select else "") if is_select or not is_shared else "",
                # Fields with the same suggestions share a list.
                "list": lists.setdefault(id(declared.options), name) if declared.options and not is_select else "",
                "empty_label": declared.empty_label,
            }
        )
    return controls


def _options(declared: FilterField, name: str, chosen: str) -> SafeString:
    if not isinstance(declared.options, Mapping):
        return options(declared.options, chosen, "codes" if name == "code" else "")
    is_free = chosen and not isinstance(declared, ChoiceFilter) and not _has_option(declared.options, chosen)
    more = option(chosen, chosen, is_chosen=True) if is_free else SafeString()
    return _render(declared.options, chosen) + more


def _render(offered: Mapping[str, Any], chosen: str) -> SafeString:
    parts = (
        option(value, label, is_chosen=value == chosen)
        if isinstance(label, str)
        else format_html('<optgroup label="{}">{}</optgroup>', value, _render(label, chosen))
        for value, label in offered.items()
    )
    return mark_safe("".join(parts))  # noqa: S308 -- each part is escaped


def _has_option(offered: Mapping[str, Any], chosen: str) -> bool:
    if isinstance(offered.get(chosen), str):
        return True
    return any(chosen in group for group in offered.values() if not isinstance(group, str))


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
        f"{queue_age(one.received_at)}\n"
        "</span>\n"
        f'<span class="queue-line"><span class="queue-why">{codes(one.codes, 1)}</span></span>\n'
        '<span class="queue-line queue-signs">\n'
        f"{state(one.state)}\n"
        f'<span class="queue-type">{handoff_type}</span>\n'
        f"{signs}\n"
        f"{queue_hold(row)}\n"
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
        if one.escalated
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
    return f'\n<span class="tag tag--{tone}" title="{escape(title)}">\n{icon(name)}{text}\n</span>\n'
