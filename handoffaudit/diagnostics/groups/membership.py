"""Keys of finding groups, and the handoffs that are in each group."""

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

# All stored times are later than this. With this lower bound in a condition, SQLite chooses the small partial index
# instead of another index that also fits.
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRAVE: Final = frozenset({"error", "critical"})


class GroupKey(NamedTuple):
    """The values that all findings of a group in a tenant share."""

    code: str
    path_shape: str
    source_agent_id: str
    target_agent_id: str

    @property
    def key(self) -> str:
        """Return a hash of the values, which is short enough for every index. No value contains a NUL."""
        return hashlib.sha256("\0".join(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupedFindings:
    """The findings of a handoff by group: the time of receipt, and the group keys, each with whether it is decisive."""

    at: datetime
    places: Mapping[GroupKey, bool]


def group_key(code: str, path: str, source: str, target: str) -> GroupKey:
    return GroupKey(clean(code, LONGEST_CODE), shape(clean(path, LONGEST_PATH)), source, target)


def group_findings(at: datetime, source: str, target: str, flaws: Iterable[Flaw]) -> GroupedFindings:
    """Return the findings of a handoff by group key. Several findings with the same key count once.

    A key is decisive if one of its findings is an error, or if the handoff has no errors. All findings have severity
    warning or above.
    """
    grave: dict[GroupKey, bool] = {}
    for flaw in flaws:
        place = group_key(flaw.code, flaw.path, source, target)
        grave[place] = grave.get(place, False) or flaw.severity in _GRAVE
    has_grave = any(grave.values())
    return GroupedFindings(at, {place: is_grave or not has_grave for place, is_grave in grave.items()})


def members(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff]":
    """Return the members of a group of the tenant. A group of another tenant has no members here."""
    return GroupedHandoff.objects.filter(tenant=tenant, group=group_id)


def handoffs_of(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs in a group of the tenant, for `pk__in`.

    To sort them newest first, add `.order_by("-handoff")`.
    """
    return members(tenant, group_id).order_by().values_list("handoff", flat=True)


def muted_handoffs(tenant: Tenant) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs whose decisive findings are all muted, for `pk__in`.

    The decisive findings are all errors or, without errors, all warnings. An id may appear several times. If no group
    is muted, the function only reads one index.
    """
    muted = FindingGroup.objects.filter(tenant=tenant, muted_at__gt=BEGINNING)
    decisive = GroupedHandoff.objects.filter(tenant=tenant, decisive=True)
    if not muted.exists():
        return decisive.none().values_list("handoff", flat=True)
    others = decisive.filter(handoff=OuterRef("handoff")).exclude(group__in=muted.values("pk"))
    all_muted = decisive.filter(~Exists(others), group__in=muted.values("pk"))
    return all_muted.order_by().values_list("handoff", flat=True)


def groups_by_key(handoff: Handoff) -> dict[str, FindingGroup]:
    """Return the groups of a handoff by their keys, with one query."""
    mine = GroupedHandoff.objects.filter(tenant=handoff.tenant_id, handoff=handoff.pk).values("group")
    return {one.key: one for one in FindingGroup.objects.filter(tenant=handoff.tenant_id, pk__in=mine)}


def group_among(groups: Mapping[str, FindingGroup], handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """Return the group of a finding among the groups of its handoff.

    Return None for a finding with severity info, and before the handoff is grouped.
    """
    return groups.get(group_key(code, path, handoff.source_agent_id, handoff.target_agent_id).key)


def group_of(handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """Return the group of a single finding, as `group_among` does."""
    return group_among(groups_by_key(handoff), handoff, code, path)
