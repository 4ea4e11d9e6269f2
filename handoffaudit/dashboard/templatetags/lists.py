"""What rows of lists are made of."""

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
    """`<td {% live_row handoff %}>`: which version of it the page shows; nothing where it will hardly change."""
    token = token_of(handoff)
    return format_html('data-live-row="{}"', token) if token else ""


@register.simple_tag(takes_context=True)
def narrowed(context: Context, field: str, value: str) -> str:
    """`{% narrowed "handoff_type" handoff.handoff_type %}`: the query of the list's `filters` with that one besides.

    A page that shows some rows of its own has no filters.
    """
    filters: Filters = context.get("filters") or Filters()
    change: dict[str, Any] = {field: (value,) if field == "state" else value}
    return _query(replace(filters, **change))


# The same few agents, types and states stand in most of a list's rows.
@lru_cache(maxsize=512)
def _query(filters: Filters) -> str:
    return filters.to_query()


@register.simple_tag
def row_address(name: str, slug: str, pk: UUID | int) -> str:
    """`{% row_address "dashboard:review_item" who.tenant.slug handoff.pk %}`: as `url`, for rows of a list: to work an
    address out for each of them takes long."""
    before, after = _around(name, slug, _ANY_ID if isinstance(pk, UUID) else _ANY_NUMBER)
    return f"{before}{pk}{after}"


@lru_cache(maxsize=1024)
def _around(name: str, slug: str, placeholder: UUID | int) -> tuple[str, str]:
    """What stands in an address before and after what differs from row to row."""
    before, _, after = reverse(name, args=[slug, placeholder]).rpartition(str(placeholder))
    return before, after


@register.filter
def gravest(codes: Sequence[str]) -> str:
    """The code that a row shows first."""
    return min(codes, key=gravity, default="")
