from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections
from pytest_django import DjangoAssertNumQueries

from handoffaudit.accounts.models import Tenant
from handoffaudit.policy.kinds import draft_config, load_config, rules, schemas, strictness
from handoffaudit.policy.models import Kind
from handoffaudit.policy.rules import example_sets
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.validation.config import Strictness, TypePolicy


def test_a_new_tenant_is_judged_as_shipped(tenant: Tenant) -> None:
    config = load_config(tenant.pk)
    assert config.version == 0
    assert config.policy_for("deal_data").strictness is Strictness.STRICT
    assert config.policy_for("notification").strictness is Strictness.LENIENT
    assert config.policy_for("never seen").strictness is Strictness.STRICT
    assert config.other.token_budget == 2000


def test_a_saved_version_is_in_force_at_once_in_its_tenant_only(tenant: Tenant, other_tenant: Tenant) -> None:
    load_config(tenant.pk)
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x", token_budget=5), actor="ada")
    assert load_config(tenant.pk).version == 1
    assert load_config(tenant.pk).policy_for("x").token_budget == 5
    assert load_config(other_tenant.pk).policy_for("x").token_budget == 2000
    strictness.delete_row(tenant=tenant, base_version=1, name="x", actor="ada")
    assert load_config(tenant.pk).version == 2
    assert load_config(tenant.pk).policy_for("x").token_budget == 2000


def test_a_version_is_read_once_and_then_one_small_query_decides(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x"), actor="ada")
    first = load_config(tenant.pk)
    with django_assert_num_queries(1):
        assert load_config(tenant.pk) is first


def test_what_is_loaded_cannot_be_changed(tenant: Tenant) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x"), actor="ada")
    config = load_config(tenant.pk)
    with pytest.raises(TypeError):
        config.types["x"] = TypePolicy("x")  # type: ignore[index]
    with pytest.raises(AttributeError):
        config.other = TypePolicy("*")  # type: ignore[misc]


def test_rules_schemas_and_claim_fields_are_in_what_is_loaded(tenant: Tenant, other_tenant: Tenant) -> None:
    assert load_config(tenant.pk).versions == {"strictness": 0, "rules": 0, "schemas": 0, "prompts": 0, "roles": 0}
    assert load_config(tenant.pk).rules == ()
    rules.save(tenant=tenant, base_version=0, rows=example_sets(), actor="ada")
    row = TypeSchema("deal_data", claim_fields=("thesis", "layers.*.key_findings"))
    schemas.upsert_row(tenant=tenant, base_version=0, row=row, actor="ada")
    schemas.upsert_row(tenant=tenant, base_version=1, row=TypeSchema("other", claim_fields=()), actor="ada")
    config = load_config(tenant.pk)
    assert (config.version, dict(config.versions)) == (
        0,
        {"strictness": 0, "rules": 1, "schemas": 2, "prompts": 0, "roles": 0},
    )
    assert config.rules == tuple(sorted(example_sets(), key=lambda one: one.set_id))
    assert config.demands_for("deal_data").claim_fields == row.claim_fields
    assert config.demands_for("other").claim_fields == ()
    assert config.demands_for("never seen").claim_fields is None
    assert load_config(other_tenant.pk).rules == ()


def test_all_kinds_take_one_small_query(tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    strictness.upsert_row(tenant=tenant, base_version=0, row=TypePolicy("x"), actor="ada")
    rules.save(tenant=tenant, base_version=0, rows=example_sets(), actor="ada")
    first = load_config(tenant.pk)
    with django_assert_num_queries(1):
        assert load_config(tenant.pk) is first


def test_a_draft_takes_the_place_of_its_kind_and_of_nothing_else(tenant: Tenant) -> None:
    rules.save(tenant=tenant, base_version=0, rows=example_sets(), actor="ada")
    in_force = load_config(tenant.pk)
    without = draft_config(tenant.pk, Kind.RULES, {"sets": []})
    assert (without.rules, without.types, without.versions) == ((), in_force.types, in_force.versions)
    strict = draft_config(tenant.pk, Kind.STRICTNESS, {"rows": [{"handoff_type": "*", "token_budget": 7}]})
    assert (strict.policy_for("deal_data").token_budget, strict.rules) == (7, in_force.rules)
    cited = draft_config(tenant.pk, Kind.SCHEMAS, {"rows": [{"handoff_type": "x", "claim_fields": ["a"]}]})
    assert (cited.demands_for("x").claim_fields, cited.other) == (("a",), in_force.other)
    assert load_config(tenant.pk) is in_force


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (Kind.STRICTNESS, {"rows": []}),
        (Kind.RULES, {"sets": [{"set_id": "a b"}]}),
        (Kind.RULES, {"rows": []}),
        (Kind.SCHEMAS, {"rows": [{"handoff_type": "x"}]}),
    ],
)
def test_a_draft_that_cannot_be_saved_cannot_be_tried(tenant: Tenant, kind: Kind, content: dict[str, object]) -> None:
    with pytest.raises(InvalidPolicy):
        draft_config(tenant.pk, kind, content)


@pytest.mark.django_db(transaction=True)
def test_many_threads_load_while_versions_are_saved(tenant: Tenant) -> None:
    def watch(_: int) -> list[int]:
        try:
            return [load_config(tenant.pk).version for _ in range(30)]
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(4) as pool:
        watching = [pool.submit(watch, number) for number in range(4)]
        for version in range(6):
            row = TypePolicy("x", token_budget=10 + version)
            strictness.upsert_row(tenant=tenant, base_version=version, row=row, actor="ada")
        for seen in watching:
            assert seen.result() == sorted(seen.result())
    assert load_config(tenant.pk).policy_for("x").token_budget == 15
