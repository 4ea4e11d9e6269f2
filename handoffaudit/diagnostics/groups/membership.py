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

# A lower bound that every time passes. Of two indexes that fit a query, SQLite takes the one with the range, which is
# the small one.
BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

_GRAVE: Final = frozenset({"error", "critical"})


class GroupKey(NamedTuple):
    """What the findings of a group have in common, within a tenant."""

    code: str
    path_shape: str
    source_agent_id: str
    target_agent_id: str

    @property
    def key(self) -> str:
        """Return a hash of the key, short enough for every index. None of the texts has a NUL in it."""
        return hashlib.sha256("\0".join(self).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class GroupedFindings:
    """The findings of a handoff as groups count them: when it came, and its keys, each with whether it is decisive."""

    at: datetime
    places: Mapping[GroupKey, bool]


def group_key(code: str, path: str, source: str, target: str) -> GroupKey:
    return GroupKey(clean(code, LONGEST_CODE), shape(clean(path, LONGEST_PATH)), source, target)


def group_findings(at: datetime, source: str, target: str, flaws: Iterable[Flaw]) -> GroupedFindings:
    """Return the findings of a handoff by group key, where several findings with one key are one.

    A key is decisive if one of its findings is an error, or if the handoff has no errors. The findings are warnings and
    worse.
    """
    grave: dict[GroupKey, bool] = {}
    for flaw in flaws:
        place = group_key(flaw.code, flaw.path, source, target)
        grave[place] = grave.get(place, False) or flaw.severity in _GRAVE
    has_grave = any(grave.values())
    return GroupedFindings(at, {place: is_grave or not has_grave for place, is_grave in grave.items()})


def members(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff]":
    """Return the members of a group of the tenant, and nothing for a group of another tenant."""
    return GroupedHandoff.objects.filter(tenant=tenant, group=group_id)


def handoffs_of(tenant: Tenant, group_id: int) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs in a group of the tenant, for `pk__in`.

    In order, `.order_by("-handoff")` has the newest first.
    """
    return members(tenant, group_id).order_by().values_list("handoff", flat=True)


def muted_handoffs(tenant: Tenant) -> "QuerySet[GroupedHandoff, uuid.UUID]":
    """Return the ids of the handoffs whose decisive findings are all muted, for `pk__in`.

    Decisive are all errors, or all warnings where there is no error. An id may appear several times. Where nothing is
    muted, the query costs one look at an index.
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
    """Return the group of a finding among its handoff's groups; None for an info, or before the handoff is grouped."""
    return groups.get(group_key(code, path, handoff.source_agent_id, handoff.target_agent_id).key)


def group_of(handoff: Handoff, code: str, path: str) -> FindingGroup | None:
    """Return the group of a single finding, as `group_among` does."""
    return group_among(groups_by_key(handoff), handoff, code, path)
