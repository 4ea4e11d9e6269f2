"""Mutes of finding groups: a muted group counts as noise until it grows again, then it comes back by itself."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from django.db import transaction
from django.utils import timezone

from handoffaudit.accounts import audit
from handoffaudit.accounts.errors import Refused
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.validation.text import storable

LONGEST_NOTE: Final = 1_000

FIFTH: Final = "fifth"

FOR_GOOD: Final = "good"

_AT_LEAST: Final = 10

# How many handoffs a group must have to come back, by the chosen limit. None: the group never comes back.
UNTIL: Final[Mapping[str, Callable[[int], int | None]]] = {
    FIFTH: lambda number: number + max(_AT_LEAST, -(-number // 5)),
    "10": lambda number: number + 10,
    "50": lambda number: number + 50,
    "double": lambda number: max(2 * number, number + 1),
    FOR_GOOD: lambda number: None,
}


def mute_group(*, tenant: Tenant, group: int, until: str, note: str, actor: str) -> FindingGroup:
    """Mute a group until it has grown as `until` says, one of `UNTIL`.

    Raise `Refused` for an unknown limit, or a note that is missing or cannot be stored. Raise
    `FindingGroup.DoesNotExist` if there is no such group.
    """
    if until not in UNTIL:
        raise Refused(f"{until[:40]!r} is no limit", "until", f"choose from {', '.join(UNTIL)}.")
    note = note.strip()
    if not note:
        raise Refused("There is no note", "note", "write why it is muted, for those who see the group later.")
    if len(note) > LONGEST_NOTE or not storable(note):
        raise Refused("The note can't be kept", "note", f"use at most {LONGEST_NOTE:,} characters without NUL.")
    with transaction.atomic():
        found = _lock_group(tenant, group)
        found.muted_at, found.muted_by, found.muted_note = timezone.now(), actor[:200], note
        found.muted_until = UNTIL[until](found.number)
        found.save(update_fields=["muted_at", "muted_by", "muted_note", "muted_until"])
        _record(found, actor, "group.mute", {"note": note, "number": found.number, "until": found.muted_until})
    return found


def unmute_group(*, tenant: Tenant, group: int, actor: str) -> FindingGroup:
    """Unmute a group; a group that is not muted stays as it is. Raise `FindingGroup.DoesNotExist` if there is none."""
    with transaction.atomic():
        found = _lock_group(tenant, group)
        if found.muted_at is not None:
            found.muted_at = found.muted_until = None
            found.save(update_fields=["muted_at", "muted_until"])
            _record(found, actor, "group.unmute", {"number": found.number})
    return found


def acknowledge_group(*, tenant: Tenant, group: int, actor: str) -> FindingGroup:
    """Remove the regressed sign from a group that came back. Raise `FindingGroup.DoesNotExist` if there is none."""
    with transaction.atomic():
        found = _lock_group(tenant, group)
        if found.regressed_at is not None:
            found.regressed_at = None
            found.save(update_fields=["regressed_at"])
            _record(found, actor, "group.acknowledge", {"number": found.number})
    return found


def _lock_group(tenant: Tenant, group: int) -> FindingGroup:
    return FindingGroup.objects.select_for_update().get(tenant=tenant, pk=group)


def _record(group: FindingGroup, actor: str, action: str, detail: dict[str, Any]) -> None:
    place = f"{group.code} at {group.path_shape or 'the document'}"
    target = f"{place}, {group.source_agent_id} → {group.target_agent_id}"
    audit.record(tenant=group.tenant, actor=actor, action=action, target=target, detail={"group": group.pk, **detail})
