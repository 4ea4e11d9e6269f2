"""Template filters for documents, texts of senders and texts of the OpenAPI description."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from django.template import Library
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from handoffaudit.dashboard.handoffs.document_tree import steps
from handoffaudit.dashboard.safe_text import as_json, cut
from handoffaudit.dashboard.safe_text import readable as shown_readable
from handoffaudit.validation.text import pluralize

register = Library()
_MILD = {"warning": "warning", "info": "note"}
register.filter("steps", steps)


@register.filter
def readable(text: str) -> str:
    """Return the text with control and direction characters made visible."""
    return shown_readable(text)


@register.filter
def as_value(value: Any) -> str:
    """Return a JSON value cut to a few lines; a text stays without quotes."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


@register.filter
def in_json(value: Any) -> str:
    """Return a JSON value cut to a few lines; a text is quoted."""
    return cut(as_json(value), 300)


@register.filter
def duration(milliseconds: float) -> str:
    """Format a duration in milliseconds as `0.12 ms` or `13.0 s`."""
    return f"{milliseconds:.2f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


@register.filter
def describe_result(layer: Mapping[str, Any], issues: Sequence[Mapping[str, Any]]) -> str:
    """Return the result of a layer in a word: its status, or `holds` where the layer holds and does not reject."""
    found = [issue["severity"] for issue in issues if issue["layer"] == layer["name"]]
    holds = layer["status"] == "failed" and "error" not in found and "critical" not in found
    return "holds" if holds else str(layer["status"])


@register.filter
def describe_mild_findings(issues: Sequence[Mapping[str, Any]], layer: str) -> str:
    """Return a layer's findings that do not decide: `12 warnings`, otherwise `1 note`, otherwise an empty string."""
    found = Counter(issue["severity"] for issue in issues if issue["layer"] == layer)
    return next((pluralize(found[name], word) for name, word in _MILD.items() if found[name]), "")


@register.filter
def render_code(text: str) -> SafeString:
    """Return the text with backticked parts as code: `{{ call.about|render_code }}`."""
    return format_html_join("", "{}", ((_part(number, part),) for number, part in enumerate(text.split("`"))))


def _part(number: int, part: str) -> SafeString | str:
    return format_html("<code>{}</code>", part) if number % 2 else part


@register.filter
def words(reason: str) -> str:
    """Return a reason as a heading: `Breaker open`."""
    return reason.replace("_", " ").capitalize()
