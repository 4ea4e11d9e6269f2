"""The benchmarks fill a tenant with rows that agree with the product's own counts."""

from uuid import UUID

import pytest
from django.db import connection

from benchmarks.filling import fill
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup, TracedHandoff
from handoffaudit.handoffs import recount
from handoffaudit.handoffs.models import Handoff, HandoffBody, State, Verdict


@pytest.mark.django_db
def test_a_filled_tenant_has_right_counts() -> None:
    # The samples name this tenant.
    tenant = Tenant.objects.create(slug="default", name="Default")
    rows = 1000 if connection.vendor == "postgresql" else 150
    filled = fill(tenant, rows, most_samples=20)
    handoffs = Handoff.objects.filter(tenant=tenant)
    assert handoffs.count() == rows
    assert TracedHandoff.objects.filter(tenant=tenant).count() == handoffs.exclude(state=State.RECEIVED).count()
    assert HandoffBody.objects.count() == Verdict.objects.filter(tenant=tenant).count() > 100
    assert FindingGroup.objects.filter(tenant=tenant, number__gt=0).exists()
    # The pages of these handoffs are measured, so each of them has a document.
    shown = {UUID(pk): state for pk, state in filled["shown"]}
    assert dict(handoffs.filter(pk__in=shown).values_list("pk", "state")) == shown
    assert HandoffBody.objects.filter(pk__in=shown).count() == len(shown)
    assert recount.recount(repair=False).wrong == 0
    # A filled tenant stays as it is.
    assert fill(tenant, 2 * rows) == filled
    assert handoffs.count() == rows
