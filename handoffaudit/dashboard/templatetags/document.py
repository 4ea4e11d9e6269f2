"""How a sender's document and texts are written in a template."""

from django.template import Library

from handoffaudit.dashboard.nodes import steps
from handoffaudit.dashboard.readable import readable as shown_readable

register = Library()
register.filter("steps", steps)


@register.filter
def readable(text: str) -> str:
    """With control and direction characters shown as what they are."""
    return shown_readable(text)
