"""What each row of the table blocked, or would have blocked without shadow mode, with links to the handoffs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs.dry_runs import shadow
from handoffaudit.handoffs.dry_runs.shadow import BlockStats
from handoffaudit.handoffs.rates import BLOCKED, FINAL
from handoffaudit.policy.kinds import strictness
from handoffaudit.policy.versions import Table
from handoffaudit.validation.config import ANY_OTHER_TYPE, Mode, TypePolicy
from handoffaudit.validation.text import pluralize
from handoffaudit.validation.times import utc_text

# Saved in one week; of more, the oldest of these counts as the first.
MOST_VERSIONS = 50


@dataclass(frozen=True, slots=True)
class Named:
    """One of a list: a code, a sender or a type, how many handoffs, and where they are listed (empty: nowhere)."""

    name: str
    number: int
    address: str = ""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a row does to handoffs, and in which time. Addresses are empty where no list shows just those."""

    stopping: BlockStats
    lately: str = ""
    would_address: str = ""
    stopped_address: str = ""


@dataclass(frozen=True, slots=True)
class Why:
    """Why handoffs of a row would be stopped; `explained`: of how many of them the codes are told."""

    explained: int
    codes: Sequence[Named]
    sources: Sequence[Named]
    types: Sequence[Named]


def effects(tenant: Tenant, now: Table[TypePolicy]) -> tuple[datetime, Mapping[str, Effect]]:
    """From when on is counted, and for each row by its name what it does; of one in shadow, since it is there."""
    since = shadow.find_start(tenant)
    rows = [row.handoff_type for row in now.rows]
    starts = _put_in_shadow(tenant, now, since)
    found = {**shadow.count_by_row(tenant, rows, since), **shadow.count_in_shadow(tenant, starts, rows)}
    return since, {row: _effect(tenant, row, figures, since) for row, figures in found.items()}


def _put_in_shadow(tenant: Tenant, now: Table[TypePolicy], since: datetime) -> Mapping[str, datetime]:
    """Of the rows that were put in shadow after `since` and are there still: when."""
    starts: dict[str, datetime] = {}
    left = {row.handoff_type for row in now.rows if row.mode is Mode.SHADOW}
    if not left or now.changed_at is None or now.changed_at <= since:
        return starts
    for table in strictness.tables(tenant, limit=MOST_VERSIONS):
        # A type without a row of its own followed the last one.
        left = {name for name in left if _mode(table, name) is Mode.SHADOW}
        if not left or table.changed_at is None or table.changed_at <= since:
            for name in left:
                starts.pop(name, None)
            break
        starts |= dict.fromkeys(left, table.changed_at)
    return starts


def _mode(table: Table[TypePolicy], name: str) -> Mode | None:
    row = table.row(name) or table.row(ANY_OTHER_TYPE)
    return row.mode if row else None


def why(tenant: Tenant, row: str, rows: Sequence[str], since: datetime) -> Why:
    """Of the row for any other type also of which types."""
    found = shadow.list_reasons(tenant, row, rows, since)
    own = "" if row == ANY_OTHER_TYPE else row
    return Why(
        explained=found.explained,
        codes=[Named(code, number, _shadowed(tenant, since, own, code=code)) for code, number in found.codes],
        sources=[Named(name, number, _shadowed(tenant, since, own, source=name)) for name, number in found.sources],
        types=[Named(name, number, _shadowed(tenant, since, name)) for name, number in found.types] if not own else [],
    )


def since_words(since: datetime) -> str:
    """Return the counted time in words: "in the last 7 days". The current hour counts whole."""
    if since <= timezone.now() + timedelta(hours=1) - shadow.PERIOD:
        return f"in the last {shadow.PERIOD.days} days"
    return f"in the last {_hours(since)}"


def _hours(since: datetime) -> str:
    return pluralize(max(1, -((since - timezone.now()) // timedelta(hours=1))), "hour")


def _effect(tenant: Tenant, row: str, figures: BlockStats, since: datetime) -> Effect:
    lately = since_words(since) if figures.since == since else f"since it is in shadow, {_hours(figures.since)}"
    if row == ANY_OTHER_TYPE:
        return Effect(figures, lately)
    blocked = ",".join(BLOCKED)
    return Effect(
        figures,
        lately,
        _shadowed(tenant, figures.since, row) if figures.would_stop else "",
        _handoffs(tenant, state=blocked, type=row, since=utc_text(figures.since)) if figures.stopped else "",
    )


def _shadowed(tenant: Tenant, since: datetime, handoff_type: str, **more: str) -> str:
    # Final attempts alone, as the numbers count them.
    states = ",".join(FINAL)
    return _handoffs(tenant, flag="shadowed", state=states, type=handoff_type, since=utc_text(since), **more)


def _handoffs(tenant: Tenant, **query: str) -> str:
    given = {name: value for name, value in query.items() if value}
    return f"{reverse('dashboard:handoffs', args=[tenant.slug])}?{urlencode(given)}"
