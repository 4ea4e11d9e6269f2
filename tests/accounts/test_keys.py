import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connections
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from handoffaudit.accounts import Refused, audit, keys
from handoffaudit.accounts.models import AuditEntry, Key, Tenant


@pytest.fixture(autouse=True)
def empty_cache() -> Iterator[None]:
    keys._cache.clear()
    yield
    keys._cache.clear()


def make(tenant: Tenant, **given: object) -> tuple[Key, str]:
    values = {"name": "ci", "scopes": ["ingest"], "expires_at": None, "actor": "ada"} | given
    return keys.create(tenant=tenant, **values)  # type: ignore[arg-type]


def test_a_secret_is_long_random_and_kept_only_as_its_hash(tenant: Tenant) -> None:
    key, secret = make(tenant)
    _, another = make(tenant)
    assert secret.startswith("ha_")
    assert len(secret) >= len("ha_") + 43
    assert secret != another
    assert key.secret_hash == hashlib.sha256(secret.encode()).hexdigest()
    assert secret.startswith(key.prefix)
    assert len(key.prefix) < 12
    stored = Key.objects.filter(pk=key.pk).values().get()
    assert secret not in str(stored)


def test_making_and_revoking_is_told_in_the_log_without_the_secret(tenant: Tenant) -> None:
    key, secret = make(tenant)
    keys.revoke(tenant=tenant, key_id=key.pk, actor="bob")
    made, revoked = AuditEntry.objects.order_by("number")
    assert (made.action, made.actor, made.detail["scopes"]) == ("key.create", "ada", ["ingest"])
    assert (revoked.action, revoked.actor) == ("key.revoke", "bob")
    assert secret not in str([made.target, made.detail, revoked.target, revoked.detail])
    assert audit.verify(tenant) is None


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"scopes": []}, "scopes"),
        ({"scopes": ["ingest", "root"]}, "scopes"),
        ({"expires_at": timezone.now() - timedelta(seconds=1)}, "expires_at"),
        ({"seam": "outside"}, "seam"),
        ({"scopes": ["observe"], "seam": "said"}, "seam"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused_at_its_field(
    tenant: Tenant, given: dict[str, object], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        make(tenant, **given)
    assert refused.value.field == field
    assert ("is needed" in refused.value.message) == (given == {"name": " "})
    assert not Key.objects.exists()
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize(
    ("scopes", "seam", "grade"),
    [(["ingest"], "", "said"), (["observe"], "", "in_process"), (["observe", "read"], "outside", "outside")],
)
def test_the_scope_and_the_seam_of_a_key_set_the_grade_of_its_tool_results(
    tenant: Tenant, scopes: list[str], seam: str, grade: str
) -> None:
    _, secret = make(tenant, scopes=scopes, seam=seam)
    identity = keys.authenticate(secret)
    assert identity is not None
    assert identity.grade == grade
    assert AuditEntry.objects.get().detail.get("seam", "said") == grade


def test_a_secret_tells_the_key_its_tenant_and_scopes(tenant: Tenant) -> None:
    key, secret = make(tenant, scopes=["review", "read"])
    identity = keys.authenticate(secret)
    assert identity is not None
    assert (identity.key_id, identity.tenant_id, identity.tenant_slug) == (key.pk, tenant.pk, "acme")
    assert identity.name == "ci"
    assert identity.scopes == frozenset({"read", "review"})
    with pytest.raises(AttributeError):
        identity.tenant_id = 7  # type: ignore[misc]


@pytest.mark.parametrize("secret", ["", "ha_", "ha_unknown", "Bearer x", "ha_" + "x" * 5000, "ha_é", "\x00"])
def test_what_is_no_secret_is_nobody(tenant: Tenant, secret: str) -> None:
    make(tenant)
    assert keys.authenticate(secret) is None


def test_a_known_secret_asks_the_database_once_while_it_is_fresh(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries, settings: Settings
) -> None:
    settings.KEY_CACHE_SECONDS = 60
    _, secret = make(tenant)
    keys.authenticate(secret)
    with django_assert_num_queries(0):
        for _ in range(5):
            assert keys.authenticate(secret) is not None


def test_a_known_secret_is_recalled_without_the_database_until_a_look_is_due(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries, settings: Settings
) -> None:
    settings.KEY_CACHE_SECONDS = 60
    key, secret = make(tenant)
    assert keys.recall(secret) is None
    identity = keys.authenticate(secret)
    with django_assert_num_queries(0):
        assert keys.recall(secret) is identity
        assert keys.recall("ha_unknown") is keys.recall("ha_é") is None
    kept = keys._cache[key.secret_hash]
    for name in ("fresh_until", "expires_at", "touch_at"):
        before = getattr(kept, name)
        setattr(kept, name, 0.0)
        assert keys.recall(secret) is None
        setattr(kept, name, before)


def test_a_stale_one_is_asked_again(
    tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries, settings: Settings
) -> None:
    settings.KEY_CACHE_SECONDS = 0
    _, secret = make(tenant)
    keys.authenticate(secret)
    with django_assert_num_queries(1):
        keys.authenticate(secret)


def test_an_unknown_secret_is_not_kept(tenant: Tenant, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    for _ in range(2):
        with django_assert_num_queries(1):
            assert keys.authenticate("ha_unknown") is None
    assert not keys._cache


@pytest.mark.django_db(transaction=True)
def test_a_revoked_key_is_refused_at_once_though_it_was_kept(tenant: Tenant, settings: Settings) -> None:
    settings.KEY_CACHE_SECONDS = 3600
    key, secret = make(tenant)
    assert keys.authenticate(secret) is not None
    keys.revoke(tenant=tenant, key_id=key.pk, actor="ada")
    assert keys.authenticate(secret) is None


def test_a_key_read_before_its_revocation_is_not_kept_after_it(
    tenant: Tenant, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.KEY_CACHE_SECONDS = 3600
    key, secret = make(tenant)
    kept = keys._CachedKey

    def revoked_meanwhile(**values: object) -> object:
        Key.objects.filter(pk=key.pk).update(revoked_at=timezone.now())
        keys.forget_key(key.secret_hash)
        return kept(**values)  # type: ignore[arg-type]

    monkeypatch.setattr(keys, "_CachedKey", revoked_meanwhile)
    keys.authenticate(secret)
    monkeypatch.undo()
    assert keys.authenticate(secret) is None


def test_a_key_ends_though_it_was_kept(tenant: Tenant, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.KEY_CACHE_SECONDS = 3600
    ends = timezone.now() + timedelta(hours=1)
    _, secret = make(tenant, expires_at=ends)
    assert keys.authenticate(secret) is not None
    monkeypatch.setattr(keys.time, "time", lambda: ends.timestamp() + 0.001)
    assert keys.authenticate(secret) is None


def test_the_last_use_is_written_once_a_minute(
    tenant: Tenant,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    settings.KEY_CACHE_SECONDS = 3600
    key, secret = make(tenant)
    before = timezone.now()
    keys.authenticate(secret)
    key.refresh_from_db()
    assert key.last_used_at is not None
    assert key.last_used_at >= before
    with django_assert_num_queries(0):
        keys.authenticate(secret)
    later = timezone.now() + timedelta(seconds=61)
    monkeypatch.setattr(keys.time, "time", later.timestamp)
    monkeypatch.setattr(keys.timezone, "now", lambda: later)
    keys.authenticate(secret)
    key.refresh_from_db()
    assert key.last_used_at == later


def test_only_so_many_are_kept(tenant: Tenant, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.KEY_CACHE_SECONDS = 3600
    monkeypatch.setattr(keys, "KEPT_AT_MOST", 3)
    secrets = [make(tenant)[1] for _ in range(5)]
    assert all(keys.authenticate(secret) for secret in secrets)
    assert len(keys._cache) == 3


@pytest.mark.django_db(transaction=True)
def test_many_threads_may_ask_while_keys_are_revoked(tenant: Tenant, settings: Settings) -> None:
    settings.KEY_CACHE_SECONDS = 0.001
    key, secret = make(tenant)
    _, other = make(tenant)
    start = threading.Barrier(5)

    def ask(_: int) -> bool:
        start.wait()
        try:
            return all(keys.authenticate(other) is not None for _ in range(40))
        finally:
            connections["default"].close()

    with ThreadPoolExecutor(4) as pool:
        asking = pool.map(ask, range(4))
        start.wait()
        keys.revoke(tenant=tenant, key_id=key.pk, actor="ada")
        assert all(asking)
    assert keys.authenticate(secret) is None


def test_another_tenants_key_cannot_be_revoked(tenant: Tenant, other_tenant: Tenant) -> None:
    key, secret = make(tenant)
    with pytest.raises(Refused):
        keys.revoke(tenant=other_tenant, key_id=key.pk, actor="stranger")
    assert keys.authenticate(secret) is not None


def test_revoking_twice_is_once(tenant: Tenant) -> None:
    key, _ = make(tenant)
    first = keys.revoke(tenant=tenant, key_id=key.pk, actor="ada").revoked_at
    assert keys.revoke(tenant=tenant, key_id=key.pk, actor="bob").revoked_at == first
    assert AuditEntry.objects.filter(action="key.revoke").count() == 1


def test_the_list_shows_keys_in_use_first_and_those_of_one_tenant(tenant: Tenant, other_tenant: Tenant) -> None:
    old, _ = make(tenant, name="old")
    newer, _ = make(tenant, name="newer")
    newest, _ = make(tenant, name="newest")
    make(other_tenant)
    keys.revoke(tenant=tenant, key_id=newer.pk, actor="ada")
    assert keys.list_newest(tenant) == [newest, old, newer]
