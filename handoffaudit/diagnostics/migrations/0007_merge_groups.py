"""Merge the finding groups of one code and place, which had one group for each route.

Each group is merged in a transaction of its own, and members move in batches before it, so that a stopped migration
continues where it stopped. `docs/decisions/0050-routes-within-groups.md` explains the rule for mutes.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from django.db import migrations, transaction

AT_ONCE: Final = 500
MOVED_AT_ONCE: Final = 5_000
LONGEST_NOTE: Final = 1_000


def merge_groups(apps: Any, schema_editor: Any) -> None:
    """Give each group its key without the route, or merge it into the older group with this key."""
    groups = apps.get_model("diagnostics", "FindingGroup").objects.using(schema_editor.connection.alias)
    for group in _each(groups):
        key = hashlib.sha256(f"{group.code}\0{group.path_shape}".encode()).hexdigest()
        if group.key == key:
            continue
        older = groups.filter(tenant=group.tenant_id, key=key).first()
        if older is not None:
            _move_members(apps, group, older)
        with transaction.atomic(using=schema_editor.connection.alias):
            _add_route(apps, group, older or group)
            if older is None:
                groups.filter(pk=group.pk).update(key=key)
            else:
                _merge_days(apps, group, older)
                groups.filter(pk=older.pk).update(**_merged(older, group))
                # All rows that refer to the group have moved, so there is nothing to cascade to.
                groups.filter(pk=group.pk)._raw_delete(groups.db)


def _each(groups: Any) -> Iterator[Any]:
    last = 0
    while some := list(groups.filter(pk__gt=last).order_by("pk")[:AT_ONCE]):
        yield from some
        last = some[-1].pk


def _move_members(apps: Any, group: Any, older: Any) -> None:
    """Move the members. A handoff has one route, so it is in only one of the groups that are merged."""
    members = apps.get_model("diagnostics", "GroupedHandoff").objects
    if group.number <= MOVED_AT_ONCE:
        members.filter(group=group.pk).update(group=older.pk)
    while some := list(members.filter(group=group.pk).values_list("pk", flat=True)[:MOVED_AT_ONCE]):
        members.filter(pk__in=some).update(group=older.pk)


def _add_route(apps: Any, group: Any, older: Any) -> None:
    if not group.number:
        return
    apps.get_model("diagnostics", "FindingGroupRoute").objects.create(
        group_id=older.pk,
        source_agent_id=group.source_agent_id,
        target_agent_id=group.target_agent_id,
        number=group.number,
    )


def _merge_days(apps: Any, group: Any, older: Any) -> None:
    model = apps.get_model("diagnostics", "FindingGroupDay")
    days = model.objects.filter(group__in=[group.pk, older.pk])
    numbers: Counter[Any] = Counter()
    for day, number in days.values_list("day", "number"):
        numbers[day] += number
    days._raw_delete(days.db)
    model.objects.bulk_create(model(group_id=older.pk, day=day, number=number) for day, number in numbers.items())


def _merged(older: Any, group: Any) -> dict[str, Any]:
    """Return the columns of two groups as one.

    Groups without handoffs have no say about the mute. The merged group is muted only if all its parts are, and until
    it has grown by the least growth that any part allowed.
    """
    number = older.number + group.number
    parts = [one for one in (older, group) if one.number] or [older, group]
    found: dict[str, Any] = {
        "number": number,
        "first_seen": min(one.first_seen for one in parts),
        "last_seen": max(one.last_seen for one in parts),
        "muted_at": None,
        "muted_until": None,
        "regressed_at": max((one.regressed_at for one in parts if one.regressed_at), default=None),
    }
    if all(one.muted_at for one in parts):
        limits = [one.muted_until - one.number for one in parts if one.muted_until is not None]
        found["muted_at"] = max(one.muted_at for one in parts)
        found["muted_until"] = number + min(limits) if limits else None
    # The merged group shows the person of the group that came back or was muted last, and its note first.
    told = sorted((one for one in parts if one.muted_by), key=_moment, reverse=True)
    notes = dict.fromkeys(one.muted_note for one in told)
    return found | {
        "muted_by": told[0].muted_by if told else "",
        "muted_note": " / ".join(notes)[:LONGEST_NOTE],
    }


def _moment(group: Any) -> float:
    at = group.regressed_at or group.muted_at
    return at.timestamp() if at else 0.0


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("diagnostics", "0006_group_routes")]

    operations = [migrations.RunPython(merge_groups, migrations.RunPython.noop)]
