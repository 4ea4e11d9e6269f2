"""Tests of the SQL that the ORM cannot generate."""

import uuid

import pytest
from django.db import connection
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from handoffaudit.handoffs import db
from handoffaudit.handoffs.models import AgentBehaviour, Handoff, HourlyTotal
from tests.handoffs.support import payload, submit

pytestmark = pytest.mark.django_db

ODD = ["{a,b}", 'quo"te', "back\\slash", "'; --", "NULL", "ünï", "%s", "a b"]


def test_a_long_list_of_values_finds_what_a_short_one_finds(tenant: Tenant) -> None:
    names = [*ODD, *(f"agent-{number}" for number in range(20))]
    ids = [uuid.UUID(submit(tenant, payload(source_agent_id=name, call_chain=[name])).id) for name in names]
    assert len(ids) == len(names)
    found = Handoff.objects.filter(tenant=tenant, source_agent_id__in=[*names, *names])
    assert set(found.values_list("source_agent_id", flat=True)) == set(names)
    assert found.count() == len(names)
    by_id = Handoff.objects.filter(tenant=tenant, pk__in=[*ids, *(uuid.uuid4() for _ in range(20))])
    assert set(by_id.values_list("pk", flat=True)) == set(ids)
    as_text = Handoff.objects.filter(tenant=tenant, pk__in=[str(pk) for pk in ids])
    assert as_text.count() == len(ids)
    left = Handoff.objects.filter(tenant=tenant).exclude(source_agent_id__in=names[1:])
    assert list(left.values_list("source_agent_id", flat=True)) == names[:1]


def test_a_long_list_is_one_parameter_on_postgresql(tenant: Tenant) -> None:
    sql, params = Handoff.objects.filter(
        tenant=tenant, handoff_id__in=list(map(str, range(500)))
    ).query.sql_with_params()
    assert len(params) == (2 if db.is_postgresql() else 501)
    assert ("ANY" in sql) is (connection.vendor == "postgresql")
    condition, values = db.among(["a", "b"])
    assert (condition.count("%s"), len(values)) == ((1, 1) if db.is_postgresql() else (2, 2))


def test_rows_that_exist_already_are_replaced_or_added_to(tenant: Tenant) -> None:
    behaviour = db.Columns.of(AgentBehaviour, "tenant", "agent", "forms")
    db.upsert_rows(behaviour, [[tenant.pk, "old", "0"]], 2)
    db.upsert_rows(behaviour, [[tenant.pk, agent, "01"] for agent in ("old", *ODD)], 2)
    assert set(AgentBehaviour.objects.values_list("agent", "forms")) == {(agent, "01") for agent in ("old", *ODD)}
    totals, hour = db.Columns.of(HourlyTotal, "tenant", "hour", "state", "code", "number"), timezone.now()
    for number in (40_000, -2):
        db.upsert_rows(
            totals, [[tenant.pk, hour, "held", "a", number], [tenant.pk, hour, "held", "b", 1]], 4, adds=True
        )
    assert set(HourlyTotal.objects.values_list("code", "number")) == {("a", 39_998), ("b", 2)}


@pytest.mark.skipif("connection.vendor != 'postgresql'", reason="SQLite prepares all statements")
@pytest.mark.parametrize("with_pgbouncer", [False, True])
@pytest.mark.django_db
def test_statements_are_prepared_on_request_but_not_with_a_pgbouncer(settings, *, with_pgbouncer: bool) -> None:
    settings.PGBOUNCER = with_pgbouncer
    name = f"only_here_{with_pgbouncer}".lower()
    with db.server_cursor() as cursor:
        cursor.execute(f"SELECT 1 AS {name}", prepare=True)
        cursor.execute(f"SELECT 2 AS {name}")
    with connection.cursor() as found:
        found.execute("SELECT statement FROM pg_prepared_statements WHERE statement LIKE %s", [f"%{name}"])
        assert found.fetchall() == ([] if with_pgbouncer else [(f"SELECT 1 AS {name}",)])
