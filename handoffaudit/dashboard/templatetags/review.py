"""Template tags for the decision box and for links to finding groups, for pages whose views do not provide them."""

from datetime import datetime
from typing import Any

from django.template import Context, Library
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.review.item import Box, box_of
from handoffaudit.diagnostics.groups.membership import group_among, groups_by_key
from handoffaudit.handoffs.models import Handoff

register = Library()


@register.simple_tag(takes_context=True)
def box(context: dict[str, Any], handoff: Handoff) -> Box:
    """Return the decision box of a handoff for `components/review_box.html`: `{% box handoff as box %}`."""
    return box_of(context["who"], handoff)


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


@register.inclusion_tag("dashboard/groups/link.html", takes_context=True)
def group_link(context: Context, handoff: Handoff, code: str, path: str | None) -> dict[str, Any]:
    """Link to the finding group of a finding, with the number of its handoffs; render nothing if there is no group.

    Usage: `{% group_link handoff issue.code issue.field_path %}`. The groups of a handoff are loaded once
    for all of its findings.
    """
    # The groups are cached on the instance, as Django caches related objects.
    if "_finding_groups" not in vars(handoff):
        vars(handoff)["_finding_groups"] = groups_by_key(handoff)
    groups = vars(handoff)["_finding_groups"]
    return {"group": group_among(groups, handoff, code, path or ""), "who": context["who"]}
