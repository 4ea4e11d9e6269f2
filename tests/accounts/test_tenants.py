"""Tests of the default tenant."""

import pytest

from handoffaudit.accounts import tenants
from handoffaudit.accounts.models import AuditEntry, Tenant

pytestmark = pytest.mark.django_db


def test_the_default_one_is_made_once() -> None:
    made = tenants.default("ada")
    assert (made.slug, tenants.default("ben")) == ("default", made)
    assert AuditEntry.objects.get().actor == "ada"


def test_one_that_another_process_made_in_this_moment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key can be made while the first start is still creating the tenant."""
    looks = iter([None])

    def get_default() -> Tenant | None:
        first = next(looks, tenants)
        if first is None:
            tenants.create(slug=tenants.DEFAULT, name="Default", actor="system")
            return None
        return tenants.get(tenants.DEFAULT)

    monkeypatch.setattr(tenants, "get_default", get_default)
    assert tenants.default("ada") == Tenant.objects.get(slug="default")
