"""Where a finding leads to those like it."""

from typing import Any

from django.template import Context, Library

from handoffaudit.diagnostics.groups.membership import group_among, groups_by_key
from handoffaudit.handoffs.models import Handoff

register = Library()


@register.inclusion_tag("dashboard/groups/link.html", takes_context=True)
def group_link(context: Context, handoff: Handoff, code: str, path: str | None) -> dict[str, Any]:
    """`{% group_link handoff issue.code issue.field_path %}`: how many handoffs have a finding like this one, as a link
    to its group; nothing where it is in none. The groups of a handoff are read once, however many findings it has."""
    # Kept on the row itself, as Django keeps what it fetched with one.
    if "_finding_groups" not in vars(handoff):
        vars(handoff)["_finding_groups"] = groups_by_key(handoff)
    groups = vars(handoff)["_finding_groups"]
    return {"group": group_among(groups, handoff, code, path or ""), "who": context["who"]}
