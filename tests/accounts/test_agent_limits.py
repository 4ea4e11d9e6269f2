"""Tests of the agents that a key may speak for, and of the record of refusals."""

import time

import pytest

from handoffaudit.accounts import Refused, audit, keys
from handoffaudit.accounts.keys import ANY_AGENT, AgentLimit, check_patterns, matches, record_refusal
from handoffaudit.accounts.models import AuditEntry, Key, Tenant


@pytest.fixture(autouse=True)
def _empty_memory() -> None:
    keys._recorded.clear()
    keys._cache.clear()


@pytest.mark.parametrize(
    ("pattern", "fits", "differs"),
    [
        ("researcher", ["researcher"], ["Researcher", "researcher2", "a researcher", ""]),
        ("crew-*", ["crew-", "crew-a", "crew-a*b"], ["crew", "my crew-a", "Crew-a"]),
        ("*-crew", ["-crew", "a-crew"], ["crew", "a-crew "]),
        ("a*b*c", ["abc", "axxbyyc", "abbc", "abcbc"], ["acb", "ab", "ac", "abcd"]),
        ("*", ["", "anything", "*"], []),
        ("**", ["", "x"], []),
        ("aa*aa", ["aaaa", "aaxaa"], ["aaa", "aa"]),
        ("a.c", ["a.c"], ["abc"]),
        ("[ab]?", ["[ab]?"], ["a", "ab"]),
    ],
)
def test_a_star_stands_for_any_text_and_nothing_else_does(pattern: str, fits: list[str], differs: list[str]) -> None:
    assert [name for name in (*fits, *differs) if matches(pattern, name)] == fits


def test_a_pattern_with_many_stars_is_fast() -> None:
    started = time.monotonic()
    assert not matches("*a" * 100, "a" * 99 + "b" * 101)
    assert time.monotonic() - started < 0.1


def test_without_patterns_a_key_speaks_for_all() -> None:
    assert ANY_AGENT.allows("anybody")
    limit = AgentLimit(1, "crew", ("a", "b-*"))
    assert [name for name in ("a", "b-1", "c", "") if limit.allows(name)] == ["a", "b-1"]


def test_patterns_are_trimmed_and_bounded() -> None:
    assert check_patterns([" a ", "", "b*", "a"]) == ["a", "b*"]
    assert len(check_patterns(str(number) for number in range(20))) == 20
    for bad in ([str(number) for number in range(21)], ["x" * 201], ["a\x00b"], ["a\u202eb"], ["\ud800"]):
        with pytest.raises(Refused) as refused:
            check_patterns(bad)
        assert refused.value.field == "agents"


@pytest.mark.django_db
def test_a_key_is_bound_when_it_is_made_and_later(tenant: Tenant, other_tenant: Tenant) -> None:
    key, secret = keys.create(
        tenant=tenant, name="crew", scopes=["ingest"], expires_at=None, actor="ada", agents=["a", "a"]
    )
    found = keys.authenticate(secret)
    assert found is not None
    assert found.agents == AgentLimit(key.pk, "crew", ("a",))
    for _ in range(2):
        keys.bind(tenant=tenant, key_id=key.pk, agents=["b-*"], actor="bob")
    keys._cache.clear()
    again = keys.authenticate(secret)
    assert again is not None
    assert again.agents.patterns == ("b-*",)
    keys.bind(tenant=tenant, key_id=key.pk, agents=[], actor="bob")
    made, bound, freed = AuditEntry.objects.order_by("number")
    assert made.detail["agents"] == ["a"]
    assert (bound.action, bound.actor, bound.detail) == ("key.bind", "bob", {"before": ["a"], "agents": ["b-*"]})
    assert freed.detail["agents"] == []
    with pytest.raises(Refused):
        keys.bind(tenant=other_tenant, key_id=key.pk, agents=[], actor="eve")
    keys.revoke(tenant=tenant, key_id=key.pk, actor="ada")
    with pytest.raises(Refused):
        keys.bind(tenant=tenant, key_id=key.pk, agents=["a"], actor="ada")


@pytest.mark.django_db
def test_binding_takes_effect_at_once_in_this_process(
    tenant: Tenant, django_capture_on_commit_callbacks, django_assert_num_queries
) -> None:
    key, secret = keys.create(tenant=tenant, name="crew", scopes=["ingest"], expires_at=None, actor="ada")
    assert keys.authenticate(secret).agents is ANY_AGENT  # type: ignore[union-attr]
    with django_capture_on_commit_callbacks(execute=True):
        keys.bind(tenant=tenant, key_id=key.pk, agents=["a"], actor="ada")
    with django_assert_num_queries(1):
        assert keys.authenticate(secret).agents.patterns == ("a",)  # type: ignore[union-attr]
        keys.authenticate(secret)


@pytest.mark.django_db
def test_refusals_do_not_flood_the_audit_log(tenant: Tenant, monkeypatch) -> None:
    key = Key.objects.create(tenant=tenant, name="crew", secret_hash="x", agents=["a"])
    limit, other = AgentLimit(key.pk, "crew", ("a",)), AgentLimit(key.pk + 1, "more", ("a",))
    for _ in range(3):
        record_refusal(tenant, limit, "b")
        record_refusal(tenant, other, "b")
    # Another process has no memory of these refusals.
    keys._recorded.clear()
    record_refusal(tenant, limit, "b")
    first, second = AuditEntry.objects.order_by("number")
    assert (first.action, first.actor, first.target) == ("key.refuse", "key crew", "b")
    assert first.detail == {"key": key.pk, "agent": "b", "agents": ["a"]}
    assert second.actor == "key more"
    for number in range(100):
        record_refusal(tenant, limit, f"b{number}")
        keys._recorded.clear()
    assert AuditEntry.objects.filter(detail__key=key.pk).count() == keys.MOST_AUDITED
    monkeypatch.setattr(keys, "AUDIT_SECONDS", 0.0)
    record_refusal(tenant, limit, "b")
    assert AuditEntry.objects.filter(detail__agent="b", detail__key=key.pk).count() == 2
    assert audit.verify(tenant) is None
