"""Tests that partial indexes find decisions and other rare handoffs."""

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone

from handoffaudit.accounts.models import Person, Tenant
from handoffaudit.diagnostics.retention_targets import KINDS
from handoffaudit.handoffs import queries
from handoffaudit.handoffs.filters import is_overdue
from handoffaudit.handoffs.llm.run import filter_unverified
from handoffaudit.handoffs.models import Handoff
from handoffaudit.handoffs.queries import of_tenant
from handoffaudit.handoffs.review.queue import sort_part
from handoffaudit.policy.retention import Data
from tests.handoffs.review.support import decide, reopen
from tests.handoffs.support import circular, held, judged, payload

pytestmark = pytest.mark.django_db


def _overdue(tenant: Tenant) -> "QuerySet[Handoff]":
    return of_tenant(tenant).filter(is_overdue(timezone.now()))


def test_only_what_is_decided_now_is_a_decided_handoff(tenant: Tenant, reviewer: Person, other_tenant: Tenant) -> None:
    for document in (payload(), held(), circular()):
        judged(tenant, document)
    one, two, three = (judged(tenant, held()) for _ in range(3))
    decide(one, reviewer, "approve")
    decide(two, reviewer, "decline")
    reopen(decide(three, reviewer), reviewer)
    assert {row.pk for row in queries.decided_handoffs(tenant.pk)} == {one.pk, two.pk}
    assert not queries.decided_handoffs(other_tenant.pk).exists()


def test_of_all_decisions_those_stand_that_nobody_took_back(tenant: Tenant, reviewer: Person) -> None:
    handoff = judged(tenant, held())
    decide(handoff, reviewer, "approve", "first")
    reopen(handoff, reviewer)
    decide(handoff, reviewer, "approve", "second")
    rows = queries.decision_events(tenant)
    assert sorted(rows.values_list("reason", flat=True)) == ["first", "second"]
    assert list(queries.exclude_undone(rows).values_list("reason", flat=True)) == ["second"]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        ("event_decision", lambda tenant: queries.decision_events(tenant).filter(at__gte=timezone.now())),
        ("event_decider", lambda tenant: queries.exclude_undone(queries.decision_events(tenant).filter(actor="ada"))),
        (
            "handoff_decided_type",
            lambda tenant: queries.decided_handoffs(tenant.pk).filter(handoff_type="x").order_by("-id"),
        ),
        (
            "handoff_decided_pair",
            lambda tenant: (
                queries.decided_handoffs(tenant.pk).filter(source_agent_id="a", target_agent_id="b").order_by("-id")
            ),
        ),
        ("handoff_escalated", lambda tenant: sort_part(of_tenant(tenant), "escalated")),
        ("handoff_held", lambda tenant: sort_part(of_tenant(tenant), "held")),
        ("INDEX handoff_held", lambda tenant: of_tenant(tenant).filter(is_overdue(timezone.now())).order_by("-id")),
        (
            "COVERING INDEX handoff_held",
            lambda tenant: of_tenant(tenant).filter(is_overdue(timezone.now())).values("id"),
        ),
        ("handoff_unverified", lambda tenant: filter_unverified(tenant.pk).order_by("id")),
        ("handoff_by_time", lambda tenant: KINDS[Data.DOCUMENTS].there(tenant).order_by("pk").values_list("pk")),
        ("handoff_by_state", lambda tenant: sort_part(of_tenant(tenant), "rejected")),
    ],
)
def test_sqlite_takes_the_index_that_was_made_for_it(tenant: Tenant, index: str, rows) -> None:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL reads small tables whole")
    plan = rows(tenant)[:51].explain()
    assert index in plan
    assert "ORDER BY" not in plan
