"""The strictness table: read, saved as a new version, reverted. A save on an old view overwrites nothing."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from handoffaudit.accounts import audit
from handoffaudit.accounts.locking import lock
from handoffaudit.accounts.models import Tenant
from handoffaudit.policy.defaults import ROWS_AS_SHIPPED, VERSION_AS_SHIPPED
from handoffaudit.policy.difference import Change, difference
from handoffaudit.policy.errors import InvalidPolicy, NoSuchVersion, PolicyError
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.parsing import checked_table, parse_rows, to_plain
from handoffaudit.validation.config import ANY_OTHER_TYPE, TypePolicy


@dataclass(frozen=True, slots=True)
class Table:
    """One version of the table; `rows` by type, "any other type" last. Version 0, by nobody, is as shipped."""

    version: int
    rows: tuple[TypePolicy, ...]
    changed_by: str = ""
    changed_at: datetime | None = None
    note: str = ""

    def row(self, handoff_type: str) -> TypePolicy | None:
        return next((row for row in self.rows if row.handoff_type == handoff_type), None)


@dataclass(frozen=True, slots=True)
class Version:
    """A table in the history, with what it changed in the one before it."""

    table: Table
    changes: list[Change] = field(default_factory=list)


class Stale(Exception):
    """Somebody saved a newer version than the change was made on: `current`."""

    def __init__(self, current: Table) -> None:
        super().__init__(f"The table is at version {current.version} now: load it and make the change on that.")
        self.current = current


AS_SHIPPED = Table(VERSION_AS_SHIPPED, ROWS_AS_SHIPPED)


def current(tenant: Tenant) -> Table:
    newest = _versions(tenant).first()
    return _table(newest) if newest else AS_SHIPPED


def at_version(tenant: Tenant, number: int) -> Table:
    if number == VERSION_AS_SHIPPED:
        return AS_SHIPPED
    version = _versions(tenant).filter(number=number).first()
    if version is None:
        raise NoSuchVersion(number)
    return _table(version)


def history(tenant: Tenant, *, before: int | None = None, limit: int = 50) -> list[Version]:
    """Versions, newest first, down to the one as shipped; `before`: only older ones than that number."""
    versions = _versions(tenant)
    if before is not None:
        versions = versions.filter(number__lt=before)
    tables = [_table(version) for version in versions[: limit + 1]]
    if len(tables) <= limit and before != VERSION_AS_SHIPPED:
        tables.append(AS_SHIPPED)
    pairs = itertools.zip_longest(tables, tables[1:])
    return [Version(table, difference(older.rows, table.rows) if older else []) for table, older in pairs][:limit]


@transaction.atomic
def save(*, tenant: Tenant, base_version: int, rows: Iterable[TypePolicy], actor: str, note: str = "") -> Table:
    """The table with these rows, as a new version; the one in force where they change nothing."""
    lock(tenant)
    table = current(tenant)
    if table.version != base_version:
        raise Stale(table)
    checked = checked_table(rows)
    changes = difference(table.rows, checked)
    if not changes:
        return table
    version = PolicyVersion.objects.create(
        tenant=tenant,
        kind=Kind.STRICTNESS,
        number=table.version + 1,
        content={"rows": [to_plain(row) for row in checked]},
        changed_by=actor[:200],
        note=_line(note),
    )
    audit.record(
        tenant=tenant,
        actor=actor,
        action="strictness.save",
        target=f"version {version.number}",
        detail={"note": version.note, "changes": [change.to_plain() for change in changes]},
    )
    return _table(version)


@transaction.atomic
def upsert_row(*, tenant: Tenant, base_version: int, row: TypePolicy, actor: str, note: str = "") -> Table:
    """The table with this row, in place of the type's row where there is one."""
    lock(tenant)
    others = [kept for kept in current(tenant).rows if kept.handoff_type != row.handoff_type]
    return save(tenant=tenant, base_version=base_version, rows=[*others, row], actor=actor, note=note)


@transaction.atomic
def delete_row(*, tenant: Tenant, base_version: int, handoff_type: str, actor: str, note: str = "") -> Table:
    """The table without the type's row: the type then follows the row for any other type."""
    lock(tenant)
    table = current(tenant)
    if table.version != base_version:
        raise Stale(table)
    if handoff_type == ANY_OTHER_TYPE:
        remedy = "Change it, or add rows for single types."
        raise InvalidPolicy([PolicyError(handoff_type, "", None, "This row has to stay.", remedy)])
    if table.row(handoff_type) is None:
        raise InvalidPolicy([PolicyError(handoff_type, "", None, "There is no such row.", "Load the table again.")])
    rows = [row for row in table.rows if row.handoff_type != handoff_type]
    return save(tenant=tenant, base_version=base_version, rows=rows, actor=actor, note=note)


def revert(*, tenant: Tenant, to_version: int, base_version: int, actor: str) -> Table:
    """A new version with the rows of an old one."""
    rows = at_version(tenant, to_version).rows
    note = f"Reverted to version {to_version}"
    return save(tenant=tenant, base_version=base_version, rows=rows, actor=actor, note=note)


def _line(note: str) -> str:
    # PostgreSQL keeps no NUL, and a page no other control signs.
    return "".join(sign if sign.isprintable() else " " for sign in note).strip()[:500]


def _versions(tenant: Tenant) -> QuerySet[PolicyVersion]:
    return PolicyVersion.objects.filter(tenant=tenant, kind=Kind.STRICTNESS).order_by("-number")


def _table(version: PolicyVersion) -> Table:
    rows = parse_rows(version.content["rows"])
    return Table(version.number, rows, version.changed_by, version.changed_at, version.note)
