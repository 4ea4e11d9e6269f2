"""Tests that SQLite does not read all rows of a tenant, see decision 86."""

import re
import sqlite3
import uuid
from collections.abc import Callable

import orjson
import pytest
from django.db import connection
from django.db.models import AutoField, QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics import attribution, erasure, text_index
from handoffaudit.diagnostics.removal import TARGETS, ErasureTarget
from handoffaudit.diagnostics.retention_targets import KINDS, Terms
from handoffaudit.handoffs import judge, legal_holds, queries
from handoffaudit.handoffs.filters import Filters
from handoffaudit.handoffs.ingest import store
from handoffaudit.handoffs.review import activity
from handoffaudit.policy.retention import Data, Retention
from handoffaudit.sqlite_file import store_statistics
from tests.diagnostics.retention.support import age, keep, run_all
from tests.handoffs.review.support import decide, reopen
from tests.handoffs.support import SENDER, circular, held, judged, payload

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads small tables whole"),
]

# Tables with a row, or several, for each handoff.
LARGE = (
    "handoffs_(?:handoff|handoffbody|verdict|event|finding)|diagnostics_(?:tracedhandoff|attribution|groupedhandoff)"
)
READS_TENANT = re.compile(
    rf"(?:SEARCH|BLOOM FILTER ON) (?:{LARGE}|[UVWT]\d+) .*?(\w+) \((?:tenant_id=\?|tenant_id=\? AND state=\?)\)"
    rf"|(?:SCAN|BLOOM FILTER ON) (?:{LARGE})\b()"
)
# These partial indexes have the few rows that a statement wants.
SMALL = {"handoff_unverified", "handoff_parked", "handoff_flagged"}


def plans_of(captured: CaptureQueriesContext) -> list[tuple[str, list[str]]]:
    found = []
    with connection.cursor() as cursor:
        for sql in {one["sql"] for one in captured if re.match(r"\s*(SELECT|WITH|UPDATE|DELETE)", one["sql"])}:
            cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
            found.append((sql, [row[3] for row in cursor.fetchall()]))
    return found


def assert_reads_no_tenant(captured: CaptureQueriesContext) -> int:
    """Check the plans of all statements, and return their number."""
    plans = plans_of(captured)
    for sql, plan in plans:
        matches = [match for step in plan if (match := READS_TENANT.match(step))]
        # A statement with a limit may read the newest rows of a tenant, or the oldest, in the order of an index.
        is_cut = re.search(r" LIMIT \d+\s*$", sql) and not any("ORDER BY" in step for step in plan)
        assert is_cut or all(match[1] in SMALL for match in matches), (sql, plan)
    return len(plans)


def test_ingest_judging_and_decisions_read_no_tenant(tenant: Tenant, reviewer: Person) -> None:
    first = judged(tenant, payload(handoff_id="h0", trace_id="t0"))
    blocked = [judged(tenant, document) for document in (held(), circular(), held())]
    documents = [orjson.dumps(payload(handoff_id=f"h{n}", trace_id=f"t{n // 2}")) for n in range(1, 40)]
    retries = [orjson.dumps({"document": payload(trace_id=f"t{n // 2}"), "retry_of": f"h{n}"}) for n in range(20)]
    steps: list[Callable[[], object]] = [
        lambda: store.accept_batch(tenant, SENDER, documents),
        lambda: store.accept_batch(tenant, SENDER, retries),
        judge.drain,
        attribution.run,
        text_index.run,
        lambda: judged(tenant, payload(trace_id="t0", parent_handoff_id=first.handoff_id)),
        lambda: reopen(decide(blocked[0], reviewer, "approve"), reviewer),
        lambda: decide(blocked[1], reviewer, "decline"),
        lambda: activity.release_other_holds(blocked[2], reviewer),
    ]
    number = 0
    for step in steps:
        with CaptureQueriesContext(connection) as captured:
            step()
        number += assert_reads_no_tenant(captured)
    assert number > 50


@pytest.mark.parametrize("flag", ["flagged", "unverified", "parked", "open", "shadowed"])
def test_a_list_with_a_flag_and_another_filter_reads_the_index_of_the_flag(tenant: Tenant, flag: str) -> None:
    with CaptureQueriesContext(connection) as captured:
        queries.list_handoffs(tenant, Filters(flag=flag, state=("accepted",), source="a"))
    (steps,) = (plan for sql, plan in plans_of(captured) if "review_due_at" in sql)
    assert steps[0].endswith("id=?)"), steps
    assert [step for step in steps if f"handoff_{flag}" in step]


def assert_reads_by_key(rows: QuerySet) -> None:
    key = 5 if isinstance(rows.model._meta.pk, AutoField) else uuid.UUID(int=5)
    plan = rows.filter(pk__gt=key).order_by("pk")[:200].explain()
    assert "ORDER BY" not in plan, plan
    assert "BLOOM" not in plan, plan
    assert "id>?" in plan.splitlines()[0], plan


def test_retention_and_an_erasure_read_no_tenant(tenant: Tenant) -> None:
    for document in (payload(), circular(), held(), payload(retry_of="x")):
        age(judged(tenant, document), 40)
    attribution.run()
    keep(tenant, documents=7)
    with CaptureQueriesContext(connection) as captured:
        run_all()
    number = assert_reads_no_tenant(captured)
    keep(tenant, handoffs=30)
    erasure.request(tenant=tenant, value="three suppliers", reason="she asked", actor="ada")
    with CaptureQueriesContext(connection) as captured:
        run_all()
        erasure.run(60)
    assert number + assert_reads_no_tenant(captured) > 80


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_an_erasure_reads_each_batch_by_key(tenant: Tenant, target: ErasureTarget) -> None:
    judged(tenant, payload())
    for reached in ("", "1" if isinstance(target.model._meta.pk, AutoField) else str(uuid.UUID(int=1))):
        with CaptureQueriesContext(connection) as captured:
            list(target.list_next(tenant, reached).only(*target.columns)[: target.batch])
        for sql, plan in plans_of(captured):
            # The rows of a few keys may be sorted.
            assert " IN (" in sql or not [step for step in plan if "ORDER BY" in step], (sql, plan)
            assert not [step for step in plan if "BLOOM" in step or "SCAN" in step], (sql, plan)
            assert "id>?" in plan[0] or "id=?" in plan[0], (sql, plan)


@pytest.mark.parametrize("data", [data for data, target in KINDS.items() if target.has_timed_key])
def test_retention_reads_each_batch_by_key(tenant: Tenant, data: Data) -> None:
    terms = Terms(Retention(data, 20), timezone.now(), legal_holds.read(tenant))
    assert_reads_by_key(KINDS[data].list_due(tenant, terms))


def test_the_statistics_are_stored_whole_and_only_if_they_differ() -> None:
    file = sqlite3.connect(":memory:", isolation_level=None)
    file.execute('CREATE TABLE one ("tenant_id", "state", "id")')
    file.execute("CREATE INDEX by_state ON one (tenant_id, state, id)")
    store_statistics(file)
    stored = [("one", "by_state", "1000000 500000 100000 1")]
    assert file.execute("SELECT * FROM sqlite_stat1").fetchall() == stored
    changes = file.total_changes
    store_statistics(file)
    assert file.total_changes == changes
    file.execute("ANALYZE")
    store_statistics(file)
    assert file.execute("SELECT * FROM sqlite_stat1").fetchall() == stored
    file.execute("DELETE FROM sqlite_stat1")
    file.execute("BEGIN")
    store_statistics(file)
    file.execute("ROLLBACK")
    assert file.execute("SELECT * FROM sqlite_stat1").fetchall() == []


def test_each_index_of_a_table_with_a_tenant_has_statistics() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT idx, stat FROM sqlite_stat1")
        found = dict(cursor.fetchall())
    assert found["handoff_by_state"] == "1000000 500000 100000 1"
    assert found["handoff_flagged"] == "1000 500 1"
    assert len(found) > 100
