"""Tests of the weekly partitions on PostgreSQL: how they are made, and how the product says that they run out."""

import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from importlib import import_module
from pkgutil import iter_modules
from threading import Event
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit import database_faults
from handoffaudit.accounts.models import Tenant
from handoffaudit.cli.doctor import Installation, Level
from handoffaudit.cli.doctor_servers import check_partitions
from handoffaudit.handoffs import db, migrations, partitions, queries
from handoffaudit.handoffs.filters import first_id_at
from handoffaudit.handoffs.models import HandoffBody, Verdict, new_id
from handoffaudit.handoffs.partitions import WEEK, week_of
from handoffaudit.handoffs.verdicts import load_bodies
from handoffaudit.trust import seals, signatures
from tests.handoffs.support import judged, payload

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite has no partitions"),
]
BODIES = "handoffs_handoffbody"
Connect = Callable[[], "psycopg.Connection[Any]"]


def place_of(body: HandoffBody) -> str:
    """Return the partition that has the row."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tableoid::regclass::text FROM {BODIES} WHERE handoff_id = %s", [body.pk])  # noqa: S608
        (name,) = cursor.fetchone()
    return str(name)


def forget(number: int) -> None:
    """Drop the last partitions, as if no worker had made them."""
    for table in partitions.TABLES:
        assert partitions.detach(partitions.list_partitions(table)[-number:], lambda: True)
        partitions.drop_detached(table)


def body_at(moment: datetime) -> HandoffBody:
    return HandoffBody.objects.create(pk=first_id_at(moment), original=b"{}")


def test_partitions_have_no_gap_and_reach_eight_weeks_ahead() -> None:
    for table in partitions.TABLES:
        made = partitions.list_partitions(table)
        assert [one.low for one in made[1:]] == [one.high for one in made[:-1]]
        assert made[0].low.int == 0
        assert made[-1].ends_at >= timezone.now() + 8 * WEEK
        partitions.make_ahead()
        assert partitions.list_partitions(table) == made


def test_new_handoffs_and_handoffs_of_any_time_have_a_place(tenant: Tenant) -> None:
    judged(tenant, payload())
    new = HandoffBody.objects.get()
    assert place_of(new) == f"{BODIES}_first"
    ahead = timezone.now() + 3 * WEEK
    assert place_of(body_at(ahead)) == f"{BODIES}_{week_of(ahead):%Y%m%d}"
    assert place_of(body_at(timezone.now() + timedelta(days=400))) == f"{BODIES}_rest"


def test_a_partition_that_is_made_late_takes_its_rows_from_the_default_partition() -> None:
    forget(2)
    ahead = timezone.now() + 8 * WEEK - timedelta(days=1)
    late, later = body_at(ahead), body_at(timezone.now() + timedelta(days=400))
    assert place_of(late) == f"{BODIES}_rest"
    partitions.make_ahead()
    assert place_of(late) == f"{BODIES}_{week_of(ahead):%Y%m%d}"
    assert place_of(later) == f"{BODIES}_rest"


def test_readyz_and_doctor_warn_before_the_partitions_end(client: Client, settings, monkeypatch) -> None:
    # On a busy machine, the look at the server takes longer than the limit of the product.
    monkeypatch.setattr(database_faults, "LOOK_AT_SERVER_SECONDS", 60)
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    assert client.get("/readyz").json()["checks"]["partitions"] == "ok"
    installation = Installation()
    installation.database_works = True
    assert [one.level for one in check_partitions(installation)] == [Level.OK]
    soon = timezone.now() + partitions.WARN_BEFORE
    number = len([one for one in partitions.list_partitions(BODIES)[1:] if one.ends_at > soon])
    forget(number)
    # The first partition ends in one to two weeks.
    (first,) = partitions.list_partitions(BODIES)
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {BODIES} DETACH PARTITION {first.name}")
        cursor.execute(
            f"ALTER TABLE {BODIES} ATTACH PARTITION {first.name} FOR VALUES FROM (MINVALUE) TO (%s)",
            [first_id_at(timezone.now() + timedelta(days=6))],
        )
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["status"]) == (200, "degraded")
    assert answer.json()["checks"]["partitions"].startswith("the partitions end on 20")
    (result,) = check_partitions(installation)
    assert (result.level, result.message[:22]) == (Level.WARNING, "The partitions end on ")


def fetch_rows_by_django(sql: str, values: list[Any], _alias: str, **_: object) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


READS = {
    "current verdict": queries.current_verdict,
    "verdicts": queries.verdicts,
    "summaries": lambda handoff: queries.summaries(handoff.tenant, [handoff.pk]),
}


@pytest.mark.parametrize("read", [*READS, "seals"])
def test_verdicts_of_a_handoff_are_searched_in_few_partitions(monkeypatch, tenant: Tenant, settings, read: str) -> None:
    handoff = judged(tenant, payload())
    # Django captures only statements of its own cursor, and EXPLAIN needs the values in the statement.
    monkeypatch.setattr(db, "fetch_rows", fetch_rows_by_django)
    assert len(partitions.list_partitions(partitions.VERDICTS)) > 6
    with CaptureQueriesContext(connection) as queried:
        if read == "seals":
            assert seals.seal_batch(signatures.load_key(settings.DATA_FOLDER)) is False
        else:
            assert READS[read](handoff)
    (sql,) = [one["sql"] for one in queried if f'FROM "{partitions.VERDICTS}"' in one["sql"]]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {sql}")
        plan = "\n".join(line for (line,) in cursor.fetchall())
    # The first partition and, if it ends in less than the difference of clocks, the next one.
    assert 1 <= len(set(re.findall(rf"{partitions.VERDICTS}_(?:first|rest|[0-9]{{8}})\b", plan))) <= 2, plan


def test_a_kept_plan_reads_documents_in_few_partitions(monkeypatch, tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    plans = []

    def explain(sql: str, values: list[Any], _alias: str, **_: object) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            cursor.execute(f"PREPARE kept AS {sql.replace('%s', '${}').format(*range(1, len(values) + 1))}")
            cursor.execute(f"EXPLAIN EXECUTE kept ({', '.join(['%s'] * len(values))})", values)
            plans.append("\n".join(line for (line,) in cursor.fetchall()))
        return []

    monkeypatch.setattr(db, "fetch_rows", explain)
    assert load_bodies([handoff.pk]) == {}
    assert 1 <= len(set(re.findall(rf"{BODIES}_(?:first|rest|[0-9]{{8}})\b", plans[0]))) <= 2, plans[0]


def test_a_handoff_that_is_older_than_its_verdict_has_all_its_verdicts(tenant: Tenant) -> None:
    handoff = judged(tenant, payload())
    early, late = (first_id_at(timezone.now() + WEEK * number) for number in (-1, 30))
    first = handoff.verdict
    rows = Verdict.objects.filter(pk=first).values("tenant_id", "handoff_id", "validated_at", "content")
    for pk in (early, late):
        Verdict.objects.create(pk=pk, outcome="accepted", policy_version=1, **rows[0])
    handoff.verdict = late
    assert [one.pk for one in queries.verdicts(handoff)] == [late, first, early]


@pytest.fixture
def connect() -> Connect:
    """Return a function that opens another connection to the database of the test."""
    parameters = connection.get_connection_params()
    names = [name for name in ("host", "port", "user", "password", "dbname") if parameters.get(name)]
    return lambda: psycopg.connect(**{name: parameters[name] for name in names}, autocommit=True)


@pytest.mark.django_db(transaction=True)
def test_a_partition_in_use_stays(connect: Connect) -> None:
    one = partitions.list_partitions(BODIES)[-1]
    with connect() as other, other.transaction():
        other.execute(f"SELECT FROM {BODIES}")
        with pytest.raises(OperationalError), transaction.atomic():
            partitions.detach([one], lambda: True)
    assert one in partitions.list_partitions(BODIES)


def rights(name: str) -> set[tuple[str, str, str]]:
    """Return the rights that the role of the test has on a table and its columns."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT '', privilege_type, is_grantable FROM information_schema.table_privileges
               WHERE table_name = %s AND grantee = %s
               UNION SELECT column_name, privilege_type, is_grantable FROM information_schema.column_privileges
               WHERE table_name = %s AND grantee = %s AND privilege_type = 'UPDATE'""",
            [name, ROLE, name, ROLE],
        )
        return set(cursor.fetchall())


ROLE = 'a "reader" of the tests'
GIVEN = {("", "SELECT", "NO"), ("", "DELETE", "YES"), ("original", "UPDATE", "NO")}


@pytest.fixture
def role() -> Iterator[Callable[[str], None]]:
    """Make a role, and return a function that gives it rights on a table."""
    name = ROLE.replace('"', '""')
    with connection.cursor() as cursor:
        cursor.execute(f'DROP ROLE IF EXISTS "{name}"; CREATE ROLE "{name}"')
        yield lambda table: cursor.execute(
            f"""GRANT SELECT, UPDATE (original) ON {table} TO "{name}";
                GRANT DELETE ON {table} TO "{name}" WITH GRANT OPTION"""
        )
        cursor.execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')


def test_partitions_have_the_rights_of_their_table(role: Callable[[str], None]) -> None:
    forget(1)
    role(BODIES)
    partitions.make_ahead()
    name = partitions.list_partitions(BODIES)[-1].name
    assert rights(name) == rights(BODIES) == GIVEN


def test_rights_that_an_earlier_version_lost_are_restored(role: Callable[[str], None]) -> None:
    role(f"{BODIES}_first")
    assert rights(BODIES) == set()
    partitions.restore_rights(BODIES)
    names = [one.name for one in partitions.list_partitions(BODIES)]
    assert [rights(name) for name in (BODIES, f"{BODIES}_rest", *names)] == [GIVEN] * (len(names) + 2)


@pytest.fixture
def filled() -> Iterator[str]:
    """Make a plain table with 50,000 documents of the last 80 days."""
    table = "handoffs_tried"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {table} (handoff_id uuid PRIMARY KEY, original bytea NOT NULL)")
        times = [first_id_at(timezone.now() - timedelta(minutes=2 * number)) for number in range(50_000)]
        cursor.execute(f"INSERT INTO {table} SELECT unnest(%s::uuid[]), 'x'", [times])
        yield table
        cursor.execute(f"DROP TABLE {table}")


@pytest.mark.django_db(transaction=True)
def test_a_filled_table_is_partitioned_while_others_write(
    filled: str, connect: Connect, role: Callable[[str], None], monkeypatch
) -> None:
    monkeypatch.setitem(partitions.TABLES, filled, "handoff_id")
    role(filled)
    written, is_over = [], Event()

    def write() -> None:
        with connect() as other:
            while not is_over.is_set():
                written.append(new_id())
                other.execute(f"INSERT INTO {filled} VALUES (%s, 'y')", [written[-1]])  # noqa: S608

    with ThreadPoolExecutor(1) as threads:
        done = threads.submit(write)
        partitions.partition(filled)
        partitions.partition(filled)
        time.sleep(0.1)
        is_over.set()
        done.result()
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {filled}_first")  # noqa: S608
        assert cursor.fetchone() == (50_000 + len(written),)
        cursor.execute("SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass", [filled])
        assert cursor.fetchall() == [(f"{filled}_pkey",)]
    names = [one.name for one in partitions.list_partitions(filled)]
    assert len(names) > 6
    assert [rights(name) for name in (filled, f"{filled}_rest", *names)] == [GIVEN] * (len(names) + 2)


def test_migrations_that_wait_for_locks_do_not_keep_them() -> None:
    """In an atomic migration, a lock lasts until all steps are done."""
    modules = [import_module(f"{migrations.__name__}.{one.name}") for one in iter_modules(migrations.__path__)]
    waiting = [one for one in modules if hasattr(one, "partitions")]
    assert waiting
    assert [one.__name__ for one in waiting if one.Migration.atomic] == []
