"""The benchmarks fill a tenant with rows that agree with the product's own counts."""

import pytest
from django.db import connection

from benchmarks.filling import fill
from handoffaudit.accounts.models import Tenant
from handoffaudit.diagnostics.models import FindingGroup
from handoffaudit.handoffs import recount
from handoffaudit.handoffs.models import Handoff


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "sqlite", reason="VACUUM of PostgreSQL runs in no transaction")
def test_a_filled_tenant_has_right_counts() -> None:
    # The samples name this tenant.
    tenant = Tenant.objects.create(slug="default", name="Default")
    fill(tenant, 150)
    assert Handoff.objects.filter(tenant=tenant).count() == 150
    assert FindingGroup.objects.filter(tenant=tenant, number__gt=0).exists()
    assert recount.recount(repair=False).wrong == 0
