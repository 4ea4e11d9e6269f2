"""Finding groups: the key that similar findings share, and which handoffs are in which groups."""

import hashlib
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup, GroupedHandoff
from handoffaudit.handoffs.models import Handoff
from handoffaudit.validation.paths import shape
from handoffaudit.validation.provenance import Flaw
from handoffaudit.validation.text import clean

LONGEST_CODE: Final = 100

LONGEST_PATH: Final = 500

# "Ever", said as a range: of two indexes that fit a query, SQLite takes the one with the range, which is the small one.
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRAVE: Final = frozenset({"error", "critical"})


class GroupKey(NamedTuple):
    """What a group is of, within a tenant."""

    code: str
    path_shape: str
    source_agent_id: str
    target_agent_id: str

    @property
    def key(self) -> str:
        """The same for the same place, and short enough for every index. None of the texts has a NUL in it."""
        return hashlib.sha256("\0".join(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupedFindings:
    """A handoff as groups count it: when it came, and its places, each with whether it is among its gravest."""

    at: datetime
    places: Mapping[GroupKey, bool]


def group_key(code: str, path: str, source: str, target: str) -> GroupKey:
    return GroupKey(clean(code, LONGEST_CODE), shape(clean(path, LONGEST_PATH)), source, target)


def group_findings(at: datetime, source: str, target: str, flaws: Iterable[Flaw]) -> GroupedFindings:
    """Of a handoff with these findings, which are warnings and worse. Several of one place are one."""
    grave: dict[GroupKey, bool] = {}
    for flaw in flaws:
        place = group_key(flaw.code, flaw.path, source, target)
        grave[place] = grave.get(place, False) or flaw.severity in _GRAVE
    has_grave = any(grave.values())
    return GroupedFindings(at, {place: is_grave or not has_grave for place, is_grave in grave.items()})


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
    return groups.get(group_key(code, path, handoff.source_agent_id, handoff.target_agent_id).key)


def group_of(handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """The same for one finding alone."""
    return group_among(groups_by_key(handoff), handoff, code, path)
