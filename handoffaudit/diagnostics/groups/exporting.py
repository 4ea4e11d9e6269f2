"""The list of groups as a file."""

from collections.abc import Iterator
from typing import Any, Final

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.groups.figures import WEEK
from handoffaudit.diagnostics.groups.listing import GroupFilters, Listed, list_groups
from handoffaudit.handoffs import export
from handoffaudit.handoffs.export import Form

PART: Final = 500
COLUMNS: Final = (
    *("id", "code", "path", "source_agent_id", "target_agent_id", "handoffs", "last_7_days", "waiting"),
    *("first_seen", "last_seen", "signs", "muted_at", "muted_by", "muted_until", "muted_note", "regressed_at"),
)


def parts(tenant: Tenant, filters: GroupFilters, form: Form) -> Iterator[bytes]:
    """The file, in parts: what the list shows, in its order."""
    return export.render_rows(COLUMNS, _rows(tenant, filters), form)


def _rows(tenant: Tenant, filters: GroupFilters) -> Iterator[list[dict[str, Any]]]:
    cursor: str | None = ""
    while cursor is not None:
        page = list_groups(tenant, filters, cursor=cursor, limit=PART)
        yield [_row(one) for one in page.items]
        cursor = page.next


def _row(listed: Listed) -> dict[str, Any]:
    group = listed.group
    return {
        "id": group.pk,
        "code": group.code,
        "path": group.path_shape,
        "source_agent_id": group.source_agent_id,
        "target_agent_id": group.target_agent_id,
        "handoffs": group.number,
        "last_7_days": sum(listed.days[-WEEK:]),
        "waiting": listed.waiting,
        "first_seen": group.first_seen,
        "last_seen": group.last_seen,
        "signs": list(listed.signs),
        "muted_at": group.muted_at,
        "muted_by": group.muted_by if group.muted_at else "",
        "muted_until": group.muted_until,
        "muted_note": group.muted_note if group.muted_at else "",
        "regressed_at": group.regressed_at,
    }
