"""The box to decide in, which stands on pages that know nothing of it."""

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
    """`{% box handoff as box %}`: what `components/review_box.html` shows of it."""
    return box_of(context["who"], handoff)


@register.filter
def waited(since: datetime) -> str:
    """`{{ handoff.received_at|waited }}`: how long ago in one unit, where room is scarce."""
    seconds = max(0, int((timezone.now() - since).total_seconds()))
    for name, unit in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


@register.simple_tag
def queue_age(since: datetime) -> SafeString:
    """`{% queue_age handoff.received_at %}`: the same, with the moment on hover."""
    # Nothing in it is anybody's text.
    return mark_safe(  # noqa: S308
        f'<time class="queue-age" datetime="{since.isoformat()}" title="{since:%Y-%m-%d %H:%M:%S} UTC">'
        f"{waited(since)}</time>"
    )
