import pytest
from django.conf import settings

from handoffaudit.accounts.models import Tenant
from tests.api.conftest import _one_connection  # noqa: F401 -- requests keep the connection of the test


@pytest.fixture(scope="module")
def kept_tenant(module_transaction: None) -> Tenant:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)
    settings.QUEUE_FOLDER.mkdir(parents=True, exist_ok=True)
    return Tenant.objects.create(slug="acme", name="Acme")


@pytest.fixture(scope="module")
def kept_other_tenant(kept_tenant: Tenant) -> Tenant:
    return Tenant.objects.create(slug="globex", name="Globex")


@pytest.fixture
def tenant(kept_tenant: Tenant, db: None) -> Tenant:
    return kept_tenant


@pytest.fixture
def other_tenant(kept_other_tenant: Tenant, db: None) -> Tenant:
    return kept_other_tenant
