"""Versions of policies: reading, comparing, saving and reverting them, in the same way for every kind of policy."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

import orjson
from django.db import transaction
from django.db.models import QuerySet

from handoffaudit.accounts import audit
from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Tenant
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.values import InvalidPolicy, PolicyError
from handoffaudit.validation.config import ANY_OTHER_TYPE
from handoffaudit.validation.paths import Location, dotted_path

WHOLE_ROW = "row"

DEEPEST = 8


class NoSuchVersion(LookupError):
    def __init__(self, number: int) -> None:
        super().__init__(f"There is no version {number}.")
        self.number = number


@dataclass(frozen=True, slots=True)
class Change:
    """One value before and after a change; None means that there was no value.

    `row` is the name of the row. `field` is the changed field, or the path of a value in the field: `layers.chain`,
    `rules.price_range.threshold`. If the whole row was added or deleted, `field` is `WHOLE_ROW`.
    """

    row: str
    field: str
    old: Any
    new: Any

    def to_plain(self) -> dict[str, Any]:
        return {"row": self.row, "field": self.field, "old": self.old, "new": self.new}


def list_changes(old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]) -> list[Change]:
    """Return the changes between two tables, which map row names to plain rows, with "any other type" last."""
    names = sorted(old.keys() | new.keys(), key=lambda name: (name == ANY_OTHER_TYPE, name))
    return [change for name in names for change in _compare_rows(name, old.get(name), new.get(name))]


def _compare_rows(name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> Iterator[Change]:
    if old is None or new is None:
        yield Change(name, WHOLE_ROW, old, new)
        return
    for location, before, after in _compare_inside((), old, new):
        yield Change(name, dotted_path(location), before, after)


def _compare_inside(
    location: Location, old: Mapping[str, Any], new: Mapping[str, Any]
) -> Iterator[tuple[Location, Any, Any]]:
    for key in dict.fromkeys([*old, *new]):
        before: Any = old.get(key)
        after: Any = new.get(key)
        place = (*location, key)
        are_objects = isinstance(before, Mapping) and isinstance(after, Mapping)
        if are_objects and len(place) < DEEPEST and not _differ_by_null(before, after):
            yield from _compare_inside(place, before, after)
        elif not _are_equal(before, after):
            yield place, before, after


def _differ_by_null(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Return whether one object has null for a key that the other object lacks.

    A `Change` cannot show this difference, because None in a change means that there was no value.
    """
    return any(old.get(key) is new.get(key) is None for key in old.keys() ^ new.keys())


def _are_equal(old: Any, new: Any) -> bool:
    # In Python, True equals 1; in JSON, it does not.
    return orjson.dumps(old, option=orjson.OPT_SORT_KEYS) == orjson.dumps(new, option=orjson.OPT_SORT_KEYS)


MOST_CHANGES = 100

LONGEST_VALUE = 2000

# A JSON column of PostgreSQL may change larger numbers, and the hash in the audit log would be wrong.
LARGEST = 2**53


def summarize_changes(changes: Sequence[Change]) -> dict[str, Any]:
    """Return the first changes as plain values, and in `more` the number of changes that were left out."""
    kept = [_shorten_change(change.to_plain()) for change in changes[:MOST_CHANGES]]
    more = len(changes) - len(kept)
    return {"changes": kept} | ({"more": more} if more else {})


def _shorten_change(change: dict[str, Any]) -> dict[str, Any]:
    return {name: _shorten_value(value) for name, value in change.items()}


def _shorten_value(value: Any) -> Any:
    text = orjson.dumps(value).decode()
    if len(text) <= LONGEST_VALUE and _is_storable(value):
        return value
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _is_storable(value: Any) -> bool:
    """Return whether a JSON column returns the value exactly as it was stored."""
    if isinstance(value, Mapping):
        return all(_is_storable(key) and _is_storable(inner) for key, inner in value.items())
    if isinstance(value, list):
        return all(_is_storable(inner) for inner in value)
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, float):
        return math.isfinite(value) and abs(value) < LARGEST and not (value == 0 and math.copysign(1, value) < 0)
    return not isinstance(value, int) or abs(value) <= LARGEST


R = TypeVar("R")

AS_SHIPPED = 0


@dataclass(frozen=True, slots=True)
class Table(Generic[R]):
    """One version of a kind of policy, with its rows in order. Version 0 is the default, which nobody saved."""

    version: int
    rows: tuple[R, ...]
    changed_by: str = ""
    changed_at: datetime | None = None
    note: str = ""
    name_of: Callable[[R], str] = field(default=str, repr=False, compare=False)

    def row(self, name: str) -> R | None:
        return next((row for row in self.rows if self.name_of(row) == name), None)


@dataclass(frozen=True, slots=True)
class Version(Generic[R]):
    """A table in the history, with its changes from the previous table."""

    table: Table[R]
    changes: list[Change] = field(default_factory=list)


class Stale(Exception):
    """The error for a change that is based on an older version than `current`, which somebody has saved since."""

    def __init__(self, current: Table[Any]) -> None:
        super().__init__(f"The table is at version {current.version} now: load this version and make the change again.")
        self.current = current


def _keep_as_given(row: R, in_force: R | None) -> R:
    return row


@dataclass(frozen=True)
class Versions(Generic[R]):
    """One kind of policy, and its versions in each tenant.

    `listed` is the name of the list of rows in the plain content. `parse` turns plain rows into rows. `checked` sorts
    rows and refuses rows that contradict each other. `parse` and `checked` raise `InvalidPolicy`. `plain` returns a row
    as JSON values; `compared` returns the parts of a row that make a difference between versions. `renewed` takes a
    changed row and the current row, and returns the row to save. `stays` is the name of the row that cannot be deleted;
    None if all rows can be deleted.
    """

    kind: Kind
    listed: str
    shipped: tuple[R, ...]
    name_of: Callable[[R], str]
    parse: Callable[[Iterable[Mapping[str, Any]]], tuple[R, ...]]
    checked: Callable[[Iterable[R]], tuple[R, ...]]
    plain: Callable[[R], dict[str, Any]]
    compared: Callable[[R], Mapping[str, Any]]
    renewed: Callable[[R, R | None], R] = _keep_as_given
    stays: str | None = None

    @property
    def as_shipped(self) -> Table[R]:
        return Table(AS_SHIPPED, self.shipped, name_of=self.name_of)

    def current(self, tenant: Tenant) -> Table[R]:
        newest = self._filter_versions(tenant).first()
        return self._make_table(newest) if newest else self.as_shipped

    def at_version(self, tenant: Tenant, number: int) -> Table[R]:
        if number == AS_SHIPPED:
            return self.as_shipped
        version = self._filter_versions(tenant).filter(number=number).first()
        if version is None:
            raise NoSuchVersion(number)
        return self._make_table(version)

    def at_time(self, tenant_id: int, at: datetime) -> Table[R]:
        """Return the table that applied at that time."""
        versions = PolicyVersion.objects.filter(tenant=tenant_id, kind=self.kind, changed_at__lte=at)
        newest = versions.order_by("-number").first()
        return self._make_table(newest) if newest else self.as_shipped

    def tables(self, tenant: Tenant, *, before: int | None = None, limit: int = 50) -> Iterator[Table[R]]:
        """Yield tables, newest first and the default table last; with `before`, only tables with a smaller number."""
        versions = self._filter_versions(tenant)
        if before is not None:
            versions = versions.filter(number__lt=before)
        found = versions[:limit]
        yield from map(self._make_table, found)
        if len(found) < limit and before != AS_SHIPPED:
            yield self.as_shipped

    def history(self, tenant: Tenant, *, before: int | None = None, limit: int = 50) -> list[Version[R]]:
        """Return the tables as `tables` does, each with its changes."""
        tables = list(self.tables(tenant, before=before, limit=limit + 1))
        pairs = itertools.zip_longest(tables, tables[1:])
        return [Version(table, self.difference(older.rows, table.rows) if older else []) for table, older in pairs][
            :limit
        ]

    def difference(self, old: Iterable[R], new: Iterable[R]) -> list[Change]:
        before, after = ({self.name_of(row): self.compared(row) for row in rows} for rows in (old, new))
        return list_changes(before, after)

    @transaction.atomic
    def save(self, *, tenant: Tenant, base_version: int, rows: Iterable[R], actor: str, note: str = "") -> Table[R]:
        """Save these rows as a new version, or return the current version if they change nothing.

        Raise `Stale` if `base_version` is not the current version, and `InvalidPolicy` for rows that cannot be saved.
        """
        lock_tenant(tenant)
        table = self._check_version(tenant, base_version)
        checked = self.checked(rows)
        changes = self.difference(table.rows, checked)
        if not changes:
            return table
        changed = {change.row for change in changes}
        version = PolicyVersion.objects.create(
            tenant=tenant,
            kind=self.kind,
            number=table.version + 1,
            content=self._dump(self._renew(row, table, changed) for row in checked),
            changed_by=actor[:200],
            note=_clean_note(note),
        )
        audit.record(
            tenant=tenant,
            actor=actor,
            action=f"{self.kind.value}.save",
            target=f"version {version.number}",
            detail={"note": version.note, **summarize_changes(changes)},
        )
        return self._make_table(version)

    @transaction.atomic
    def upsert_row(self, *, tenant: Tenant, base_version: int, row: R, actor: str, note: str = "") -> Table[R]:
        """Save the table with this row, which replaces a row of the same name. Raise the errors of `save`."""
        lock_tenant(tenant)
        name = self.name_of(row)
        others = [kept for kept in self.current(tenant).rows if self.name_of(kept) != name]
        return self.save(tenant=tenant, base_version=base_version, rows=[*others, row], actor=actor, note=note)

    @transaction.atomic
    def delete_row(self, *, tenant: Tenant, base_version: int, name: str, actor: str, note: str = "") -> Table[R]:
        """Save the table without the row of that name.

        Raise the errors of `save`, and `InvalidPolicy` if the row does not exist or cannot be deleted.
        """
        if name == self.stays:
            remedy = "Change the row, or add rows for single types."
            raise InvalidPolicy([PolicyError(name, "", None, "This row cannot be deleted.", remedy)])
        lock_tenant(tenant)
        table = self._check_version(tenant, base_version)
        if table.row(name) is None:
            raise InvalidPolicy([PolicyError(name, "", None, "There is no such row.", "Load the table again.")])
        rows = [row for row in table.rows if self.name_of(row) != name]
        return self.save(tenant=tenant, base_version=base_version, rows=rows, actor=actor, note=note)

    def revert(self, *, tenant: Tenant, to_version: int, base_version: int, actor: str, note: str = "") -> Table[R]:
        """Save a new version with the rows of an old version. The note names the old version and ends with `note`.

        Raise `NoSuchVersion`, and the errors of `save`.
        """
        rows = self.at_version(tenant, to_version).rows
        message = f"Reverted to version {to_version}" + (f": {note}" if _clean_note(note) else "")
        return self.save(tenant=tenant, base_version=base_version, rows=rows, actor=actor, note=message)

    def to_plain(self, rows: Iterable[R]) -> dict[str, Any]:
        """Return the rows in the form in which versions are stored and shown: an object with one list."""
        return {self.listed: [self.plain(row) for row in rows]}

    def from_plain(self, content: Mapping[str, Any]) -> tuple[R, ...]:
        """Return the rows of an object as `to_plain` writes it. Raise `InvalidPolicy` for invalid content."""
        rows = content.get(self.listed)
        if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
            remedy = f'Write {{"{self.listed}": […]}} with an object for each row.'
            raise InvalidPolicy([PolicyError("?", self.listed, None, "This is not a list of objects.", remedy)])
        return self.parse(rows)

    def from_text(self, content: str) -> tuple[R, ...]:
        """Return the rows of a stored version."""
        return self.from_plain(orjson.loads(content))

    def _dump(self, rows: Iterable[R]) -> str:
        return orjson.dumps(self.to_plain(rows)).decode()

    def _renew(self, row: R, table: Table[R], changed: set[str]) -> R:
        name = self.name_of(row)
        in_force = table.row(name)
        return in_force if in_force is not None and name not in changed else self.renewed(row, in_force)

    def _check_version(self, tenant: Tenant, base_version: int) -> Table[R]:
        table = self.current(tenant)
        if table.version != base_version:
            raise Stale(table)
        return table

    def _filter_versions(self, tenant: Tenant) -> QuerySet[PolicyVersion]:
        return PolicyVersion.objects.filter(tenant=tenant, kind=self.kind).order_by("-number")

    def _make_table(self, version: PolicyVersion) -> Table[R]:
        rows = self.from_text(version.content)
        return Table(version.number, rows, version.changed_by, version.changed_at, version.note, self.name_of)


def _clean_note(note: str) -> str:
    # PostgreSQL cannot store NUL, and pages cannot show other control characters.
    return "".join(sign if sign.isprintable() else " " for sign in note).strip()[:500]
