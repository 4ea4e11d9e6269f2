"""The rows of the review queue as markup, because fifty rows of templates would be most of the time of the page."""

from collections.abc import Iterator
from uuid import UUID

from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.access import to_local
from handoffaudit.dashboard.review.queue import Row
from handoffaudit.dashboard.safe_text import readable
from handoffaudit.dashboard.templatetags.lists import live_row, queue_age, row_address
from handoffaudit.dashboard.templatetags.ui import agent_pair, codes, icon, state


def render_row(row: Row, slug: str, query: str, opened: UUID | None, *, may_review: bool) -> SafeString:
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
        f"{render_hold(row)}\n"
        "</span>\n</a>\n</li>"
    )


def render_hold(row: Row) -> SafeString:
    """Render who has the handoff open; the element is empty if nobody else has."""
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
        f'aria-label="Select {source} to {target}, came {to_local(one.received_at):%H:%M:%S}">\n'
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
