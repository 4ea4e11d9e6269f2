"""Tests that SQLite reads rows in the order of their keys, and not all rows of a tenant for each batch."""

import uuid

import pytest
from django.db import connection
from django.db.models import AutoField, QuerySet
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics.removal import TARGETS, ErasureTarget
from handoffaudit.diagnostics.retention_targets import KINDS, Terms
from handoffaudit.handoffs import legal_holds
from handoffaudit.handoffs.review import activity
from handoffaudit.policy.retention import Data, Retention
from tests.handoffs.support import held, judged

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL reads small tables whole"),
]


def assert_reads_by_key(rows: QuerySet) -> None:
    key = 5 if isinstance(rows.model._meta.pk, AutoField) else uuid.UUID(int=5)
    plan = rows.filter(pk__gt=key).order_by("pk")[:200].explain()
    first = plan.splitlines()[0]
    assert "ORDER BY" not in plan, plan
    assert "id>?" in first, plan


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_an_erasure_reads_each_batch_by_key(tenant: Tenant, target: ErasureTarget) -> None:
    assert_reads_by_key(target.rows(tenant))


@pytest.mark.parametrize("data", [data for data, target in KINDS.items() if target.has_timed_key])
def test_retention_reads_each_batch_by_key(tenant: Tenant, data: Data) -> None:
    terms = Terms(Retention(data, 20), timezone.now(), legal_holds.read(tenant))
    assert_reads_by_key(KINDS[data].list_due(tenant, terms))


def test_an_open_review_page_does_not_read_all_handoffs(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    with CaptureQueriesContext(connection) as captured:
        activity.release_other_holds(handoff, reviewer)
    (sql,) = (one["sql"] for one in captured if one["sql"].startswith("DELETE"))
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN {sql}")
        plan = [row[3] for row in cursor.fetchall()]
    assert not [step for step in plan if step.startswith("SEARCH") and step.endswith("(tenant_id=?)")], plan
