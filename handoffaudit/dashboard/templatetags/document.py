"""How a sender's document and texts are written in a template."""

import json
from typing import Any

from django.template import Library

from handoffaudit.dashboard.handoff.nodes import steps
from handoffaudit.dashboard.readable import cut
from handoffaudit.dashboard.readable import readable as shown_readable

register = Library()
register.filter("steps", steps)


@register.filter
def readable(text: str) -> str:
    """With control and direction characters shown as what they are."""
    return shown_readable(text)


@register.filter
def as_value(value: Any) -> str:
    """A JSON value in at most a few lines; a text as it stands."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


@register.filter
def duration(milliseconds: float) -> str:
    """`0.12 ms`, `13.0 s`."""
    return f"{milliseconds:.2f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
