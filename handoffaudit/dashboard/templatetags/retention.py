"""What pages say of what retention has removed."""

from typing import Any

from django.template import Library
from django.template.context import RequestContext

from handoffaudit.dashboard.settings.retention import KIND_TEXTS
from handoffaudit.diagnostics.retention import run
from handoffaudit.policy.retention import Data

register = Library()


@register.inclusion_tag("components/removed.html", takes_context=True)
def removed(context: RequestContext, name: str) -> dict[str, Any]:
    """Where some of a kind of data is gone: how old it was, when and by which rule. Nothing where none is."""
    data = Data(name)
    return {"run": run.last_removal(context["who"].tenant, data), "title": KIND_TEXTS[data].title}
