"""Template tags for the decision box, for pages whose views do not provide it."""

from datetime import datetime
from typing import Any

from django.template import Library
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe

from handoffaudit.dashboard.review.item import Box, box_of
from handoffaudit.handoffs.models import Handoff

register = Library()


@register.simple_tag(takes_context=True)
def box(context: dict[str, Any], handoff: Handoff) -> Box:
    """Return the decision box of a handoff for `components/review_box.html`: `{% box handoff as box %}`."""
    return box_of(context["who"], handoff)


@register.filter
def waited(since: datetime) -> str:
    """Format the time since a moment in one unit, for narrow places: `{{ handoff.received_at|waited }}`."""
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
        f"{waited(since)}</time>"
    )
