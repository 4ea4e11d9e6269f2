"""Which handoffs are in a group, in which groups a handoff is, and which handoffs are nothing but noise."""

import uuid
from collections.abc import Mapping

from django.db.models import Exists, OuterRef, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.groups.places import BEGINNING, place_of
from handoffaudit.diagnostics.models import FindingGroup, GroupedHandoff
from handoffaudit.handoffs.models import Handoff


def members(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff]":
    """What says which handoffs are in a group of the tenant; of another tenant's group nothing."""
    return GroupedHandoff.objects.filter(tenant=tenant, group=group_id)


def handoffs_of(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """The ids of the handoffs that are in a group of the tenant. For `pk__in`, or in order: `.order_by("-handoff")` has
    the newest first."""
    return members(tenant, group_id).order_by().values_list("handoff", flat=True)


def muted_handoffs(tenant: Tenant) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """The ids of the handoffs of which everything that decides is muted: all errors, or all warnings where there is no
    error. Not every id is told once. For `pk__in`; where nothing is muted it costs one look at an index."""
    muted = FindingGroup.objects.filter(tenant=tenant, muted_at__gt=BEGINNING)
    decisive = GroupedHandoff.objects.filter(tenant=tenant, decisive=True)
    if not muted.exists():
        return decisive.none().values_list("handoff", flat=True)
    others = decisive.filter(handoff=OuterRef("handoff")).exclude(group__in=muted.values("pk"))
    all_muted = decisive.filter(~Exists(others), group__in=muted.values("pk"))
    return all_muted.order_by().values_list("handoff", flat=True)


def groups_by_key(handoff: Handoff) -> dict[str, FindingGroup]:
    """The groups that a handoff is in, by their keys, in one question."""
    mine = GroupedHandoff.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk).values("group")
    return {one.key: one for one in FindingGroup.objects.filter(tenant=handoff.tenant_id, pk__in=mine)}


def group_among(groups: Mapping[str, FindingGroup], handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """The one of a handoff's groups that a finding is in. None: an info, or the handoff was not gone over yet."""
    return groups.get(place_of(code, path, handoff.source_agent_id, handoff.target_agent_id).key)


def group_of(handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """The same for one finding alone."""
    return group_among(groups_by_key(handoff), handoff, code, path)
