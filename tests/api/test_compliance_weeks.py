"""Tests of the API of rates by agent and week."""

from datetime import timedelta

import httpx
import pytest
from django.utils import timezone

from handoffaudit.accounts.models import Tenant
from tests.diagnostics.compliance.test_weeks import count

pytestmark = pytest.mark.django_db


def test_the_rates_of_the_page_are_listed(api: httpx.Client, tenant: Tenant, other_tenant: Tenant) -> None:
    today = timezone.now().date()
    monday = today - timedelta(days=today.weekday())
    count(tenant, today, "writer", 3, 1)
    count(other_tenant, today, "theirs", 1)
    answered = api.get("/compliance/weeks").json()
    rate = {"rate": "acceptance_rate", "agent": "writer", "week": monday.isoformat()}
    assert answered == {"items": [rate | {"part": 3, "total": 4, "percent": 75.0}], "next": None}
