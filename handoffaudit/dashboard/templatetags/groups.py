"""The template tag that links a finding to its finding group."""

from typing import Any

from django.template import Context, Library

from handoffaudit.diagnostics.groups.membership import group_among, groups_by_key
from handoffaudit.handoffs.models import Handoff

register = Library()


@register.inclusion_tag("dashboard/groups/link.html", takes_context=True)
def group_link(context: Context, handoff: Handoff, code: str, path: str | None) -> dict[str, Any]:
    """Link to the finding group of a finding, with the number of its handoffs; render nothing where there is no group.

    Usage: `{% group_link handoff issue.code issue.field_path %}`. The groups of a handoff are loaded once
    for all of its findings.
    """
    # The groups are cached on the instance, as Django caches related objects.
    if "_finding_groups" not in vars(handoff):
        vars(handoff)["_finding_groups"] = groups_by_key(handoff)
    groups = vars(handoff)["_finding_groups"]
    return {"group": group_among(groups, handoff, code, path or ""), "who": context["who"]}
