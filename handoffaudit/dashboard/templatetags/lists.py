"""Template tags for the rows of lists."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.template import Library
from django.template.context import Context
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from handoffaudit.dashboard.live import token_of
from handoffaudit.dashboard.templatetags.ui import gravity
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.models import Handoff

register = Library()
_ANY_ID = UUID(int=0)
_ANY_NUMBER = 9_007_199_254_740_991


@register.simple_tag
def live_row(handoff: Handoff) -> SafeString | str:
    """Return the attribute for live updates of a row: `<td {% live_row handoff %}>`.

    The attribute holds the version that the page shows; it is empty where the handoff will hardly change.
    """
    token = token_of(handoff)
    return format_html('data-live-row="{}"', token) if token else ""


@register.simple_tag(takes_context=True)
def narrowed(context: Context, field: str, value: str) -> str:
    """Return the query of the list's `filters` with one more filter: `{% narrowed "source" handoff.source_agent_id %}`.

    A page that shows rows without being a list has no filters.
    """
    filters: Filters = context.get("filters") or Filters()
    change: dict[str, Any] = {field: (value,) if field == "state" else value}
    return _query(replace(filters, **change))


# Most rows of a list contain the same few agents, types and states.
@lru_cache(maxsize=512)
def _query(filters: Filters) -> str:
    return filters.to_query()


@register.simple_tag
def row_address(name: str, slug: str, pk: UUID | int) -> str:
    """Return an address as `url` does: `{% row_address "dashboard:review_item" who.tenant.slug handoff.pk %}`.

    The address is resolved once for all rows of a list, because resolving is slow.
    """
    before, after = _around(name, slug, _ANY_ID if isinstance(pk, UUID) else _ANY_NUMBER)
    return f"{before}{pk}{after}"


@lru_cache(maxsize=1024)
def _around(name: str, slug: str, placeholder: UUID | int) -> tuple[str, str]:
    """Return the parts of an address before and after the id of the row."""
    before, _, after = reverse(name, args=[slug, placeholder]).rpartition(str(placeholder))
    return before, after


@register.filter
def gravest(codes: Sequence[str]) -> str:
    """Return the rule code that a row shows first."""
    return min(codes, key=gravity, default="")
