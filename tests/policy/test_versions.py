"""Tests of versions, which work the same for every kind of policy."""

from collections.abc import Callable
from typing import Any

import pytest

from handoffaudit.accounts import audit
from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.policy.agents import DeclaredRole, DeclaredRoutes
from handoffaudit.policy.kinds import KINDS, rules, schemas, strictness
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.prompts import PromptRow
from handoffaudit.policy.rules import HIGHEST_VERSION, example_sets
from handoffaudit.policy.schemas import TypeSchema
from handoffaudit.policy.values import InvalidPolicy
from handoffaudit.policy.versions import NoSuchVersion, Stale, Versions
from handoffaudit.validation.agents import AgentRole
from handoffaudit.validation.business_rules import BusinessRuleSet
from handoffaudit.validation.config import TypePolicy
from handoffaudit.validation.prompts.question import Use


def a_set(number: int) -> BusinessRuleSet:
    return example_sets()[0].model_copy(update={"name": f"Signals {number}"})


def a_schema(number: int) -> TypeSchema:
    return TypeSchema("deal_data", claim_fields=(f"field_{number}",))


def a_type(number: int) -> TypePolicy:
    return TypePolicy("deal_data", token_budget=3000 + number)


def a_prompt(number: int) -> PromptRow:
    return PromptRow(Use.GROUNDING, f"Look for {number} things.", handoff_type="deal_data")


def an_edge(number: int) -> DeclaredRoutes:
    return DeclaredRoutes("planner", (f"agent_{number}",))


def a_role(number: int) -> DeclaredRole:
    return DeclaredRole("crawler", list(AgentRole)[number % len(AgentRole)])


ROWS: dict[Kind, Callable[[int], Any]] = {
    Kind.STRICTNESS: a_type,
    Kind.RULES: a_set,
    Kind.SCHEMAS: a_schema,
    Kind.PROMPTS: a_prompt,
    Kind.AGENTS: an_edge,
    Kind.ROLES: a_role,
}


@pytest.fixture(params=KINDS, ids=lambda kind: kind.value)
def versions(request: pytest.FixtureRequest) -> Versions[Any]:
    return KINDS[request.param]


def save(versions: Versions[Any], tenant: Tenant, base: int, number: int, actor: str = "ada") -> Any:
    row = ROWS[versions.kind](number)
    return versions.upsert_row(tenant=tenant, base_version=base, row=row, actor=actor, note="why")


def test_it_begins_as_shipped(versions: Versions[Any], tenant: Tenant) -> None:
    table = versions.current(tenant)
    assert (table.version, table.changed_by, table.changed_at) == (0, "", None)
    assert bool(table.rows) == (versions.kind is Kind.STRICTNESS)
    assert versions.at_version(tenant, 0) == table
    assert [version.table for version in versions.history(tenant)] == [table]


def test_a_save_is_a_new_version_of_its_kind_in_its_tenant(
    versions: Versions[Any], tenant: Tenant, other_tenant: Tenant
) -> None:
    saved = save(versions, tenant, 0, 1)
    assert (saved.version, saved.changed_by, saved.note) == (1, "ada", "why")
    assert saved.row(versions.name_of(ROWS[versions.kind](1))) is not None
    assert versions.current(tenant) == saved
    assert [one.current(tenant).version for one in KINDS.values() if one is not versions] == [0] * (len(KINDS) - 1)
    assert versions.current(other_tenant).version == 0
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.target) == (f"{versions.kind.value}.save", "version 1")
    assert entry.detail["changes"]
    assert audit.verify(tenant) is None


def test_saving_it_again_changes_nothing(versions: Versions[Any], tenant: Tenant) -> None:
    saved = save(versions, tenant, 0, 1)
    plain = versions.to_plain(saved.rows)
    again = versions.save(tenant=tenant, base_version=1, rows=versions.from_plain(plain), actor="bob")
    assert again == saved
    assert PolicyVersion.objects.count() == 1


def test_a_save_on_an_old_view_is_told(versions: Versions[Any], tenant: Tenant) -> None:
    saved = save(versions, tenant, 0, 1)
    for attempt in (
        lambda: save(versions, tenant, 0, 2),
        lambda: versions.revert(tenant=tenant, to_version=0, base_version=0, actor="bob"),
        lambda: versions.delete_row(tenant=tenant, base_version=0, name="deal_data", actor="bob"),
    ):
        with pytest.raises(Stale) as stale:
            attempt()
        assert stale.value.current == saved
    assert AuditEntry.objects.count() == 1


def test_history_difference_and_the_way_back(versions: Versions[Any], tenant: Tenant) -> None:
    first = save(versions, tenant, 0, 1)
    save(versions, tenant, 1, 2)
    back = versions.revert(tenant=tenant, to_version=1, base_version=2, actor="bob")
    assert versions.difference(back.rows, first.rows) == []
    assert (back.version, back.note) == (3, "Reverted to version 1")
    told = versions.history(tenant)
    assert [one.table.version for one in told] == [3, 2, 1, 0]
    assert [bool(one.changes) for one in told] == [True, True, True, False]
    assert told[0].changes[0].old == told[1].changes[0].new
    with pytest.raises(NoSuchVersion):
        versions.at_version(tenant, 9)


def test_a_row_is_taken_out(versions: Versions[Any], tenant: Tenant) -> None:
    saved = save(versions, tenant, 0, 1)
    name = versions.name_of(ROWS[versions.kind](1))
    without = versions.delete_row(tenant=tenant, base_version=1, name=name, actor="ada")
    assert (without.row(name), len(without.rows)) == (None, len(saved.rows) - 1)
    with pytest.raises(InvalidPolicy, match="no such row"):
        versions.delete_row(tenant=tenant, base_version=2, name=name, actor="ada")


@pytest.mark.parametrize("content", [{}, {"rows": None, "sets": None}, {"rows": [1], "sets": ["x"]}])
def test_content_of_another_shape_is_refused(versions: Versions[Any], content: dict[str, Any]) -> None:
    with pytest.raises(InvalidPolicy, match="not a list of objects"):
        versions.from_plain(content)


def test_a_changed_set_counts_on_and_the_others_stay(tenant: Tenant) -> None:
    signals, cmt = example_sets()
    table = rules.save(tenant=tenant, base_version=0, rows=[signals, cmt], actor="ada")
    assert [one.version for one in table.rows] == [1, 1]
    table = rules.upsert_row(tenant=tenant, base_version=1, row=a_set(2), actor="ada")
    assert {one.set_id: one.version for one in table.rows} == {cmt.set_id: 1, signals.set_id: 2}
    table = rules.revert(tenant=tenant, to_version=1, base_version=2, actor="ada")
    assert {one.set_id: one.version for one in table.rows} == {cmt.set_id: 1, signals.set_id: 3}
    assert table.row(signals.set_id) == signals.model_copy(update={"version": 3})


def test_a_set_with_the_highest_number_can_be_changed(tenant: Tenant) -> None:
    highest = a_set(1).model_copy(update={"version": HIGHEST_VERSION})
    rules.save(tenant=tenant, base_version=0, rows=[highest], actor="ada")
    (changed,) = rules.upsert_row(tenant=tenant, base_version=1, row=a_set(2), actor="ada").rows
    assert (changed.version, changed.name) == (HIGHEST_VERSION, "Signals 2")


def test_another_number_alone_is_no_change_of_a_set(tenant: Tenant) -> None:
    rules.save(tenant=tenant, base_version=0, rows=[a_set(1)], actor="ada")
    table = rules.save(tenant=tenant, base_version=1, rows=[a_set(1).model_copy(update={"version": 7})], actor="ada")
    assert (table.version, table.rows[0].version) == (1, 1)


def test_the_difference_of_rules_names_rule_and_field(tenant: Tenant) -> None:
    old = example_sets()[0]
    first, second, third = old.rules
    tighter = first.model_copy(update={"threshold": [0.5, 1.0]})
    added = third.model_copy(update={"rule_id": "reason_required", "field": "reason"})
    changes = rules.difference([old], [old.model_copy(update={"rules": [tighter, third, added]})])
    assert [(change.row, change.field) for change in changes] == [
        (old.set_id, f"rules.{first.rule_id}.threshold"),
        (old.set_id, f"rules.{second.rule_id}"),
        (old.set_id, "rules.reason_required"),
    ]
    assert (changes[0].old, changes[0].new) == ([0.0, 1.0], [0.5, 1.0])
    assert (changes[1].new, changes[2].old) == (None, None)


def test_a_null_that_came_or_went_is_a_change(tenant: Tenant) -> None:
    free, empty = ({"type": "object", "properties": {"end": end}} for end in ({}, {"const": None}))
    rows = [schemas.parse([{"handoff_type": "deal_data", "schema": schema}]) for schema in (free, empty)]
    schemas.save(tenant=tenant, base_version=0, rows=rows[0], actor="ada")
    saved = schemas.save(tenant=tenant, base_version=1, rows=rows[1], actor="ada")
    assert (saved.version, saved.rows) == (2, rows[1])
    [change] = schemas.history(tenant)[0].changes
    assert (change.field, change.old, change.new) == ("schema.properties.end", {}, {"const": None})
    assert schemas.save(tenant=tenant, base_version=2, rows=rows[0], actor="ada").version == 3


def test_the_log_keeps_long_and_large_values_as_short_text(tenant: Tenant) -> None:
    rule = example_sets()[0].rules[0]
    loud = [
        rule.model_copy(update={"rule_id": "large", "metadata": {"limit": 1e22, "count": 2**60}}),
        rule.model_copy(update={"rule_id": "long", "description": "d" * 400, "metadata": {"text": "m" * 9000}}),
        rule.model_copy(update={"rule_id": "nul", "metadata": {"text": "a\x00b"}}),
    ]
    rows = [example_sets()[0].model_copy(update={"rules": loud})]
    rules.save(tenant=tenant, base_version=0, rows=rows, actor="ada")
    assert rules.current(tenant).rows[0].rules == loud
    (change,) = AuditEntry.objects.get().detail["changes"]
    assert isinstance(change["new"], str)
    assert len(change["new"]) < 2100
    assert audit.verify(tenant) is None


def test_the_log_keeps_so_many_changes_and_says_how_many_more(tenant: Tenant) -> None:
    rows = [TypePolicy(f"t{number}") for number in range(120)]
    strictness.save(tenant=tenant, base_version=0, rows=[*rows, TypePolicy("*")], actor="ada")
    detail = AuditEntry.objects.get().detail
    assert (len(detail["changes"]), detail["more"]) == (100, 28)


def test_nothing_is_in_force_but_by_save(tenant: Tenant) -> None:
    assert schemas.current(tenant).rows == rules.current(tenant).rows == ()
