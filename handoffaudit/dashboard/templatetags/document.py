"""How a sender's document and texts are written in a template."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.template import Library

from handoffaudit.dashboard.handoffs.document_tree import steps
from handoffaudit.dashboard.safe_text import as_json, cut
from handoffaudit.dashboard.safe_text import readable as shown_readable
from handoffaudit.validation.text import pluralize

register = Library()
_MILD = {"warning": "warning", "info": "note"}
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
def in_json(value: Any) -> str:
    """A JSON value in at most a few lines, a text in quotes."""
    return cut(as_json(value), 300)


@register.filter
def duration(milliseconds: float) -> str:
    """`0.12 ms`, `13.0 s`."""
    return f"{milliseconds:.2f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


@register.filter
def ended(layer: Mapping[str, Any], issues: Sequence[Mapping[str, Any]]) -> str:
    """How a layer ended, in a word: its status, or `holds` where it holds the handoff and rejects nothing."""
    found = [issue["severity"] for issue in issues if issue["layer"] == layer["name"]]
    holds = layer["status"] == "failed" and "error" not in found and "critical" not in found
    return "holds" if holds else str(layer["status"])


@register.filter
def mild_of(issues: Sequence[Mapping[str, Any]], layer: str) -> str:
    """What a layer found that decides nothing: `12 warnings`, else `1 note`; empty where there is neither."""
    found = Counter(issue["severity"] for issue in issues if issue["layer"] == layer)
    return next((pluralize(found[name], word) for name, word in _MILD.items() if found[name]), "")
