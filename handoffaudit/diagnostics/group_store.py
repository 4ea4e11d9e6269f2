"""Storage of finding groups: their members and numbers, which attribution updates, and their mutes."""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import Case, F, QuerySet, When
from django.utils import timezone

from handoffaudit.accounts import Refused, audit
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.group_members import GroupedFindings, GroupKey, Routes, routes_of
from handoffaudit.diagnostics.models import (
    CodeMute,
    FindingGroup,
    FindingGroupDay,
    FindingGroupRoute,
    GroupedHandoff,
    TracedHandoff,
)
from handoffaudit.handoffs import db
from handoffaudit.handoffs.counts import Aggregate
from handoffaudit.handoffs.webhooks import delivery, events
from handoffaudit.handoffs.webhooks.subscriptions import EventType
from handoffaudit.validation.layers import entry_of
from handoffaudit.validation.text import storable, trim

REGRESSED: Final = "regressed"


def notify_regressed(groups: Sequence[FindingGroup], at: datetime) -> None:
    routes = routes_of(groups)
    for one in groups:
        about = f"group:{one.pk}:{REGRESSED}:{int(at.timestamp() * 1000)}"
        events.add_event(one.tenant_id, EventType.GROUP, about, at, {"group": _make_payload(one, routes[one.pk])})
    transaction.on_commit(delivery.notify_webhook_workers)


def _make_payload(group: FindingGroup, routes: Routes) -> dict[str, Any]:
    return {
        "id": group.pk,
        "change": REGRESSED,
        "code": group.code,
        "title": entry_of(group.code).title,
        "path": group.path_shape,
        "routes": [asdict(one) for one in routes.items],
        "number": group.number,
        "muted_by": group.muted_by,
        "muted_note": group.muted_note,
        "first_seen": events.format_moment(group.first_seen),
        "last_seen": events.format_moment(group.last_seen),
        "link": events.page_url(group.tenant.slug, f"groups/{group.pk}/"),
    }


_MEMBER: Final = db.Columns.of(GroupedHandoff, "tenant", "group", "handoff", "decisive")
_DAYS: Final = Aggregate(FindingGroupDay, ("group", "day"))
_ROUTES: Final = Aggregate(FindingGroupRoute, ("group", "source_agent_id", "target_agent_id"))
_AT_ONCE: Final = 500
# The first key of the advisory locks of tenants in which rule codes are muted or groups are created.
_LOCKS: Final = 0x4D555445

Member = tuple[uuid.UUID, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """The number of handoffs and the times of a group before the change."""

    pk: int
    number: int
    first_seen: datetime
    last_seen: datetime


def regroup(tenant_id: int, handoffs: Mapping[uuid.UUID, GroupedFindings], *, old_news: bool = False) -> None:
    """Put each handoff into the groups of its findings, and take it out of all other groups.

    Call inside the transaction that stores the other results of attribution. Idempotent: a handoff counts once in a
    group. `old_news` means that the findings are not new, so that a muted group does not come back because of them.
    """
    known = _get_or_create_groups(tenant_id, handoffs.values())
    kept = {
        (handoff, group): (pk, decisive)
        for pk, handoff, group, decisive in GroupedHandoff.objects.filter(
            tenant=tenant_id, handoff__in=list(handoffs)
        ).values_list("pk", "handoff", "group_id", "decisive")
    }
    wanted = {
        (handoff, known[place].pk): decisive
        for handoff, one in handoffs.items()
        for place, decisive in one.places.items()
    }
    left = [member for member in kept if member not in wanted]
    joined = [member for member in wanted if member not in kept]
    turned = [pk for member, (pk, decisive) in kept.items() if wanted.get(member, decisive) != decisive]
    GroupedHandoff.objects.filter(pk__in=[kept[member][0] for member in left]).delete()
    GroupedHandoff.objects.filter(pk__in=turned).update(decisive=Case(When(decisive=True, then=False), default=True))
    db.insert_rows(_MEMBER, [[tenant_id, group, handoff, wanted[handoff, group]] for handoff, group in sorted(joined)])
    _count(handoffs, joined, left)
    by_pk = {one.pk: one for one in known.values()}
    _resize(by_pk, handoffs, joined, left, old_news=old_news)


def forget() -> list[FindingGroup]:
    """Empty all groups, so that all findings can be grouped again. The groups keep their mutes and notes.

    Return the groups that are muted until they grow, with the numbers that they had. Pass these groups to
    `lower_limits` after the regrouping.
    """
    limited = list(FindingGroup.objects.select_for_update().filter(muted_until__isnull=False).order_by("pk"))
    GroupedHandoff.objects.all().delete()
    FindingGroupDay.objects.all().delete()
    FindingGroupRoute.objects.all().delete()
    FindingGroup.objects.update(number=0)
    return limited


def lower_limits(limited: Iterable[FindingGroup]) -> None:
    """Lower the limits of muted groups by the handoffs that they lost, so that they may grow by as much as before."""
    for one in limited:
        same = FindingGroup.objects.filter(pk=one.pk, muted_until=one.muted_until, number__lt=one.number)
        same.update(muted_until=F("muted_until") + F("number") - one.number)


def drop_empty() -> None:
    """Delete empty groups, except groups that were ever muted, and groups that somebody has to acknowledge."""
    FindingGroup.objects.filter(number=0, muted_at=None, regressed_at=None, muted_by="").delete()


def _get_or_create_groups(tenant_id: int, handoffs: Iterable[GroupedFindings]) -> dict[GroupKey, _Known]:
    """Return the group of each key. Create missing groups."""
    keys: dict[GroupKey, str] = {}
    seen: dict[GroupKey, datetime] = {}
    for one in handoffs:
        for place in one.places:
            keys.setdefault(place, place.key)
            seen[place] = min(seen.get(place, one.at), one.at)
    found = _find_groups(tenant_id, keys.values())
    missing = sorted(place for place, key in keys.items() if key not in found)
    if missing:
        muted = _mutes_of(tenant_id, {place.code for place in missing})
        FindingGroup.objects.bulk_create(
            (
                FindingGroup(
                    tenant_id=tenant_id,
                    key=keys[place],
                    first_seen=seen[place],
                    last_seen=seen[place],
                    **place._asdict(),
                    **muted.get(place.code, {}),
                )
                for place in missing
            ),
            batch_size=_AT_ONCE,
            ignore_conflicts=True,
        )
        found |= _find_groups(tenant_id, [keys[place] for place in missing])
    return {place: found[key] for place, key in keys.items()}


def _find_groups(tenant_id: int, keys: Iterable[str]) -> dict[str, _Known]:
    rows = FindingGroup.objects.filter(tenant=tenant_id, key__in=list(keys))
    columns = rows.values_list("key", "pk", "number", "first_seen", "last_seen")
    return {key: _Known(pk, number, first, last) for key, pk, number, first, last in columns}


def _count(handoffs: Mapping[uuid.UUID, GroupedFindings], joined: Iterable[Member], left: Iterable[Member]) -> None:
    days: Counter[tuple[int, date]] = Counter()
    routes: Counter[tuple[int, str, str]] = Counter()
    for sign, members in ((1, joined), (-1, left)):
        for handoff, group in members:
            days[group, handoffs[handoff].at.date()] += sign
            routes[group, *handoffs[handoff].route] += sign
    _DAYS.add({place: (number,) for place, number in days.items()})
    _ROUTES.add({place: (number,) for place, number in routes.items()})


def _resize(
    known: Mapping[int, _Known],
    handoffs: Mapping[uuid.UUID, GroupedFindings],
    joined: Iterable[Member],
    left: Iterable[Member],
    *,
    old_news: bool,
) -> None:
    """Update the numbers and times of the groups in the order of their ids, so that two processes cannot deadlock.

    Then bring back the muted groups that have grown to their limits.
    """
    deltas: Counter[int] = Counter()
    seen: dict[int, list[datetime]] = {}
    for handoff, group in joined:
        deltas[group] += 1
        seen.setdefault(group, []).append(handoffs[handoff].at)
    lost = set()
    for _, group in left:
        deltas[group] -= 1
        lost.add(group)
    for group in sorted(deltas):
        before = known.get(group)
        times = seen.get(group, [])
        if before and before.number:
            times = [*times, before.first_seen, before.last_seen]
        if group in lost:
            times = _find_times(group) or times
        changes: dict[str, object] = {"number": F("number") + deltas[group]}
        if times:
            changes |= {"first_seen": min(times), "last_seen": max(times)}
        if old_news:
            changes["muted_until"] = F("muted_until") + deltas[group]
        FindingGroup.objects.filter(pk=group).update(**changes)
    _unmute_grown([group for group, delta in deltas.items() if delta > 0])


def _find_times(group: int) -> list[datetime]:
    """Return the times of the first and the last handoff of a group. Ids increase with time."""
    members = GroupedHandoff.objects.filter(group=group).values_list("handoff", flat=True)
    ends = [*members.order_by("handoff")[:1], *members.order_by("-handoff")[:1]]
    return list(TracedHandoff.objects.filter(handoff__in=ends).values_list("at", flat=True))


def _unmute_grown(groups: Iterable[int]) -> None:
    """Bring back the muted groups that have grown to their limits, and notify webhooks.

    The transaction has changed the numbers of these groups, so their rows are locked until it ends. No other process
    can bring the same groups back.
    """
    grown = list(FindingGroup.objects.filter(pk__in=list(groups), number__gte=F("muted_until")).order_by("pk"))
    if grown:
        now = timezone.now()
        FindingGroup.objects.filter(pk__in=[one.pk for one in grown]).update(
            muted_at=None, muted_until=None, regressed_at=now
        )
        notify_regressed(grown, now)


LONGEST_NOTE: Final = 1_000
FIFTH: Final = "fifth"
FOR_GOOD: Final = "good"
_AT_LEAST: Final = 10

# A function for each limit. It takes the current number of handoffs of a group, and returns the number at which the
# muted group comes back. None means that the group never comes back.
UNTIL: Final[Mapping[str, Callable[[int], int | None]]] = {
    FIFTH: lambda number: number + max(_AT_LEAST, -(-number // 5)),
    "10": lambda number: number + 10,
    "50": lambda number: number + 50,
    "double": lambda number: max(2 * number, number + 1),
    FOR_GOOD: lambda number: None,
}


def mute_group(*, tenant: Tenant, group: int, until: str, note: str, actor: str) -> FindingGroup:
    """Mute a group until it has grown to the limit `until`, one of `UNTIL`.

    Raise `Refused` for an unknown limit, or a note that is missing or cannot be stored. Raise
    `FindingGroup.DoesNotExist` if there is no such group.
    """
    if until not in UNTIL:
        raise Refused(f"{until[:40]!r} is not a limit", "until", f"choose from {', '.join(UNTIL)}.")
    note = _check_note(note, "the group")
    with transaction.atomic():
        found = _lock_group(tenant, group)
        found.muted_at, found.muted_by, found.muted_note = timezone.now(), actor[:200], note
        found.muted_until, found.muted_by_code = UNTIL[until](found.number), False
        found.save(update_fields=["muted_at", "muted_by", "muted_note", "muted_until", "muted_by_code"])
        _record(found, actor, "group.mute", {"note": note, "number": found.number, "until": found.muted_until})
    return found


def unmute_group(*, tenant: Tenant, group: int, actor: str) -> FindingGroup:
    """Unmute a group. Idempotent. Raise `FindingGroup.DoesNotExist` if there is no such group."""
    with transaction.atomic():
        found = _lock_group(tenant, group)
        if found.muted_at is not None:
            found.muted_at = found.muted_until = None
            found.muted_by_code = False
            found.save(update_fields=["muted_at", "muted_until", "muted_by_code"])
            _record(found, actor, "group.unmute", {"number": found.number})
    return found


def acknowledge_group(*, tenant: Tenant, group: int, actor: str) -> FindingGroup:
    """Remove the regressed sign of a group that came back. Idempotent.

    Raise `FindingGroup.DoesNotExist` if there is no such group.
    """
    with transaction.atomic():
        found = _lock_group(tenant, group)
        if found.regressed_at is not None:
            found.regressed_at = None
            found.save(update_fields=["regressed_at"])
            _record(found, actor, "group.acknowledge", {"number": found.number})
    return found


def _check_note(note: str, what: str) -> str:
    note = trim(note)
    if not note:
        raise Refused("There is no note", "note", f"write why {what} is muted, for people who see it later.")
    if len(note) > LONGEST_NOTE or not storable(note):
        raise Refused("The note cannot be stored", "note", f"use at most {LONGEST_NOTE:,} characters without NUL.")
    return note


# The numbers of days for which a rule code can be muted.
MUTE_DAYS: Final = (7, 30, 90)
USUAL_MUTE_DAYS: Final = 30
# A tenant can have this many muted rule codes.
MOST_CODE_MUTES: Final = 100


def mute_code(*, tenant: Tenant, code: str, days: str, note: str, actor: str) -> CodeMute:
    """Mute all groups of a rule code, present and later ones, for `days` days, one of `MUTE_DAYS`.

    Groups that somebody muted before keep their own mutes. Raise `Refused` for a rule code without findings, for days
    that are not in `MUTE_DAYS`, and for too many muted rule codes. Also raise `Refused` if the note is missing or
    cannot be stored.
    """
    if days not in map(str, MUTE_DAYS):
        raise Refused(
            f"{days[:40]!r} is not a number of days", "days", f"choose from {', '.join(map(str, MUTE_DAYS))}."
        )
    note, now = _check_note(note, "the rule code"), timezone.now()
    with transaction.atomic():
        groups = FindingGroup.objects.filter(tenant=tenant, code=code)
        if not storable(code) or not groups.exists():
            raise Refused(f"No finding has the rule code {code[:40]!r}", "code", "choose the rule code of a finding.")
        _lock_groups(groups, tenant)
        if CodeMute.objects.filter(tenant=tenant).exclude(code=code).count() >= MOST_CODE_MUTES:
            raise Refused(f"{MOST_CODE_MUTES} rule codes are muted already", "code", "unmute one of them first.")
        until = now + timedelta(days=int(days))
        values = {"muted_at": now, "muted_by": actor[:200], "note": note, "until": until}
        made, _ = CodeMute.objects.update_or_create(tenant=tenant, code=code, defaults=values)
        groups.filter(muted_by_code=True).update(**_mute_of(made))
        muted = groups.filter(muted_at=None).update(**_mute_of(made))
        detail = {"note": note, "until": events.format_moment(until), "groups": muted}
        audit.record(tenant=tenant, actor=actor, action="code.mute", target=code, detail=detail)
    return made


def unmute_code(*, tenant: Tenant, code: str, actor: str, **only: datetime) -> bool:
    """End the mute of a rule code and of the groups muted by it, if the mute meets `only`. Return whether it ended."""
    if not storable(code):
        return False
    groups = FindingGroup.objects.filter(tenant=tenant, code=code, muted_by_code=True)
    with transaction.atomic():
        _lock_groups(groups, tenant)
        if not CodeMute.objects.filter(tenant=tenant, code=code, **only).delete()[0]:
            return False
        restored = groups.update(muted_at=None, muted_until=None, muted_by_code=False)
        audit.record(tenant=tenant, actor=actor, action="code.unmute", target=code, detail={"groups": restored})
    return True


def end_code_mutes() -> None:
    """End the mutes of rule codes whose time is over, a few at a time."""
    now = timezone.now()
    for one in CodeMute.objects.filter(until__lte=now).select_related("tenant").order_by("until")[:20]:
        # The time is checked again, because a person may prolong the mute meanwhile.
        unmute_code(tenant=one.tenant, code=one.code, actor="handoffaudit", until__lte=now)


def _mute_of(mute: CodeMute) -> dict[str, Any]:
    """Return the mute columns of a group with a muted rule code."""
    return {
        "muted_at": mute.muted_at,
        "muted_by": mute.muted_by,
        "muted_note": mute.note,
        "muted_until": None,
        "muted_by_code": True,
    }


def _mutes_of(tenant_id: int, codes: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the mute columns of new groups by muted rule code. No mute begins or ends until the transaction ends."""
    db.take_lock(_LOCKS, tenant_id % 2**31, shared=True)
    found = CodeMute.objects.filter(tenant=tenant_id, code__in=list(codes), until__gt=timezone.now())
    return {one.code: _mute_of(one) for one in found}


def _lock_groups(groups: QuerySet[FindingGroup], tenant: Tenant) -> None:
    """Lock groups in the order of their ids, as `_resize` does, and keep new groups out until the transaction ends."""
    db.take_lock(_LOCKS, tenant.pk % 2**31)
    list(groups.select_for_update().order_by("pk").values_list("pk"))


def _lock_group(tenant: Tenant, group: int) -> FindingGroup:
    return FindingGroup.objects.select_for_update().get(tenant=tenant, pk=group)


def _record(group: FindingGroup, actor: str, action: str, detail: dict[str, Any]) -> None:
    target = f"{group.code} at {group.path_shape or 'the document'}"
    audit.record(tenant=group.tenant, actor=actor, action=action, target=target, detail={"group": group.pk, **detail})
