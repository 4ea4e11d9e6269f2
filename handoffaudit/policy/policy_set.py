"""All policies of a tenant as one set: export, comparison with another set, and saving together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from django.db import transaction

from handoffaudit.accounts.audit import lock_tenant
from handoffaudit.accounts.models import Tenant
from handoffaudit.policy import kinds
from handoffaudit.policy.models import Kind
from handoffaudit.policy.values import MOST_ERRORS, InvalidPolicy, PolicyError, brief
from handoffaudit.policy.versions import Change, Table, Versions, summarize_changes

T = TypeVar("T")

LONGEST_COMMIT: Final = 100

EVERY_KIND: Final[Mapping[Kind, Versions[Any]]] = {
    **kinds.KINDS,
    Kind.HANDOFF_FILES: kinds.file_policy,
    Kind.THRESHOLDS: kinds.alert_policy,
    Kind.RETENTION: kinds.retention,
}

# The server sets these fields, so they would differ between tenants that have the same policy.
SET_BY_SERVER: Final = {Kind.RULES: {"version"}, Kind.ROLES: {"declared_by", "declared_at"}}


@dataclass(frozen=True, slots=True)
class SetError:
    """A value of a set that cannot be saved. `kind` is text, because the kind itself may be unknown."""

    kind: str
    error: PolicyError

    def __str__(self) -> str:
        return f"{self.kind}, {self.error}" if self.error.row else f"{self.kind}: {self.error.message}"


class InvalidSet(Exception):
    def __init__(self, errors: list[SetError]) -> None:
        super().__init__("; ".join(map(str, errors)))
        self.errors = errors


@dataclass(frozen=True, slots=True)
class Conflict:
    """A kind that somebody saved after the base version, with the changes since."""

    kind: Kind
    base_version: int
    current: Table[Any]
    changes: list[Change]

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "base_version": self.base_version,
            "version": self.current.version,
            "changed_by": self.current.changed_by,
            "note": self.current.note,
            **summarize_changes(self.changes),
        }


class StaleSet(Exception):
    def __init__(self, conflicts: list[Conflict]) -> None:
        said = ", ".join(f"{one.kind.value} is at version {one.current.version} now" for one in conflicts)
        super().__init__(
            f"A base version is not the current version: {said}. Compare again, and send the versions that you compared"
            " with."
        )
        self.conflicts = conflicts


@dataclass(frozen=True, slots=True)
class PlannedKind:
    """One kind of a set with its differences from the current version; `saved` is the new version if one was saved."""

    kind: Kind
    current: Table[Any]
    rows: tuple[Any, ...]
    changes: list[Change]
    saved: Table[Any] | None = None

    def to_plain(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "base_version": self.current.version,
            "version": (self.saved or self.current).version,
            **summarize_changes(self.changes),
        }


def export(tenant: Tenant) -> dict[str, Any]:
    """Return the versions of all kinds, and their rows without the fields that the server sets."""
    tables = {kind: versions.current(tenant) for kind, versions in EVERY_KIND.items()}
    return {
        "versions": {kind.value: table.version for kind, table in tables.items()},
        "policies": {kind.value: _write_rows(kind, table) for kind, table in tables.items()},
    }


def _write_rows(kind: Kind, table: Table[Any]) -> list[dict[str, Any]]:
    left_out = SET_BY_SERVER.get(kind, set())
    plain = EVERY_KIND[kind].plain
    return [{name: value for name, value in plain(row).items() if name not in left_out} for row in table.rows]


def plan(tenant: Tenant, policies: Mapping[str, Any], actor: str) -> list[PlannedKind]:
    """Compare a set with the current policies. Raise `InvalidSet` with the errors of all kinds.

    A kind that the set does not name does not change. A kind that the set names is replaced as a whole.
    """
    planned = _each_kind(policies, lambda kind, rows: _plan_kind(tenant, kind, rows, actor))
    return sorted(planned, key=lambda one: list(EVERY_KIND).index(one.kind))


def parse(policies: Mapping[str, Any]) -> dict[Kind, tuple[Any, ...]]:
    """Return the rows of a set by kind, without comparing them. Raise `InvalidSet` with the errors of all kinds."""
    return dict(_each_kind(policies, lambda kind, rows: (kind, EVERY_KIND[kind].parse(rows))))


def _each_kind(policies: Mapping[str, Any], read: Callable[[Kind, list[Mapping[str, Any]]], T]) -> list[T]:
    """Read each kind with `read`, and return the results. Raise `InvalidSet` with the errors of all kinds."""
    found: list[T] = []
    errors: list[SetError] = []
    for name, rows in policies.items():
        try:
            found.append(read(*_check_kind(name, rows)))
        except InvalidPolicy as invalid:
            errors.extend(SetError(name[:LONGEST_COMMIT], one) for one in invalid.errors)
        if len(errors) >= MOST_ERRORS:
            break
    if errors:
        raise InvalidSet(errors[:MOST_ERRORS])
    return found


def _check_kind(name: str, rows: Any) -> tuple[Kind, list[Mapping[str, Any]]]:
    known = ", ".join(kind.value for kind in EVERY_KIND)
    if name not in {kind.value for kind in EVERY_KIND}:
        raise InvalidPolicy([PolicyError("", "", name, "There is no such kind of policy.", f"The kinds are {known}.")])
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        message = f"{brief(rows)} is not a list of rows."
        raise InvalidPolicy([PolicyError("", "", None, message, "Write a list with an object for each row.")])
    return Kind(name), rows


def _plan_kind(tenant: Tenant, kind: Kind, rows: list[Mapping[str, Any]], actor: str) -> PlannedKind:
    versions = EVERY_KIND[kind]
    current = versions.current(tenant)
    parsed = versions.parse(rows)
    if kind is Kind.ROLES:
        parsed = versions.checked(kinds.stamp_roles(tenant, parsed, actor))
    return PlannedKind(kind, current, parsed, versions.difference(current.rows, parsed))


@transaction.atomic
def apply(
    tenant: Tenant, policies: Mapping[str, Any], base_versions: Mapping[str, int], actor: str, note: str
) -> list[PlannedKind]:
    """Save all kinds of a set that differ from the current policies, or none of them.

    `base_versions` has the version that each kind was compared with. Raise `InvalidSet` for invalid values, or
    if a kind that would change has no base version. Raise `StaleSet` if the base version of a kind that would change is
    not the current version.
    """
    lock_tenant(tenant)
    planned = plan(tenant, policies, actor)
    changing = [one for one in planned if one.changes]
    _check_versions(tenant, changing, base_versions)
    saved = {
        one.kind: EVERY_KIND[one.kind].save(
            tenant=tenant, base_version=one.current.version, rows=one.rows, actor=actor, note=note
        )
        for one in changing
    }
    return [PlannedKind(one.kind, one.current, one.rows, one.changes, saved.get(one.kind)) for one in planned]


def _check_versions(tenant: Tenant, changing: list[PlannedKind], base_versions: Mapping[str, int]) -> None:
    remedy = "Send the version of this kind that you compared with."
    missing = [one for one in changing if one.kind.value not in base_versions]
    if missing:
        said = PolicyError("", "base_versions", None, "The base version is missing.", remedy)
        raise InvalidSet([SetError(one.kind.value, said) for one in missing])
    stale = [one for one in changing if base_versions[one.kind.value] != one.current.version]
    if stale:
        raise StaleSet([_find_conflict(tenant, one, base_versions[one.kind.value]) for one in stale])


def _find_conflict(tenant: Tenant, one: PlannedKind, base_version: int) -> Conflict:
    versions = EVERY_KIND[one.kind]
    # A base version that never existed has nothing to compare with.
    changes: list[Change] = []
    if 0 <= base_version < one.current.version:
        changes = versions.difference(versions.at_version(tenant, base_version).rows, one.current.rows)
    return Conflict(one.kind, base_version, one.current, changes)


def compose_note(commit: str, note: str) -> str:
    """Return the note of the saved versions, such as `commit 3f2a9c1: lower limits`."""
    return ": ".join(part for part in (f"commit {commit}" if commit else "", note) if part)
