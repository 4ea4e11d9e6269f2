from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from pytest_django import DjangoAssertNumQueries

from handoffaudit.accounts.models import Tenant
from handoffaudit.policy import strictness
from handoffaudit.policy.load import load
from handoffaudit.validation.config import Strictness, TypePolicy


def test_a_new_tenant_is_judged_as_shipped(tenant: Tenant) -> None:
    config = load(tenant.pk)
    assert config.version == 0
    assert config.policy_for("deal_data").strictness is Strictness.STRICT
    assert config.policy_for("notification").strictness is Strictness.LENIENT
    assert config.policy_for("never seen").strictness is Strictness.STRICT
    assert config.other.token_budget == 2000


def test_a_saved_version_is_in_force_at_once_in_its_tenant_only(tenant: Tenant, other_tenant: Tenant) -> None:
    load(tenant.pk)
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x", token_budget=5), actor="ada")
    assert load(tenant.pk).version == 1
    assert load(tenant.pk).policy_for("x").token_budget == 5
    assert load(other_tenant.pk).policy_for("x").token_budget == 2000
    strictness.delete_row(tenant=tenant, base_version=1, handoff_type="x", actor="ada")
    assert load(tenant.pk).version == 2
    assert load(tenant.pk).policy_for("x").token_budget == 2000


def test_a_version_is_read_once_and_then_one_small_query_decides(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x"), actor="ada")
    first = load(tenant.pk)
    with django_assert_num_queries(1):
        assert load(tenant.pk) is first


def test_what_is_loaded_cannot_be_changed(tenant: Tenant) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x"), actor="ada")
    config = load(tenant.pk)
    with pytest.raises(TypeError):
        config.types["x"] = TypePolicy("x")  # type: ignore[index]
    with pytest.raises(AttributeError):
        config.other = TypePolicy("*")  # type: ignore[misc]


@pytest.mark.django_db(transaction=True)
def test_many_threads_load_while_versions_are_saved(tenant: Tenant) -> None:
    def watch(_: int) -> list[int]:
        try:
            return [load(tenant.pk).version for _ in range(30)]
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(watch, number) for number in range(4)]
        for version in range(6):
            row = TypePolicy("x", token_budget=10 + version)
            strictness.upsert_row(tenant=tenant, base_version=version, row=row, actor="ada")
        for seen in watching:
            assert seen.result() == sorted(seen.result())
    assert load(tenant.pk).policy_for("x").token_budget == 15
