from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import TestCase

from handoffaudit.accounts.models import Tenant
from tests.api.conftest import _one_connection  # noqa: F401 -- requests keep the connection of the test


@pytest.fixture(scope="module")
def kept_tenant(django_db_setup: None, django_db_blocker) -> Iterator[Tenant]:
    """Yield a tenant inside a transaction around all tests of the module.

    Every test sees the rows that module fixtures add to the transaction, and each test undoes only its own changes.
    """
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    settings.QUEUE_FOLDER.mkdir(parents=True, exist_ok=True)
    with django_db_blocker.unblock():
        around = TestCase._enter_atomics()
        yield Tenant.objects.create(slug="acme", name="Acme")
        TestCase._rollback_atomics(around)


@pytest.fixture(scope="module")
def kept_other_tenant(kept_tenant: Tenant) -> Tenant:
    return Tenant.objects.create(slug="globex", name="Globex")


@pytest.fixture
def tenant(kept_tenant: Tenant, db: None) -> Tenant:
    return kept_tenant
