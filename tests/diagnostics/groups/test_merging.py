"""Tests of the migration that merges finding groups, which had one group for each route, by code and place."""

import hashlib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib import import_module
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from django.core.management.sql import emit_post_migrate_signal
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.group_members import group_key
from handoffaudit.diagnostics.models import FindingGroup, FindingGroupDay, GroupedHandoff
from tests.diagnostics.groups.support import routes

migration = import_module("handoffaudit.diagnostics.migrations.0007_merge_groups")

BEGIN = datetime(2026, 3, 1, tzinfo=UTC)
DAY = date(2026, 3, 2)


def at(days: int) -> datetime:
    return BEGIN + timedelta(days=days)


class Before:
    """The database before the migration, with groups as they were then."""

    def __init__(self) -> None:
        executor = MigrationExecutor(connection)
        executor.migrate([("diagnostics", "0005_log_parts")])
        self.apps = executor.loader.project_state([("diagnostics", "0005_log_parts")]).apps

    def group(self, tenant: Tenant, source: str, number: int, **columns: Any) -> Any:
        """Store a group of a circular chain between two agents, with its members and their day."""
        place = ("chain.circular", "target_agent_id", source, "writer")
        names = ("code", "path_shape", "source_agent_id", "target_agent_id")
        given = dict(zip(names, place, strict=True)) | {"first_seen": at(1), "last_seen": at(2)} | columns
        key = hashlib.sha256("\0".join(place).encode()).hexdigest()
        made = self.model("FindingGroup").create(tenant_id=tenant.pk, key=key, number=number, **given)
        for _ in range(number):
            self.model("GroupedHandoff").create(tenant_id=tenant.pk, group=made, handoff=uuid4(), decisive=True)
        self.model("FindingGroupDay").create(group=made, day=DAY, number=number)
        return made

    def model(self, name: str) -> Any:
        return self.apps.get_model("diagnostics", name).objects

    def migrate(self) -> None:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes())


@pytest.fixture
def before() -> Iterator[Before]:
    made = Before()
    yield made
    made.migrate()
    # The migration to the old state dropped tables, and with them a trigger and, on SQLite, statistics.
    emit_post_migrate_signal(verbosity=0, interactive=False, db=connection.alias)


def merged(tenant: Tenant) -> FindingGroup:
    one = FindingGroup.objects.get(tenant=tenant)
    assert one.number == GroupedHandoff.objects.filter(group=one).count()
    assert list(FindingGroupDay.objects.filter(group=one).values_list("day", "number")) == [(DAY, one.number)]
    assert one.key == group_key(one.code, one.path_shape).key
    return one


@pytest.mark.django_db(transaction=True)
def test_groups_of_one_place_become_one_also_if_the_migration_is_stopped(
    tenant: Tenant, other_tenant: Tenant, before: Before, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = before.group(tenant, "a", 3, first_seen=at(5), last_seen=at(6), muted_at=at(7), muted_by="rui")
    before.group(tenant, "b", 4, first_seen=at(3), last_seen=at(4))
    before.group(tenant, "c", 0, first_seen=at(0), last_seen=at(9))
    before.group(other_tenant, "a", 2)
    before.group(tenant, "d", 1)
    right, calls = migration._merge_days, iter([True, False])

    def breaks(*given: Any) -> None:
        if not next(calls):
            raise KeyboardInterrupt
        right(*given)

    with monkeypatch.context() as broken:
        broken.setattr(migration, "_merge_days", breaks)
        broken.setattr(migration, "MOVED_AT_ONCE", 2)
        with pytest.raises(KeyboardInterrupt):
            before.migrate()
    before.migrate()
    one = merged(tenant)
    assert (one.pk, one.number, one.first_seen, one.last_seen) == (first.pk, 8, at(1), at(6))
    assert (one.muted_at, one.muted_by) == (None, "rui")
    assert routes(one) == {("a", "writer"): 3, ("b", "writer"): 4, ("d", "writer"): 1}
    assert routes(merged(other_tenant)) == {("a", "writer"): 2}


def part(number: int, until: int | None = None, **columns: Any) -> SimpleNamespace:
    """Return a group that is muted until it has this many handoffs, or for good."""
    muted = {"muted_at": at(7), "muted_by": "rui", "muted_note": "Known.", "muted_until": until, "regressed_at": None}
    return SimpleNamespace(number=number, **{"first_seen": at(1), "last_seen": at(2), **muted, **columns})


def open_part(number: int, **columns: Any) -> SimpleNamespace:
    return part(number, **{"muted_at": None, "muted_by": "", "muted_note": "", **columns})


@pytest.mark.parametrize(
    ("older", "newer", "is_muted", "until"),
    [
        (part(3, 13), part(4, 54), True, 17),
        (part(3), part(4, 9), True, 12),
        (part(3), part(4), True, None),
        (part(3), open_part(4), False, None),
        (part(3), open_part(0), True, None),
        (part(0), open_part(3), False, None),
    ],
    ids=["the least growth", "one for good", "both for good", "one open", "an empty one open", "an empty one muted"],
)
def test_a_merged_group_is_muted_only_if_all_its_parts_with_handoffs_are(
    older: SimpleNamespace, newer: SimpleNamespace, is_muted: bool, until: int | None
) -> None:
    for parts in ((older, newer), (newer, older)):
        found = migration._merged(*parts)
        assert (bool(found["muted_at"]), found["muted_until"]) == (is_muted, until)
        assert (found["muted_by"] == "rui") == (is_muted or bool(older.number))


def test_a_group_that_came_back_stays_so_with_its_note() -> None:
    came_back = open_part(2, regressed_at=at(8), muted_by="ada", muted_note="Mended soon.")
    found = migration._merged(part(3, 13), came_back)
    assert (found["regressed_at"], found["muted_at"], found["muted_by"]) == (at(8), None, "ada")
    assert found["muted_note"] == "Mended soon. / Known."
    assert len(migration._merged(part(1, muted_note="x" * 900), part(1, muted_note="y" * 900))["muted_note"]) == 1000
