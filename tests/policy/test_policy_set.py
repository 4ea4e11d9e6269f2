"""Tests of all policies as one set: the round trip, all or nothing, and saves at the same time."""

import threading
from typing import Any

import pytest
from django.db import connection

from handoffaudit.accounts.models import AuditEntry, Tenant
from handoffaudit.policy import kinds, policy_set
from handoffaudit.policy.models import Kind, PolicyVersion
from handoffaudit.policy.policy_set import EVERY_KIND, InvalidSet, StaleSet
from handoffaudit.policy.rules import example_sets

RULES = [EVERY_KIND[Kind.RULES].plain(one) for one in example_sets()]
FULL: dict[str, Any] = {
    "rules": RULES,
    "schemas": [{"handoff_type": "deal_data", "schema": {"type": "object", "required": ["b", "a"]}}],
    "prompts": [{"use": "grounding", "handoff_type": "deal_data", "text": "Is it so?\n\n  Be brief: yes # or no."}],
    "agents": [{"source": "planner", "targets": ["writer", "*"]}],
    "roles": [{"agent": "crawler", "role": "observer"}],
    "handoff_files": [{"strict_handoff_files": True}],
    "thresholds": [{"name": "queue_age", "on": False, "warning": 60, "alert": 90.5}],
    "retention": [{"name": "logs", "days": 30}],
    "strictness": [{"handoff_type": "*", "strictness": "lenient"}],
}
NOTHING = dict.fromkeys((kind.value for kind in EVERY_KIND), 0)


def save(tenant: Tenant, policies: dict[str, Any], bases: dict[str, int] = NOTHING) -> list[policy_set.PlannedKind]:
    return policy_set.apply(tenant, policies, bases, "tests", "commit abc")


def test_every_kind_of_policy_is_in_a_set() -> None:
    assert set(EVERY_KIND) == set(Kind)


def test_what_is_exported_changes_nothing(tenant: Tenant, other_tenant: Tenant) -> None:
    assert {one.saved.version for one in save(tenant, FULL) if one.saved} == {1}
    exported = policy_set.export(tenant)
    assert exported["versions"] == dict.fromkeys(NOTHING, 1)
    assert [one.changes for one in policy_set.plan(tenant, exported["policies"], "tests")] == [[]] * len(EVERY_KIND)
    assert [one.saved for one in save(tenant, exported["policies"], {})] == [None] * len(EVERY_KIND)
    # Nothing came into the other tenant, and the set can be moved there.
    assert policy_set.export(other_tenant)["versions"] == NOTHING
    save(other_tenant, exported["policies"])
    assert policy_set.export(other_tenant) == exported


def test_the_note_and_the_audit_log_name_the_commit(tenant: Tenant) -> None:
    save(tenant, {"roles": FULL["roles"]})
    assert PolicyVersion.objects.get(tenant=tenant).note == "commit abc"
    assert AuditEntry.objects.get(tenant=tenant).detail["note"] == "commit abc"
    assert policy_set.compose_note("", "why") == "why"
    assert policy_set.compose_note("abc", "why") == "commit abc: why"


def test_a_kind_that_is_not_named_stays_and_others_are_replaced(tenant: Tenant) -> None:
    save(tenant, FULL)
    save(tenant, {"roles": []}, {"roles": 1})
    assert kinds.roles.current(tenant).rows == ()
    assert kinds.agents.current(tenant).version == 1


def test_one_wrong_value_saves_nothing_and_all_errors_are_named(tenant: Tenant) -> None:
    wrong = FULL | {"retention": [{"name": "logs", "days": 0}], "rolls": [], "roles": [{"agent": "a", "role": "boss"}]}
    with pytest.raises(InvalidSet) as refused:
        save(tenant, wrong)
    places = {(one.kind, one.error.row, one.error.field) for one in refused.value.errors}
    assert places == {("retention", "logs", "days"), ("rolls", "", ""), ("roles", "a", "role")}
    assert not PolicyVersion.objects.filter(tenant=tenant).exists()


def test_a_role_is_for_a_named_agent_and_a_stored_role_of_any_agent_still_loads(tenant: Tenant) -> None:
    anybody = {"roles": [{"agent": "*", "role": "observer"}]}
    for refuse in (lambda: policy_set.plan(tenant, anybody, "tests"), lambda: save(tenant, anybody)):
        with pytest.raises(InvalidSet) as refused:
            refuse()
        (one,) = refused.value.errors
        assert (one.kind, one.error.field, one.error.message) == (
            "roles",
            "agent",
            "A role is for one agent, not for any.",
        )
    save(tenant, {"roles": FULL["roles"]})
    stored = PolicyVersion.objects.get(tenant=tenant)
    PolicyVersion.objects.filter(pk=stored.pk).update(content=stored.content.replace("crawler", "*"))
    assert [row.agent for row in kinds.roles.current(tenant).rows] == ["*"]


@pytest.mark.parametrize("rows", [None, "x", 5, {}, [1], [[]], {"rows": []}], ids=str)
def test_rows_that_are_no_rows_are_refused(tenant: Tenant, rows: Any) -> None:
    for kind in EVERY_KIND:
        with pytest.raises(InvalidSet):
            policy_set.plan(tenant, {kind.value: rows}, "tests")


def test_a_save_in_between_is_refused_with_what_changed(tenant: Tenant) -> None:
    save(tenant, {"roles": FULL["roles"]})
    with pytest.raises(StaleSet) as refused:
        save(tenant, {"roles": [], "agents": FULL["agents"]})
    (conflict,) = (one.to_plain() for one in refused.value.conflicts)
    assert (conflict["kind"], conflict["base_version"], conflict["version"]) == ("roles", 0, 1)
    assert (conflict["changed_by"], conflict["note"]) == ("tests", "commit abc")
    assert [one["row"] for one in conflict["changes"]] == ["crawler"]
    assert kinds.agents.current(tenant).version == 0
    with pytest.raises(InvalidSet, match="base version is missing"):
        save(tenant, {"roles": []}, {})
    with pytest.raises(StaleSet):
        save(tenant, {"roles": []}, {"roles": 7})


def test_an_old_base_does_not_matter_if_nothing_differs(tenant: Tenant) -> None:
    save(tenant, {"roles": FULL["roles"]})
    assert save(tenant, {"roles": FULL["roles"]})[0].saved is None


@pytest.mark.django_db(transaction=True)
def test_of_two_at_once_one_is_refused() -> None:
    tenant = Tenant.objects.create(slug="two", name="Two")
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def run(days: int) -> None:
        start.wait()
        try:
            save(tenant, {"retention": [{"name": "logs", "days": days}]})
            outcomes.append("saved")
        except StaleSet:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(days,)) for days in (10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["refused", "saved"]
    assert kinds.retention.current(tenant).version == 1
