"""The template tag that says what retention removed."""

from typing import Any

from django.template import Library
from django.template.context import RequestContext

from handoffaudit.dashboard.settings.retention import KIND_TEXTS
from handoffaudit.diagnostics import retention_run
from handoffaudit.policy.retention import Data

register = Library()


@register.inclusion_tag("components/removed.html", takes_context=True)
def show_removal(context: RequestContext, name: str) -> dict[str, Any]:
    """Render the last removal of a kind of data: its age limit, time and rule; nothing if nothing was removed."""
    data = Data(name)
    return {"run": retention_run.last_removal(context["who"].tenant, data), "title": KIND_TEXTS[data].title}
